"""How far a set of cells is and how long it will still take, by what those took that have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.selection.registry import varies

if TYPE_CHECKING:
    from netsim.sweep.points import Point, Record

LEAST_S = 0.05      # records round to a tenth of a second, and a cell that took nothing would be no measure

Kind = tuple[str | None, str | None]


@dataclass
class _Effort:
    """Device rounds with their passes over the data, of one cell or of many: ``fixed + slope * share`` of the rounds.

    Fixed is what the first round has more than a later one. As the sum over many cells has the same form, telling the
    time left takes no longer with a million cells than with ten.
    """

    fixed: float = 0.0
    slope: float = 0.0

    def at(self, share: float) -> float:
        """Of a share of the rounds that may be taken."""
        return self.fixed + self.slope * share if share > 0 else 0.0

    def add(self, other: _Effort, sign: int = 1) -> None:
        self.fixed += sign * other.fixed
        self.slope += sign * other.slope


@dataclass
class _Usual:
    """What the cells of a kind, or all of them, took that have ended."""

    cells: int = 0
    shares: float = 0.0
    effort: float = 0.0
    seconds: float = 0.0

    @property
    def share(self) -> float:
        return self.shares / self.cells if self.cells else 1.0

    @property
    def pace(self) -> float:
        """Seconds for a device round; any number will do as long as no cell has ended."""
        return self.seconds / self.effort if self.cells else 1.0


class TimeLeft:
    """The estimate: cells are weighed by their devices and rounds, and by the pace of others on the same data.

    A cell that may end at a target is expected to take as many of its rounds as those did that have ended.
    """

    def __init__(self, finished: Iterable[Point], left: Iterable[Point]) -> None:
        self._left = {cell.record: cell for cell in left}
        self._targets = any(cell.learning and cell.scenario.learning.target_accuracy for cell in self._left.values())
        self._begun = {record: share for record, cell in self._left.items() if (share := _share(cell))}
        self._active = dict(self._begun)                                  # share of the rounds played so far
        self._waiting: dict[Kind, _Effort] = defaultdict(_Effort)         # cells of which no round has been played
        self._before: dict[Kind, _Effort] = defaultdict(_Effort)          # cells that an earlier call finished
        self._by_kind: dict[Kind, _Usual] = defaultdict(_Usual)
        self._overall = _Usual()
        self._ended_s = self._gained_s = 0.0                              # of whole cells; of that, what was done here
        for cell in finished:
            self._before[_kind(cell)].add(_effort(cell))
        for record, cell in self._left.items():
            if record not in self._begun:
                self._waiting[_kind(cell)].add(_effort(cell))

    def at_round(self, record: Path, played: int) -> None:
        """A cell under way has come so far."""
        if played:
            self._start(record)
            self._active[record] = played / self._left[record].scenario.end.rounds

    def ended(self, record: Path, result: Record) -> None:
        """A cell has its numbers: a measure for the others."""
        cell = self._remove(record)
        effort, share = _effort(cell), max(1, result["rounds"]) / cell.scenario.end.rounds
        here = 1 - min(1.0, effort.at(self._begun.get(record, 0.0)) / effort.at(share))
        if here == 0:         # only its record was missing
            return
        seconds = max(LEAST_S, result["seconds"])
        self._ended_s += seconds / here
        self._gained_s += seconds
        for usual in (self._by_kind[_kind(cell)], self._overall):
            usual.cells += 1
            usual.shares += share
            usual.effort += effort.at(share)
            usual.seconds += seconds / here

    def failed(self, record: Path) -> None:
        """A cell has nothing more to do, and says nothing about the others."""
        self._remove(record)

    @property
    def at_most(self) -> bool:
        """Whether cells may end sooner, at a target, and none has shown by how much."""
        return self._overall.cells == 0 and self._targets

    @property
    def part_done(self) -> float:
        """Of the work of all cells, from 0 to 1."""
        before = sum(self._cost(kind, effort) for kind, effort in self._before.items())
        done, left = before + self._ended_s + self._active_cost(self._active), self._cost_left()
        return done / (done + left) if done + left > 0 else 1.0

    def seconds_left(self, spent_s: float) -> float | None:
        """By what was gained in the seconds spent; None before anything was."""
        under_way = {record: share for record, share in self._begun.items() if record in self._active}
        gained = self._gained_s + self._active_cost(self._active) - self._active_cost(under_way)
        return spent_s * self._cost_left() / gained if gained > 0 else None

    def _cost_left(self) -> float:
        waiting = sum(self._cost(kind, effort) for kind, effort in self._waiting.items())
        begun = [self._left[record] for record in self._active]
        return waiting + sum(self._cost(_kind(cell), _effort(cell)) for cell in begun) - self._active_cost(self._active)

    def _active_cost(self, shares: dict[Path, float]) -> float:
        """Of what was played of the cells under way; of none more than it is expected to take."""
        cells = [(self._left[record], share) for record, share in shares.items()]
        return sum(self._cost(_kind(cell), _effort(cell), share) for cell, share in cells)

    def _cost(self, kind: Kind, effort: _Effort, share: float = 1.0) -> float:
        """In seconds, once a cell has ended; before that, in device rounds."""
        usual = self._by_kind.get(kind, self._overall)
        return effort.at(min(share, usual.share)) * usual.pace

    def _start(self, record: Path) -> None:
        if record not in self._active:
            self._waiting[_kind(self._left[record])].add(_effort(self._left[record]), -1)
            self._active[record] = 0.0

    def _remove(self, record: Path) -> Point:
        self._start(record)
        del self._active[record]
        return self._left[record]


def _effort(cell: Point) -> _Effort:
    scenario = cell.scenario
    cohort, learning = scenario.selection.cohort, scenario.learning
    if varies(scenario.selection.method):
        cohort = scenario.size // 2      # nobody knows how many it will take
    passes = (learning.local_iterations or learning.local_steps or 1) if cell.learning else 1
    first = scenario.size if scenario.rounds.first == "all" else cohort
    return _Effort(passes * max(0, first - cohort), passes * cohort * scenario.end.rounds)


def _kind(cell: Point) -> Kind:
    return (cell.scenario.learning.dataset, cell.scenario.learning.model_name) if cell.learning else (None, None)


def _share(cell: Point) -> float:
    return min(1.0, cell.rounds_played / cell.scenario.end.rounds)
