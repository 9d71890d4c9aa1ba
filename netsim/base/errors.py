"""Errors that are the user's to mend: one clear message, exit code 2, no traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something that the user gave is at fault; the message says what, where and what is allowed."""


class WorkerError(RuntimeError):
    """A worker process ended without an answer, most often for want of memory."""


def one_of(found: str, allowed: Iterable[str]) -> str:
    """``allowed: a, b, c`` and, where one is near, ``did you mean "b"?``, to end an error message with.

    >>> one_of("soa", ["equal", "sao"])
    'allowed: equal, sao; did you mean "sao"?'
    """
    names = sorted(allowed)
    same = [name for name in names if name.casefold() == found.casefold()]      # "mhz" means MHz, not Hz
    near = same or get_close_matches(found, names, n=1, cutoff=0.5)
    guess = f'; did you mean "{near[0]}"?' if near else ""
    return f"allowed: {', '.join(names)}{guess}"
