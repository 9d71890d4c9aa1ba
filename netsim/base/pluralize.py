"""Numbers with nouns, singular or plural."""

from __future__ import annotations


def pluralize(number: int, one: str, many: str = "") -> str:
    """Return a number and its noun, singular or plural.

    >>> pluralize(1, "device"), pluralize(0, "device"), pluralize(1442, "entry", "entries")
    ('1 device', '0 devices', '1,442 entries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def times(number: int) -> str:
    """Return "once" or "N times".

    >>> times(1), times(1000)
    ('once', '1,000 times')
    """
    return "once" if number == 1 else f"{number:,} times"
