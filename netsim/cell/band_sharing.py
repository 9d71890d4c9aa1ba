"""Two ways to share a band: planned shares that jobs keep, and shares that the scheduler changes at any time."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import simpy

from netsim.base.types import Bools, Floats, Ints, State
from netsim.cell.clock import CLOCK_ULPS, SAME_END, call_at, rounding_s
from netsim.cell.job import Job
from netsim.trace.schema import OVER_BUDGET

if TYPE_CHECKING:
    from netsim.cell.transmission import Transmission
    from netsim.cell.uplink import Uplink

# Rows of the table: bits left, bits per second, hertz, J = h p / N0, planned hertz, seconds of sending so far, and
# seconds of sending that the energy budget allows.
LEFT, RATE, HZ, SNR, PLANNED, AIR, PAYS = range(7)


class FixedShares:
    """The band under a scheduler that gives each job its planned bandwidth, first come, first served.

    Each transmission has its own timer. The scheduler is called only while a job waits for bandwidth, or if a job has
    slots in which its bandwidth changes.
    """

    def __init__(self, uplink: Uplink) -> None:
        self.uplink = uplink
        self.env = uplink.env
        self.active = uplink.timed                       # transmissions that send
        self.waiting: list[Transmission] = []

    @property
    def sending(self) -> int:
        """Number of transmissions that send."""
        return len(self.active)

    def admit(self, transmission: Transmission) -> None:
        """Start a transmission that fits into the band."""
        job, uplink = transmission.job, self.uplink
        if uplink.channel is not None:
            uplink.channel.join([job])
        hz = job.plan.bandwidth_hz
        self._start(transmission, hz, float(uplink.link.rate(hz, job.snr_hz)))
        uplink.count(self.env.now, uplink.in_use_hz + hz)

    def join(self, arriving: list[Transmission]) -> None:
        """Queue transmissions that start at this instant."""
        self.waiting += arriving

    def reallocate(self) -> None:
        """Call the scheduler; without slots, active transmissions keep their bandwidth."""
        if not self.waiting and not self.uplink.slotted:
            return
        uplink, now = self.uplink, self.env.now
        everyone = [*self.active.values(), *self.waiting]
        jobs = [each.job for each in everyone]
        works = [job.work for job in jobs]
        sent_s = [now - work.since if work.hz else 0.0 for work in works]
        left = [work.left - work.rate * seconds for work, seconds in zip(works, sent_s, strict=True)]
        affordable = [job.affordable_s() - seconds for job, seconds in zip(jobs, sent_s, strict=True)]
        snr_hz = np.array([job.snr_hz for job in jobs])
        hertz = uplink.ask(
            planned_hz=np.array([job.planned_hz for job in jobs]), left_bits=np.array(left), snr_hz=snr_hz,
            left_s=np.array(affordable), sending=np.array([work.hz for work in works]))
        for each, hz, rate in zip(everyone, hertz.tolist(), uplink.link.rate(hertz, snr_hz).tolist(), strict=True):
            self._give(each, hz, rate)
        uplink.count(now, float(hertz.sum()))

    def _give(self, transmission: Transmission, hz: float, rate: float) -> None:
        """Start a waiting transmission that gets bandwidth, or change the bandwidth of one with slots."""
        job = transmission.job
        if job not in self.active:
            if hz > 0.0:
                self.waiting.remove(transmission)
                self.uplink.note_order(job)
                self._start(transmission, hz, rate)
        elif hz != job.work.hz and job.slots is not None:
            self._account(job, self.env.now - job.work.since)
            job.work.hz, job.work.rate = hz, rate
            self._set_timer(transmission)

    def _start(self, transmission: Transmission, hz: float, rate: float) -> None:
        job, now = transmission.job, self.env.now
        job.work.hz, job.work.rate, job.work.since = hz, rate, now
        transmission.begin(now)
        self.active[job] = transmission
        self._set_timer(transmission)

    # Time.

    def _set_timer(self, transmission: Transmission) -> None:
        """Schedule the instant of the last bit or of the spent budget, unless the channel changes before it."""
        job, channel = transmission.job, self.uplink.channel
        seconds = job.work.until_done()
        if self.uplink.abort_over_budget:
            seconds = min(seconds, max(0.0, job.affordable_s(SAME_END)))
        if channel is not None and self.env.now + seconds > channel.wakes_at:
            seconds = math.inf
        transmission.timer, job.work.seconds = None, seconds
        if seconds < math.inf:
            transmission.timer = self.env.timeout(seconds)
            transmission.timer.callbacks.append(partial(self._due, transmission))

    def _due(self, transmission: Transmission, timer: simpy.Event) -> None:
        if timer is transmission.timer:              # another timer was set if the rate has changed
            work = transmission.job.work
            self._end(transmission, work.seconds, sent=work.until_done() <= work.seconds)

    def _end(self, transmission: Transmission, seconds: float, *, sent: bool) -> None:
        """End a transmission after ``seconds``: the last bit is sent, or the budget is spent."""
        job = transmission.job
        self._account(job, seconds)
        transmission.timer = None
        if sent and self.uplink.is_lost(transmission):
            self._set_timer(transmission)
        else:
            del self.active[job]
            self.uplink.end(transmission, job.outcome if sent else OVER_BUDGET)

    def _account(self, job: Job, seconds: float) -> None:
        """Account for ``seconds`` of sending."""
        work = job.work
        work.upload_s += seconds
        work.left = max(0.0, work.left - work.rate * seconds)
        work.since = self.env.now

    def settle(self) -> None:
        """End the transmissions whose last bit is sent now, within rounding errors."""
        now = self.env.now
        for each in list(self.active.values()):
            job, work = each.job, each.job.work
            if job.transmission is each and not each.triggered and work.until_done() <= (
                    now - work.since + rounding_s(now, work.since)):
                self._end(each, work.until_done(), sent=True)

    def remove(self, transmission: Transmission) -> bool:
        """Remove an interrupted transmission; return True if it was sending."""
        job = transmission.job
        if job not in self.active:
            self.waiting.remove(transmission)
            return False
        self._account(job, self.env.now - job.work.since)
        del self.active[job]
        transmission.timer = None
        return True

    def remaining_s(self, job: Job) -> float:
        """Return the seconds until the last bit is sent at the current rate."""
        return job.work.since + job.work.until_done() - self.env.now if job in self.active else math.inf

    def channel_changed(self) -> None:
        """Update the rates to the current gains."""
        self.settle()
        uplink, now = self.uplink, self.env.now
        sending = list(self.active.values())
        jobs = [each.job for each in (*sending, *self.waiting)]
        if uplink.channel is None or not jobs:
            return
        snr_hz = uplink.channel.refresh(jobs)[:len(sending)]
        rates = uplink.link.rate(np.array([each.job.work.hz for each in sending]), snr_hz).tolist()
        for each, rate in zip(sending, rates, strict=True):
            self._account(each.job, now - each.job.work.since)
            each.job.work.rate = rate
            self._set_timer(each)

    def first_sender(self) -> Job | None:
        """Return the job that has been sending for longest; None if no job sends."""
        return next((each.job for each in self.active.values()), None)

    # Checkpoints.

    def snapshot(self) -> State:
        return {"sending": np.array([job.number for job in self.active], np.int64),
                "waiting": np.array([each.job.number for each in self.waiting], np.int64)}

    def restore(self, state: State, sending: list[Transmission], waiting: list[Transmission]) -> None:
        """Restore the transmissions, with timers that end at the same instants."""
        self.waiting = waiting
        for transmission in sending:
            self.active[transmission.job], work = transmission, transmission.job.work
            if work.seconds < math.inf:
                transmission.timer = call_at(self.env, work.since + work.seconds, partial(self._due, transmission))


def seconds_left(left: Floats, rate: Floats) -> Floats:
    """Return the seconds until the remaining bits are sent; inf at rate 0."""
    seconds: Floats = np.full(len(left), np.inf)
    np.divide(left, rate, out=seconds, where=rate > 0.0)
    return seconds


class SharedBand:
    """The band under a scheduler that may change all shares at any time.

    Transmissions are columns of a table: active ones first, then waiting ones in the order of readiness. One timer
    waits for the next end.
    """

    def __init__(self, uplink: Uplink) -> None:
        self.uplink = uplink
        self.env = uplink.env
        self.all: list[Transmission] = []
        self.table: Floats = np.zeros((7, 0))
        self.sending = 0                          # number of transmissions that send
        self.since = self.divided = self.env.now  # instants of the table's amounts, and of the last allocation
        self.due_at = math.inf
        self._next = -1                           # column whose end the timer waits for
        self._timer: simpy.Event | None = None

    @property
    def waiting(self) -> list[Transmission]:
        """Transmissions that wait for bandwidth."""
        return self.all[self.sending:]

    def join(self, arriving: list[Transmission]) -> None:
        """Queue transmissions that start at this instant."""
        jobs = [each.job for each in arriving]
        columns = np.array([(job.work.left, 0.0, 0.0, job.snr_hz, job.planned_hz, job.work.upload_s,
                             (job.plan.budget_j - job.work.compute_j) / job.plan.power_w) for job in jobs]).T
        self.table = np.concatenate([self.table, columns], axis=1)
        self.all += arriving

    def reallocate(self) -> None:
        """Call the scheduler, and schedule the next end."""
        if self.all:
            uplink, table = self.uplink, self.table
            if uplink.slotted:
                table[PLANNED] = [each.job.planned_hz for each in self.all]
            seen = table.view()
            seen.flags.writeable = False          # read-only for the scheduler
            hertz = uplink.ask(planned_hz=seen[PLANNED], left_bits=seen[LEFT], snr_hz=seen[SNR],
                               left_s=seen[PAYS] - seen[AIR], sending=seen[HZ])
            table[HZ], table[RATE] = hertz, uplink.link.rate(hertz, table[SNR])
            if self.sending < len(self.all):
                self._start(np.flatnonzero(hertz[self.sending:] > 0.0) + self.sending)
            self.divided = self.env.now
            uplink.count(self.env.now, float(hertz.sum()))
        self._set_timer()

    def _start(self, columns: Ints) -> None:
        """Start waiting transmissions."""
        if not len(columns):
            return
        first, count = self.sending, len(columns)
        if columns[-1] >= first + count:          # the scheduler's order differs from that of readiness
            order = [*range(first), *columns.tolist(),
                     *(i for i in range(first, len(self.all)) if i not in set(columns.tolist()))]
            self.all, self.table = [self.all[i] for i in order], self.table[:, order]
        for each in self.all[first:first + count]:
            self.uplink.note_order(each.job)
            each.begin(self.env.now)
        self.sending += count

    # Time.

    def _set_timer(self) -> None:
        """Schedule the end of the next transmission; it replaces an earlier timer."""
        count, table, seconds = self.sending, self.table, math.inf
        self._timer, self.due_at = None, math.inf
        if count:
            ends_s = seconds_left(table[LEFT, :count], table[RATE, :count])
            self._next = int(ends_s.argmin())
            seconds = float(ends_s[self._next])
            if self.uplink.abort_over_budget:
                spent_s = float(np.nanmin(table[PAYS, :count] * (1 + SAME_END) - table[AIR, :count], initial=math.inf))
                if spent_s < seconds:
                    seconds, self._next = max(0.0, spent_s), -1
        if seconds < math.inf:
            self.due_at = self.env.now + seconds
            self._timer = self.env.timeout(seconds)
            self._timer.callbacks.append(self._due)

    def _due(self, timer: simpy.Event) -> None:
        if timer is self._timer:
            self._timer, self.due_at = None, math.inf
            self.settle(self._next)
            self.uplink.wake()

    def settle(self, due: int | None = None) -> None:
        """Update the bits left; end transmissions that are complete, then those that have spent their budget.

        ``due`` is the column whose end the timer waited for (-1 for the end of a budget).
        """
        now, count = self.env.now, self.sending
        dt, self.since = now - self.since, now
        if not count or (dt == 0.0 and due is None):
            return
        table = self.table
        left, rate = table[LEFT, :count], table[RATE, :count]
        remaining_s = seconds_left(left, rate)
        done = remaining_s <= dt + rounding_s(now, self.divided)
        if due is not None and due >= 0:
            done[due] = True
        table[AIR, :count] += np.where(done, remaining_s, dt)
        np.maximum(left - rate * dt, 0.0, out=left)
        if done.any():
            left[done] = 0.0
            self._end(np.flatnonzero(done), sent=True)
        if self.uplink.abort_over_budget and self.sending:
            self._end_over_budget()

    def _end_over_budget(self) -> None:
        air, pays = self.table[AIR, :self.sending], self.table[PAYS, :self.sending]
        spent = air >= pays * (1 + SAME_END) - CLOCK_ULPS * math.ulp(self.env.now)
        if spent.any():
            self._end(np.flatnonzero(spent), sent=False)

    def _end(self, columns: Ints, *, sent: bool) -> None:
        """End transmissions in the order of device numbers; lost ones stay if they are sent again."""
        ended: list[Transmission] = []
        keep = np.ones(len(self.all), bool)
        for i in sorted(columns.tolist(), key=lambda i: (self.all[i].job.device, self.all[i].job.number)):
            transmission = self.all[i]
            self._write(i)
            if sent and self.uplink.is_lost(transmission):
                self.table[LEFT, i] = transmission.job.work.left
            else:
                keep[i] = False
                ended.append(transmission)
        self._keep(keep)
        for transmission in ended:
            self.uplink.end(transmission, transmission.job.outcome if sent else OVER_BUDGET)

    def _write(self, i: int) -> None:
        """Copy the values of a column to its job."""
        job = self.all[i].job
        job.work.left, job.work.rate, job.work.hz, _, _, job.work.upload_s, _ = self.table[:, i].tolist()
        job.work.since = self.since

    def _keep(self, keep: Bools) -> None:
        self.sending = int(np.count_nonzero(keep[:self.sending]))
        self.all = [each for each, stays in zip(self.all, keep.tolist(), strict=True) if stays]
        self.table = self.table[:, keep]
        self._next = -1                           # columns have moved: ``settle`` finds the complete ones itself

    def remove(self, transmission: Transmission) -> bool:
        """Remove an interrupted transmission; return True if it was sending."""
        self.settle()
        i = self.all.index(transmission)
        on_air = i < self.sending
        self._write(i)
        self._keep(np.arange(len(self.all)) != i)
        return on_air

    def remaining_s(self, job: Job) -> float:
        """Return the seconds until the last bit is sent at the current rate."""
        i = next(i for i, each in enumerate(self.all) if each.job is job)
        left, rate = self.table[LEFT, i], self.table[RATE, i]
        return float(left / rate) if rate > 0.0 else math.inf

    def channel_changed(self) -> None:
        """Update the gains and call the scheduler."""
        self.settle()
        if self.all and self.uplink.channel is not None:
            self.table[SNR] = self.uplink.channel.refresh([each.job for each in self.all])
            self.uplink.wake()

    def first_sender(self) -> Job | None:
        """Return the job that has been sending for longest; None if no job sends."""
        if not self.sending:
            return None
        self._write(0)
        return self.all[0].job

    # Checkpoints.

    def snapshot(self) -> State:
        for i in range(len(self.all)):
            self._write(i)
        numbers = np.array([each.job.number for each in self.all], np.int64)
        return {"sending": numbers[:self.sending], "waiting": numbers[self.sending:], "table": self.table.copy(),
                "times": np.array([self.since, self.divided, self.due_at, self._next])}

    def restore(self, state: State, sending: list[Transmission], waiting: list[Transmission]) -> None:
        """Restore the table, with a timer that ends at the same instant."""
        self.all, self.sending = [*sending, *waiting], len(sending)
        if not self.all:                          # the state may be that of a fixed scheduler, without a table
            return
        self.table = state["table"].copy()
        self.since, self.divided, self.due_at, following = state["times"].tolist()
        self._next = int(following)
        if self.due_at < math.inf:
            self._timer = call_at(self.env, self.due_at, self._due)
