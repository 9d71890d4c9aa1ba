"""Sweep files: a scenario, the keys to vary and the seeds, as the points to run; ``netsim sweep --help`` shows one."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from netsim.analysis.sweep_statistics import labels
from netsim.base.errors import InputError, require_known
from netsim.base.files import expanded, read_toml, reading
from netsim.base.pluralize import pluralize
from netsim.scenario import Scenario, builtin_scenarios, load_scenario
from netsim.scenario.loading import PATHS
from netsim.sweep.points import SweepPoint
from netsim.sweep.sweep import COLUMNS, plain

KEYS = ("name", "scenario", "seeds", "learning", "set", "grid", "list")
MOST_POINTS = 1_000_000


@dataclass(frozen=True, eq=False)
class PlannedCase:
    """Varied keys of a sweep's case, the resulting scenario, and the label that the user gave, if any."""

    settings: dict[str, Any]
    scenario: Scenario
    label: str | None

    @cached_property
    def digest(self) -> str:
        """Digest of the scenario, independent of spelling."""
        return self.scenario.digest


@dataclass(frozen=True, eq=False)
class Sweep:
    """Cases and seeds of a sweep, and its folder."""

    name: str
    folder: Path
    cases: tuple[PlannedCase, ...]
    seeds: tuple[int, ...]
    learning: bool

    @cached_property
    def points(self) -> tuple[SweepPoint, ...]:
        """Points of all cases and seeds; points with the same scenario and seed share record and run."""
        return tuple(self.point(case, seed) for case in self.cases for seed in self.seeds)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Label of each case, by digest."""
        named = labels([case.settings for case in self.cases], self.cases[0].scenario.name,
                       [case.label for case in self.cases])
        return {case.digest: label for case, label in reversed(list(zip(self.cases, named, strict=True)))}

    def key(self, digest: str, seed: int) -> str:
        """Return the file name of a point, without suffix."""
        return f"{digest[:16]}-{seed}" + ("" if self.learning else "-rounds")

    @property
    def about(self) -> dict[str, Any]:
        """Description of the sweep in its folder, which makes the results readable without the sweep file."""
        return {"name": self.name, "scenario": self.cases[0].scenario.name, "seeds": list(self.seeds),
                "ending": self.key("", 0).removeprefix("-0"), "cases": [
                    {"set": {key: plain(value) for key, value in case.settings.items()}, "sha256": case.digest,
                     **({"label": case.label} if case.label else {})} for case in self.cases]}

    def point(self, case: PlannedCase, seed: int) -> SweepPoint:
        key = self.key(case.digest, seed)
        return SweepPoint(case.scenario, seed, self.folder / "cells" / f"{key}.json", self.folder / "runs" / key,
                          self.learning, label=f"{self.labels[case.digest]}, seed {seed}")


def load_sweep(path: Path, results: Path = Path("results"), *, allow_import: bool = False) -> Sweep:
    """Read a sweep file and check every scenario in it; raise InputError with file and key.

    ``allow_import`` permits code of packages that were not made for netsim.
    """
    with reading(path):
        table = read_toml(path, "a sweep file")
    try:
        require_known("", table, KEYS, "unknown-key")
        name = _folder_name(table.get("name", path.stem))
        learning = table.get("learning", True)
        if not isinstance(learning, bool):
            raise InputError("wrong-type", "learning", repr(learning), "true or false")
        base, seeds = _base(path, table), seeds_of(table.get("seeds", 1))
        fixed = _with_paths(path, _flat("set", table.get("set", {})))
        named = [(case.pop("label", None), case) for case in cases_of(table, len(seeds))]
        cases = [PlannedCase(case, load_scenario(base, fixed, _with_paths(path, case)), label) for label, case in named]
        for case in cases:
            check_case(case.scenario, learning, allow_import)
    except InputError as error:
        raise located(error, str(path)) from None      # set here, not on the command line
    return Sweep(name, results / "sweeps" / name, tuple(cases), tuple(seeds), learning)


def _folder_name(name: Any) -> str:
    if isinstance(name, str) and name and name.isprintable() and name == Path(name).name and name[0] != ".":
        return name
    raise InputError("malformed", "name", repr(name), "a folder's name")


def located(error: InputError, where: str) -> InputError:
    """Return the error with ``where``, such as a sweep file, as the source of its key, or as its key."""
    return error.at(source=where) if error.key else error.at(where)


def _base(path: Path, table: Mapping[str, Any]) -> str:
    """Return the name of a built-in scenario, or the path of a file relative to the sweep file."""
    named = table.get("scenario")
    if not isinstance(named, str) or not named:
        raise InputError("missing", "scenario", None if named is None else repr(named),
                         f"a file, or a built-in scenario: {', '.join(builtin_scenarios())}")
    return named if named in builtin_scenarios() else str(path.parent / expanded(named, "scenario"))


def seeds_of(seeds: Any) -> list[int]:
    whole = isinstance(seeds, int) and not isinstance(seeds, bool) and seeds <= MOST_POINTS
    numbers = list(range(seeds)) if whole else list(seeds) if isinstance(seeds, Iterable) else []
    if not numbers or len(set(numbers)) < len(numbers) or any(
            isinstance(seed, bool) or not hasattr(seed, "__index__") or int(seed) < 0 for seed in numbers):
        raise InputError("out-of-range", "seeds", repr(seeds),
                         "a number of seeds, at least 1, or different whole numbers, at least 0")
    return [int(seed) for seed in numbers]


def cases_of(table: Mapping[str, Any], seeds: int) -> list[dict[str, Any]]:
    """Return the keys and values of each case: every combination of the grid under each table of the list.

    A key ``label`` of a table of the list is the name of its cases.
    """
    grid = _flat("grid", table.get("grid", {}))
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError("wrong-type", f"grid.{key}", repr(values), "a list of values, such as [1, 2]")
        _refuse_twice(f"grid.{key}", values)
    given = _listed(table.get("list", [{}]))
    _refuse_clashes(grid, given)
    count = len(given) * math.prod(len(values) for values in grid.values())
    if count * seeds > MOST_POINTS:
        raise InputError("too-large", found=f"{pluralize(count, 'case')} under {pluralize(seeds, 'seed')}",
                         expected=f"at most {MOST_POINTS:,} points")
    return [{**named, **dict(zip(grid, values, strict=True))}
            for named in given for values in itertools.product(*grid.values())]


def _refuse_clashes(grid: Mapping[str, Any], given: Sequence[Mapping[str, Any]]) -> None:
    """Raise InputError for a key in the grid and in the list, and for one that is a column of the results."""
    for twice in (sorted(named.keys() & grid.keys()) for named in given):
        if twice:
            raise InputError("duplicate", twice[0], "in the grid and in the list")
    for key in dict.fromkeys([*grid, *itertools.chain(*given)]):
        if key in COLUMNS:
            raise InputError("unsupported", key, "a whole table, and a column of the results",
                             hint="Vary the keys in it")


def _listed(tables: Any) -> list[dict[str, Any]]:
    """Return the keys and values of each table of the list."""
    if not isinstance(tables, list) or not tables:
        raise InputError("wrong-type", "list", repr(tables), "tables, [[list]], one per case")
    given = [_flat(f"list.{number}", case) for number, case in enumerate(tables)]
    _refuse_twice("list", [{key: value for key, value in case.items() if key != "label"} for case in given])
    for number, case in enumerate(given):
        if not isinstance(case.get("label", ""), str) or case.get("label") == "":
            raise InputError("wrong-type", f"list.{number}.label", repr(case["label"]), "text")
    return given


def _refuse_twice(where: str, values: list[Any]) -> None:
    """Raise InputError for a repeated value: its runs would count twice."""
    value, count = Counter(map(repr, values)).most_common(1)[0]
    if count > 1:
        raise InputError("duplicate", where, value)


def _flat(where: str, table: Any, above: str = "") -> dict[str, Any]:
    """Flatten nested tables to dotted keys: ``cell.bandwidth = …`` and ``"cell.bandwidth" = …`` are equal."""
    if not isinstance(table, Mapping):
        raise InputError("wrong-type", where, repr(table), "a table of keys")
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}.{key}" if above else key
        flat.update(_flat(where, value, name) if isinstance(value, Mapping) else {name: value})
    return flat


def check_case(scenario: Scenario, learning: bool, allow_import: bool) -> None:
    """Raise InputError for a scenario that cannot run, with or without learning."""
    from netsim.validation import refuse_untrained, validate

    if not learning:
        refuse_untrained(scenario)
    validate(scenario, learning=learning and scenario.trains, allow_import=allow_import)


def _with_paths(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve paths among the settings relative to the sweep file."""
    paths = {".".join(steps) for steps in PATHS}
    return {key: str((path.parent / expanded(value, key)).resolve()) if isinstance(value, str) and (
        key in paths or (key.startswith("population.") and key.endswith(".devices"))) else value
        for key, value in settings.items()}
