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
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from types import ModuleType
from typing import Any

import numpy as np
from flwr.serverapp.strategy import Strategy

from netsim.base.streams import stream
from netsim.flower.library import replaced

_SLEEP, _TIME = time.sleep, time.time
Evaluated = Callable[[int, Any], None]


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
    held = [(module, name, value) for module in [time, *filter(within, list(sys.modules.values()))]
            for name, value in list(vars(module).items()) if value is _SLEEP or value is _TIME]
    for module, name, value in held:
        setattr(module, name, ours[value])
    try:
        yield
    finally:
        for module, name, value in held:
            setattr(module, name, value)


def seed_server(seed: int) -> None:
    """As a ServerApp begins."""
    _seed(stream(seed, "flower server"))


def seed_client(seed: int, device: int, message: int) -> None:
    """As a ClientApp begins on the so-manieth message to a device: whoever runs it, and whatever ran before."""
    _seed(stream(seed, "flower client", message, device))


def _seed(rng: np.random.Generator) -> None:
    words = rng.integers(0, 1 << 32, 3, np.uint64).tolist()
    random.seed(words[0])
    np.random.seed(words[1])                 # noqa: NPY002  (the generator that the app's code uses)
    torch = sys.modules.get("torch")         # whoever has not imported it draws nothing from it
    if torch is not None:
        torch.manual_seed(words[2])


def watched(
    rounds: Callable[[int], None], evaluated: Evaluated, ended: Callable[[Any], None],
) -> AbstractContextManager[None]:
    """Meanwhile every strategy that starts tells how many rounds it means to play, what the server's own evaluation
    finds, and the model that it ends with."""
    start = Strategy.start
    takes = signature(start)

    def watching(*args: Any, **options: Any) -> Any:
        given = takes.bind(*args, **options)
        given.apply_defaults()
        rounds(given.arguments["num_rounds"])
        given.arguments["evaluate_fn"] = reporting(given.arguments.get("evaluate_fn"), evaluated)
        result = start(*given.args, **given.kwargs)
        ended(result.arrays)
        return result

    return replaced(Strategy, start=watching)


def reporting(evaluate: Callable[[int, Any], Any] | None, evaluated: Evaluated) -> Callable[[int, Any], Any] | None:
    """The server's own evaluation, which also tells what it found."""
    def evaluate_and_report(round: int, arrays: Any) -> Any:
        assert evaluate is not None
        found = evaluate(round, arrays)
        if found is not None:
            evaluated(round, found)
        return found

    return None if evaluate is None else evaluate_and_report
