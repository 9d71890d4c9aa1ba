"""The machine and the Python that a run is made with: versions, processor, memory, garbage collection."""

from __future__ import annotations

import gc
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

VERSIONS = ("netsim", "simpy", "numpy", "scipy", "torch", "scikit-learn", "polars")
USUAL = gc.get_threshold()      # of garbage collection, as Python sets it
OBJECTS = 200_000      # made between two collections; with Python's own 700 all jobs in flight are visited many times


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries; cached, since a run records them after every round."""
    return {"python": platform.python_version(), **{name: version(name) for name in VERSIONS}}


@cache
def processor() -> str:
    """Return the processor's name and widest vector unit, on which the order of torch's sums depends."""
    with suppress(OSError, KeyError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        about = dict(re.findall(r"^(model name|flags)\s*: (.*)", text, re.MULTILINE))
        units = [unit for flag, unit in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in about["flags"].split()]
        return ", ".join([about["model name"], *units[:1]])
    return platform.processor() or platform.machine()


def available_memory() -> int:
    """Return the bytes of available memory; a very large number if the system does not report it."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return 1024 * int(re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)[1])      # type: ignore[index]
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 62


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Reduce garbage collection: events are many, short-lived and in no cycles, and imports create no garbage."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], OBJECTS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def usual_collections() -> None:
    """Collect garbage as often as Python does, in a process that serves for long or runs code of others."""
    gc.set_threshold(*USUAL)
