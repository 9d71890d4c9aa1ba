"""How many of something, in words."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """A number and its noun, which is singular for one alone.

    >>> counted(1, "device"), counted(0, "device"), counted(1442, "entry", "entries")
    ('1 device', '0 devices', '1,442 entries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def times(number: int) -> str:
    """How often.

    >>> times(1), times(1000)
    ('once', '1,000 times')
    """
    return "once" if number == 1 else f"{number:,} times"
