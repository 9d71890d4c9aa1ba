"""The trace of a server's rounds: each row is linked to the rows that caused it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netsim.base.types import Floats, Ints
from netsim.cell.job import Job
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
from netsim.server.radio_cell import RadioCell
from netsim.trace.recorder import Recorder
from netsim.trace.schema import CELL, OVER, RELAX, SERVER

NO_DEVICES: Ints = np.zeros(0, np.int64)


class RoundTrace:
    """Records what a server and its devices do, and collects the ended jobs of a round for its aggregation."""

    def __init__(self, recorder: Recorder, cell: RadioCell) -> None:
        self.recorder, self.cell = recorder, cell
        self.cause: Ints = NO_DEVICES               # trace rows that cause the next row
        self._followed = True                   # whether a row after ``cause`` was recorded
        self._played: list[EndedJobs] = []      # ended jobs of this round
        self._left_out = NO_DEVICES                 # devices of this round whose jobs did not start

    def wait(self, t0: float, t1: float) -> None:
        """Record a wait of the server; a job that ends during the wait is a second cause of the next row."""
        self._caused_by(self.recorder.span("wait", SERVER, t0, t1, after=self.cause.tolist()), followed=False)

    def select(self, devices: int) -> None:
        """Record the selection of this number of devices."""
        self._caused_by(self._instant("select", devices))

    def relax(self, factor: float) -> None:
        """Record the factor of all energy budgets."""
        self._instant(RELAX, factor)

    def allocate(self, devices: int) -> int:
        """Record the allocation of a wave and return its row, the cause of its jobs."""
        self._followed = True
        return self._instant("allocate", devices)

    def _instant(self, name: str, value: float) -> int:
        return self.recorder.instant(name, SERVER, self.cell.now, value=value, after=self.cause.tolist())

    def _caused_by(self, row: int, *, followed: bool = True) -> None:
        self.cause, self._followed = np.array([row]), followed

    def leave_out(
        self, devices: Ints, first: int, version: int, asked: dict[str, Floats], name: str, reasons: Sequence[str] = (),
    ) -> None:
        """Record devices whose jobs, numbered from ``first``, did not start; ``reasons`` explain ``name`` per device.

        ``asked`` holds columns of their problem.
        """
        now, cause, numbers = self.cell.now, self.cause[:1].tolist(), first + np.arange(len(devices))
        for number, device in zip(numbers.tolist(), devices.tolist(), strict=True):
            self.recorder.instant(name, device, now, after=cause, job=number)
        outcomes = [f"{name}: {reason}" for reason in reasons] or [name] * len(devices)
        record_left_out(self.recorder, numbers, devices, now, version, asked, outcomes)
        if name != OVER:                        # after the last round
            self._left_out = np.concatenate([self._left_out, devices])

    def end(self, ended: list[Job], version: int, started: Ints, decided: Mapping[str, Any] | None) -> None:
        """Record ended jobs, which are causes of the next row; for ``decided`` see `record_ended`."""
        uplink, batteries = self.cell.uplink, self.cell.batteries
        if not ended and not uplink.band_log:
            return
        jobs = record_ended(
            self.recorder, ended, uplink, version, started, powered=batteries.any_finite, decided=decided)
        if jobs is None:
            return
        if uplink.loss is not None:
            record_packets(self.recorder, ended)
        if batteries.recharge:
            own = np.unique(jobs.device[batteries.finite[jobs.device]])
            record_charge(self.recorder, own, self.cell.now, batteries.totals_of(own))
        self._played.append(jobs)
        self.cause = jobs.last if self._followed else np.concatenate([self.cause, jobs.last])
        self._followed = False

    def arrived(self) -> tuple[Ints, Ints]:
        """Return the numbers and the devices of the jobs that have arrived in this round so far."""
        ends = [(jobs.job[jobs.arrived], jobs.device[jobs.arrived]) for jobs in self._played]
        jobs, devices = zip(*ends, strict=True) if ends else ((NO_DEVICES,), (NO_DEVICES,))
        return np.concatenate(jobs), np.concatenate(devices)

    def aggregate(self, began: float, *, barrier: bool) -> Outcomes:
        """Record the aggregation of a round that ``began`` at this instant (s), and return its outcomes.

        With ``barrier``, devices with finished jobs waited for the aggregation.
        """
        now, batteries, played = self.cell.now, self.cell.batteries, self._played
        if barrier:
            record_waits(self.recorder, played, began, now)
        waited_for = self.cause if barrier or not played else np.concatenate([jobs.last for jobs in played])
        if batteries.recharge:
            for name, joules in batteries.totals().items():
                self.recorder.counter(name, CELL, now, joules)
        outcomes = self.take_outcomes()
        arrived = int(np.count_nonzero(outcomes.arrived))
        self._caused_by(self.recorder.span("aggregate", SERVER, now, now, value=arrived, after=waited_for.tolist()))
        self._end_of_round = began, now, arrived
        return outcomes

    def take_outcomes(self) -> Outcomes:
        """Return the outcomes since the last call: first devices that were left out, then ended jobs."""
        outcomes = outcomes_of(self._left_out, self._played)
        self._left_out, self._played = NO_DEVICES, []
        return outcomes

    def close(self) -> None:
        """Record the span of the aggregated round, which is its last row."""
        began, now, arrived = self._end_of_round
        self.recorder.span("round", SERVER, began, now, value=arrived)
