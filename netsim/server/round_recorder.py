"""The rounds of a server in its cell: plans, jobs and versions of the model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import simpy

from netsim.allocation.planner import RoundPlan, Wave
from netsim.base.errors import UserCodeError
from netsim.base.types import Ints, State
from netsim.cell.device import LocalTraining
from netsim.cell.job import Job, decided_by
from netsim.devices.workload import JobSizes
from netsim.server.job_recording import Outcomes
from netsim.server.radio_cell import CellParts, RadioCell
from netsim.server.round_trace import NO_DEVICES, RoundTrace
from netsim.trace.recorder import Recorder
from netsim.trace.schema import INFEASIBLE, OVER

MOST_WAITS = 366   # consecutive waits after which no device was available


class RoundRecorder:
    """The actions of a server in its cell, counted in rounds and recorded in the trace."""

    def __init__(
        self, env: simpy.Environment, recorder: Recorder, parts: CellParts, training: LocalTraining | None = None,
    ) -> None:
        self.env = env
        self.version = 0                    # of the global model: number of aggregations
        self.cell = RadioCell(env, parts, lambda: self.version + 1, training)
        self.trace = RoundTrace(recorder, self.cell)
        self.agenda = RoundPlan((), NO_DEVICES)    # the last plan
        self.dispatched = 0                 # jobs started in the run
        self._next_job = 0
        self._versions: dict[int, int] = {}      # model versions that jobs started from, by job number
        self._began = env.now               # start of the round
        self._idle = False                  # whether the round starts with waiting for devices
        self._waits = 0                     # consecutive waits
        self._decided: dict[str, Any] = {"number": NO_DEVICES}      # planned values of the last wave

    # Selecting, planning, waiting.

    @property
    def ready_at(self) -> float:
        """First instant in seconds at which a device can be selected: now, later, or inf for never."""
        at = self.cell.next_available_time
        return at if at == self.env.now or self._waits < MOST_WAITS else math.inf

    def ready(self) -> simpy.Event:
        """Return an event at ``ready_at``; the wait is part of the next round."""
        seconds = self.ready_at - self.env.now
        self._began, self._idle = self.env.now if self._waits == 0 else self._began, True
        self._waits += 1
        return self.env.timeout(seconds)

    def select(self, devices: Ints) -> None:
        """Record the selection of devices, after a wait for available devices if there was one."""
        if self._idle:
            self.trace.wait(self._began, self.env.now)
            self._idle, self._waits = False, 0 if len(devices) else self._waits
        self.trace.select(len(devices))

    def plan(self, devices: Ints, sizes: JobSizes, rule: str, size: int, shares: int = 1) -> RoundPlan:
        """Plan devices (see :meth:`~netsim.server.radio_cell.RadioCell.plan`); record those without a plan."""
        try:
            self.agenda = agenda = self.cell.plan(devices, sizes, rule, size, shares)
        except UserCodeError as fault:
            raise fault.in_round(self.version + 1) from None
        if agenda.relaxed != 1.0:
            self.trace.relax(agenda.relaxed)
        if len(agenda.dropped):
            asked = self.cell.last_planner.posed(agenda.dropped)
            columns = {name: getattr(asked, name) for name in ("gain", "cycles", "budget_j", "bits")}
            self.trace.leave_out(agenda.dropped, self._next_job, self.version, columns, INFEASIBLE)
            self._next_job += len(agenda.dropped)
        return agenda

    def fail(self, devices: Sequence[int], name: str, reasons: Sequence[str] = ()) -> None:
        """Record devices whose jobs failed before they started, as jobs without work.

        ``name`` is the reason, ``reasons`` a more detailed one for each device.
        """
        if not devices:
            return
        numbers, nothing = np.array(devices, np.int64), np.zeros(len(devices))
        version = self.version - (name == OVER)             # the run has ended with its last round
        columns = {"gain": self.cell.channel.gain(numbers, self.env.now), "cycles": nothing, "bits": nothing,
                   "budget_j": self.cell.parts.population.budget_j[numbers]}
        self.trace.leave_out(numbers, self._next_job, version, columns, name, reasons)
        self._next_job += len(devices)

    def replan(self, wave: Wave) -> Wave:
        """Plan a later wave again with the current gains and battery levels.

        Return the wave unchanged if nothing changes in time, or if not all of its devices have a feasible plan now.
        """
        cell, waves = self.cell, self.agenda.waves
        if cell.uplink.channel is None and not cell.batteries.recharge:
            return wave
        again = cell.plan(wave.devices, cell.problems.sizes, "largest", len(wave.devices))
        if len(again.dropped):
            return wave
        place = waves.index(wave)
        self.agenda = replace(self.agenda, waves=(*waves[:place], *again.waves, *waves[place + 1:]))
        return again.waves[0]

    def jobs_of(self, agenda: RoundPlan) -> dict[int, int]:
        """Return the devices of an agenda by the numbers of their jobs, if it is dispatched next."""
        return dict(enumerate(agenda.devices.tolist(), self._next_job))

    def dispatch(self, wave: Wave) -> Ints:
        """Start the jobs of a wave from the current model, and return their numbers."""
        count, now = len(wave.devices), self.env.now
        row, numbers = self.trace.allocate(count), np.arange(self._next_job, self._next_job + count)
        self.cell.dispatch(wave, self._next_job, row)
        self._versions.update(dict.fromkeys(numbers.tolist(), self.version))
        self._next_job += count
        self.dispatched += count
        self._decided = {**decided_by(wave), "number": numbers, "cause": np.full(count, row),
                         "t0": np.full(count, float(now)), "version": np.full(count, self.version)}
        return numbers

    def pause(self, seconds: float) -> simpy.Event:
        """Return an event after ``seconds``, which is recorded as a wait of the server."""
        self.trace.wait(self.env.now, self.env.now + seconds)
        return self.env.timeout(seconds)

    def collect(self, *, first: bool = False) -> list[Job]:
        """Remove and record finished jobs (see :meth:`~netsim.cell.cell.SimulatedCell.collect`)."""
        jobs = self.cell.collect(first=first)
        self._record(jobs, self.version)
        return jobs

    def started_from(self, jobs: Iterable[int]) -> Ints:
        """Return the model versions that jobs of this round, or running jobs, started from."""
        return np.fromiter(map(self._versions.__getitem__, jobs), np.int64)

    # The end of a round.

    def aggregate(self, *, barrier: bool = True) -> Outcomes:
        """Record the aggregation of all jobs collected in this round, and increase the model version.

        With ``barrier``, devices with finished jobs waited for the aggregation.
        """
        if barrier:
            self.collect()
        outcomes = self.trace.aggregate(self._began, barrier=barrier)
        self._began = self.env.now
        self._versions = {number: self._versions[number] for number in self.cell.running}
        self.version += 1
        return outcomes

    def stop(self) -> simpy.Event:
        """Abort the running jobs at the end of the run; return an event that succeeds when all have ended."""
        return self.cell.cancel(list(self.cell.running), OVER)

    def stopped(self) -> Outcomes:
        """Record the jobs aborted by ``stop`` in the last round, and return their outcomes."""
        self._record(self.cell.collect(), self.version - 1)
        return self.trace.take_outcomes()

    def count(self, name: str, values: Mapping[int, float]) -> None:
        """Record values of a counter by device (SERVER for the server itself)."""
        for device, value in values.items():
            self.trace.recorder.counter(name, device, self.env.now, value)

    def snapshot(self) -> State:
        return {"began": np.array(self._began), "cause": self.trace.cause,
                "counts": np.array([self.version, self._next_job, self.dispatched], np.int64),
                "versions": np.array(list(self._versions.items()), np.int64).reshape(-1, 2)}

    def restore(self, state: State) -> None:
        self.version, self._next_job, self.dispatched = (int(value) for value in state["counts"])
        self._began, self.trace.cause = float(state["began"]), state["cause"]
        self._versions = {int(number): int(version) for number, version in state["versions"]}

    def _record(self, ended: list[Job], version: int) -> None:
        """Record ended jobs; the planned values of a whole wave are known as columns."""
        numbers = self._decided["number"]
        whole = len(ended) == len(numbers) > 0 and ended[0].number == numbers[0]
        started = self._decided["version"] if whole else self.started_from(job.number for job in ended)
        self.trace.end(ended, version, started, self._decided if whole else None)
