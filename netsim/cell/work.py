"""Work that begins, goes on at another rate, and stops before it is done: receiving the model, and computing."""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

from netsim.base.arrays import Floats
from netsim.cell.jobs import COMPUTING, RECEIVING, SENDING, Flight
from netsim.cell.loads import COMPUTED, RECEIVED

if TYPE_CHECKING:
    from netsim.cell.medium import Medium


class DeviceWork:
    """What devices of a medium do on their own; ``reception_w`` is what receiving draws."""

    def __init__(self, medium: Medium, reception_w: float) -> None:
        self.medium = medium
        self.reception_w = reception_w

    def download(self, flight: Flight, seconds: Floats) -> None:
        """Let these jobs receive for so long before they compute; nothing is done yet, and all of it is told."""
        flight.receive_s = seconds.tolist()
        flight.compute_s, flight.compute_j = [0.0] * len(flight), [0.0] * len(flight)
        flight.story = {i: [] for i in range(len(flight))}
        for i, lasts_s in enumerate(flight.receive_s):
            self.receive(flight, i, self.medium.env.now, lasts_s)

    def receive(self, flight: Flight, i: int, now: float, lasts_s: float) -> None:
        """Begin to receive, or go on."""
        flight.phase[i], flight.since[i] = RECEIVING, now
        flight.left[i], flight.rate[i] = lasts_s, 1.0
        heappush(self.medium.agenda, (now + lasts_s, RECEIVED, flight.turn[i], flight.stamp[i], flight, i))
        if self.reception_w:
            self._draw(flight, i, self.reception_w, lasts_s)

    def due(self, what: int, flight: Flight, i: int, now: float) -> None:
        """The model is there, or the processor is hot."""
        if what == RECEIVED:
            self._received(flight, i, now)
        elif self.medium.heat is not None:
            self.medium.heat.slow_down(flight, i, now)

    def _received(self, flight: Flight, i: int, now: float) -> None:
        """To the computing."""
        self._stop_receiving(flight, i, now, complete=True)
        flight.tell(i, now)
        self.compute(flight, i, now, float(flight.jobs.cycles[i]))

    def compute(self, flight: Flight, i: int, now: float, cycles: float) -> None:
        """Begin to compute after something else, or go on."""
        flight.phase[i], flight.left[i] = COMPUTING, cycles
        self.compute_at(flight, i, now, float(flight.jobs.cpu_hz[i]))
        if self.medium.heat is not None:
            self.medium.heat.begin(flight, i, now)

    def compute_at(self, flight: Flight, i: int, now: float, hz: float) -> None:
        """Let what is left of computing wear off at this clock."""
        flight.rate[i], flight.since[i] = hz, now
        flight.compute_w[i] = float(flight.jobs.compute_w[i] * (hz / flight.jobs.cpu_hz[i]) ** 3)
        seconds = flight.left[i] / hz
        heappush(self.medium.agenda, (now + seconds, COMPUTED, flight.turn[i], flight.stamp[i], flight, i))
        self._draw(flight, i, flight.compute_w[i], seconds)

    def stop(self, flight: Flight, i: int, now: float) -> None:
        """Whatever a job is at stops, before it is done; what was due is no longer."""
        medium, phase = self.medium, flight.phase[i]
        flight.stamp[i] += 1
        if phase == COMPUTING:
            medium.loads.stop_computing(flight, i, now, complete=False)
            if medium.heat is not None:
                medium.heat.stop(flight, i, now)
        elif phase == SENDING:
            medium.loads.stop_sending(flight, i, now, complete=False)
        elif phase == RECEIVING:
            self._stop_receiving(flight, i, now, complete=False)
        else:
            return
        flight.left[i] = max(0.0, flight.left[i] - flight.rate[i] * (now - flight.since[i]))

    def _draw(self, flight: Flight, i: int, watts: float, seconds: float) -> None:
        """A device begins to draw power; on mains nobody needs to know."""
        if self.medium.batteries.any_finite and self.medium.batteries.is_finite(flight.device[i]):
            self.medium.loads.draw(flight, i, watts, seconds)

    def _stop_receiving(self, flight: Flight, i: int, now: float, *, complete: bool) -> None:
        """Note what receiving has taken until now; what is left in the battery then is told with it."""
        flight.computed_at[i] = now
        if flight.first + i in self.medium.loads:
            flight.receive_j[i] += self.medium.loads.settle(flight, i, "charge_1", complete=complete)
        else:
            flight.receive_j[i] += self.reception_w * (flight.left[i] if complete else now - flight.since[i])
