"""Deadlock detection of an app: a run in which no process has used CPU time for minutes is ended with an error."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from netsim.base.errors import InputError

STALLED_S = 900.0          # real seconds without progress; a ClientApp may sleep for long
LEAST_CPU_S = 0.5          # CPU seconds of all processes that count as progress
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Stalled(BaseException):
    """Deadlock of the app; a BaseException, so that no ``except Exception`` of an app catches it."""


@contextmanager
def deadlocks_end(app: Path, workers: Sequence[int] | None) -> Iterator[None]:
    """Raise InputError if neither this process nor the groups of ``workers`` use the CPU inside the block.

    Only in the main thread of a process on Linux; without effect elsewhere, and with workers on a cluster (None).
    """
    if (workers is None or threading.current_thread() is not threading.main_thread()
            or not Path("/proc/self/stat").exists()):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stalled

    over, process = threading.Event(), os.getpid()
    before = signal.signal(signal.SIGUSR1, stop)
    watch = threading.Thread(target=_watch, args=(over, process, set(workers)), daemon=True)
    watch.start()
    try:
        yield
    except Stalled:
        raise InputError("your-code", f"the app of {app}", f"no progress in {STALLED_S:g} s",
                         hint="It waits for something that does not happen") from None
    finally:
        over.set()
        watch.join()
        signal.signal(signal.SIGUSR1, before)


def _watch(over: threading.Event, process: int, workers: set[int]) -> None:
    since, used = time.monotonic(), 0.0
    while not over.wait(STALLED_S / 20):
        now = _cpu_s(process, workers)
        if now > used + LEAST_CPU_S or now < used:      # less after a process has ended
            since, used = time.monotonic(), now
        elif time.monotonic() > since + STALLED_S:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            return


def _cpu_s(process: int, groups: set[int]) -> float:
    """Return the CPU seconds of a process and of all processes in some groups."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(file.parent.name) == process or int(fields[2]) in groups:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS

