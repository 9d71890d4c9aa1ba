"""What servers share that do not wait: so many devices are always at work, and each starts from the newest model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from simpy.events import ProcessGenerator

from netsim.base.arrays import Floats, Ints
from netsim.base.counts import counted
from netsim.base.errors import InputError
from netsim.base.fields import Natural
from netsim.cell.job import Job
from netsim.learning.protocol import Learning, Merge
from netsim.scenario import Scenario
from netsim.selection import Selection, View
from netsim.server.cell_api import CellAPI
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.server.server import RunProgress, Server

Buffer = Annotated[Natural, Field(description="updates that make a new model")]
Concurrency = Annotated[Natural | None, Field(description="devices at work at a time; by default selection.cohort")]


MOST_IN_VAIN = 100     # jobs of a round in which nothing arrives: then it ends with nothing, as a round that waits does


class AsTheyCome(Server):
    """Takes updates as they come, and aggregates when ``buffer`` of them are there.

    At one instant an arrival comes first, then the aggregation, then the next start: whoever fills the buffer starts
    again from the new version, and whoever arrives before it from the old one. When nobody is left who could fill the
    buffer, what is in it is aggregated; a round in which nothing arrives ends with the run's time, or after a hundred
    jobs. When the run is over, jobs under way end; what they have spent is counted.
    """

    waits = False
    barrier = False       # whether those who are done wait for the aggregation

    def __init__(
        self, scenario: Scenario, selector: Selector, learning: Learning, history: History,
        closed: Callable[[RunProgress], None], buffer: Buffer = 10, concurrency: Concurrency = None,
    ) -> None:
        super().__init__(scenario, selector, learning, history, closed)
        self.buffer = buffer
        self.concurrency = concurrency or scenario.selection.cohort
        self._there: list[Job] = []          # what has arrived since the last aggregation
        self._aside: list[int] = []            # devices that no plan was found for since then
        self._in_vain = 0                      # jobs that have ended otherwise since then
        self._asked = 0                        # how often selection was asked since then

    @classmethod
    def check(cls, scenario: Scenario, selection: Selection, options: Mapping[str, Any]) -> None:
        kind = scenario.server.kind if scenario.server else cls.__name__
        concurrency, learning = options.get("concurrency"), scenario.learning
        if concurrency is not None and concurrency > scenario.size:
            raise InputError(f"server.concurrency = {concurrency}: the scenario has only "
                             f"{counted(scenario.size, 'device')}, and each does one job at a time")
        buffer = options.get("buffer")
        if buffer is not None and buffer > scenario.size:
            raise InputError(f"server.buffer = {buffer}: the scenario has only {counted(scenario.size, 'device')}, and "
                             "each would have to deliver several times before a new model; take at most as many")
        if getattr(selection, "barrier", False):
            raise InputError(
                f'selection.method "{scenario.selection.method}" puts a cohort together as a whole, and server.kind '
                f'"{kind}" asks for one device after the other: take fedavg, round-robin, oort, power-of-choice or '
                "proportional-fair, or a server that waits (synchronous, first-k)")
        without_effect = {
            "rounds.deadline": scenario.rounds.deadline is not None, "learning.fedl": learning.fedl is not None,
            "learning.aggregation": learning.aggregation != "weighted"}
        for key in (key for key, given in without_effect.items() if given):
            raise InputError(f'{key} has no effect with server.kind "{kind}", which knows no rounds that all devices '
                             "of a cohort take part in: leave it out")

    @classmethod
    def idle(cls, scenario: Scenario, options: Mapping[str, Any]) -> Mapping[str, str]:
        no_rounds = "knows no rounds that all devices of a cohort take part in; leave it out"
        keys = ("rounds.first_infeasible", "rounds.deadline", "learning.fedl", "learning.aggregation",
                *(("rounds.first",) if scenario.rounds.first == "all" else ()))      # nor does it begin with everybody
        idle = {**dict.fromkeys(keys, no_rounds), "cell.downlink.to": "lets every device start alone; leave it out"}
        if options.get("concurrency") not in (None, scenario.selection.cohort):
            idle["selection.cohort"] = "lets server.concurrency devices work at a time; change that"
        return idle

    @property
    def among(self) -> int:
        return self.concurrency

    def run(self, cell: CellAPI) -> ProcessGenerator:
        """All aggregations that are still to come."""
        self.refuse_a_dead_cell(cell)
        while not self.ended(cell):
            if cell.ready_at > cell.now and not cell.running():
                yield cell.ready()                                           # everybody is off, or has no energy
                continue
            self.fill(cell)                                                  # who starts next
            if not cell.running():
                yield cell.wait(self.scenario.rounds.wait_s)                 # nobody fits: another try later
            while not self.complete(cell) and (running := cell.running()):
                yield cell.finished(running, count=1)
                self.take(cell.collect(1))
                if not self.complete(cell):
                    self.fill(cell)
            self.aggregate(cell)                                             # learn, evaluate
            yield from self.stop(cell)
            self.close(cell)                                                 # record

    def complete(self, cell: CellAPI) -> bool:
        """Whether the buffer is full; where nothing arrives, whether the time is up, or enough was in vain."""
        end = self.scenario.end.time
        hopeless = self._in_vain >= MOST_IN_VAIN or (end is not None and cell.now >= end)
        return len(self._there) >= self.buffer or (not self._there and hopeless)

    def fill(self, cell: CellAPI) -> None:
        """Let as many start as there are places free; who, is the selection's answer."""
        while (view := self.places(cell)) is not None:
            devices = self.selector.choose(view, self._asked).devices
            self._asked += 1
            cell.select(devices)
            for device in devices.tolist():
                self.start(cell, device)
        if not cell.worked and not cell.running():
            reason = cell.why_nobody_fits(self.rule(cell), self.among)
            if reason:
                raise InputError(f"no device can ever take part: {reason}")

    def places(self, cell: CellAPI) -> View | None:
        """What selection may see when it is asked who takes the free places; None where there is nobody or no place."""
        busy = cell.running()
        free = self.concurrency - len(busy)
        if free <= 0:
            return None
        idle = cell.view().available.copy()
        idle[[*busy.values(), *self._aside]] = False
        there = int(idle.sum())
        return cell.view(**{**self.columns, "available": lambda: idle, "alive": lambda: there,
                            "cohort_size": lambda: free}) if there else None

    def start(self, cell: CellAPI, device: int) -> None:
        """Let a device begin a job on the present model, as one of those who share the band."""
        agenda = cell.plan_alone(device, self.rule(cell), self.concurrency)
        for wave in agenda.waves:
            [job] = cell.dispatch(wave).tolist()
            self.learning.prepare_job(cell.version, job, device)
        if not agenda.waves:
            self._aside.append(device)

    def take(self, ended: list[Job]) -> None:
        """Put the updates that have arrived into the buffer."""
        arrived = [job for job in ended if job.arrived]
        self._there += arrived
        self._in_vain += len(ended) - len(arrived)

    def aggregate(self, cell: CellAPI) -> None:
        """Make a new global model of what is in the buffer, in the order of arrival, and evaluate it."""
        there, self._there, self._aside, self._asked, self._in_vain = self._there, [], [], 0, 0
        tau = cell.version - np.array([job.version for job in there], np.int64)
        outcomes = cell.aggregate(barrier=self.barrier)
        if there:
            self.learning.merge(self.merge(there, tau))
        self.history.add(cell.version, outcomes)
        self.evaluate(cell)

    def stop(self, cell: CellAPI) -> ProcessGenerator:
        """Abort the jobs under way if the run is over; what they have spent counts."""
        if self.ended(cell):
            yield cell.stop()
            self.history.spend(cell.stopped())

    def merge(self, there: list[Job], tau: Ints) -> Merge:
        """How these updates, so stale, make a new model."""
        raise NotImplementedError

    def samples(self, there: list[Job]) -> Floats:
        """D_n of those who have arrived; all alike where nobody knows it."""
        known = self.learning.samples
        return np.ones(len(there)) if known is None else known[[job.device for job in there]].astype(np.float64)
