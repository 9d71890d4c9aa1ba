"""The two ways in which a band is divided: shares that jobs keep, and shares that the scheduler may change any time."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import simpy

from netsim.base.arrays import Bools, Floats, Ints, State
from netsim.cell.clock import CLOCK_ULPS, SAME_END, call_at, rounding_s
from netsim.cell.job import Job
from netsim.trace.schema import OVER_BUDGET

if TYPE_CHECKING:
    from netsim.cell.uplink import Transmission, Uplink

# Rows of the table: bits left, bits per second, hertz, J = h p / N0, planned hertz, seconds on the air, seconds that
# the budget pays for in all, and the same with the slack that rounding needs.
LEFT, RATE, HZ, SNR, PLANNED, AIR, PAYS, LIMIT = range(8)


class FixedShares:
    """The band under a scheduler that gives each job its planned bandwidth, first come, first served.

    Each transmission has a timer of its own.
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
        job, hz = transmission.job, transmission.job.plan.bandwidth_hz
        self._start(transmission, hz, float(self.uplink.link.rate(hz, job.snr_hz)))
        self.uplink.count(self.env.now, self.uplink.in_use_hz + hz)

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
        works = [job.work for job in jobs]
        sent_s = [now - work.since if work.hz else 0.0 for work in works]
        left = [work.left - work.rate * seconds for work, seconds in zip(works, sent_s, strict=True)]
        affordable = [job.affordable_s() - seconds for job, seconds in zip(jobs, sent_s, strict=True)]
        snr_hz = np.array([job.snr_hz for job in jobs])
        hertz = uplink.ask(
            planned_hz=np.array([job.planned_hz for job in jobs]), left_bits=np.array(left), snr_hz=snr_hz,
            left_s=np.array(affordable), sending=np.array([work.hz for work in works]))
        for each, hz, rate in zip(everyone, hertz.tolist(), uplink.link.rate(hertz, snr_hz).tolist(), strict=True):
            job = each.job
            if job not in self.active:
                if hz > 0.0:
                    self.waiting.remove(each)
                    uplink.note_order(job)
                    self._start(each, hz, rate)
            elif hz != job.work.hz and job.slots is not None:
                self._account(job, now - job.work.since)
                job.work.hz, job.work.rate = hz, rate
                self._set_timer(each)
        uplink.count(now, float(hertz.sum()))

    def _start(self, transmission: Transmission, hz: float, rate: float) -> None:
        job, now = transmission.job, self.env.now
        job.work.hz, job.work.rate, job.work.since = hz, rate, now
        transmission.begin(now)
        self.active[job] = transmission
        self._set_timer(transmission)

    # Time.

    def _set_timer(self, transmission: Transmission) -> None:
        """Wake when the last bit is sent or the budget is spent, unless the channel changes before."""
        job, channel = transmission.job, self.uplink.channel
        seconds = job.work.until_done()
        if self.uplink.abort_over_budget:
            seconds = min(seconds, max(0.0, job.affordable_s()) * (1 + SAME_END))
        if channel is not None and self.env.now + seconds > channel.wakes_at:
            seconds = math.inf
        transmission.timer, job.work.seconds = None, seconds
        if seconds < math.inf:
            transmission.timer = self.env.timeout(seconds)
            transmission.timer.callbacks.append(partial(self._due, transmission))

    def _due(self, transmission: Transmission, timer: simpy.Event) -> None:
        if timer is transmission.timer:              # else the rate has changed since
            work = transmission.job.work
            self._end(transmission, work.seconds, sent=work.until_done() <= work.seconds)

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
        work = job.work
        work.upload_s += seconds
        work.left = max(0.0, work.left - work.rate * seconds)
        work.since = self.env.now

    def settle(self) -> None:
        """End the transmissions whose last bit is sent now, but for rounding."""
        now = self.env.now
        for each in list(self.active.values()):
            job, work = each.job, each.job.work
            if job.transmission is each and not each.triggered and work.until_done() <= (
                    now - work.since + rounding_s(now, work.since)):
                self._end(each, work.until_done(), sent=True)

    def remove(self, transmission: Transmission) -> bool:
        """Take an interrupted transmission away; return whether it was on the air."""
        job = transmission.job
        if job not in self.active:
            self.waiting.remove(transmission)
            return False
        self._account(job, self.env.now - job.work.since)
        del self.active[job]
        transmission.timer = None
        return True

    def remaining_s(self, job: Job) -> float:
        """Seconds until the last bit is sent, at the present rate."""
        return job.work.since + job.work.until_done() - self.env.now if job in self.active else math.inf

    def channel_changed(self) -> None:
        """Go on at other rates."""
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
            self.active[transmission.job], work = transmission, transmission.job.work
            if work.seconds < math.inf:
                transmission.timer = call_at(self.env, work.since + work.seconds, partial(self._due, transmission))


def seconds_left(left: Floats, rate: Floats) -> Floats:
    """Seconds until the bits that are left are sent; inf at rate 0."""
    seconds: Floats = np.full(len(left), np.inf)
    np.divide(left, rate, out=seconds, where=rate > 0.0)
    return seconds


class SharedBand:
    """The transmissions as columns of a table: those on the air first, then those that wait, the first ready first.

    One timer waits for the next end.
    """

    def __init__(self, uplink: Uplink) -> None:
        self.uplink = uplink
        self.env = uplink.env
        self.all: list[Transmission] = []
        self.table: Floats = np.zeros((8, 0))
        self.sending = 0                          # number of transmissions on the air
        self.since = self.divided = self.env.now  # instants of the table's amounts, and of the last division
        self.due_at = math.inf
        self._next = -1                           # the column whose end the timer waits for
        self._timer: simpy.Event | None = None

    @property
    def waiting(self) -> list[Transmission]:
        """Transmissions that wait for bandwidth."""
        return self.all[self.sending:]

    def join(self, arriving: list[Transmission]) -> None:
        """Queue transmissions that start at this instant."""
        jobs = [each.job for each in arriving]
        columns = np.array([(job.work.left, 0.0, 0.0, job.snr_hz, job.planned_hz, job.work.upload_s,
                             (job.plan.budget_j - job.work.compute_j) / job.plan.power_w, math.inf) for job in jobs]).T
        self.table = np.concatenate([self.table, columns], axis=1)
        self.all += arriving

    def reallocate(self) -> None:
        """Ask the scheduler, and wait for the next end."""
        if self.all:
            uplink, table = self.uplink, self.table
            if uplink.slotted:
                table[PLANNED] = [each.job.planned_hz for each in self.all]
            seen = table.view()
            seen.flags.writeable = False          # a scheduler only looks
            hertz = uplink.ask(planned_hz=seen[PLANNED], left_bits=seen[LEFT], snr_hz=seen[SNR],
                               left_s=seen[PAYS] - seen[AIR], sending=seen[HZ])
            table[HZ], table[RATE] = hertz, uplink.link.rate(hertz, table[SNR])
            if self.sending < len(self.all):
                self._start(np.flatnonzero(hertz[self.sending:] > 0.0) + self.sending)
            self.divided = self.env.now
            uplink.count(self.env.now, float(hertz.sum()))
        self._set_timer()

    def _start(self, columns: Ints) -> None:
        """Put waiting transmissions on the air."""
        if not len(columns):
            return
        first, count = self.sending, len(columns)
        if columns[-1] >= first + count:          # a scheduler may let some overtake others
            order = [*range(first), *columns.tolist(),
                     *(i for i in range(first, len(self.all)) if i not in set(columns.tolist()))]
            self.all, self.table = [self.all[i] for i in order], self.table[:, order]
        for each in self.all[first:first + count]:
            self.uplink.note_order(each.job)
            each.begin(self.env.now)
        self.sending += count
        if self.uplink.abort_over_budget:
            self._limit(slice(first, first + count))

    def _limit(self, which: slice | int) -> None:
        """A budget that is kept but for rounding is kept."""
        air_s, pays_s = self.table[AIR, which], self.table[PAYS, which]
        self.table[LIMIT, which] = air_s + np.maximum(pays_s - air_s, 0.0) * (1 + SAME_END)

    # Time.

    def _set_timer(self) -> None:
        """Wake when the next transmission ends; an earlier timer no longer counts."""
        count, table, seconds = self.sending, self.table, math.inf
        self._timer, self.due_at = None, math.inf
        if count:
            ends_s = seconds_left(table[LEFT, :count], table[RATE, :count])
            self._next = int(ends_s.argmin())
            seconds = float(ends_s[self._next])
            if self.uplink.abort_over_budget:
                spent_s = float(np.nanmin(table[LIMIT, :count] - table[AIR, :count], initial=math.inf))
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
        """Let bits decrease until now; end what is sent but for rounding, and then what has spent its budget.

        ``due`` is the column whose end the timer waited for (-1: a budget's end).
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
            table, count = self.table, self.sending
            spent = table[AIR, :count] >= table[LIMIT, :count] - CLOCK_ULPS * math.ulp(now)
            if spent.any():
                self._end(np.flatnonzero(spent), sent=False)

    def _end(self, columns: Ints, *, sent: bool) -> None:
        """End transmissions, in the order of devices; those that were lost may stay, to be sent again."""
        ended: list[Transmission] = []
        keep = np.ones(len(self.all), bool)
        for i in sorted(columns.tolist(), key=lambda i: (self.all[i].job.device, self.all[i].job.number)):
            transmission = self.all[i]
            self._write(i)
            if sent and self.uplink.is_lost(transmission):
                self.table[LEFT, i] = transmission.job.work.left
                if self.uplink.abort_over_budget:
                    self._limit(i)
            else:
                keep[i] = False
                ended.append(transmission)
        self._keep(keep)
        for transmission in ended:
            self.uplink.end(transmission, transmission.job.outcome if sent else OVER_BUDGET)

    def _write(self, i: int) -> None:
        """Bring the job of a column up to date."""
        job = self.all[i].job
        job.work.left, job.work.rate, job.work.hz, _, _, job.work.upload_s, _, _ = self.table[:, i].tolist()
        job.work.since = self.since

    def _keep(self, keep: Bools) -> None:
        self.sending = int(np.count_nonzero(keep[:self.sending]))
        self.all = [each for each, stays in zip(self.all, keep.tolist(), strict=True) if stays]
        self.table = self.table[:, keep]
        self._next = -1                           # columns have moved: rounding decides what the timer ends

    def remove(self, transmission: Transmission) -> bool:
        """Take an interrupted transmission away; return whether it was on the air."""
        self.settle()
        i = self.all.index(transmission)
        on_air = i < self.sending
        self._write(i)
        self._keep(np.arange(len(self.all)) != i)
        return on_air

    def remaining_s(self, job: Job) -> float:
        """Seconds until the last bit is sent, at the present rate."""
        i = next(i for i, each in enumerate(self.all) if each.job is job)
        left, rate = self.table[LEFT, i], self.table[RATE, i]
        return float(left / rate) if rate > 0.0 else math.inf

    def channel_changed(self) -> None:
        """Ask the scheduler again, with other gains."""
        self.settle()
        if self.all and self.uplink.channel is not None:
            self.table[SNR] = self.uplink.channel.refresh([each.job for each in self.all])
            self.uplink.wake()

    def first_sender(self) -> Job | None:
        """The job that has been on the air for longest."""
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
        """The same table, whose timer ends at the same instant."""
        self.all, self.sending = [*sending, *waiting], len(sending)
        if not self.all:                          # and the state may be that of another scheduler
            return
        self.table = state["table"].copy()
        self.since, self.divided, self.due_at, following = state["times"].tolist()
        self._next = int(following)
        if self.due_at < math.inf:
            self._timer = call_at(self.env, self.due_at, self._due)
