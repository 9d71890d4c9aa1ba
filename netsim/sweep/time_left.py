"""Progress and time left of a set of points, estimated from those that have finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.types import Floats
from netsim.selection.registry import varies

if TYPE_CHECKING:
    from netsim.sweep.points import Record, SweepPoint

LEAST_S = 0.05      # least time of a point: records are rounded to 0.1 s, and 0 would be no measure


class TimeLeft:
    """Estimate by device rounds (devices times rounds) and the seconds per device round of finished points.

    A point that may end at a target is expected to run the mean share of rounds of finished points. Its effort in
    device rounds is ``fixed + slope * share`` of the rounds; fixed is the excess of the first round.
    """

    def __init__(self, finished: Sequence[SweepPoint], left: Sequence[SweepPoint]) -> None:
        points = [*finished, *left]
        self._rounds = [point.scenario.end.rounds for point in points]
        self._place = {point.record: place for place, point in enumerate(points)}
        self._targets = any(point.learning and point.scenario.learning.target_accuracy for point in left)
        self._fixed, self._slope = np.array([_effort(point) for point in points]).reshape(-1, 2).T
        kinds = [_kind(point) for point in points]
        self._kind = np.unique(kinds, return_inverse=True)[1] if kinds else np.empty(0, int)
        self._before = np.arange(len(points)) < len(finished)       # finished by an earlier call
        self._open = ~self._before
        self._begun = np.array([0.0] * len(finished) + [
            min(1.0, point.rounds_played / point.scenario.end.rounds) for point in left])
        self._played = self._begun.copy()                           # share of the rounds so far
        # Sums over finished points by kind, last row over all: points, shares of rounds, device rounds, seconds.
        self._ended = np.zeros((len(set(kinds)) + 1, 4))
        self._gained_s = 0.0                                        # seconds of points finished in this call

    def at_round(self, record: Path, played: int) -> None:
        if played:
            place = self._place[record]
            self._played[place] = played / self._rounds[place]

    def ended(self, record: Path, result: Record) -> None:
        place = self.failed(record)
        share = max(1, result["rounds"]) / self._rounds[place]
        effort, begun = (self._effort(at, place) for at in (share, self._begun[place]))
        here = 1 - min(1.0, begun / effort)
        if here == 0:         # only its record was missing
            return
        seconds = max(LEAST_S, result["seconds"])
        self._gained_s += seconds
        self._ended[[self._kind[place], -1]] += 1, share, effort, seconds / here

    def failed(self, record: Path) -> int:
        """Remove a point from the estimate; return its index."""
        place = self._place[record]
        self._open[place] = False
        return place

    @property
    def at_most(self) -> bool:
        """True if points may end at a target and no finished point shows how early."""
        return bool(self._ended[-1, 0] == 0 and self._targets)

    @property
    def part_done(self) -> float:
        """Completed share of the work of all points, 0 to 1."""
        whole, played = self._cost(np.ones(len(self._open))), self._cost(self._played)
        done = whole[self._before].sum() + self._ended[-1, 3] + played[self._open].sum()
        left = (whole - played)[self._open].sum()
        return float(done / (done + left)) if done + left > 0 else 1.0

    def seconds_left(self, spent_s: float) -> float | None:
        """Return the seconds left, given the seconds spent; None before any progress."""
        whole, played, begun = (self._cost(shares)[self._open].sum()
                                for shares in (np.ones(len(self._open)), self._played, self._begun))
        gained = self._gained_s + played - begun
        return float(spent_s * (whole - played) / gained) if gained > 0 else None

    def _effort(self, share: Any, place: Any = ...) -> Any:
        """Return the device rounds of all points, or of one index, at a share of the rounds."""
        return (self._fixed[place] + self._slope[place] * share) * (share > 0)

    def _cost(self, share: Floats) -> Floats:
        """Return each point's cost at a share of its rounds: in seconds, or in device rounds if no point has ended."""
        count, shares, effort, seconds = np.where(self._ended[:, :1] > 0, self._ended, self._ended[-1]).T
        if not count[-1]:
            return np.asarray(self._effort(share))
        usual, pace = (shares / count)[self._kind], (seconds / effort)[self._kind]
        return np.asarray(self._effort(np.minimum(share, usual)) * pace)


def _effort(point: SweepPoint) -> tuple[float, float]:
    scenario = point.scenario
    cohort, learning = scenario.selection.cohort, scenario.learning
    if varies(scenario.selection.method):
        cohort = scenario.size // 2      # the cohort size is not known in advance
    passes = (learning.local_epochs or learning.local_steps or 1) if point.learning else 1
    first = scenario.size if scenario.rounds.first == "all" else cohort
    return passes * max(0, first - cohort), passes * cohort * scenario.end.rounds


def _kind(point: SweepPoint) -> str:
    return f"{point.scenario.learning.dataset} {point.scenario.learning.model_name}" if point.learning else ""
