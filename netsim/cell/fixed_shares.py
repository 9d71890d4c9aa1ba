"""Transmissions that keep their planned bandwidth: each has a timer of its own."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import simpy

from netsim.allocation.sharing import Active
from netsim.base.arrays import State
from netsim.cell.clock import SAME_END, call_at, rounding_s
from netsim.cell.job import Job
from netsim.trace.schema import OVER_BUDGET

if TYPE_CHECKING:
    from netsim.cell.uplink import Transmission, Uplink


class FixedShares:
    """The band under a scheduler that gives each job its planned bandwidth, first come, first served.

    The scheduler is asked only while a job waits for bandwidth, or has slots in which its bandwidth changes.
    """

    def __init__(self, uplink: Uplink) -> None:
        self.uplink = uplink
        self.env = uplink.env
        self.active = uplink.timed                       # on the air
        self.waiting: list[Transmission] = []

    @property
    def sending(self) -> int:
        """Number of transmissions on the air."""
        return len(self.active)

    def admit(self, transmission: Transmission) -> None:
        """Start a transmission for which there is room."""
        self.uplink.join([transmission])
        self.waiting.pop()
        job = transmission.job
        self._start(transmission, job.bandwidth_hz, float(self.uplink.link.rate(job.bandwidth_hz, job.snr_hz)))
        self.uplink.count(self.env.now, self.uplink.in_use_hz + job.hz)

    def join(self, arriving: list[Transmission]) -> None:
        """Queue transmissions that start at this instant."""
        self.waiting += arriving

    def reallocate(self) -> None:
        """Ask the scheduler; without slots, those who send keep what they have."""
        if not self.waiting and not self.uplink.slotted:
            return
        uplink, now = self.uplink, self.env.now
        everyone = [*self.active.values(), *self.waiting]
        jobs = [each.job for each in everyone]
        left = [job.left - (job.rate * (now - job.since) if job.hz else 0.0) for job in jobs]
        affordable = [job.affordable_s() - (now - job.since if job.hz else 0.0) for job in jobs]
        snr_hz = np.array([job.snr_hz for job in jobs])
        hertz = uplink.ask(Active(
            planned_hz=np.array([job.planned_hz for job in jobs]), left_bits=np.array(left),
            snr_hz=snr_hz, left_s=np.array(affordable), sending=np.array([job.hz for job in jobs]),
            bandwidth_hz=uplink.bandwidth_hz, link=uplink.link))
        for each, hz, rate in zip(everyone, hertz.tolist(), uplink.link.rate(hertz, snr_hz).tolist(), strict=True):
            job = each.job
            if job not in self.active:
                if hz > 0.0:
                    self.waiting.remove(each)
                    uplink.note_order(job)
                    self._start(each, hz, rate)
            elif hz != job.hz and job.slots is not None:
                self._account(job, now - job.since)
                job.hz, job.rate = hz, rate
                self._set_timer(each)
        uplink.count(now, float(hertz.sum()))

    def _start(self, transmission: Transmission, hz: float, rate: float) -> None:
        job = transmission.job
        job.hz, job.rate, job.since = hz, rate, self.env.now
        transmission.begin(self.env.now)
        self.active[job] = transmission
        self._set_timer(transmission)

    # Time.

    def _set_timer(self, transmission: Transmission) -> None:
        """Wake when the last bit is sent or the budget is spent, unless the channel changes before."""
        job, channel = transmission.job, self.uplink.channel
        job.seconds = self._until_sent(job)
        if self.uplink.abort_over_budget:
            job.seconds = min(job.seconds, max(0.0, job.affordable_s()) * (1 + SAME_END))
        if channel is not None and self.env.now + job.seconds > channel.wakes_at:
            job.seconds = math.inf
        transmission.timer = None
        if job.seconds < math.inf:
            transmission.timer = self.env.timeout(job.seconds)
            transmission.timer.callbacks.append(partial(self._due, transmission))

    @staticmethod
    def _until_sent(job: Job) -> float:
        return job.left / job.rate if job.rate > 0.0 else math.inf

    def _due(self, transmission: Transmission, timer: simpy.Event) -> None:
        if timer is transmission.timer:              # else the rate has changed since
            job = transmission.job
            self._end(transmission, job.seconds, sent=self._until_sent(job) <= job.seconds)

    def _end(self, transmission: Transmission, seconds: float, *, sent: bool) -> None:
        """The last bit is sent, or the budget is spent, after ``seconds``."""
        job = transmission.job
        self._account(job, seconds)
        transmission.timer = None
        if sent and self.uplink.is_lost(transmission):
            self._set_timer(transmission)
        else:
            del self.active[job]
            self.uplink.end(transmission, job.outcome if sent else OVER_BUDGET)

    def _account(self, job: Job, seconds: float) -> None:
        """Bits were sent for so long."""
        job.upload_s += seconds
        job.upload_j = job.power_w * job.upload_s
        job.left = max(0.0, job.left - job.rate * seconds)
        job.since = self.env.now

    def settle(self) -> None:
        """End the transmissions whose last bit is sent now, but for rounding."""
        now = self.env.now
        for each in list(self.active.values()):
            job = each.job
            if job.transmission is each and not each.triggered and self._until_sent(job) <= (
                    now - job.since + rounding_s(now, job.since)):
                self._end(each, self._until_sent(job), sent=True)

    def remove(self, transmission: Transmission) -> bool:
        """Take an interrupted transmission away; return whether it was on the air."""
        job = transmission.job
        if job not in self.active:
            self.waiting.remove(transmission)
            return False
        self._account(job, self.env.now - job.since)
        del self.active[job]
        transmission.timer = None
        return True

    def remaining_s(self, job: Job) -> float:
        """Seconds until the last bit is sent, at the present rate."""
        return job.since + self._until_sent(job) - self.env.now if job in self.active else math.inf

    def channel_changed(self) -> None:
        """Go on at other rates."""
        self.settle()
        uplink, now = self.uplink, self.env.now
        sending = list(self.active.values())
        jobs = [each.job for each in (*sending, *self.waiting)]
        if uplink.channel is None or not jobs:
            return
        snr_hz = uplink.channel.refresh(jobs)[:len(sending)]
        rates = uplink.link.rate(np.array([each.job.hz for each in sending]), snr_hz).tolist()
        for each, rate in zip(sending, rates, strict=True):
            self._account(each.job, now - each.job.since)
            each.job.rate = rate
            self._set_timer(each)

    def first_sender(self) -> Job | None:
        """The job that has been on the air for longest."""
        return next((each.job for each in self.active.values()), None)

    # Checkpoints.

    def snapshot(self) -> State:
        return {"sending": np.array([job.number for job in self.active], np.int64),
                "waiting": np.array([each.job.number for each in self.waiting], np.int64)}

    def restore(self, state: State, sending: list[Transmission], waiting: list[Transmission]) -> None:
        """The same transmissions, whose timers end at the same instants."""
        self.waiting = waiting
        for transmission in sending:
            job = transmission.job
            self.active[job] = transmission
            if job.seconds < math.inf:
                transmission.timer = call_at(self.env, job.since + job.seconds, partial(self._due, transmission))
