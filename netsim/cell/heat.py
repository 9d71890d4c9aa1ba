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
    from netsim.scenario.energy import Throttle


class Heat:
    """How warm devices are, in seconds of load, from 0 (cold) to what they bear; those that never computed are cold.

    Computing above the lower clock warms by a second a second, at or below it nothing changes, and in a rest a hot
    processor gets cold in ``recovers`` seconds.
    """

    def __init__(self, medium: Medium, throttles: Sequence[tuple[range, Throttle]]) -> None:
        self.medium = medium
        self.throttles = throttles
        self._warmth: dict[int, tuple[float, float]] = {}        # device -> seconds of load, and when it had them

    def begin(self, flight: Flight, i: int, now: float) -> None:
        """Computing begins, or goes on: at the lower clock where the device is hot, else until it is."""
        device, throttle = flight.device[i], self._throttle(flight, i)
        if throttle is None:
            return
        warmth_s, at = self._warmth.get(device, (0.0, now))
        warmth_s = max(0.0, warmth_s - (now - at) * throttle.after / throttle.recovers)
        self._warmth[device] = (warmth_s, now)
        if warmth_s >= throttle.after:
            self.slow_down(flight, i, now)
        else:
            self._await(flight, i, throttle)

    def begin_all(self, flight: Flight, now: float) -> None:
        """The same for all jobs of a flight."""
        for i in range(len(flight)):
            self.begin(flight, i, now)

    def slow_down(self, flight: Flight, i: int, now: float) -> None:
        """Go on at the lower clock."""
        throttle = self._throttle(flight, i)
        assert throttle is not None
        self.medium.work.stop(flight, i, now)
        flight.tell(i, now)
        self._warmth[flight.device[i]] = (throttle.after, now)
        self.medium.work.compute_at(flight, i, now, throttle.to)

    def stop(self, flight: Flight, i: int, now: float) -> None:
        """Computing stops: from here on it cools."""
        throttle = self._throttle(flight, i)
        if throttle is None:
            return
        warmth_s, since = self._warmth[flight.device[i]]
        hot = flight.rate[i] <= throttle.to
        self._warmth[flight.device[i]] = (throttle.after if hot else min(throttle.after, warmth_s + now - since), now)

    def look_ahead(self) -> None:
        """Find out anew whose clock will fall."""
        for flight in self.medium.flights:
            for i, phase in enumerate(flight.phase):
                throttle = self._throttle(flight, i) if phase == COMPUTING else None
                if throttle is not None and flight.rate[i] > throttle.to:
                    self._await(flight, i, throttle)

    def snapshot(self) -> Floats:
        """Device, seconds of load and when it had them, a row each."""
        return np.array([(device, *known) for device, known in self._warmth.items()], float).reshape(-1, 3)

    def restore(self, rows: Floats) -> None:
        self._warmth = {int(device): (warmth_s, at) for device, warmth_s, at in rows.tolist()}

    def _await(self, flight: Flight, i: int, throttle: Throttle) -> None:
        warmth_s, since = self._warmth[flight.device[i]]
        at = since + (throttle.after - warmth_s)
        if at < flight.since[i] + flight.left[i] / flight.rate[i]:
            heappush(self.medium.agenda, (at, HOT, flight.turn[i], flight.stamp[i], flight, i))

    def _throttle(self, flight: Flight, i: int) -> Throttle | None:
        """What the clock of a job falls to; None where it is planned so low that it stays."""
        device = flight.device[i]
        own = next((throttle for devices, throttle in self.throttles if device in devices), None)
        return None if own is None or flight.jobs.cpu_hz[i] <= own.to else own
