"""Runtime environment of an app: simulated time, seeded generators, and instrumented strategies.

``time.sleep`` and ``time.time`` of a ServerApp use simulated seconds. Monotonic clocks are unchanged, since libraries
use them for real timeouts. The global generators of Python, numpy and torch are seeded from named streams.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from inspect import signature
from types import ModuleType
from typing import Any

import numpy as np
from flwr.serverapp.strategy import Strategy

from netsim.flower.app_server import AppServer
from netsim.flower.library import replaced

_SLEEP, _TIME = time.sleep, time.time


@contextmanager
def simulated_time(
    now: Callable[[], float], sleep: Callable[[float], None], within: Callable[[ModuleType], bool],
) -> Iterator[None]:
    """Use simulated time in this thread of this process inside the block.

    Modules for which ``within`` is True may have imported ``sleep`` or ``time`` by name: these are replaced as well.
    """
    mine = os.getpid(), threading.get_ident()

    def here() -> bool:
        return (os.getpid(), threading.get_ident()) == mine

    def our_sleep(seconds: Any) -> None:
        (sleep if here() else _SLEEP)(float(seconds))

    def our_time() -> float:
        return now() if here() else _TIME()

    ours: dict[Any, Any] = {_SLEEP: our_sleep, _TIME: our_time}
    with ExitStack() as stack:
        for module in [time, *filter(within, list(sys.modules.values()))]:
            stack.enter_context(replaced(module, **{
                name: ours[value] for name, value in vars(module).items() if value is _SLEEP or value is _TIME}))
        yield


def seed_generators(rng: np.random.Generator) -> None:
    """Seed the global generators, before a ServerApp starts or a ClientApp receives a message."""
    words = rng.integers(0, 1 << 32, 3, np.uint64).tolist()
    random.seed(words[0])
    np.random.seed(words[1])                 # noqa: NPY002  (the generator that the app's code uses)
    torch = sys.modules.get("torch")         # not used by the app if not imported
    if torch is not None:
        torch.manual_seed(words[2])


def watched(server: AppServer, ended: Callable[[Any], None]) -> AbstractContextManager[None]:
    """Instrument ``Strategy.start`` inside the block: report the number of rounds, the server's own evaluations, and
    the last model (to ``ended``)."""
    start = Strategy.start
    takes = signature(start)

    def watching(*args: Any, **options: Any) -> Any:
        given = takes.bind(*args, **options)
        given.apply_defaults()
        server.expected = server.rounds.version + given.arguments["num_rounds"]
        given.arguments["evaluate_fn"] = reporting(given.arguments.get("evaluate_fn"), server.reported.server)
        result = start(*given.args, **given.kwargs)
        ended(result.arrays)
        return result

    return replaced(Strategy, start=watching)


def reporting(
    evaluate: Callable[[int, Any], Any] | None, evaluated: Callable[[int, Any], None],
) -> Callable[[int, Any], Any] | None:
    """Return the server's evaluation function, extended to report its results."""
    if evaluate is None:
        return None

    def evaluate_and_report(round: int, arrays: Any) -> Any:
        found = evaluate(round, arrays)
        if found is not None:
            evaluated(round, found)
        return found

    return evaluate_and_report
