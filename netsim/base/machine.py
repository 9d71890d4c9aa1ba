"""What a run was made with: versions of what it leans on, and the processor."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

VERSIONS = ("netsim", "simpy", "numpy", "scipy", "torch", "scikit-learn", "polars")


@cache
def versions() -> dict[str, str]:
    """What the run was made with; looked up once, since a run writes it down after every round."""
    return {"python": platform.python_version(), **{name: version(name) for name in VERSIONS}}


@cache
def processor() -> str:
    """The processor's name and widest vector unit; on another one torch adds up in another order."""
    with suppress(OSError, KeyError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        about = dict(re.findall(r"^(model name|flags)\s*: (.*)", text, re.MULTILINE))
        units = [unit for flag, unit in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in about["flags"].split()]
        return ", ".join([about["model name"], *units[:1]])
    return platform.processor() or platform.machine()


def available_memory() -> int:
    """Bytes that a new array may take without swapping; where the system does not say, a number larger than any."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return 1024 * int(re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)[1])      # type: ignore[index]
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 62
