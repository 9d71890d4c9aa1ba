"""Simulated time for a ServerApp: where it sleeps, simulated seconds pass, and ``time.time()`` says how many have.

Monotonic clocks stay as they are: by those, libraries wait for real things.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

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
    held = [(module, name, value) for module in [time, *filter(within, list(sys.modules.values()))]
            for name, value in list(vars(module).items()) if value is _SLEEP or value is _TIME]
    for module, name, value in held:
        setattr(module, name, ours[value])
    try:
        yield
    finally:
        for module, name, value in held:
            setattr(module, name, value)
