"""How far a set of cells is and how long it will still take, by what those took that have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netsim.experiments.cells import Cell, Record

LEAST_S = 0.05      # records round to a tenth of a second, and a cell that took nothing would be no measure

Kind = tuple[str | None, str | None]


@dataclass
class _Usual:
    """What cells of a kind, or all, took that have ended."""

    cells: int = 0
    share: float = 0.0       # of the rounds that they may take, summed
    effort: float = 0.0
    seconds: float = 0.0


@dataclass
class _State:
    """What is known about one cell."""

    kind: Kind
    first: float                   # effort of the first round, in device rounds with their passes over the data
    later: float                   # and of each later one
    most: int                      # rounds that it may take
    begun: int                     # that an earlier call played
    played: int                    # so far
    rounds: int | None             # that the whole run took, once it has ended
    seconds: float | None = None   # that the whole run would have taken here

    def effort(self, rounds: float) -> float:
        """Of so many rounds."""
        return self.first + (rounds - 1) * self.later if rounds >= 1 else self.first * rounds


class TimeLeft:
    """The estimate: cells are weighed by their devices and rounds, and by the pace of others on the same data.

    A cell that may end at a target is expected to take as many of its rounds as those did that have ended.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = {cell.record: _state(cell) for cell in cells}
        self._by_kind: dict[Kind, _Usual] = defaultdict(_Usual)
        self._overall = _Usual()

    def at_round(self, record: Path, played: int) -> None:
        """A cell under way has come so far."""
        self._cells[record].played = played

    def ended(self, record: Path, result: Record) -> None:
        """A cell has its numbers: a measure for the others."""
        state = self._cells[record]
        state.played = state.rounds = max(1, result["rounds"])
        here = 1 - state.effort(min(state.begun, state.rounds)) / state.effort(state.rounds)
        if here > 0:
            state.seconds = max(LEAST_S, result["seconds"]) / here
            for usual in (self._by_kind[state.kind], self._overall):
                usual.cells += 1
                usual.share += state.rounds / state.most
                usual.effort += state.effort(state.rounds)
                usual.seconds += state.seconds

    def failed(self, record: Path) -> None:
        """A cell has nothing more to do, and says nothing about the others."""
        state = self._cells[record]
        state.begun = state.played = state.rounds = state.most

    @property
    def part_done(self) -> float:
        """Of the work of all cells, from 0 to 1."""
        costs = [self._cost(state) for state in self._cells.values()]
        return sum(done for _, done, _ in costs) / sum(whole for whole, _, _ in costs) if costs else 1.0

    def seconds_left(self, spent_s: float) -> float | None:
        """By what was gained in the seconds spent; None before anything was."""
        costs = [self._cost(state) for state in self._cells.values()]
        gained = sum(done - before for _, done, before in costs)
        return spent_s * sum(whole - done for whole, done, _ in costs) / gained if gained > 0 else None

    def _cost(self, state: _State) -> tuple[float, float, float]:
        """Of the whole run, of what is done and of what an earlier call did: in seconds, once a cell has ended."""
        usual = self._by_kind.get(state.kind, self._overall)
        rounds = state.rounds or max(1.0, state.most * (usual.share / usual.cells if usual.cells else 1.0))
        whole = state.effort(rounds)
        a_piece = (state.seconds / whole if state.seconds is not None
                   else usual.seconds / usual.effort if usual.cells else 1.0)
        done, before = (min(whole, state.effort(count)) for count in (state.played, state.begun))
        return whole * a_piece, done * a_piece, before * a_piece


def _state(cell: Cell) -> _State:
    scenario = cell.scenario
    learning, cohort, most = scenario.learning, scenario.selection.cohort, scenario.end.rounds
    passes = (learning.local_iterations or learning.local_steps or 1) if cell.learning else 1
    played = most if cell.finished else cell.rounds_played
    return _State(
        kind=(learning.dataset, learning.model) if cell.learning else (None, None),
        first=passes * (scenario.size if scenario.rounds.first == "all" else cohort), later=passes * cohort, most=most,
        begun=played, played=played, rounds=most if cell.finished else None)
