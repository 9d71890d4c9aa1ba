"""Walks through the plain tables of a scenario; they may be malformed, since validation comes later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Place = tuple[str | int, ...]      # a key of a scenario; populations by name or position


def at(table: Any, path: Place) -> Any:
    """Return the value at a key path, or None."""
    for step in path:
        if isinstance(table, list) and isinstance(step, str):
            table = next((entry for entry in table if isinstance(entry, dict) and entry.get("name") == step), None)
        elif isinstance(table, dict):
            table = table.get(step)
        else:
            there = isinstance(table, list | tuple) and isinstance(step, int) and step < len(table)
            table = table[step] if there else None
    return table


def with_files(table: Any, steps: tuple[str, ...], change: Callable[[Any, Place], Any], place: Place = ()) -> Any:
    """Return a copy with ``change(value, place)`` for the path of a file, or a table with one, at these steps.

    The step population leads to every population.
    """
    if not steps:
        named = isinstance(table, str) or (isinstance(table, dict) and "file" in table)
        return change(table, place) if named else table
    if isinstance(table, list):
        return [with_files(entry, steps, change, (*place, number)) for number, entry in enumerate(table)]
    if isinstance(table, dict) and steps[0] in table:
        return {**table, steps[0]: with_files(table[steps[0]], steps[1:], change, (*place, steps[0]))}
    return table


def steps_of(place: Place) -> tuple[str, ...]:
    """Return a key without the positions of populations."""
    return tuple(step for step in place if isinstance(step, str))


def populations(table: dict[str, Any]) -> list[dict[str, Any]]:
    listed = table.get("population")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def size_of(population: dict[str, Any]) -> int:
    """Return the number of devices of a population; 0 if the table does not tell before its files are read."""
    devices, places, count = (population.get(name) for name in ("devices", "places", "count"))
    if isinstance(devices, dict) and "file" in devices:
        count = devices.get("sample", count)
    elif isinstance(devices, dict):
        count = next((len(column) for column in devices.values() if isinstance(column, list)), count)
    elif isinstance(places, list):
        return len(places)
    return int(count) if isinstance(count, int | float) else 0
