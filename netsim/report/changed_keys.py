"""In which keys the scenarios of runs differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from netsim.base import units
from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, read_text, read_toml

if TYPE_CHECKING:
    from netsim.run import Run

SCENARIO, MOST_BYTES = "scenario.toml", 500 * MEGABYTE
LONGEST = 80        # characters of a value
MOST_KEYS = 200     # that a page lists
NOT_SET = "not set"
PROSE = ("name", "description")     # change nothing


def scenario_text(run: Run) -> str:
    """The scenario as it was run, with all defaults filled in."""
    return read_text(run.path / SCENARIO, "a scenario", MOST_BYTES)


def changed_keys(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """The keys that are not alike in all runs, each with its value in every run, and how the runs were started."""
    found = [{**_started(run), **dict(_flat(read_toml(run.path / SCENARIO, "a scenario", MOST_BYTES)))} for run in runs]
    keys = dict.fromkeys(key for each in found for key in each if key not in PROSE)
    rows = [(key, [each.get(key, NOT_SET) for each in found]) for key in keys]
    return [(key, [_short(value) for value in values]) for key, values in rows if len(set(map(_meaning, values))) > 1]


def _started(run: Run) -> dict[str, str]:
    return {"--seed": str(run.info["seed"]), "--no-learning": "no" if run.info.get("learning", True) else "yes",
            "app": run.app or NOT_SET}


def _flat(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Every key with the tables that it is in; populations go by their names, where these tell them apart."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        elif value and isinstance(value, list) and all(isinstance(each, dict) for each in value):
            called = [str(each.get("name", number)) for number, each in enumerate(value, start=1)]
            alone = Counter(called)
            for number, (name, each) in enumerate(zip(called, value, strict=True), start=1):
                yield from _flat(each, f"{above}{key}.{name if alone[name] == 1 else number}.")
        else:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value, default=str)


def _meaning(value: str) -> object:
    """What a text stands for: "2 MHz" and "2000kHz" are alike."""
    for dimension in units.DIMENSIONS:
        with suppress(InputError):
            return dimension, units.parse(value, dimension)
    with suppress(ValueError):
        return float(value)
    return value


def _short(value: str) -> str:
    return value if len(value) <= LONGEST else value[: LONGEST - 1] + "…"
