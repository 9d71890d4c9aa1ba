"""The rounds of a server in its cell: versions of the model, and a trace of events and their causes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from netsim.server.job_recording import (
    EndedJobs,
    Outcomes,
    outcomes_of,
    record_charge,
    record_ended,
    record_left_out,
    record_packets,
    record_waits,
)
from netsim.server.radio_cell import CellParts, RadioCell
from netsim.trace.recorder import Recorder
from netsim.trace.schema import CELL, OVER, RELAX, SERVER

MOST_WAITS = 366   # consecutive waits after which no device was available
NOBODY: Ints = np.zeros(0, np.int64)


class RoundRecorder:
    """The actions of a server in its cell, counted in rounds and recorded in the trace."""

    def __init__(
        self, env: simpy.Environment, recorder: Recorder, parts: CellParts, training: LocalTraining | None = None,
    ) -> None:
        self.env, self.recorder = env, recorder
        self.version = 0                    # of the global model: number of aggregations
        self.cell = RadioCell(env, parts, lambda: self.version + 1, training)
        self.agenda = RoundPlan((), NOBODY)    # the last plan
        self.dispatched = 0                 # jobs started in the run
        self._next_job = 0
        self._versions: dict[int, int] = {}      # model versions that jobs started from, by job number
        self._began = env.now               # start of the round
        self._idle = False                  # whether the round starts with waiting for devices
        self._waits = 0                     # consecutive waits
        self._cause: Ints = NOBODY          # trace rows that cause the next row
        self._followed = True               # whether a row after ``_cause`` was recorded
        self._played: list[EndedJobs] = []      # ended jobs of this round
        self._left_out = NOBODY
        self._decided: dict[str, Any] = {"number": NOBODY}      # planned values of the last wave

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
        now = self.env.now
        if self._idle:
            waited = self.recorder.span("wait", SERVER, self._began, now, after=self._cause.tolist())
            self._cause, self._idle, self._waits = np.array([waited]), False, 0 if len(devices) else self._waits
        row = self.recorder.instant("select", SERVER, now, value=len(devices), after=self._cause.tolist())
        self._cause, self._followed = np.array([row]), True

    def plan(self, devices: Ints, sizes: JobSizes, rule: str, size: int, shares: int = 1) -> RoundPlan:
        """Plan devices (see :meth:`~netsim.server.radio_cell.RadioCell.plan`); record those without a plan."""
        self._sizes = sizes
        try:
            self.agenda = agenda = self.cell.plan(devices, sizes, rule, size, shares)
        except UserCodeError as fault:
            raise fault.in_round(self.version + 1) from None
        if agenda.relaxed != 1.0:
            self.recorder.instant(RELAX, SERVER, self.env.now, value=agenda.relaxed, after=self._cause.tolist())
        if len(agenda.dropped):
            self._left_out = np.concatenate([self._left_out, agenda.dropped])
            asked = self.cell.last_planner.posed(agenda.dropped)
            columns = {name: getattr(asked, name) for name in ("gain", "cycles", "budget_j", "bits")}
            record_left_out(self.recorder, self._next_job, agenda.dropped, self.env.now, self.version,
                            self._cause[:1].tolist(), columns)
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
        record_left_out(self.recorder, self._next_job, numbers, self.env.now, version, self._cause[:1].tolist(),
                        columns, name=name, outcomes=[f"{name}: {reason}" for reason in reasons])
        self._next_job += len(devices)
        if name != OVER:
            self._left_out = np.concatenate([self._left_out, numbers])

    def replan(self, wave: Wave) -> Wave:
        """Plan a later wave again with the current gains and battery levels.

        Return the wave unchanged if nothing changes in time, or if not all of its devices have a feasible plan now.
        """
        cell, waves = self.cell, self.agenda.waves
        if cell.uplink.channel is None and not cell.batteries.recharge:
            return wave
        again = cell.plan(wave.devices, self._sizes, "largest", len(wave.devices))
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
        row = self.recorder.instant("allocate", SERVER, now, value=count, after=self._cause.tolist())
        self._followed = True
        numbers = np.arange(self._next_job, self._next_job + count)
        self.cell.dispatch(wave, self._next_job, row)
        self._versions.update(dict.fromkeys(numbers.tolist(), self.version))
        self._next_job += count
        self.dispatched += count
        self._decided = {**decided_by(wave), "number": numbers,
                         "cause": np.full(count, row), "t0": np.full(count, float(now))}
        return numbers

    def pause(self, seconds: float) -> simpy.Event:
        """Return an event after ``seconds``, which is recorded as a wait of the server."""
        now = self.env.now
        row = self.recorder.span("wait", SERVER, now, now + seconds, after=self._cause.tolist())
        self._cause, self._followed = np.array([row]), False       # a job that ends during the wait is a second cause
        return self.env.timeout(seconds)

    def collect(self, *, first: bool = False) -> list[Job]:
        """Remove and record finished jobs (see :meth:`~netsim.cell.cell.SimulatedCell.collect`)."""
        jobs = self.cell.collect(first=first)
        self._record(jobs, self.version)
        return jobs

    def started_from(self, jobs: Ints) -> Ints:
        """Return the model versions that jobs of this round, or running jobs, started from."""
        return np.array([self._versions[job] for job in jobs.tolist()], np.int64)

    def arrived(self) -> tuple[Ints, Ints]:
        """Return the numbers and the devices of the jobs that have arrived in this round so far."""
        ends = [(jobs.job[jobs.arrived], jobs.device[jobs.arrived]) for jobs in self._played]
        jobs, devices = zip(*ends, strict=True) if ends else ((NOBODY,), (NOBODY,))
        return np.concatenate(jobs), np.concatenate(devices)

    # The end of a round.

    def aggregate(self, *, barrier: bool = True) -> Outcomes:
        """Record the aggregation of all jobs collected in this round, and increase the model version.

        With ``barrier``, devices with finished jobs waited for the aggregation.
        """
        now, began, cell = self.env.now, self._began, self.cell
        if barrier:
            self.collect()
            record_waits(self.recorder, self._played, began, now)
        waited_for = self._cause if barrier or not self._played else np.concatenate(
            [jobs.last for jobs in self._played])
        arrived = sum(int(np.count_nonzero(jobs.arrived)) for jobs in self._played)
        if cell.batteries.recharge:
            for name, joules in cell.batteries.totals().items():
                self.recorder.counter(name, CELL, now, joules)
        row = self.recorder.span("aggregate", SERVER, now, now, value=arrived, after=waited_for.tolist())
        self._cause, self._followed = np.array([row]), True
        outcomes, self._left_out = outcomes_of(self._left_out, self._played), NOBODY
        self._end_of_round, self._began = (began, now, arrived), now
        self._played = []
        self._versions = {number: self._versions[number] for number in cell.running}
        self.version += 1
        return outcomes

    def stop(self) -> simpy.Event:
        """Abort the running jobs at the end of the run; return an event that succeeds when all have ended."""
        return self.cell.cancel(list(self.cell.running), OVER)

    def stopped(self) -> Outcomes:
        """Record the jobs aborted by ``stop`` in the last round, and return their outcomes."""
        self._record(self.cell.collect(), self.version - 1)
        outcomes, self._played = outcomes_of(NOBODY, self._played), []
        return outcomes

    def count(self, name: str, values: Mapping[int, float]) -> None:
        """Record values of a counter by device (SERVER for the server itself)."""
        for device, value in values.items():
            self.recorder.counter(name, device, self.env.now, value)

    def close(self) -> None:
        """Record the span of the round, which is the last row of the round."""
        began, now, arrived = self._end_of_round
        self.recorder.span("round", SERVER, began, now, value=arrived)

    def snapshot(self) -> State:
        return {"began": np.array(self._began), "cause": self._cause,
                "counts": np.array([self.version, self._next_job, self.dispatched], np.int64),
                "versions": np.array(list(self._versions.items()), np.int64).reshape(-1, 2)}

    def restore(self, state: State) -> None:
        self.version, self._next_job, self.dispatched = (int(value) for value in state["counts"])
        self._began, self._cause = float(state["began"]), state["cause"]
        self._versions = {int(number): int(version) for number, version in state["versions"]}

    # Recording.

    def _record(self, ended: list[Job], version: int) -> None:
        """Record ended jobs, which are causes of the next row."""
        uplink, batteries, decided = self.cell.uplink, self.cell.batteries, self._decided
        if not ended and not uplink.band_log:
            return
        whole = len(ended) == len(decided["number"]) > 0 and ended[0].number == decided["number"][0]
        started = np.array([self._versions[job.number] for job in ended], np.int64)
        jobs = record_ended(self.recorder, ended, uplink.take_band(), version, started, contended=uplink.contended,
                            decided=decided if whole else None)
        if jobs is None:
            return
        if uplink.loss is not None:
            record_packets(self.recorder, ended)
        if batteries.recharge:
            own = np.unique(jobs.device[batteries.finite[jobs.device]])
            record_charge(self.recorder, own, self.env.now, batteries.totals_of(own))
        self._played.append(jobs)
        self._cause = jobs.last if self._followed else np.concatenate([self._cause, jobs.last])
        self._followed = False
