"""A device: the SimPy process that performs a job with the device's CPU, radio and battery."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import simpy
from simpy.events import ProcessGenerator

from netsim.cell.battery import Battery
from netsim.cell.clock import JUST_ENOUGH, timeout_at
from netsim.cell.job import COMPUTE, DONE, DOWNLOAD, OFF, THROTTLED, UPLOAD, Interruption, Job, JobWork
from netsim.cell.uplink import Uplink
from netsim.environment.energy_sources import ThermalLimit
from netsim.trace.schema import ARRIVED, BATTERY_EMPTY


class LocalTraining(Protocol):
    """Training of models while devices compute; see :class:`~netsim.learning.backend.Learning`."""

    def start(self, jobs: Sequence[Job]) -> None: ...

    def drop(self, jobs: Sequence[Job]) -> None: ...


class GroupedTraining:
    """Local training for device processes; jobs that start to compute at the same instant train as one batch."""

    def __init__(self, env: simpy.Environment, training: LocalTraining) -> None:
        self.env, self.training = env, training
        self._jobs: list[Job] = []

    def start(self, job: Job) -> None:
        """Start the training of a job after all other events of this instant."""
        if not self._jobs:
            starts = self.env.event()
            starts.callbacks.append(self._start)
            starts.succeed()
        self._jobs.append(job)

    def _start(self, _: simpy.Event) -> None:
        jobs, self._jobs = self._jobs, []
        self.training.start(jobs)

    def drop(self, job: Job) -> None:
        """Discard the training of a failed job."""
        self._jobs = [other for other in self._jobs if other is not job]
        self.training.drop([job])


class Thermal:
    """Thermal throttling of a CPU: its thermal state in seconds of load, from 0 (cold) to ``load_s`` (hot).

    Computing above the throttled frequency adds one second per second, computing at or below it changes nothing, and
    an idle hot CPU is cold after ``rest_s``.

    Parameters
    ----------
    limit : ThermalLimit
        Throttled frequency, seconds until throttling and seconds of recovery.
    warmth_s : float
        Thermal state at the instant ``since``, in seconds of load.
    since : float
        Instant of ``warmth_s`` in seconds: the last start or stop of the CPU.
    """

    def __init__(self, limit: ThermalLimit, warmth_s: float = 0.0, since: float = 0.0) -> None:
        self.limit = limit
        self.warmth_s = warmth_s
        self.since = since

    def start(self, now: float, cpu_hz: float) -> tuple[float, float]:
        """Start the CPU; return its frequency in Hz, and the seconds for which it can keep it."""
        limit = self.limit
        self.warmth_s = max(0.0, self.warmth_s - (now - self.since) * limit.load_s / limit.rest_s)
        self.since = now
        if cpu_hz <= limit.clock_hz:
            return cpu_hz, math.inf
        if self.warmth_s >= limit.load_s:
            return limit.clock_hz, math.inf
        return cpu_hz, limit.load_s - self.warmth_s

    def stop(self, now: float, cpu_hz: float, seconds: float) -> None:
        """Stop the CPU, which ran at ``cpu_hz`` for ``seconds`` (more exact than the difference of two instants)."""
        if cpu_hz > self.limit.clock_hz:
            warmth_s = self.warmth_s + seconds
            hot = warmth_s >= self.limit.load_s * (1 - JUST_ENOUGH)
            self.warmth_s = self.limit.load_s if hot else warmth_s
        self.since = now


class Device:
    """CPU, radio and battery of one device, which performs one job at a time.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    uplink : Uplink
        Shared band of the cell.
    battery : Battery, optional
        Energy store; by default the device is mains-powered.
    thermal : Thermal, optional
        Thermal throttling of the CPU.
    receive_w : float
        Power in W drawn while downloading.
    training : GroupedTraining, optional
        Trains a model while the device computes.
    finished : callable, optional
        Called with each job at the instant of its end.

    Examples
    --------
    >>> import simpy
    >>> from netsim.cell import Battery, Device, Equal, Job, JobPlan, Uplink
    >>> env = simpy.Environment()
    >>> phone = Device(env, Uplink(env, 1e6, Equal()), battery=Battery(env, capacity_j=10.0))
    >>> job = Job(JobPlan(cycles=2e9, cpu_hz=1e9, compute_w=0.5, bits=3e6, power_w=0.2), snr_hz=7e6)
    >>> process = env.process(phone.perform(job))
    >>> env.run()
    >>> job.outcome, job.ended_at, round(job.energy_j, 9)
    ('arrived', 3.0, 1.2)
    """

    __slots__ = ("_back", "_plain", "battery", "env", "finished", "job", "receive_w", "thermal", "training", "uplink")

    def __init__(
        self, env: simpy.Environment, uplink: Uplink, battery: Battery | None = None,
        thermal: Thermal | None = None, receive_w: float = 0.0, training: GroupedTraining | None = None,
        finished: Callable[[Job], None] | None = None,
    ) -> None:
        self.env = env
        self.uplink = uplink
        self.battery = battery
        self.thermal = thermal
        self.receive_w = receive_w
        self.training = training
        self.finished = finished
        self.job: Job | None = None
        self._back: simpy.Event | None = None
        self._plain = battery is None and thermal is None       # computing only takes time
        if battery is not None:
            battery.depleted = self.run_out

    def perform(self, job: Job) -> ProcessGenerator:
        """Download, compute and upload, from the job's current phase to its end: the process of one job.

        Parameters
        ----------
        job : Job
            The job; its ``outcome``, ``ended_at`` and ``energy_j`` hold the result.

        Yields
        ------
        simpy.Event
            Timeouts and transmissions. Interrupt the process with an `Interruption` as cause.
        """
        if job.process is None:
            self.job, job.process, job.t0 = job, self.env.active_process, self.env.now
        work = job.work
        while job.phase != DONE:
            try:
                if work.away:
                    yield from self._stay_away(job)
                if job.phase == DOWNLOAD:
                    yield self._download(job)
                    self._stop_work(job, work.seconds)
                    job.phase, work.left = COMPUTE, job.plan.cycles
                if job.phase == COMPUTE:
                    if self.training is not None:
                        self.training.start(job)
                    while work.left > 0.0:               # several segments if the CPU becomes hot
                        yield self._compute(job)
                        self._stop_work(job, work.seconds)
                    self._begin_upload(job)
                if not job.outcome:
                    with self.uplink.transmit(job, self.battery) as transmission:
                        job.outcome = yield transmission
                self._finish(job, job.outcome)
            except simpy.Interrupt as interrupt:
                if work.watts >= 0.0:
                    self._stop_work(job, self.env.now - work.since)
                    if job.phase == COMPUTE and work.left == 0.0:      # ends at this instant come before failures
                        self._begin_upload(job)
                self._respond(job, interrupt.cause)

    def _download(self, job: Job) -> simpy.Event:
        """Start to receive the model; return the event of its end."""
        return self._start_work(job.work, 1.0, self.receive_w, job.work.left)

    def _compute(self, job: Job) -> simpy.Event:
        """Start to compute, throttled if the CPU is hot; return the event of the end, or of a CPU that becomes hot."""
        plan, work = job.plan, job.work
        hz, watts = plan.cpu_hz, plan.compute_w
        if self.thermal is None or work.watts >= 0.0:
            return self._start_work(work, hz, watts, work.left / hz)
        hz, lasts_s = self.thermal.start(self.env.now, plan.cpu_hz)
        return self._start_work(work, hz, watts * (hz / plan.cpu_hz) ** 3, min(work.left / hz, lasts_s))

    def _begin_upload(self, job: Job) -> None:
        """Note the end of computing; the next phase is the upload."""
        work, loss = job.work, self.uplink.loss
        work.computed_at = self.env.now
        if self.battery is not None:
            work.computed_charge_j = self.battery.level_j
        job.phase, work.left = UPLOAD, job.plan.bits if loss is None else loss.bits_to_send(job)

    def _start_work(self, work: JobWork, rate: float, watts: float, seconds: float) -> simpy.Event:
        """Start a segment of work, or continue that of a restored job; return the event of its end."""
        if work.watts >= 0.0:
            return timeout_at(self.env, work.since + work.seconds)
        work.since, work.rate, work.watts, work.seconds = self.env.now, rate, watts, seconds
        if self.battery is not None and watts:
            self.battery.draw(watts)
        return self.env.timeout(seconds)

    def _stop_work(self, job: Job, seconds: float) -> None:
        """Account for a segment of work that lasted ``seconds``: as planned or, after an interruption, by the clock."""
        work, computes = job.work, job.phase == COMPUTE
        joules = work.watts * seconds
        if computes:
            work.compute_s += seconds
            work.compute_j += joules
            if self._plain and job.segments is None and seconds == work.seconds:
                work.left, work.watts = 0.0, -1.0
                return
            if self.thermal is not None:
                self.thermal.stop(self.env.now, work.rate, seconds)
        else:
            work.download_j += joules
        done = work.rate * seconds
        work.left = work.left - done if work.left - done > JUST_ENOUGH * done else 0.0
        if self.battery is not None and work.watts:
            self.battery.stop(joules)
        work.watts = -1.0
        throttled = computes and work.rate < job.plan.cpu_hz
        if work.left > 0.0 or job.segments is not None or throttled:
            job.end_segment(THROTTLED if throttled else job.phase, self.env.now)

    def _finish(self, job: Job, outcome: str) -> None:
        job.phase, job.outcome, job.ended_at = DONE, outcome, self.env.now
        if self.battery is not None:
            job.work.ended_charge_j = self.battery.level_j
        self.job = None
        if self.training is not None and outcome != ARRIVED:
            self.training.drop(job)
        if self.finished is not None:
            self.finished(job)

    # Interruptions.

    def interrupt(self, cause: Interruption) -> bool:
        """Interrupt the current job, unless its upload is complete at this instant.

        Parameters
        ----------
        cause : Interruption
            Reason and policy.

        Returns
        -------
        bool
            True if the job was interrupted.
        """
        job = self.job
        if job is None or job.process is None or self.uplink.completes_now(job):
            return False
        job.process.interrupt(cause)
        return True

    def _respond(self, job: Job, cause: Any) -> None:
        """Pause, restart or abort a job whose work is already accounted for."""
        assert isinstance(cause, Interruption)
        if cause.policy == "abort":
            if job.work.away:
                job.end_segment(OFF, self.env.now)
            self._finish(job, cause.reason)
            return
        job.work.away = 1
        if cause.policy == "restart":
            job.restart()

    def _stay_away(self, job: Job) -> ProcessGenerator:
        """Pause until the device is available."""
        self._back = self.env.event()
        try:
            yield self._back
        finally:
            self._back = None                        # a stale event would end the next outage at once
        job.end_segment(OFF, self.env.now)
        job.work.away = 0

    def come_back(self) -> None:
        """Resume the paused job: the device is available again."""
        if self._back is not None and not self._back.triggered:
            self._back.succeed()

    def run_out(self) -> bool:
        """Abort the job because the battery is empty, unless it ends now but for rounding; return True if aborted."""
        job = self.job
        if job is None or self.battery is None:
            return False
        sending = job.phase == UPLOAD
        left_s = self.uplink.remaining_s(job) if sending else job.work.since + job.work.seconds - self.env.now
        return not self.battery.is_rounding(left_s) and self.interrupt(Interruption(BATTERY_EMPTY))


