"""The synchronous server: one round after the other, each as long as its slowest device (Algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from simpy.events import ProcessGenerator

from netsim.allocation.waves import Agenda
from netsim.base.errors import InputError
from netsim.cell.port import CellPort, Outcomes
from netsim.learning.protocol import Learning
from netsim.selection import Choice
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.trace.schema import DEADLINE, SERVER

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


class Synchronous:
    """Waits for every device of a cohort before it aggregates; ``closed`` is called when a round is complete."""

    def __init__(
        self, scenario: Scenario, selector: Selector, learning: Learning, history: History,
        closed: Callable[[RunProgress], None],
    ) -> None:
        self.scenario = scenario
        self.selector = selector
        self.learning = learning
        self.history = history
        self.closed = closed

    def run(self, cell: CellPort) -> ProcessGenerator:
        """All rounds that are still to come."""
        if not cell.version and not cell.alive:
            raise InputError(f"no device can ever take part: {cell.why_nobody_fits(self.rule(cell))}")
        while not self.ended(cell):
            while cell.ready_at > cell.now:
                yield cell.ready()                                           # everybody is off
            choice = self.select(cell)                                       # who
            agenda = self.plan(cell, choice)                                 # with what
            self.learning.train(cell.version + 1, agenda.devices)
            for wave in agenda.waves:
                tickets = cell.dispatch(wave)                                # compute, upload
                yield cell.replies(tickets, until=cell.now + self.patience_s)       # the last one sets the pace
                if self.patience_s < math.inf:
                    for ticket in tickets.tolist():
                        cell.cancel(ticket, DEADLINE)                        # who has ended has ended
            if not agenda.waves:
                yield cell.wait(self.scenario.rounds.wait_s)                 # nobody fits: another try later
            self.aggregate(cell, choice, cell.aggregate())                   # learn, evaluate
            self.close(cell)                                                 # record

    @property
    def patience_s(self) -> float:
        """How long a wave may take: a hair longer than the deadline, so that who ends right on it is in time."""
        deadline = self.scenario.rounds.deadline
        return math.inf if deadline is None else deadline * (1 + 1e-12)

    def ended(self, cell: CellPort) -> bool:
        """Whether the target is reached, or the rounds, the time or the devices are used up."""
        return self.target_reached or self.used_up(cell)

    def select(self, cell: CellPort) -> Choice:
        """The cohort of a round: in the first everybody, later as the selection method says."""
        before = self.selector.clusters
        view = cell.view(**self.columns)
        choice = Choice(np.flatnonzero(view.available)) if self.is_first(cell) else self.selector.choose(view)
        cell.count("cluster", self.selector.moved(before))
        cell.select(choice.devices)
        return choice

    @cached_property
    def columns(self) -> dict[str, Callable[[], Any]]:
        """What the server adds to what a selection method may see."""
        return {"cohort_size": lambda: self.scenario.selection.cohort, **self.history.columns(),
                **self.learning.columns()}

    def is_first(self, cell: CellPort) -> bool:
        """Whether everybody takes part, since it is the first round."""
        return cell.version == 0 and self.scenario.rounds.first == "all"

    def rule(self, cell: CellPort) -> str:
        """What becomes of a cohort without a plan."""
        rounds = self.scenario.rounds
        return rounds.first_infeasible if self.is_first(cell) else rounds.infeasible

    def plan(self, cell: CellPort, choice: Choice) -> Agenda:
        """Bandwidth, CPU frequency and power for those who fit."""
        agenda = cell.plan(choice.devices, self.rule(cell), self.scenario.selection.cohort)
        if not agenda.waves and not self.history.arrivals:
            # a run in which no device ever fits is a mistake in the scenario, and not worth playing out
            reason = cell.why_nobody_fits(self.rule(cell))
            if reason:
                raise InputError(f"no device can ever take part: {reason}")
        return agenda

    def aggregate(self, cell: CellPort, choice: Choice, outcomes: Outcomes) -> None:
        """Make a new global model of what arrived (eq. 4), in the order drawn, and evaluate it."""
        everybody = len(outcomes.device) == len(choice.devices) and outcomes.arrived.all()
        arrived = slice(None) if everybody else np.isin(choice.devices, outcomes.device[outcomes.arrived])
        chances = choice.chances
        self.learning.aggregate(choice.devices[arrived], None if chances is None else chances[arrived])
        self.history.add(cell.version, outcomes)
        evaluation = self.learning.evaluate() if self.evaluation_due(cell) else None
        if evaluation:
            cell.count("accuracy", {SERVER: evaluation.accuracy})
            cell.count("loss", {SERVER: evaluation.loss})
        self.history.accuracy.append(evaluation.accuracy if evaluation else math.nan)

    def close(self, cell: CellPort) -> None:
        """Write the round down, and say how far the run is."""
        cell.close()
        self.closed(RunProgress(
            cell.version, self.scenario.end.rounds, cell.now, self.history.energy_j, self.history.accuracy[-1],
            self.scenario.learning.target_accuracy if self.learning.trains else None))

    def stuck(self, cell: CellPort) -> bool:
        """Whether nobody arrived in the last round, or ever will: the batteries of those who fitted are empty."""
        return (self.history.arrivals > 0 and self.history.arrived_last == 0
                and cell.why_nobody_fits(self.rule(cell)) is not None)

    def used_up(self, cell: CellPort) -> bool:
        """Whether no round is left, no time, or no device that may take part and will be there in time."""
        end = self.scenario.end
        return (cell.version >= end.rounds or cell.ready_at >= (math.inf if end.time is None else end.time)
                or self.stuck(cell))

    @property
    def target_reached(self) -> bool:
        """Whether the last evaluation met the target accuracy."""
        target = self.scenario.learning.target_accuracy
        return target is not None and any(accuracy >= target for accuracy in self.history.accuracy[-1:])

    def evaluation_due(self, cell: CellPort) -> bool:
        """Every so many rounds, and in the last, whatever makes it the last."""
        return cell.version % self.scenario.learning.evaluation.every == 0 or self.used_up(cell)
