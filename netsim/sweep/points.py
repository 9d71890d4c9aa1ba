"""Execution of sweep points; a point is one run of one scenario under one seed.

A finished point has a record, a small JSON file. An unfinished one has a run directory, from which it is resumed after
an interruption.
"""

from __future__ import annotations

import json
import math
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from netsim.base.checksummed import SEAL, checksum_of, read_object
from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, hold, make_folder, read_json, refuse_link, replace_text
from netsim.base.platform_info import processor
from netsim.executors.factory import ExecutorFactory
from netsim.scenario import Scenario
from netsim.sweep.time_left import TimeLeft

Record = dict[str, Any]

RECORDED = {"rounds", "by_round", "seconds"}     # keys that every record has
OUR_LEVELS = 3            # folders created below the results: sweeps/NAME/cells, or cells/DATASET/SIGMA
MOST_BYTES = 500 * MEGABYTE      # largest record: four numbers for each of a million rounds
BY_ROUND = ("round_s", "energy_j", "arrived", "accuracy")
MOST_BREAKDOWNS = 3       # worker deaths during a point before the point fails
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, eq=False)
class SweepPoint:
    """Scenario and seed of a run, and the paths of its record and run directory."""

    scenario: Scenario
    seed: int
    record: Path
    run: Path
    learning: bool = True
    note: Record = field(default_factory=dict)     # entries that identify this point's record
    also: Record = field(default_factory=dict)     # further entries of the record
    label: str = ""                                # name in messages

    @property
    def name(self) -> str:
        return self.label or self.run.name

    @property
    def finished(self) -> bool:
        """True if the record exists and matches the note."""
        return matching_record(self.record, self.note) is not None if self.note else self.record.exists()

    @property
    def failure(self) -> Path:
        """Path of the error message of a failed point."""
        return self.record.with_suffix(".error")

    @property
    def rounds_played(self) -> int:
        """Number of completed rounds in the run directory; 0 if it cannot be read."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(read_json(self.run / "run.json", "the status of a run")["round"])
        return 0


@dataclass(frozen=True)
class SweepProgress:
    finished: int
    failed: int
    total: int
    part_done: float            # share of the work of all points, 0 to 1
    seconds_left: float | None
    at_most: bool = False       # seconds_left is an upper bound: points may end at a target


def run_point(
    scenario: Scenario, seed: int, run: Path, learning: bool, allow_import: bool = False, every_round: bool = False,
) -> Record:
    """Run or resume a point in this process and return its record.

    Training results are shared with other points, of ``every_round`` or of the first round only. Files that only an
    unfinished run needs are removed at the end.
    """
    from netsim.learning.training_cache import TrainingCache
    from netsim.run import Run
    from netsim.simulation import simulate
    from netsim.trace.run_directory import is_finished

    start = time.monotonic()
    if not is_finished(run):
        simulate(scenario, run, seed, learning=learning, workers=1, resume=True,
                 shared=TrainingCache(shared_by(run), every_round), allow_import=allow_import)
    for leftover in ("checkpoint.npz", "lock"):
        (run / leftover).unlink(missing_ok=True)
    done = Run(run)
    summary = {name: value for name, value in done.summary.items() if name not in ("run_dir", "round_s")}
    columns = done.rounds.select(BY_ROUND).fill_nan(None)
    return {
        "scenario_sha256": scenario.digest, "seed": seed, "learning": learning, **summary,
        "by_round": {name: columns[name].to_list() for name in BY_ROUND},
        "seconds": round(time.monotonic() - start, 1),      # wall time since the last interruption
        "processor": done.info.get("processor"),
    }


def shared_by(run: Path) -> Path:
    """Return the folder of training results shared by the points of a sweep."""
    return run.parent.with_name("shared")


def shared_training_groups(points: Iterable[SweepPoint]) -> list[list[SweepPoint]]:
    """Group the points that may train the same devices in every round; other points are groups of one.

    The cache keys decide whether results are equal; the groups only avoid storing results that no other point needs.
    """
    found: dict[object, list[SweepPoint]] = {}
    for point in points:
        scenario = point.scenario
        what = (point.seed, repr(scenario.learning), repr(scenario.selection), repr(scenario.server), scenario.size)
        found.setdefault(what if point.learning and scenario.trains else point.record, []).append(point)
    return list(found.values())


def in_order(points: Sequence[SweepPoint], at_once: int | None) -> list[SweepPoint]:
    """Order points so that those of a group are close, but do not run at the same time.

    Shared results are cached for a limited time, and concurrent points of a group would wait for each other: take the
    points of ``at_once`` groups in turn, then those of the next groups.
    """
    kinds = shared_training_groups(points)
    step = at_once or max(1, len(kinds))
    batches = [zip_longest(*kinds[start : start + step]) for start in range(0, len(kinds), step)]
    return [point for batch in batches for turn in batch for point in turn if point is not None]


def run_points(
    points: Sequence[SweepPoint], place: ExecutorFactory,
    watch: Callable[[SweepProgress], None] = lambda progress: None, *,
    allow_import: bool = False, keep_shared: bool = False,
) -> None:
    """Run all points without a record; a point that fails leaves its error, and the others continue.

    ``keep_shared`` keeps the training results that other processes may use.
    """
    queue = _Queue(in_order(points, place.at_once), allow_import)
    looked = -math.inf
    while queue.left:
        queue.give_up_if_workers_die()
        with place.open() as executor:
            while queue.running or (queue.left and not queue.broken):
                queue.submit(executor, place.at_once)
                done = wait(queue.running, timeout=LOOK_EVERY_S, return_when=FIRST_COMPLETED).done
                for future in done:
                    queue.settle(future)
                if (done or queue.running) and time.monotonic() - looked >= LOOK_EVERY_S:      # a file a point
                    watch(queue.progress())
                    looked = time.monotonic()
    watch(queue.progress())
    if not keep_shared:
        remove_shared(points)


def remove_shared(points: Iterable[SweepPoint]) -> None:
    for folder in {shared_by(point.run) for point in points}:
        shutil.rmtree(folder, ignore_errors=True)


def write_record(path: Path, record: Record) -> None:
    """Write a record as JSON, one line per key, with a checksum at the end."""
    sealed = {**record, SEAL: checksum_of(json.loads(json.dumps(record)))}      # of the record as JSON restores it
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in sealed.items())
    replace_text(path, f"{{\n{lines}\n}}\n")


def read_record(path: Path) -> Record:
    """Return the record of a finished point; raise InputError if it is damaged."""
    try:
        record = read_object(path, "a record", MOST_BYTES, sealed=False)      # earlier versions wrote no checksum
        if record.keys() >= RECORDED:
            return record
        problem = "other keys"
    except (OSError, InputError) as error:
        problem = str(error)
    raise InputError("damaged", str(path), problem, "the record of a point", "Delete it, and it is made again")


def matching_record(path: Path, note: Record) -> Record | None:
    """Return the record if it exists, is intact and matches the note; else None."""
    with suppress(OSError, InputError):
        record = read_object(path, "a record", MOST_BYTES, sealed=False)
        if {name: record.get(name) for name in note} == note:
            return record
    return None


def kept_record(path: Path, note: Record, measure: Callable[[], Record] | None) -> Record | None:
    """Return the stored record of a note, or measure and store it; None if ``measure`` is None."""
    record = matching_record(path, note)
    if record is None and measure is not None:
        start = time.monotonic()
        record = {**note, **measure(), "processor": processor()}
        record["seconds"] = round(time.monotonic() - start, 1)
        make_folder(path.parent, OUR_LEVELS)
        write_record(path, record)
    return record


def sole_user(folder: Path, *, shared: bool = False) -> IO[bytes]:
    """Lock a folder against other processes until the returned file is closed; shards share the lock."""
    make_folder(folder, levels=2)
    return hold(folder / "lock", "these points", shared=shared)


class _Queue:
    """Waiting and running points, and the numbers of finished and failed ones."""

    def __init__(self, points: Sequence[SweepPoint], allow_import: bool) -> None:
        self._allow_import = allow_import                 # passed to each worker, which checks it again
        looked = [(point, point.finished) for point in points]
        done = [point for point, finished in looked if finished]
        self.left = [point for point, finished in looked if not finished]
        self.running: dict[Future[Record], SweepPoint] = {}
        self.broken = False                               # the executor accepts no more points
        self._sharing = {point.record for kind in shared_training_groups(points) if len(kind) > 1 for point in kind}
        self._breakdowns: Counter[Path] = Counter()       # worker deaths by point
        self._broken_executors = 0                                 # executors opened since a point last finished
        self._total, self._finished, self._failed = len(points), len(done), 0
        self._start, self._estimate = time.monotonic(), TimeLeft(done, self.left)

    def give_up_if_workers_die(self) -> None:
        """Raise InputError if workers repeatedly die before any point finishes."""
        if self._broken_executors == MOST_BREAKDOWNS:
            raise InputError("out-of-memory", "workers", f"{MOST_BREAKDOWNS} times workers that ended before any point",
                             hint="Most often memory is short, or a script starts them outside of "
                                  '`if __name__ == "__main__":`')
        self._broken_executors += 1
        self.broken = False

    def submit(self, executor: Executor, at_once: int | None) -> None:
        """Submit points in order, up to ``at_once`` at a time."""
        while self.left and not self.broken and (at_once is None or len(self.running) < at_once):
            point = self.left.pop(0)
            make_folder(point.record.parent, OUR_LEVELS)
            make_folder(point.run.parent, OUR_LEVELS)
            for folder in (point.run, shared_by(point.run)):      # a worker cannot check symbolic links
                refuse_link(folder)
            point.failure.unlink(missing_ok=True)
            future = executor.submit(
                run_point, point.scenario, point.seed, point.run.resolve(), point.learning, self._allow_import,
                point.record in self._sharing)
            self.running[future] = point

    def settle(self, future: Future[Record]) -> None:
        """Store the record or error of a point; retry one whose worker died, up to MOST_BREAKDOWNS times."""
        point = self.running.pop(future)
        error = BrokenExecutor("cancelled") if future.cancelled() else future.exception()
        if isinstance(error, BrokenExecutor):
            self.broken = True
            self._breakdowns[point.record] += 1
            if self._breakdowns[point.record] < MOST_BREAKDOWNS:
                self.left.append(point)
                return
        else:
            self._broken_executors = 0
        if error is None:
            write_record(point.record, {**point.note, **point.also, **future.result()})
            self._finished += 1
            self._estimate.ended(point.record, future.result())
        else:
            replace_text(point.failure, _explain(error))
            self._failed += 1
            self._estimate.failed(point.record)

    def progress(self) -> SweepProgress:
        for point in self.running.values():
            self._estimate.at_round(point.record, point.rounds_played)
        left = self._estimate.seconds_left(time.monotonic() - self._start)
        return SweepProgress(self._finished, self._failed, self._total, self._estimate.part_done, left,
                        self._estimate.at_most)


def _explain(error: BaseException) -> str:
    """Return the error message; with the traceback unless it is an InputError."""
    if isinstance(error, InputError):
        return f"{error}\n"
    if isinstance(error, BrokenExecutor):
        return f"its worker process died {MOST_BREAKDOWNS} times, most often because memory ran out\n"
    return f"{type(error).__name__}: {error}\n\n{''.join(traceback.format_exception(error))}"
