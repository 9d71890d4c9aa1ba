"""Garbage collection while a simulation runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 200_000      # made between two collections; with Python's own 700 all jobs in flight are visited many times


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Collect less often meanwhile: processes and events are many, short-lived, and in no cycles."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], OBJECTS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
