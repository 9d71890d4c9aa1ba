"""Synchronous servers: rounds that wait for the slowest device of the cohort, or for the first k arrivals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netsim.base.errors import InputError
from netsim.base.fields import Natural
from netsim.base.types import Ints
from netsim.cell.job import Job
from netsim.scenario import Scenario
from netsim.selection import Choice, Selection
from netsim.server.server import Jobs, Played, Server
from netsim.server.strategy import Strategy, Updates
from netsim.trace.schema import DEADLINE, TOO_LATE

FirstSoMany = Annotated[Natural, Field(description="arrivals that end a round; at most selection.cohort")]


class SynchronousServer(Server):
    """Rounds of cohorts (Algorithm 1): select, plan, train, upload, aggregate."""

    strategy: WaitForAll

    def play_round(self) -> Played:
        choice = self.select()
        agenda = self.rounds.plan(choice.devices, self.context.sizes, self.rule(), self.scenario.selection.cohort)
        if not agenda.waves and not self.rounds.dispatched:
            self.refuse_infeasible()                       # rather than simulate rounds without devices
        self.learning.prepare(self.rounds.jobs_of(agenda), self.rounds.version, self.rounds.version + 1)
        yield from self.play_waves(agenda)                 # compute and train, upload
        return self.in_draw_order(choice)

    def wait_for(self, jobs: Ints, until: float) -> Jobs:
        """Wait until enough jobs of a wave have ended; in a first round with all devices, all of them.

        Of jobs that end simultaneously within rounding errors, those of the lowest device numbers count.
        """
        if self.strategy.enough is None:
            return (yield from super().wait_for(jobs, until))
        ended, enough = list[Job](), len(jobs) if self.is_first() else self.strategy.enough
        while enough > 0 and self.cell.running:
            if not (one := (yield from self.next_ended(until))):                              # ``until`` is reached
                break
            ended += one
            enough -= one[0].arrived
        if self.cell.running:
            ended += yield from self.cancel(self.cell.running, TOO_LATE if enough <= 0 else DEADLINE)
        return ended

    def select(self) -> Choice:
        """Return the cohort: all devices in a first round with ``rounds.first = "all"``, else the strategy's choice."""
        before, view = self.selector.clusters, self.view()
        choice = (self.selector.everybody(view) if self.is_first()
                  else self.strategy.select(view, self.selector.choose))
        self.rounds.count("cluster", self.selector.moved(before))
        self.rounds.select(choice.devices)
        return choice

    def is_first(self) -> bool:
        """Return True in the first round of a scenario whose first round has all devices."""
        return self.rounds.version == 0 and self.scenario.rounds.first == "all"

    def rule(self) -> str:
        rounds = self.scenario.rounds
        return rounds.first_round_policy if self.is_first() else rounds.infeasible_policy

    def in_draw_order(self, choice: Choice) -> Updates:
        """Return the arrived updates in the order of the selection's draw (eq. 4)."""
        jobs, devices = self.rounds.trace.arrived()
        arrived = slice(None) if len(devices) == len(choice.devices) else np.isin(choice.devices, devices)
        drawn, order, chances = choice.devices[arrived], np.argsort(devices), choice.chances
        places = order[np.searchsorted(devices, drawn, sorter=order)]
        return self.updates(jobs[places], drawn, None if chances is None else chances[arrived])


@dataclass(frozen=True, kw_only=True)
class WaitForAll(Strategy):
    """Rounds that wait for all devices of the cohort, with the weights of ``learning.aggregation``."""

    loop = SynchronousServer
    enough: ClassVar[int | None] = None              # arrivals that end a round; None for all


@dataclass(frozen=True, kw_only=True)
class FirstK(WaitForAll):
    """Over-selection: the first ``buffer`` arrivals of a cohort of ``selection.cohort`` devices are aggregated.

    The other jobs are cancelled; the energy they have used counts. A first round with all devices waits for all.
    """

    buffer: FirstSoMany

    @property
    def enough(self) -> int:                         # type: ignore[override]
        return self.buffer

    def check(self, scenario: Scenario, selection: Selection) -> None:
        cohort = scenario.selection.cohort
        if self.buffer > cohort:
            raise InputError("conflict", "server.buffer", self.buffer, f"at most {cohort} (selection.cohort)",
                             "A round has no more arrivals than devices")
