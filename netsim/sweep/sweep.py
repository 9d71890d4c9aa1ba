"""Execution of a sweep, its table of results, and its status."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.analysis.sweep_statistics import ABOUT, TABLE
from netsim.base.checksummed import write_object
from netsim.base.errors import InputError
from netsim.base.files import hold, replace_file
from netsim.base.registry import SESSION, VERSION
from netsim.sweep.points import SweepPoint, SweepProgress, read_record, remove_shared, run_points, sole_user

if TYPE_CHECKING:
    import polars as pl

    from netsim.executors.factory import ExecutorFactory
    from netsim.sweep.sweep_file import Sweep

COLUMNS = ("rounds", "simulated_s", "energy_j", "accuracy", "target_reached", "dropped")


def run_all(
    sweep: Sweep, place: ExecutorFactory, watch: Callable[[SweepProgress], None] = lambda progress: None, *,
    allow_import: bool = False,
) -> Path:
    """Run the unfinished points of a sweep; return the path of the Parquet table of all finished points.

    ``allow_import`` is passed to the process or machine of every point.
    """
    with sole_user(sweep.folder):
        write_object(sweep.folder / ABOUT, sweep.about)
        try:
            run_points(_different(sweep), place, watch, allow_import=allow_import)
        finally:
            replace_file(sweep.folder / TABLE, table(sweep).write_parquet)
    return sweep.folder / TABLE


@dataclass(frozen=True)
class Shard:
    """Part ``number`` (from 1) of a sweep's points, divided into ``count`` parts."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard of ``"3/16"``; raise InputError for another text."""
        found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text)
        number, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= count:
            raise InputError("malformed", "--shard", text, "K/N, with K from 1 to N", "Use 1/16 to 16/16 for 16 shards")
        return cls(number, count)


def run_shard(
    sweep: Sweep, shard: Shard, place: ExecutorFactory, watch: Callable[[SweepProgress], None], *,
    allow_import: bool = False,
) -> list[SweepPoint]:
    """Run the unfinished points of a shard in the sweep's folder, beside other shards; return the shard's points.

    Run ``merge`` when all shards have ended.
    """
    points = _different(sweep)[shard.number - 1 :: shard.count]
    with sole_user(sweep.folder, shared=True), hold(
            sweep.folder / f"lock-{shard.number}-of-{shard.count}", f"shard {shard.number}/{shard.count}"):
        write_object(sweep.folder / ABOUT, sweep.about)
        run_points(points, place, watch, allow_import=allow_import, keep_shared=True)
    return points


def merge(sweep: Sweep) -> Path:
    """Write the table of all finished points, which the shards have left; return its path."""
    with sole_user(sweep.folder):
        write_object(sweep.folder / ABOUT, sweep.about)
        replace_file(sweep.folder / TABLE, table(sweep).write_parquet)
        remove_shared(sweep.points)
        for lock in sweep.folder.glob("lock-*-of-*"):
            lock.unlink()
    return sweep.folder / TABLE


def _different(sweep: Sweep) -> list[SweepPoint]:
    """Return the points of a sweep; those with the same scenario and seed run once."""
    return list({point.record: point for point in sweep.points}.values())


@dataclass(frozen=True)
class SweepStatus:
    """Status of a sweep; points with the same scenario and seed count once."""

    total: int
    finished: int
    begun: list[SweepPoint]
    failed: list[SweepPoint]

    @property
    def waiting(self) -> int:
        return self.total - self.finished - len(self.begun) - len(self.failed)


def status(sweep: Sweep) -> SweepStatus:
    """Return the status by file names; only files of running points are read."""
    different = {case.digest: case for case in sweep.cases}
    files, runs = _names(sweep.folder / "cells"), _names(sweep.folder / "runs")
    finished = 0
    begun, failed = [], []
    for digest, case in different.items():
        for seed in sweep.seeds:
            key = sweep.key(digest, seed)
            if f"{key}.json" in files:
                finished += 1
            elif f"{key}.error" in files:
                failed.append(sweep.point(case, seed))
            elif key in runs and (point := sweep.point(case, seed)).rounds_played:
                begun.append(point)
    return SweepStatus(len(different) * len(sweep.seeds), finished, begun, failed)


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()


def table(sweep: Sweep) -> pl.DataFrame:
    """Return a row for each finished point, in the order of the sweep file.

    Columns: varied keys, ``seed``, ``rounds``, ``simulated_s``, ``energy_j``, ``accuracy``, ``target_reached``,
    ``dropped``, the mean of a device's time in a round by part (``compute_s``, ``upload_s``, ``wait_s``, summed over
    rounds), lists by round (``round_s``, ``round_energy_j``, ``round_accuracy``), ``scenario_sha256``,
    ``trace_sha256`` and ``run``, the point's run directory below the sweep's folder.
    """
    import polars as pl

    varied = [case.settings for case in sweep.cases for _ in sweep.seeds]
    rows = [_row(case, point) for case, point in zip(varied, sweep.points, strict=True) if point.finished]
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def plain(value: Any) -> Any:
    """Return a value in a type that JSON and Parquet store."""
    if isinstance(value, str) and value.startswith(SESSION):
        return value.partition(VERSION)[0]
    return value if isinstance(value, bool | int | float | str) else str(value)


def _row(case: dict[str, Any], point: SweepPoint) -> dict[str, Any]:
    record = read_record(point.record)
    by_round = record["by_round"]
    return {
        **{key: plain(value) for key, value in case.items()},
        "seed": point.seed,
        **{name: record[name] for name in COLUMNS},
        **{f"{part}_s": seconds for part, seconds in record["breakdown"].items()},
        "round_s": by_round["round_s"],
        "round_energy_j": by_round["energy_j"],
        "round_accuracy": by_round["accuracy"],
        "scenario_sha256": record["scenario_sha256"],
        "trace_sha256": record["trace_sha256"],
        "run": f"runs/{point.run.name}",
    }
