"""What an app meets while it runs: simulated time, seeded generators, and strategies that report what they do.

Where a ServerApp sleeps, simulated seconds pass, and ``time.time()`` says how many have. Monotonic clocks stay as they
are: by those, libraries wait for real things. Python, numpy and torch draw from global generators, seeded by streams.
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
    """Meanwhile this thread of this process lives in simulated time, and no other does.

    Modules ``within`` may have taken hold of ``sleep`` or ``time`` by name before: they get ours too.
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
    """Seed all that an app may draw from, when its ServerApp begins or its ClientApp receives a message."""
    words = rng.integers(0, 1 << 32, 3, np.uint64).tolist()
    random.seed(words[0])
    np.random.seed(words[1])                 # noqa: NPY002  (the generator that the app's code uses)
    torch = sys.modules.get("torch")         # whoever has not imported it draws nothing from it
    if torch is not None:
        torch.manual_seed(words[2])


def watched(server: AppServer, ended: Callable[[Any], None]) -> AbstractContextManager[None]:
    """Meanwhile every strategy that starts reports how many rounds it means to play, what the server's own evaluation
    finds, and the model that it ends with."""
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
    """The server's own evaluation, which also reports what it found."""
    if evaluate is None:
        return None

    def evaluate_and_report(round: int, arrays: Any) -> Any:
        found = evaluate(round, arrays)
        if found is not None:
            evaluated(round, found)
        return found

    return evaluate_and_report
