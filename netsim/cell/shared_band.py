"""Transmissions that share the band: the scheduler divides it among them, and one timer waits for the next end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import simpy

from netsim.allocation.sharing import Active
from netsim.base.arrays import Bools, Floats, Ints, State
from netsim.cell.clock import CLOCK_ULPS, SAME_END, call_at, rounding_s
from netsim.cell.job import Job
from netsim.trace.schema import OVER_BUDGET

if TYPE_CHECKING:
    from netsim.cell.uplink import Transmission, Uplink

# Rows of the table: bits left, bits per second, hertz, J = h p / N0, planned hertz, seconds on the air, seconds that
# the budget pays for in all, and the same with the slack that rounding needs.
LEFT, RATE, HZ, SNR, PLANNED, AIR, PAYS, LIMIT = range(8)


def seconds_left(left: Floats, rate: Floats) -> Floats:
    """Seconds until the bits that are left are sent; inf at rate 0."""
    seconds: Floats = np.full(len(left), np.inf)
    np.divide(left, rate, out=seconds, where=rate > 0.0)
    return seconds


class SharedBand:
    """The transmissions as columns of a table: those on the air first, then those that wait, the first ready first."""

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
        columns = np.array([(job.left, 0.0, 0.0, job.snr_hz, job.planned_hz, job.upload_s,
                             (job.budget_j - job.compute_j) / job.power_w, math.inf) for job in jobs]).T
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
            hertz = uplink.ask(Active(
                planned_hz=seen[PLANNED], left_bits=seen[LEFT], snr_hz=seen[SNR],
                left_s=seen[PAYS] - seen[AIR], sending=seen[HZ], bandwidth_hz=uplink.bandwidth_hz, link=uplink.link))
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
                self.table[LEFT, i] = transmission.job.left
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
        job.left, job.rate, job.hz, _, _, job.upload_s, _, _ = self.table[:, i].tolist()
        job.upload_j, job.since = job.power_w * job.upload_s, self.since

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
