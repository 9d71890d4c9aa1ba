"""Processors that get hot: after so many seconds of load the clock falls, and a rest cools."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Floats
from netsim.cell.jobs import COMPUTING, Flight
from netsim.cell.loads import HOT

if TYPE_CHECKING:
    from netsim.cell.medium import Medium
    from netsim.world.supply import HeatLimit


class Heat:
    """How warm devices are, in seconds of load, from 0 (cold) to what they bear; those that never computed are cold.

    Computing above the lower clock warms by a second a second, at or below it nothing changes, and in a rest a hot
    processor gets cold in ``rest_s`` seconds.
    """

    def __init__(self, medium: Medium, limits: Sequence[HeatLimit]) -> None:
        self.medium = medium
        self.limits = limits
        self._warmth: dict[int, tuple[float, float]] = {}        # device -> seconds of load, and when it had them

    def begin(self, flight: Flight, i: int, now: float) -> None:
        """Computing begins, or goes on: at the lower clock where the device is hot, else until it is."""
        device = flight.device[i]
        limit = self._limit(device)
        if limit is None:
            return
        warmth_s, at = self._warmth.get(device, (0.0, now))
        warmth_s = max(0.0, warmth_s - (now - at) * limit.load_s / limit.rest_s)
        self._warmth[device] = (warmth_s, now)
        if flight.rate[i] <= limit.clock_hz:
            return
        if warmth_s >= limit.load_s:
            self.slow_down(flight, i, now)
        else:
            self._await(flight, i, limit)

    def begin_all(self, flight: Flight, now: float) -> None:
        """The same for all jobs of a flight."""
        for i in range(len(flight)):
            self.begin(flight, i, now)

    def slow_down(self, flight: Flight, i: int, now: float) -> None:
        """Go on at the lower clock."""
        limit = self._limit(flight.device[i])
        assert limit is not None
        self.medium.work.stop(flight, i, now)
        flight.tell(i, now)
        self._warmth[flight.device[i]] = (limit.load_s, now)
        self.medium.work.compute_at(flight, i, now, limit.clock_hz)

    def stop(self, flight: Flight, i: int, now: float) -> None:
        """Computing stops: from here on it cools."""
        limit = self._limit(flight.device[i])
        if limit is not None:
            warmth_s, since = self._warmth[flight.device[i]]
            warms = flight.rate[i] > limit.clock_hz
            self._warmth[flight.device[i]] = (min(limit.load_s, warmth_s + now - since) if warms else warmth_s, now)

    def look_ahead(self) -> None:
        """Find out anew whose clock will fall."""
        for flight in self.medium.flights:
            for i, phase in enumerate(flight.phase):
                limit = self._limit(flight.device[i]) if phase == COMPUTING else None
                if limit is not None and flight.rate[i] > limit.clock_hz:
                    self._await(flight, i, limit)

    def snapshot(self) -> Floats:
        """Device, seconds of load and when it had them, a row each."""
        return np.array([(device, *known) for device, known in self._warmth.items()], float).reshape(-1, 3)

    def restore(self, rows: Floats) -> None:
        self._warmth = {int(device): (warmth_s, at) for device, warmth_s, at in rows.tolist()}

    def _await(self, flight: Flight, i: int, limit: HeatLimit) -> None:
        warmth_s, since = self._warmth[flight.device[i]]
        at = since + (limit.load_s - warmth_s)
        if at < flight.since[i] + flight.left[i] / flight.rate[i]:
            heappush(self.medium.agenda, (at, HOT, flight.turn[i], flight.stamp[i], flight, i))

    def _limit(self, device: int) -> HeatLimit | None:
        """What a device bears; None where it bears everything."""
        return next((limit for limit in self.limits if device in limit.devices), None)
