"""The radio channel during uploads: a process that wakes at each change of the gains, and packet loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import simpy
from simpy.events import ProcessGenerator

from netsim.base.errors import InputError
from netsim.base.types import Floats, Ints
from netsim.cell.clock import sleep_until
from netsim.cell.job import LOOK_AFTER, Job, check_progress
from netsim.environment.availability import AvailabilityModel
from netsim.trace.schema import ARRIVED, LOST

if TYPE_CHECKING:
    from netsim.cell.uplink import Uplink


class Gains(Protocol):
    """Channel gains of devices over time; see :class:`~netsim.environment.channel.GainTimeline`."""

    def gain(self, devices: Ints, t: float) -> Floats: ...

    def next_change(self, t: float) -> float: ...


class TimeVaryingChannel:
    """Updates the signal-to-noise ratios of active jobs whenever the gains change.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    gains : Gains
        Gain of each device at any instant: ``gain(devices, t)`` and ``next_change(t)``.
    noise_w_per_hz : float
        Noise density N0 in W/Hz.
    """

    def __init__(self, env: simpy.Environment, gains: Gains, noise_w_per_hz: float) -> None:
        self.env, self.gains, self.noise_w_per_hz = env, gains, noise_w_per_hz
        self.uplink: Uplink | None = None
        self.wakes_at = math.inf
        self._longest = (-1, 0)              # number of the longest active job, and channel changes during its upload

    def refresh(self, jobs: Sequence[Job]) -> Floats:
        """Set J = h p / N0 (Hz) of jobs to the value at the current instant, and return it."""
        devices = np.array([job.device for job in jobs])
        power_w = np.array([job.plan.power_w for job in jobs])
        snr_hz: Floats = self.gains.gain(devices, self.env.now) * power_w / self.noise_w_per_hz
        for job, each in zip(jobs, snr_hz.tolist(), strict=True):
            job.snr_hz = each
        return snr_hz

    def join(self, jobs: Sequence[Job]) -> None:
        """Track the channel of these jobs from now on."""
        self.refresh(jobs)
        if self.wakes_at == math.inf:
            self.sleep_until(self._next_change())

    def sleep_until(self, at: float) -> None:
        """Start the process, to wake at ``at`` (seconds)."""
        self.wakes_at = at
        if at < math.inf:
            self.env.process(self.run())

    def run(self) -> ProcessGenerator:
        """Wake at each change of the channel while a job sends or waits: the channel's process."""
        assert self.uplink is not None
        band = self.uplink.band
        while self.wakes_at < math.inf and (band.sending or band.waiting or self.uplink.arriving):
            yield from sleep_until(self.env, self.wakes_at)
            self.wakes_at = self._next_change()
            band.channel_changed()
            self._give_up()
        self.wakes_at = math.inf

    def _next_change(self) -> float:
        now = self.env.now
        at = self.gains.next_change(now)
        if not at > now:
            raise InputError("wrong-answer", "next_change of the channel", f"{at!r} s", f"an instant after {now!r} s")
        return at

    def _give_up(self) -> None:
        """Raise InputError for an upload that would take hours of CPU time to simulate."""
        assert self.uplink is not None
        job = self.uplink.band.first_sender()
        if job is None:
            return
        seen = self._longest[1] + 1 if self._longest[0] == job.number else 1
        self._longest = (job.number, seen)
        check_progress(job, seen, "changes of the channel", self.env.now, "Increase its bandwidth or power, reduce its "
                       "bits, or let the channel change less often (cell.fading.coherence, population.mobility.every)",
                       self.uplink.remaining_s(job) if seen % LOOK_AFTER == 0 else 0.0)


class PacketLoss:
    """Loss of uploads or of their packets; the n-th upload of a device is the same in every run with a seed."""

    def __init__(self, faults: AvailabilityModel) -> None:
        self.faults = faults
        self._uploads: dict[int, int] = {}       # uploads so far, by device

    def bits_to_send(self, job: Job) -> float:
        """Return the bits of an upload, including retransmitted packets."""
        loss = self.faults.loss(job.device)
        if loss is None or not loss.packets:
            return job.plan.bits
        job.work.packets, lost = self.faults.packets_sent(job.device, self._next(job.device))
        job.work.attempts = loss.max_attempts if lost else 0
        return job.plan.bits * job.work.packets / loss.packets

    def outcome(self, job: Job) -> str | None:
        """Return the outcome of a completed upload; None if it is sent again."""
        loss = self.faults.loss(job.device)
        if loss is None:
            return ARRIVED
        if job.work.packets:
            return LOST if job.work.attempts >= loss.max_attempts else ARRIVED
        if not self.faults.loses(job.device, self._next(job.device)):
            return ARRIVED
        job.work.attempts += 1
        return LOST if job.work.attempts >= loss.max_attempts else None

    def _next(self, device: int) -> int:
        number = self._uploads.get(device, 0)
        self._uploads[device] = number + 1
        return number

    def snapshot(self) -> Ints:
        """Return rows of device number and number of uploads."""
        return np.array(list(self._uploads.items()), np.int64).reshape(-1, 2)

    def restore(self, uploads: Ints) -> None:
        self._uploads = {int(device): int(count) for device, count in uploads}
