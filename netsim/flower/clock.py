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
from typing import Any

_SLEEP, _TIME = time.sleep, time.time


@contextmanager
def simulated_time(now: Callable[[], float], sleep: Callable[[float], None]) -> Iterator[None]:
    """Meanwhile this thread of this process lives in simulated time, and no other does."""
    mine = os.getpid(), threading.get_ident()

    def here() -> bool:
        return (os.getpid(), threading.get_ident()) == mine

    def our_sleep(seconds: Any) -> None:
        (sleep if here() else _SLEEP)(float(seconds))

    def our_time() -> float:
        return now() if here() else _TIME()

    # Flower has taken its own hold of `sleep`; an app's modules are imported meanwhile, and find ours
    of_flower = [module for name, module in list(sys.modules.items())
                 if name.partition(".")[0] == "flwr" and getattr(module, "sleep", None) is _SLEEP]
    time.sleep, time.time = our_sleep, our_time
    for module in of_flower:
        vars(module)["sleep"] = our_sleep
    try:
        yield
    finally:
        time.sleep, time.time = _SLEEP, _TIME
        for module in of_flower:
            vars(module)["sleep"] = _SLEEP
