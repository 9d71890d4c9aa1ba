"""Channels that change while somebody sends."""

from __future__ import annotations

import math
from heapq import heappush
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.errors import InputError
from netsim.cell.jobs import Flight
from netsim.cell.loads import CHANGED
from netsim.cell.radio import Air

if TYPE_CHECKING:
    from netsim.cell.medium import Medium

MOST_CHANGES = 50_000      # of the channel during an upload: 1,000 s, with fades of 20 ms; some 10 s of computing
LOOK_AFTER = 1_000         # changes: whether at this pace ten times the most would not do


class Fades:
    """What changing channels do to the jobs of a medium; where nobody is on the air, nobody needs to know."""

    def __init__(self, medium: Medium, air: Air) -> None:
        self.medium = medium
        self.air = air
        self._next_change = math.inf         # that somebody waits for
        self._met = (-1, 0)                  # who sends for longest, and how many changes that has seen

    def watch(self, now: float) -> None:
        """Be there when a channel changes next."""
        if self._next_change <= now or self._next_change == math.inf:
            self._next_change = self.air.next_change(now)
            if not self._next_change > now:
                raise ValueError(f"the channel's next change after {now!r} s is at {self._next_change!r} s: not later")
            if self._next_change < math.inf:
                heappush(self.medium.agenda, (self._next_change, CHANGED, -1, 0, None, 0))

    def look_ahead(self, now: float) -> None:
        """Find out anew what to wait for."""
        self._next_change = math.inf
        if self.medium.sending or self.medium.waiting:
            self.watch(now)

    def changed(self, now: float) -> None:
        """Whoever sends goes on at another rate."""
        medium, self._next_change = self.medium, math.inf
        active = [*medium.sending.values(), *medium.waiting]
        if not active:
            return
        self.take_over(active, now)
        self._lose_patience(*active[0], medium.env.now)
        if medium.steady and not medium.waiting:      # whoever sends has the band that was planned
            for flight, i in active:
                medium.change_rate(flight, i, medium.env.now, flight.hz[i], flight.planned_rate[i])
        else:
            medium.share(medium.env.now, changed=True)
        self.watch(now)

    def take_over(self, some: list[tuple[Flight, int]], now: float) -> None:
        """The gains of the moment hold."""
        medium = self.medium
        gain = self.air.gain(np.array([flight.device[i] for flight, i in some]), now)
        snr_hz = gain * np.array([flight.power_w[i] for flight, i in some]) / medium.noise_w_per_hz
        rate = medium.radio.rate(np.array([flight.planned_hz[i] for flight, i in some]), snr_hz)
        for (flight, i), each_snr_hz, each_rate in zip(some, snr_hz.tolist(), rate.tolist(), strict=True):
            flight.snr_hz[i], flight.planned_rate[i] = each_snr_hz, each_rate

    def _lose_patience(self, flight: Flight, i: int, now: float) -> None:
        """An upload that lasts for more changes than anybody would wait for is told, not played for hours."""
        ticket = flight.first + i
        met = self._met[1] + 1 if self._met[0] == ticket else 1
        self._met = (ticket, met)
        sent = flight.bits[i] - flight.left[i]
        hopeless = met % LOOK_AFTER == 0 and 0.0 < sent * 10 * MOST_CHANGES < flight.bits[i] * met
        if hopeless or met > MOST_CHANGES:
            raise InputError(
                f"{now:.6g} s: the upload of device {flight.device[i]} is not done after {met - 1:,} changes of the "
                f"channel, with {sent / flight.bits[i]:.2g} of its bits sent; give it more band, more power or fewer "
                "bits, or let the channel change less often (cell.fading.coherence, population.mobility.every)")
