"""Channels that change while somebody sends."""

from __future__ import annotations

import math
from heapq import heappush
from typing import TYPE_CHECKING

import numpy as np

from netsim.cell.jobs import Flight
from netsim.cell.loads import CHANGED
from netsim.cell.radio import Air

if TYPE_CHECKING:
    from netsim.cell.medium import Medium


class Fades:
    """What changing channels do to the jobs of a medium; where nobody is on the air, nobody needs to know."""

    def __init__(self, medium: Medium, air: Air) -> None:
        self.medium = medium
        self.air = air
        self._next_change = math.inf         # that somebody waits for

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
        if medium.steady and not medium.waiting:
            for flight, i in active:
                medium.change_rate(flight, i, medium.env.now, flight.hz[i])
        else:
            medium.share(medium.env.now, changed=True)
        self.watch(now)

    def take_over(self, some: list[tuple[Flight, int]], now: float) -> None:
        """The gains of the moment hold."""
        medium = self.medium
        gains = self.air.gain(np.array([flight.device[i] for flight, i in some]), now)
        for (flight, i), gain in zip(some, gains.tolist(), strict=True):
            flight.snr_hz[i] = gain * flight.power_w[i] / medium.noise_w_per_hz
            flight.planned_rate[i] = float(medium.radio.rate(flight.planned_hz[i], flight.snr_hz[i]))
