"""Servers that wait: one round after the other, each as long as its slowest device, or as the first so many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netsim.base.arrays import Ints
from netsim.base.errors import InputError
from netsim.base.fields import Natural
from netsim.cell.job import Job
from netsim.scenario import Scenario
from netsim.selection import Choice, Selection
from netsim.server.server import Jobs, Played, Server
from netsim.server.strategy import Strategy, Updates
from netsim.trace.schema import DEADLINE, TOO_LATE

FirstSoMany = Annotated[Natural, Field(description="arrivals that end a round; at most selection.cohort")]


class Synchronous(Server):
    """Rounds of cohorts (Algorithm 1): select, plan, train and upload, and wait."""

    strategy: WaitForAll

    def play_round(self) -> Played:
        choice = self.select()                                                       # who
        agenda = self.rounds.plan(
            choice.devices, self.context.sizes, self.rule(), self.scenario.selection.cohort)     # with what
        if not agenda.waves and not self.rounds.dispatched:
            self.refuse_infeasible()                                                 # rather than play it out
        self.learning.prepare(self.rounds.jobs_of(agenda), self.rounds.version, self.rounds.version + 1)
        yield from self.play_waves(agenda)                                           # compute and train, upload
        return self.in_the_order_drawn(choice)

    def wait_for(self, jobs: Ints, until: float) -> Jobs:
        """Wait until all jobs of a wave have ended, or enough of them; in a first round of all devices, all.

        Of jobs that end together but for rounding, those of the first devices are in time.
        """
        if self.strategy.enough is None:
            return (yield from super().wait_for(jobs, until))
        ended, enough = list[Job](), len(jobs) if self.is_first() else self.strategy.enough
        while enough > 0 and self.cell.running:
            yield self.cell.wait(self.cell.running, until, 1)
            yield self.cell.wait(self.cell.ending_now())
            if not (one := self.rounds.collect(first=True)):                                  # the time is up
                break
            ended += one
            enough -= one[0].arrived
        if self.cell.running:
            ended += yield from self.cancel(self.cell.running, TOO_LATE if enough <= 0 else DEADLINE)
        return ended

    def select(self) -> Choice:
        """The cohort of a round: in the first all devices, later as the strategy says."""
        before, view = self.selector.clusters, self.view()
        choice = (self.selector.everybody(view) if self.is_first()
                  else self.strategy.select(view, self.selector.choose))
        self.rounds.count("cluster", self.selector.moved(before))
        self.rounds.select(choice.devices)
        return choice

    def is_first(self) -> bool:
        """Whether all devices take part, since it is the first round."""
        return self.rounds.version == 0 and self.scenario.rounds.first == "all"

    def rule(self) -> str:
        rounds = self.scenario.rounds
        return rounds.first_infeasible if self.is_first() else rounds.infeasible

    def in_the_order_drawn(self, choice: Choice) -> Updates:
        """What has arrived, in the order in which selection has drawn the devices (eq. 4)."""
        jobs, devices = self.rounds.arrived()
        arrived = slice(None) if len(devices) == len(choice.devices) else np.isin(choice.devices, devices)
        drawn, order, chances = choice.devices[arrived], np.argsort(devices), choice.chances
        places = order[np.searchsorted(devices, drawn, sorter=order)]
        return self.updates(jobs[places], drawn, None if chances is None else chances[arrived])


@dataclass(frozen=True, kw_only=True)
class WaitForAll(Strategy):
    """Rounds as long as their slowest device; ``learning.aggregation`` says how much each update counts."""

    loop = Synchronous
    enough: ClassVar[int | None] = None              # arrivals that end a round; None for all


@dataclass(frozen=True, kw_only=True)
class FirstK(WaitForAll):
    """Over-selection: of a cohort of ``selection.cohort``, the first ``buffer`` to arrive make the new model.

    The others are cancelled; what they have spent is spent. In a first round of all devices all are waited for.
    """

    buffer: FirstSoMany

    @property
    def enough(self) -> int:                         # type: ignore[override]
        return self.buffer

    def check(self, scenario: Scenario, selection: Selection) -> None:
        cohort = scenario.selection.cohort
        if self.buffer > cohort:
            raise InputError("conflict", "server.buffer", self.buffer, f"at most {cohort} (selection.cohort)",
                             "More devices than take part in a round never arrive in it")
