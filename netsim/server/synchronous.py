"""The synchronous server: one round after the other, each as long as its slowest device (Algorithm 1)."""

from __future__ import annotations

import math

import numpy as np
from simpy.events import ProcessGenerator

from netsim.allocation.waves import Agenda
from netsim.base.arrays import Ints
from netsim.base.errors import InputError
from netsim.cell.clock import CLOCK_ULPS, JUST_ENOUGH
from netsim.selection import Choice
from netsim.server.cell_api import CellAPI, Outcomes
from netsim.server.server import Server
from netsim.trace.schema import DEADLINE


class Synchronous(Server):
    """Waits for every device of a cohort before it aggregates."""

    def run(self, cell: CellAPI) -> ProcessGenerator:
        """All rounds that are still to come."""
        self.refuse_a_dead_cell(cell)
        while not self.ended(cell):
            if cell.ready_at > cell.now:
                yield cell.ready()                                           # everybody is off, or has no energy
                continue
            choice = self.select(cell)                                       # who
            agenda = self.plan(cell, choice)                                 # with what
            self.learning.prepare(cell.version + 1, agenda.devices)          # from the present model
            for wave in agenda.waves:
                yield from self.wait(cell, cell.dispatch(wave))              # compute and train, upload
            if not agenda.waves:
                yield cell.wait(self.scenario.rounds.wait_s)                 # nobody fits: another try later
            self.aggregate(cell, choice, cell.aggregate())                   # learn, evaluate
            self.close(cell)                                                 # record

    def wait(self, cell: CellAPI, jobs: Ints) -> ProcessGenerator:
        """Until all jobs of a wave have ended, or its deadline is over."""
        yield cell.finished(jobs.tolist(), until=self.deadline(cell))
        cell.collect()
        if cell.running():
            yield cell.cancel(cell.running(), DEADLINE)
            cell.collect()

    @property
    def patience_s(self) -> float:
        """How long a wave may take, in seconds."""
        deadline = self.scenario.rounds.deadline
        return math.inf if deadline is None else float(deadline)

    def deadline(self, cell: CellAPI) -> float:
        """When a wave that starts now is over; a job that ends right on time is in time, whatever rounding does."""
        at = cell.now + self.patience_s
        return at + max(self.patience_s * JUST_ENOUGH, CLOCK_ULPS * math.ulp(at)) if at < math.inf else math.inf

    def select(self, cell: CellAPI) -> Choice:
        """The cohort of a round: in the first everybody, later as the selection method says."""
        before = self.selector.clusters
        view = cell.view(**self.columns)
        choice = self.selector.everybody(view) if self.is_first(cell) else self.selector.choose(view)
        cell.count("cluster", self.selector.moved(before))
        cell.select(choice.devices)
        return choice

    def is_first(self, cell: CellAPI) -> bool:
        """Whether everybody takes part, since it is the first round."""
        return cell.version == 0 and self.scenario.rounds.first == "all"

    def rule(self, cell: CellAPI) -> str:
        rounds = self.scenario.rounds
        return rounds.first_infeasible if self.is_first(cell) else rounds.infeasible

    def plan(self, cell: CellAPI, choice: Choice) -> Agenda:
        """Bandwidth, CPU frequency and power for those who fit."""
        agenda = cell.plan(choice.devices, self.rule(cell), self.scenario.selection.cohort)
        if not agenda.waves and not cell.worked:
            # a run in which no device ever fits is a mistake in the scenario, and not worth playing out
            reason = cell.why_nobody_fits(self.rule(cell))
            if reason:
                raise InputError(f"no device can ever take part: {reason}")
        return agenda

    def aggregate(self, cell: CellAPI, choice: Choice, outcomes: Outcomes) -> None:
        """Make a new global model of what arrived (eq. 4), in the order drawn, and evaluate it."""
        everybody = len(outcomes.device) == len(choice.devices) == np.count_nonzero(outcomes.arrived)
        arrived = slice(None) if everybody else np.isin(choice.devices, outcomes.device[outcomes.arrived])
        chances = choice.chances
        self.learning.aggregate(choice.devices[arrived], None if chances is None else chances[arrived])
        self.history.add(cell.version, outcomes)
        self.evaluate(cell)
