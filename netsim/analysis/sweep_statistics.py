"""Results of a sweep, read from its folder: points, cases with statistics over seeds, failures with reasons."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from netsim.analysis.seed_statistics import Estimate, estimate, mean_curve, paired, records
from netsim.base.checksummed import read_object
from netsim.base.errors import InputError, readable, unknown
from netsim.base.files import read_text
from netsim.base.registry import SESSION, VERSION
from netsim.base.types import Floats

ABOUT = "sweep.json"
TABLE = "table.parquet"
MOST_POINTS = 200        # of a mean curve
OVER = {"rounds": "round", "time": "seconds", "energy": "joules"}      # x axes of accuracy curves

# measures of a case: the kind of quantity, the column of a point's row, and whether it is a mean over rounds
MEASURES: dict[str, tuple[str, str, bool]] = {
    "accuracy": ("share", "accuracy", False), "round_s": ("time", "simulated_s", True),
    "simulated_s": ("time", "simulated_s", False), "energy_j": ("energy", "energy_j", False),
    "rounds": ("count", "rounds", False), "compute_s": ("time", "compute_s", True),
    "upload_s": ("time", "upload_s", True), "wait_s": ("time", "wait_s", True), "dropped": ("count", "dropped", False),
}
TARGETS = {"rounds": "count", "time_s": "time", "energy_j": "energy"}


@dataclass(frozen=True, eq=False)
class SweepCase:
    """One combination of the varied settings of a sweep, under each of its seeds."""

    label: str
    settings: dict[str, Any]
    rows: dict[int, dict[str, Any]]      # of the finished points, by seed
    failed: dict[int, str]               # reasons of failed points, by seed

    def values(self, measure: str) -> dict[int, float]:
        """Return the known values of a measure, by seed."""
        _, column, of_round = MEASURES[measure]
        return {seed: float(row[column]) / (row["rounds"] if of_round else 1) for seed, row in self.rows.items()
                if row[column] is not None and (row["rounds"] or not of_round)}

    def over(self, measure: str) -> Estimate:
        """Return the mean of a measure over seeds, with its interval."""
        return estimate(list(self.values(measure).values()))

    def learned(self) -> Iterator[tuple[int, dict[str, Floats]]]:
        """Yield for each seed the accuracy against rounds, simulated seconds and joules since the start."""
        for seed, row in self.rows.items():
            accuracy = np.array(row["round_accuracy"], np.float64)
            there = np.flatnonzero(~np.isnan(accuracy))
            if len(there):
                yield seed, {"accuracy": accuracy[there], "round": (there + 1).astype(np.float64),
                             "seconds": np.cumsum(row["round_s"])[there],
                             "joules": np.cumsum(row["round_energy_j"])[there]}

    def reached(self, target: float) -> dict[str, dict[int, float]]:
        """Return rounds, seconds and joules until an accuracy was first reached, for the seeds that reached it."""
        found: dict[str, dict[int, float]] = {name: {} for name in TARGETS}
        for seed, curve in self.learned():
            at = next((place for place in records(curve["accuracy"].tolist()) if curve["accuracy"][place] >= target),
                      None)
            if at is not None:
                for name, key in zip(TARGETS, ("round", "seconds", "joules"), strict=True):
                    found[name][seed] = float(curve[key][at])
        return found

    def curve(self, over: str) -> tuple[Floats, list[Estimate]] | None:
        """Return the mean accuracy against rounds, time or energy; None without accuracies."""
        curves = [curve for _, curve in self.learned()]
        return mean_curve([curve[OVER[over]] for curve in curves], [curve["accuracy"] for curve in curves],
                          MOST_POINTS) if curves else None


class SweepStatistics:
    """Results of a sweep: ``table`` has a row per point, ``cases`` are labelled by the varied settings."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        try:
            self._about = read_object(self.folder / ABOUT, "what a sweep says of itself")
        except OSError:
            raise InputError("missing", str(self.folder / ABOUT), hint="The folder belongs to no sweep or to an "
                             "unfinished one: start the sweep again, which writes the file and repeats no point"
                             ) from None
        self.name: str = self._about["name"]
        self.scenario: str = self._about["scenario"]
        self.seeds: list[int] = self._about["seeds"]
        self.keys: list[str] = list(dict.fromkeys(key for case in self._about["cases"] for key in case["set"]))

    @cached_property
    def table(self) -> pl.DataFrame:
        """A row for each finished point; the guide on sweeps lists the columns."""
        path = self.folder / TABLE
        try:
            return pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError("unreadable", str(path), str(error).partition("\n")[0],
                             hint="Start the sweep again, which writes it") from None

    @cached_property
    def cases(self) -> list[SweepCase]:
        """All cases, also failed ones, in the order of the sweep."""
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        if self.table.height:
            rows = {(row["scenario_sha256"], row["seed"]): row for row in self.table.iter_rows(named=True)}
        found = []
        cases = self._about["cases"]
        named = labels([case["set"] for case in cases], self.scenario, [case.get("label") for case in cases])
        for about, label in zip(cases, named, strict=True):
            done = {seed: rows[about["sha256"], seed] for seed in self.seeds if (about["sha256"], seed) in rows}
            found.append(SweepCase(label, about["set"], done, self._failures(about["sha256"], done)))
        return found

    def _failures(self, digest: str, done: Mapping[int, Any]) -> dict[int, str]:
        found = {}
        for seed in self.seeds:
            path = self.folder / "cells" / f"{digest[:16]}-{seed}{self._about['ending']}.error"
            if seed not in done and path.is_file():
                try:
                    found[seed] = readable(read_text(path, "the error of a cell").partition("\n")[0])
                except (OSError, InputError) as error:
                    found[seed] = str(error)
        return found

    @property
    def learns(self) -> bool:
        """True if any point has an accuracy."""
        return any(case.values("accuracy") for case in self.cases)

    @property
    def best_accuracies(self) -> list[float]:
        """Highest accuracy of each finished point that learned."""
        return [float(curve["accuracy"].max()) for case in self.cases for _, curve in case.learned()]

    @property
    def common_target(self) -> float:
        """Highest accuracy, in steps of 0.1 %, that every finished point has reached."""
        return math.floor(1000 * min(self.best_accuracies)) / 1000

    @cached_property
    def measures(self) -> list[str]:
        """Measures with values: accuracy only with learning, drop-outs only if there were any."""
        return [name for name in MEASURES if any(value or name not in ("accuracy", "dropped")
                                                 for case in self.cases for value in case.values(name).values())]

    def case(self, wanted: str | int | Mapping[str, Any] | None = None) -> SweepCase:
        """Find a case of the sweep.

        Parameters
        ----------
        wanted : str, int or mapping, optional
            Its label, its index or its settings; by default the first case.

        Returns
        -------
        SweepCase
        """
        if wanted is None or (isinstance(wanted, int) and -len(self.cases) <= wanted < len(self.cases)):
            return self.cases[wanted or 0]
        for case in self.cases:
            if case.label == wanted or (isinstance(wanted, Mapping) and case.settings == dict(wanted)):
                return case
        raise unknown("case", wanted, [case.label for case in self.cases], source=self.name)

    @property
    def summary(self) -> pl.DataFrame:
        """A row per case: its settings, and the mean of each measure with its 95 % interval over seeds (Student's t).

        ``_median`` is the median over seeds, which an outlier does not move.

        ``compute_s``, ``upload_s`` and ``wait_s`` are means over rounds.
        """
        return self._frame(lambda case, measure: case.over(measure))

    def differences(self, against: str | int | Mapping[str, Any] | None = None) -> pl.DataFrame:
        """Compare all cases with one of them, seed by seed.

        Parameters
        ----------
        against : str, int or mapping, optional
            The other case, as for :meth:`case`.

        Returns
        -------
        polars.DataFrame
            A row per case: the paired difference of each measure over ``seeds`` common seeds.
        """
        other = self.case(against)
        common = pl.Series("seeds", [len(case.rows.keys() & other.rows.keys()) for case in self.cases])
        return self._frame(lambda case, measure: paired(case.values(measure), other.values(measure))
                           ).with_columns(common)

    def to_target(self, accuracy: float) -> pl.DataFrame:
        """Compute the cost of reaching a test accuracy.

        Parameters
        ----------
        accuracy : float
            The target, from 0 to 1.

        Returns
        -------
        polars.DataFrame
            A row per case: rounds, simulated time and energy until then, over the seeds that reached it.
        """
        if not 0 < accuracy <= 1:
            raise InputError("out-of-range", "accuracy", accuracy, "a share from 0 to 1, such as 0.9")
        rows = []
        for case in self.cases:
            reached = case.reached(accuracy)
            rows.append({**self.named(case), "reached": len(reached["rounds"])} | _spread(
                {name: estimate(list(values.values())) for name, values in reached.items()}))
        return _as_frame(rows)

    def _frame(self, of: Callable[[SweepCase, str], Estimate]) -> pl.DataFrame:
        return _as_frame([{**self.named(case), "failed": len(case.failed)}
                          | _spread({name: of(case, name) for name in self.measures})
                          | {"reason": next(iter(case.failed.values()), None)} for case in self.cases])

    def named(self, case: SweepCase) -> dict[str, Any]:
        """Name a case in a table.

        Parameters
        ----------
        case : SweepCase

        Returns
        -------
        dict
            The first columns of a table: label, settings, and the number of finished seeds.
        """
        return {"case": case.label, **{key: _text(case.settings[key]) if key in case.settings else None
                                       for key in self.keys}, "seeds": len(case.rows)}


def _spread(found: Mapping[str, Estimate]) -> dict[str, float | None]:
    return {name + ending: value for name, one in found.items()
            for ending, value in (("", one.mean), ("_low", one.low), ("_high", one.high), ("_median", one.median))}


def _as_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def labels(
    cases: Sequence[Mapping[str, Any]], alone: str, given: Sequence[str | None] = (),
) -> list[str]:
    """Return the labels of cases: the values of their settings, with keys where values alone are ambiguous.

    ``given`` are labels of the user's own; where several cases have the same one, their settings follow it.

    >>> labels([{"allocation.method": "sao", "selection.cohort": 5}, {"allocation.method": "equal"}], "tiny")
    ['sao, cohort 5', 'equal']
    """
    short = [", ".join(_short(key, value) for key, value in case.items()) or alone for case in cases]
    own = list(given) or [None] * len(short)
    short = [label if name is None else name if own.count(name) == 1 else f"{name}, {label}"
             for label, name in zip(short, own, strict=True)]
    twice = Counter(short)
    return [label if twice[label] == 1 else ", ".join(f"{key} = {_text(value)}" for key, value in case.items())
            for label, case in zip(short, cases, strict=True)]


def _short(key: str, value: Any) -> str:
    """Return a text value alone, and a bare number with the last part of its key."""
    return _text(value) if isinstance(value, str) else f"{key.rpartition('.')[2].replace('_', ' ')} {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, str) and value.startswith(SESSION):
        return value.removeprefix(SESSION).partition(VERSION)[0]
    return value if isinstance(value, str) else json.dumps(value, default=str)
