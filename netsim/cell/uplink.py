"""The uplink of a cell: a shared band as a SimPy resource, whose requests are events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import simpy
from simpy.events import ProcessGenerator

from netsim.allocation.equal_finish import ActiveUploads
from netsim.base.errors import InputError, UserCodeError
from netsim.base.tolerances import CONSTRAINT
from netsim.base.types import Floats, State
from netsim.cell.band_sharing import FixedShares, SharedBand
from netsim.cell.battery import Battery
from netsim.cell.channel import PacketLoss, TimeVaryingChannel
from netsim.cell.clock import CLOCK_ULPS, JUST_ENOUGH, rounding_of, sleep_until
from netsim.cell.job import DONE, UPLOAD, WAIT, Job, uploaded
from netsim.cell.schedulers import Scheduler
from netsim.cell.transmission import TimedTransmission, Transmission
from netsim.physics import SHANNON, LinkModel
from netsim.trace.schema import ARRIVED


class Uplink:
    """The band of a cell, divided by a scheduler.

    The band is reallocated when a transmission starts or ends and when the channel changes. At one instant, ends come
    before starts, starts follow the order of device numbers, and the scheduler is called once.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    bandwidth_hz : float
        Width of the band in Hz.
    scheduler : Scheduler
        Decides the bandwidth of each active job.
    link : LinkModel
        Rate in bit/s as a function of bandwidth and SNR; by default Shannon's.
    channel : TimeVaryingChannel, optional
        Gains that change during uploads; by default the ``snr_hz`` of each job is constant.
    loss : PacketLoss, optional
        Loss of uploads or packets; by default every upload arrives.
    abort_over_budget : bool
        Abort an upload when the job's energy budget is spent.
    """

    def __init__(
        self, env: simpy.Environment, bandwidth_hz: float, scheduler: Scheduler, *, link: LinkModel = SHANNON,
        channel: TimeVaryingChannel | None = None, loss: PacketLoss | None = None, abort_over_budget: bool = False,
    ) -> None:
        self.env, self.bandwidth_hz, self.scheduler, self.link = env, bandwidth_hz, scheduler, link
        self.channel, self.loss, self.abort_over_budget = channel, loss, abort_over_budget
        self.limit_hz = bandwidth_hz * (1 + CONSTRAINT)      # rounding errors may let shares exceed the band
        self.in_use_hz = 0.0
        self.band_log: list[float] = []                           # instants and values of ``in_use_hz``, alternating
        self.promised_hz = math.inf                               # planned bandwidth of all running jobs, if known
        self.arriving: list[Transmission] = []                    # transmissions that start at this instant
        self.freed_by: Job | None = None                          # the job that ended at this instant
        self.contended = False                                    # whether a job has had to wait for another's end
        self.slotted = False                                      # whether a job has had slots
        self.timed: dict[Job, Transmission] = {}                  # active transmissions with their own timers
        self._fixed = FixedShares(self) if scheduler.fixed else None
        self.band: FixedShares | SharedBand = self._fixed or SharedBand(self)
        self._timed = scheduler.fixed and channel is None and loss is None and not abort_over_budget
        self._wake: simpy.Event | None = None
        if channel is not None:
            channel.uplink = self

    # Requests of devices.

    def transmit(self, job: Job, battery: Battery | None = None) -> Transmission:
        """Send the remaining bits of a job.

        Parameters
        ----------
        job : Job
            The job, in its upload phase.
        battery : Battery, optional
            Energy store that the transmission drains; by default the device is mains-powered.

        Returns
        -------
        Transmission
            Event that succeeds with the job's outcome; yield it inside a ``with`` statement.
        """
        if job.transmission is not None:                          # restored from a checkpoint
            return job.transmission
        fixed = self._fixed
        at_once = (fixed is not None and self.promised_hz <= self.limit_hz and job.slots is None and not self.arriving
                   and not fixed.waiting)                         # all running jobs fit together, in any order
        if at_once and self._timed:
            rate = job.plan.rate
            if rate != rate:
                rate = float(self.link.rate(job.plan.bandwidth_hz, job.snr_hz))
            if rate > 0.0:
                return TimedTransmission(self, job, battery, rate)
        transmission = Transmission(self, job, battery)
        if at_once and fixed is not None:
            fixed.admit(transmission)
        else:
            self.arriving.append(transmission)
            self.wake()
        return transmission

    def release(self, transmission: Transmission, *, ended: bool) -> None:
        """Remove an interrupted transmission; ``ended`` if its job has ended too."""
        job = transmission.job
        job.begin_segments()
        if transmission in self.arriving:
            self.arriving.remove(transmission)
            job.end_segment(WAIT, self.env.now)
        elif self.band.remove(transmission):
            transmission.end(self.env.now)
            self.leave(job, ended=ended)
        else:
            job.end_segment(WAIT, self.env.now)
            self.wake()

    def completes_now(self, job: Job) -> bool:
        """Return True if the upload of a job ends at this instant, independent of the order of events."""
        transmission = job.transmission
        if transmission is None:
            return False
        if isinstance(transmission, TimedTransmission):
            return job.work.since + job.work.seconds - self.env.now <= CLOCK_ULPS * math.ulp(self.env.now)
        if not transmission.triggered:
            self.band.settle()
        return transmission.triggered

    def ends_now(self, job: Job) -> bool:
        """Return True if an upload ends at this instant within the rounding errors of its job; settle the band before.
        """
        if isinstance(job.transmission, TimedTransmission):
            now = self.env.now
            return job.work.since + job.work.seconds - now <= rounding_of(now, job.t0)
        return job.transmission is not None and job.transmission.triggered

    def remaining_s(self, job: Job) -> float:
        """Return the remaining seconds of an upload at the current rate; inf for a job that waits."""
        if self.completes_now(job):
            return 0.0
        if isinstance(job.transmission, TimedTransmission):
            return job.work.since + job.work.seconds - self.env.now
        return self.band.remaining_s(job)

    # Allocation of the band.

    def wake(self) -> None:
        """Reallocate the band after the other events of this instant."""
        if self._wake is None:
            self._wake = self.env.event()
            self._wake.callbacks.append(self._divide)
            self._wake.succeed()

    def _divide(self, _: simpy.Event) -> None:
        self._wake = None
        self.band.settle()
        arriving, self.arriving = self.arriving, []
        arriving.sort(key=lambda each: (each.job.device, each.job.number))
        if arriving:
            self._join(arriving)
        self.band.reallocate()
        self.freed_by = None

    def _join(self, arriving: list[Transmission]) -> None:
        """Queue transmissions that start at this instant; slots that begin now within rounding errors count."""
        jobs = [transmission.job for transmission in arriving]
        if self.slotted:
            soon = self.env.now + CLOCK_ULPS * math.ulp(self.env.now)
            for job in jobs:
                job.follow_slots(soon)
        if self.channel is not None:
            self.channel.join(jobs)
        self.band.join(arriving)

    def ask(self, **columns: Floats) -> Floats:
        """Call the scheduler with the columns of `ActiveUploads`, and check the Hz per job that it returns.

        An error in a user's scheduler is reported with its line.
        """
        active = ActiveUploads(**columns, bandwidth_hz=self.bandwidth_hz, link=self.link)
        try:
            hertz = np.asarray(self.scheduler.bandwidth(active, self.env.now), float)
            count = len(active.left_bits)
            if not (hertz.shape == (count,) and (hertz >= 0.0).all() and hertz.sum() <= self.limit_hz):
                raise ValueError(f"returned {hertz} Hz in a band of {self.bandwidth_hz:g} Hz (expected: {count} "
                                 "values, one per job, none negative, with a sum of at most the band)")
        except Exception as error:
            kind = type(self.scheduler)
            if isinstance(error, InputError) or kind.__module__.startswith(__package__):      # built-in scheduler
                raise
            raise UserCodeError.of(f"scheduler {kind.__name__}", error, kind.bandwidth, self.env.now) from None
        return hertz

    def note_order(self, job: Job) -> None:
        """Note the job whose end allowed a waiting job to start, if there is one."""
        if self.freed_by is not None:
            job.follows, self.contended = self.freed_by, True

    def count(self, now: float, in_use_hz: float) -> None:
        """Log the bandwidth in use, unless it has changed only by a rounding error."""
        if abs(in_use_hz - self.in_use_hz) > JUST_ENOUGH * self.bandwidth_hz or in_use_hz == 0.0 != self.in_use_hz:
            self.in_use_hz = in_use_hz
            self.band_log += (now, in_use_hz)

    def take_band(self) -> tuple[Floats, Floats]:
        """Return the log of the bandwidth in use since the last call: instants in s, and values in Hz."""
        times_and_hertz = np.array(self.band_log).reshape(-1, 2)
        self.band_log = []
        return times_and_hertz[:, 0], times_and_hertz[:, 1]

    def leave(self, job: Job, *, ended: bool) -> None:
        """Release a job's bandwidth for waiting jobs, and for jobs with slots that get less than planned.

        A waiting job that gets it follows in the trace a job that has ``ended``.
        """
        band = self.band
        self.count(self.env.now, self.in_use_hz - job.work.hz if band.sending else 0.0)
        job.work.hz = 0.0
        if band.waiting or self.slotted or self._fixed is None:
            self.freed_by = job if ended else self.freed_by
            self.wake()

    def is_lost(self, transmission: Transmission) -> bool:
        """Return True if a completed upload was lost and is sent again; else set its outcome."""
        job = transmission.job
        outcome = ARRIVED if self.loss is None else self.loss.outcome(job)
        if outcome is None:
            job.end_segment(UPLOAD, self.env.now)
            job.work.sent_from, job.work.left = self.env.now, job.plan.bits
            return True
        job.outcome = outcome
        return False

    def end(self, transmission: Transmission, outcome: str) -> None:
        """End a transmission that was removed from the band."""
        transmission.end(self.env.now)
        self.leave(transmission.job, ended=True)
        transmission.job.outcome = outcome
        transmission.succeed(outcome)

    def follow_slots(self, jobs: Sequence[Job]) -> None:
        """Schedule the changes of planned bandwidths of jobs with slots."""
        with_slots = [job for job in jobs if job.slots is not None]
        if with_slots:
            self.slotted = True
            self.env.process(self._follow(with_slots, sorted({at for job in with_slots for at, _ in job.slots or ()})))

    def _follow(self, jobs: list[Job], instants: list[float]) -> ProcessGenerator:
        for at in instants:
            if at == math.inf or all(job.phase == DONE for job in jobs):
                return
            if at > self.env.now:
                yield from sleep_until(self.env, at)
            changed = [job.phase != DONE and job.follow_slots(self.env.now) for job in jobs]
            if any(changed) and (self.band.sending or self.band.waiting):
                self.wake()

    # Checkpoints.

    def snapshot(self) -> State:
        """Return the allocation of the band for a checkpoint; the cell saves the jobs."""
        freed_by = (-1, -1) if self.freed_by is None else (self.freed_by.number, self.freed_by.upload_row)
        return {"in_use": np.array([self.in_use_hz, self.promised_hz, self.contended, self.slotted]),
                "freed_by": np.array(freed_by, np.int64),
                "arriving": np.array([each.job.number for each in self.arriving], np.int64),
                "woken": np.array(self._wake is not None), "uploads": (
                    np.zeros((0, 2), np.int64) if self.loss is None else self.loss.snapshot()),
                **self.band.snapshot()}

    def restore(self, state: State, jobs: Mapping[int, Job], battery: Callable[[Job], Battery | None]) -> None:
        """Restore the allocation; the processes of the devices then continue their transmissions."""
        number, row = state["freed_by"].tolist()
        if number >= 0:
            self.freed_by = jobs.get(number) or uploaded(number, row)
        self.in_use_hz, self.promised_hz, contended, slotted = state["in_use"].tolist()
        self.contended, self.slotted = bool(contended), bool(slotted)
        if self.loss is not None:
            self.loss.restore(state["uploads"])

        def transmissions(name: str) -> list[Transmission]:
            return [Transmission(self, jobs[number], battery(jobs[number])) for number in state[name].tolist()]

        self.arriving = transmissions("arriving")
        self.band.restore(state, transmissions("sending"), transmissions("waiting"))
        self.follow_slots(list(jobs.values()))
        if state["woken"]:
            self.wake()
