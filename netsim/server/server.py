"""What all servers have in common: when a run is over, what selection may see, and how a round is closed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from simpy.events import ProcessGenerator

from netsim.base.errors import InputError
from netsim.learning.protocol import Learning
from netsim.selection import Selection
from netsim.server.cell_api import CellAPI
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.trace.schema import SERVER

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True)
class RunProgress:
    """How far a run is, after each round."""

    round: int
    rounds: int                 # the most there can be
    time_s: float
    energy_j: float
    accuracy: float             # NaN where it was not evaluated
    target: float | None


class Server:
    """Dispatches jobs, waits and aggregates, in ``run``; ``closed`` is called when a round is complete."""

    waits = True                            # whether all jobs of a round begin and end in it

    def __init__(
        self, scenario: Scenario, selector: Selector, learning: Learning, history: History,
        closed: Callable[[RunProgress], None],
    ) -> None:
        self.scenario = scenario
        self.selector = selector
        self.learning = learning
        self.history = history
        self.closed = closed

    @classmethod
    def check(cls, scenario: Scenario, selection: Selection, options: Mapping[str, Any]) -> None:
        """Raise InputError where a scenario does not fit the server; ``options`` are those that it gives."""

    @classmethod
    def idle(cls, scenario: Scenario, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Keys that this server never asks for, with the reason."""
        return {}

    def run(self, cell: CellAPI) -> ProcessGenerator:
        """All rounds that are still to come."""
        raise NotImplementedError

    @property
    def among(self) -> int:
        """As one of how many a device shares the band when it is planned alone; 1 where plans are for whole cohorts."""
        return 1

    def ended(self, cell: CellAPI) -> bool:
        """Whether the target is reached, or the rounds, the time or the devices are used up."""
        return self.target_reached or self.used_up(cell)

    def refuse_a_dead_cell(self, cell: CellAPI) -> None:
        """Raise InputError where no device has the energy for a job from the start."""
        if not cell.version and not cell.alive:
            raise InputError(f"no device can ever take part: {cell.why_nobody_fits(self.rule(cell), self.among)}")

    def rule(self, cell: CellAPI) -> str:
        """What becomes of devices without a plan."""
        return self.scenario.rounds.infeasible

    @cached_property
    def columns(self) -> dict[str, Callable[[], Any]]:
        """What the server adds to what a selection method may see."""
        return {"cohort_size": lambda: self.scenario.selection.cohort, **self.history.columns(),
                **self.learning.columns()}

    def evaluate(self, cell: CellAPI) -> None:
        """Test the new model, if that is due."""
        evaluation = self.learning.evaluate() if self.evaluation_due(cell) else None
        if evaluation:
            cell.count("accuracy", {SERVER: evaluation.accuracy})
            cell.count("loss", {SERVER: evaluation.loss})
        self.history.accuracy.append(evaluation.accuracy if evaluation else math.nan)

    def close(self, cell: CellAPI) -> None:
        """Write the round down, and say how far the run is."""
        cell.close()
        self.closed(RunProgress(
            cell.version, self.scenario.end.rounds, cell.now, self.history.energy_j, self.history.accuracy[-1],
            self.scenario.learning.target_accuracy if self.learning.trains else None))

    def stuck(self, cell: CellAPI) -> bool:
        """Whether nobody arrived in the last round, or ever will: the batteries of those who fitted are empty."""
        return (cell.worked and self.history.arrived_last == 0
                and cell.why_nobody_fits(self.rule(cell), self.among) is not None)

    def used_up(self, cell: CellAPI) -> bool:
        """Whether no round is left, no time, or no device that may take part and will be there in time."""
        end = self.scenario.end
        return (cell.version >= end.rounds or cell.ready_at >= (math.inf if end.time is None else end.time)
                or self.stuck(cell))

    @property
    def target_reached(self) -> bool:
        """Whether the last evaluation met the target accuracy."""
        target = self.scenario.learning.target_accuracy
        return target is not None and any(accuracy >= target for accuracy in self.history.accuracy[-1:])

    def evaluation_due(self, cell: CellAPI) -> bool:
        """Every so many rounds, and in the last, whatever makes it the last."""
        return cell.version % self.scenario.learning.evaluation.every == 0 or self.used_up(cell)
