"""Asynchronous servers: a fixed number of devices works at any time, and each starts from the newest model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from simpy.events import ProcessGenerator

from netsim.base.errors import InputError
from netsim.base.fields import Natural
from netsim.base.pluralize import pluralize
from netsim.cell.job import Job
from netsim.scenario import Scenario
from netsim.selection import Selection
from netsim.selection.view import View
from netsim.server.server import Played, Server, ServerContext
from netsim.server.strategy import Strategy

Buffer = Annotated[Natural, Field(description="updates per aggregation")]
Concurrency = Annotated[Natural | None, Field(description="devices that work at a time; by default selection.cohort")]

MOST_FAILED = 100     # consecutive failed jobs after which a round ends


class AsynchronousServer(Server):
    """Aggregate when ``buffer`` updates have arrived, or every ``period``.

    At one instant, arrivals come first, then the aggregation, then the next starts: the device that fills the buffer
    starts again from the new version, a device that arrived before it from the old one. If no device is left that
    could fill the buffer, or after 100 consecutive failed jobs, the updates in it are aggregated. A round without
    arrivals also ends at the run's time limit. Running jobs are aborted at the end of the run; the energy they have
    used counts.
    """

    strategy: AsynchronousStrategy

    def __init__(self, context: ServerContext, strategy: Strategy) -> None:
        super().__init__(context, strategy)
        self.shares = self.strategy.concurrency or self.scenario.selection.cohort      # devices that work at a time
        self._begin_round()

    def _begin_round(self) -> None:
        # since the last aggregation: arrived jobs, devices without a plan, jobs that failed after the last arrival,
        # calls of the selection method
        self._arrived: list[Job] = []
        self._infeasible: list[int] = []
        self._failed = 0
        self._asked = 0

    def nothing_to_do(self) -> bool:
        return self.strategy.period_s is None and super().nothing_to_do() and not self.cell.running

    def play_round(self) -> Played:
        yield from self.fill_buffer() if self.strategy.period_s is None else self.pass_window(self.strategy.period_s)
        jobs, devices = np.array([(job.number, job.device) for job in self._arrived], np.int64).reshape(-1, 2).T
        self._begin_round()
        return self.updates(jobs, devices)

    def fill_buffer(self) -> ProcessGenerator:
        """Keep devices at work until the buffer is full."""
        self.dispatch_idle()
        if not self.cell.running:
            yield self.rounds.pause(self.scenario.rounds.wait_s)             # no feasible device: retry later
        while not self.is_complete() and self.cell.running:
            self.take((yield from self.next_ended()))
            if not self.is_complete():
                self.dispatch_idle()

    def pass_window(self, period_s: float) -> ProcessGenerator:
        """Wait until the next multiple of the period."""
        self.dispatch_idle()
        yield self.rounds.pause((self.rounds.version + 1) * period_s - self.cell.now)
        yield self.cell.wait(self.cell.ending_now())                         # a job that ends at this instant counts
        self.take(self.rounds.collect())

    def is_complete(self) -> bool:
        """Return True if the buffer is full, after too many failed jobs, or if it is empty at the time limit."""
        end = self.scenario.end.time
        if not self._arrived and end is not None and self.cell.now >= end:
            return True
        return len(self._arrived) >= self.strategy.buffer or self._failed >= MOST_FAILED

    def dispatch_idle(self) -> None:
        """Select and start idle devices until ``concurrency`` devices work."""
        while (view := self.selection_view()) is not None:
            devices = self.strategy.select(view, partial(self.selector.choose, again=self._asked)).devices
            self._asked += 1
            self.rounds.select(devices)
            self._infeasible += [device for device in devices.tolist()
                                 if self.start_job(device, self.shares, self.context.sizes) is None]
        if not self.rounds.dispatched and not self.cell.running:
            self.refuse_infeasible()

    def selection_view(self) -> View | None:
        """Return the view of idle devices for the selection method; None if no device is idle or none is needed."""
        busy = [job.device for job in self.cell.running.values()]
        free = self.shares - len(busy)
        if free <= 0:
            return None
        idle = self.cell.available.copy()
        idle[[*busy, *self._infeasible]] = False
        count = int(idle.sum())
        return self.view(available=lambda: idle, alive=lambda: count, cohort_size=lambda: free) if count else None

    def take(self, ended: list[Job]) -> None:
        """Add arrived jobs to the buffer, and count the jobs that failed after them."""
        arrived = [job for job in ended if job.arrived]
        self._arrived += arrived
        self._failed = (0 if arrived else self._failed) + len(ended) - len(arrived)


@dataclass(frozen=True, kw_only=True)
class AsynchronousStrategy(Strategy):
    """Base class of asynchronous strategies; a strategy of your own overrides ``weights``."""

    loop = AsynchronousServer
    waits = barrier = False
    period_s: ClassVar[float | None] = None          # seconds between aggregations, if the buffer does not decide

    buffer: Buffer = 10
    concurrency: Concurrency = None

    def check(self, scenario: Scenario, selection: Selection) -> None:
        devices, server = scenario.size, scenario.server
        kind, given = (server.kind, server.options) if server else (type(self).__name__, {})
        for key, number in (("concurrency", self.concurrency), ("buffer", self.buffer)):
            if number is not None and number > devices and key in given:
                raise InputError("more-than-devices", f"server.{key}", number, f"at most {devices}",
                                 f"The scenario has only {pluralize(devices, 'device')}; each does one job at a time")
        if getattr(selection, "barrier", False):
            raise InputError(
                "conflict", "selection.method", f'"{scenario.selection.method}"', "fedavg, round-robin, oort, "
                "power-of-choice or proportional-fair", "It selects whole cohorts, and server.kind "
                f'"{kind}" selects one device at a time; or use a synchronous server (synchronous, first-k)')
        learning = scenario.learning
        set_anyway = {
            "rounds.deadline": scenario.rounds.deadline is not None, "learning.fedl": learning.fedl is not None,
            "learning.aggregation": learning.aggregation != "weighted"}
        for key in (key for key, given in set_anyway.items() if given):
            raise InputError("no-effect", key, hint=f'server.kind "{kind}" is asynchronous and has no cohort rounds; '
                             "remove this key")

    def idle(self, scenario: Scenario) -> Mapping[str, str]:
        no_rounds = "is asynchronous and has no cohort rounds; remove this key"
        keys = ("rounds.first_round_policy", "rounds.deadline", "learning.fedl", "learning.aggregation",
                *(("rounds.first",) if scenario.rounds.first == "all" else ()))
        idle = {**dict.fromkeys(keys, no_rounds), "cell.downlink.mode": "starts devices one by one; remove this key"}
        if self.concurrency not in (None, scenario.selection.cohort):
            idle["selection.cohort"] = "uses server.concurrency as the number of devices; change that key"
        return idle
