"""Numbers with nouns, singular or plural."""

from __future__ import annotations


def pluralize(number: int, one: str, many: str = "") -> str:
    """Return a number and its noun, singular or plural: 1 device, 1,442 entries."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def times(number: int) -> str:
    """Return "once" or "N times"."""
    return "once" if number == 1 else f"{number:,} times"
