"""A point is one run of one scenario under one seed; many of them are run here, each once, whatever happens between.

A finished point leaves a record, a small JSON file. While it is under way it has a run directory, from which it goes on
after an interruption.
"""

from __future__ import annotations

import json
import math
import shutil
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, hold, make_folder, read_json, refuse_link, replace_text
from netsim.base.machine import processor
from netsim.base.sealed import SEAL, opened, seal_of
from netsim.sweep.executor import OnCluster, Place
from netsim.sweep.time_left import TimeLeft

if TYPE_CHECKING:
    from netsim.scenario import Scenario

Record = dict[str, Any]

RECORDED = {"rounds", "by_round", "seconds"}     # some of what every record has
OUR_LEVELS = 3            # sweeps/NAME/cells, or cells/DATASET/SIGMA: what we name below the folder of the results
MOST_BYTES = 500 * MEGABYTE      # of a record: four numbers for each of a million rounds
BY_ROUND = ("round_s", "energy_j", "arrived", "accuracy")
MOST_BREAKDOWNS = 3       # so often may a worker die under a point before the point is held to be the reason
LOOK_EVERY_S = 0.5
ONE_AT_A_TIME = threading.Lock()     # torch seeds a whole process, and a cluster's worker may have several threads


@dataclass(frozen=True, eq=False)
class Point:
    """What to run, and the places of its record and of its run directory."""

    scenario: Scenario
    seed: int
    record: Path
    run: Path
    learning: bool = True
    note: Record = field(default_factory=dict)     # what a record must say to be this point's
    also: Record = field(default_factory=dict)     # what it says besides
    label: str = ""                                # what people know it by

    @property
    def name(self) -> str:
        return self.label or self.run.name

    @property
    def finished(self) -> bool:
        """Whether its record is there, and is about what its note says."""
        return matching_record(self.record, self.note) is not None if self.note else self.record.exists()

    @property
    def failure(self) -> Path:
        """The file with the error, if the point failed the last time."""
        return self.record.with_suffix(".error")

    @property
    def rounds_played(self) -> int:
        """How far its run is, as far as can be seen from here."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(read_json(self.run / "run.json", "a run's own word")["round"])
        return 0


@dataclass(frozen=True)
class SweepProgress:
    """How far a set of points is."""

    finished: int
    failed: int
    total: int
    part_done: float            # of all points together, from 0 to 1
    seconds_left: float | None
    at_most: bool = False       # no point has shown yet after how many of its rounds it reaches its target


def run_point(
    scenario: Scenario, seed: int, run: Path, learning: bool, allow_import: bool = False, every_round: bool = False,
) -> Record:
    """Run a point where this is called, from where its run directory says; returns its numbers.

    It shares what it trains with other points, in ``every_round`` or in the first alone. What only an unfinished run
    needs is removed at the end.
    """
    from netsim.learning.shared import InCommon
    from netsim.run import Run
    from netsim.simulation import simulate
    from netsim.trace.run_directory import is_finished

    start = time.monotonic()
    with ONE_AT_A_TIME:
        if not is_finished(run):
            simulate(scenario, run, seed, learning=learning, workers=1, resume=True,
                     shared=InCommon(shared_by(run), every_round), allow_import=allow_import)
    for leftover in ("checkpoint.npz", "lock"):
        (run / leftover).unlink(missing_ok=True)
    done = Run(run)
    summary = {name: value for name, value in done.summary.items() if name not in ("run_dir", "round_s")}
    columns = done.rounds.select(BY_ROUND).fill_nan(None)
    return {
        "scenario_sha256": scenario.digest, "seed": seed, "learning": learning, **summary,
        "by_round": {name: columns[name].to_list() for name in BY_ROUND},
        "seconds": round(time.monotonic() - start, 1),      # of computing since the last interruption
        "processor": done.info.get("processor"),
    }


def shared_by(run: Path) -> Path:
    """The folder for what the points of a sweep train in common, beside that of their runs."""
    return run.parent.with_name("shared")


def shared_training_groups(points: Iterable[Point]) -> list[list[Point]]:
    """Points that may train the same devices round after round, together; the others each alone.

    Whether they do is told by what they train. This says where to look: keeping what nobody will ask for takes time.
    """
    found: dict[object, list[Point]] = {}
    for point in points:
        scenario = point.scenario
        what = (point.seed, repr(scenario.learning), repr(scenario.selection), repr(scenario.server), scenario.size)
        found.setdefault(what if point.learning and scenario.trains else point.record, []).append(point)
    return list(found.values())


def in_order(points: Sequence[Point], at_once: int | None) -> list[Point]:
    """Points of a group close to each other, as what they share is not kept for ever, but not at the same time, where
    one would wait for what the other trains: first those of ``at_once`` groups in turn, then those of the next ones.
    """
    kinds = shared_training_groups(points)
    step = at_once or max(1, len(kinds))
    batches = [zip_longest(*kinds[start : start + step]) for start in range(0, len(kinds), step)]
    return [point for batch in batches for turn in batch for point in turn if point is not None]


def run_points(
    points: Sequence[Point], place: Place, watch: Callable[[SweepProgress], None] = lambda progress: None, *,
    allow_import: bool = False,
) -> None:
    """Run all points that have no record yet; one that fails leaves its error, and the others go on."""
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
                if not done and isinstance(executor, OnCluster) and executor.lost:
                    queue.abandon()
                if queue.running and time.monotonic() - looked >= LOOK_EVERY_S:      # it reads a file for each of them
                    watch(queue.progress())
                    looked = time.monotonic()
    watch(queue.progress())
    for folder in {shared_by(point.run) for point in points}:
        shutil.rmtree(folder, ignore_errors=True)


def write_record(path: Path, record: Record) -> None:
    """A line a key, so that many numbers stay few lines, and a checksum at the end."""
    sealed = {**record, SEAL: seal_of(json.loads(json.dumps(record)))}      # of what will be read
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in sealed.items())
    replace_text(path, f"{{\n{lines}\n}}\n")


def read_record(path: Path) -> Record:
    """What a finished point left."""
    try:
        record = _whole_record(path)
        if record.keys() >= RECORDED:
            return record
        problem = "other keys"
    except (OSError, InputError) as error:
        problem = str(error)
    raise InputError("damaged", str(path), problem, "the record of a point", "Delete it, and it is made again")


def matching_record(path: Path, note: Record) -> Record | None:
    """The record if it is there, whole, and about what the note says."""
    with suppress(OSError, InputError):
        record = _whole_record(path)
        if {name: record.get(name) for name in note} == note:
            return record
    return None


def _whole_record(path: Path) -> Record:
    """A record as it was written; those of earlier versions carry no checksum."""
    found = read_json(path, "a record", MOST_BYTES)
    if not isinstance(found, dict):
        raise InputError("malformed", str(path), type(found).__name__, "a record")
    return opened(path, found, found.pop(SEAL)) if SEAL in found else found


def kept_record(path: Path, note: Record, measure: Callable[[], Record] | None) -> Record | None:
    """The record that is kept for a note, or else measured and kept; None where it may not be measured now."""
    record = matching_record(path, note)
    if record is None and measure is not None:
        start = time.monotonic()
        record = {**note, **measure(), "processor": processor()}
        record["seconds"] = round(time.monotonic() - start, 1)
        make_folder(path.parent, OUR_LEVELS)
        write_record(path, record)
    return record


def sole_user(folder: Path) -> IO[bytes]:
    """Hold a folder until what is returned is closed, so that no other process runs its points meanwhile."""
    make_folder(folder, levels=2)
    return hold(folder / "lock", "these points")


class _Queue:
    """The points still to run and those under way; counts the others."""

    def __init__(self, points: Sequence[Point], allow_import: bool) -> None:
        self._allow_import = allow_import                 # said to each worker: it asks again
        looked = [(point, point.finished) for point in points]
        done = [point for point, finished in looked if finished]
        self.left = [point for point, finished in looked if not finished]
        self.running: dict[Future[Record], Point] = {}
        self.broken = False                               # the executor takes no more work
        self._sharing = {point.record for kind in shared_training_groups(points) if len(kind) > 1 for point in kind}
        self._breakdowns: Counter[Path] = Counter()       # how often a worker died under a point
        self._broken_executors = 0                                 # executors opened since a point last ended
        self._total, self._finished, self._failed = len(points), len(done), 0
        self._start, self._estimate = time.monotonic(), TimeLeft(done, self.left)

    def give_up_if_workers_die(self) -> None:
        """Stop where workers die at once whatever they are given."""
        if self._broken_executors == MOST_BREAKDOWNS:
            raise InputError("out-of-memory", "workers", f"{MOST_BREAKDOWNS} times workers that ended before any point",
                             hint="Most often memory is short, or a script starts them outside of "
                                  '`if __name__ == "__main__":`')
        self._broken_executors += 1
        self.broken = False

    def submit(self, executor: Executor, at_once: int | None) -> None:
        """Hand out points, in their order, as many as may run at a time."""
        while self.left and not self.broken and (at_once is None or len(self.running) < at_once):
            point = self.left.pop(0)
            make_folder(point.record.parent, OUR_LEVELS)
            make_folder(point.run.parent, OUR_LEVELS)
            for folder in (point.run, shared_by(point.run)):      # a worker could not tell where they lead
                refuse_link(folder)
            point.failure.unlink(missing_ok=True)
            future = executor.submit(
                run_point, point.scenario, point.seed, point.run.resolve(), point.learning, self._allow_import,
                point.record in self._sharing)
            self.running[future] = point

    def settle(self, future: Future[Record]) -> None:
        """Keep what a point came to; one whose worker died is tried again, but not for ever."""
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

    def abandon(self) -> None:
        """Wait no more for what is under way: the workers are gone, through no fault of the points."""
        self.broken = True
        self.left += self.running.values()
        self.running.clear()

    def progress(self) -> SweepProgress:
        """Counts, and the time left by how far the points have come since the start."""
        for point in self.running.values():
            self._estimate.at_round(point.record, point.rounds_played)
        left = self._estimate.seconds_left(time.monotonic() - self._start)
        return SweepProgress(self._finished, self._failed, self._total, self._estimate.part_done, left,
                        self._estimate.at_most)


def _explain(error: BaseException) -> str:
    """The message first; for what is not the user's to mend, where it happened too."""
    if isinstance(error, InputError):
        return f"{error}\n"
    if isinstance(error, BrokenExecutor):
        return f"its worker process died {MOST_BREAKDOWNS} times, most often for want of memory\n"
    return f"{type(error).__name__}: {error}\n\n{''.join(traceback.format_exception(error))}"
