"""Transmissions: the upload of one job as a SimPy event and context manager."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

import simpy

from netsim.cell.battery import Battery
from netsim.cell.job import UPLOAD, WAIT, Interruption, Job
from netsim.trace.schema import ARRIVED

if TYPE_CHECKING:
    from netsim.cell.uplink import Uplink


class Transmission(simpy.Event):
    """The upload of one job: an event that succeeds with the job's outcome.

    It is a context manager, which releases the bandwidth if the waiting process is interrupted.
    """

    timer: simpy.Event | None = None

    def __init__(self, uplink: Uplink, job: Job, battery: Battery | None) -> None:
        super().__init__(uplink.env)
        self.uplink, self.job, self.battery = uplink, job, battery
        job.transmission = self

    def begin(self, now: float) -> None:
        """Mark the job as sending from ``now`` on."""
        job = self.job
        if job.segments is not None:
            job.end_segment(WAIT, now)
        job.work.sent_from = now
        if self.battery is not None:
            job.work.drawn_j = job.upload_j
            self.battery.draw(job.plan.power_w)

    def end(self, now: float) -> None:
        """Mark the job as no longer sending; its seconds and joules must be up to date."""
        if self.battery is not None:
            self.battery.stop(self.job.upload_j - self.job.work.drawn_j)
        if self.job.segments is not None:
            self.job.end_segment(UPLOAD, now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.job.transmission = None
        # GeneratorExit: the process was garbage-collected after the end of the simulation
        if kind is not None and kind is not GeneratorExit and not self.triggered:
            self.uplink.release(self, ended=aborts(error))


class TimedTransmission(Transmission, simpy.Timeout):
    """A transmission with a fixed bandwidth on a static channel: its end is known at its start."""

    def __init__(self, uplink: Uplink, job: Job, battery: Battery | None, rate: float) -> None:
        hz, work, env = job.plan.bandwidth_hz, job.work, uplink.env
        seconds = work.left / rate
        simpy.Timeout.__init__(self, env, seconds, ARRIVED)
        self.uplink, self.job, self.battery = uplink, job, battery
        work.hz, work.rate, work.seconds, job.transmission = hz, rate, seconds, self
        work.since = work.sent_from = now = env.now
        if battery is not None or job.segments is not None:
            self.begin(now)
        uplink.timed[job] = self
        uplink.in_use_hz = in_use_hz = uplink.in_use_hz + hz
        uplink.band_log += (now, in_use_hz)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is GeneratorExit:
            return
        job, uplink = self.job, self.uplink
        job.transmission = None
        if kind is not None:
            uplink.release(self, ended=aborts(error))
            return
        work = job.work
        now, work.left = work.since + work.seconds, 0.0      # the instant of this timeout, to the last digit
        work.upload_s += work.seconds
        if self.battery is not None or job.segments is not None:
            self.end(now)
        del uplink.timed[job]
        if uplink.band.waiting or uplink.slotted:
            uplink.leave(job, ended=True)
        else:
            uplink.in_use_hz = in_use_hz = uplink.in_use_hz - work.hz if uplink.timed else 0.0
            uplink.band_log += (now, in_use_hz)
            work.hz = 0.0


def aborts(error: BaseException | None) -> bool:
    """Return True if an interrupt ends the job."""
    cause = getattr(error, "cause", None)
    return isinstance(cause, Interruption) and cause.policy == "abort"
