"""Shadowing that changes along a device's way: S' = rho S + sd sqrt(1 - rho^2) N with rho = exp(-way / correlation).

Since rho(a + b) = rho(a) rho(b), the step does not matter in law. It begins with the device's own draw.
"""

from __future__ import annotations

import math

from netsim.base.streams import follow, stream
from netsim.fleet.mobility import Walk

CHUNK = 64       # steps drawn at once


class WayShadowing:
    """The shadowing of one device, step by step in absolute time."""

    def __init__(
        self, walk: Walk, seed: int, device: int, start_db: float, sd_db: float, correlation_m: float, every_s: float,
    ) -> None:
        self.walk, self.seed, self.device = walk, seed, device
        self.start_db, self.sd_db, self.correlation_m, self.every_s = start_db, sd_db, correlation_m, every_s
        self._chunk, self._values = -1, [start_db]

    def at(self, step: int) -> float:
        """In dB, after so many steps."""
        if step == 0:
            return self.start_db
        chunk, place = divmod(step - 1, CHUNK)
        if chunk < self._chunk:
            self._chunk, self._values = -1, [self.start_db]      # time went back: from the beginning
        follow(step, "shadowing changes", step * self.every_s)
        while self._chunk < chunk:
            self._advance()
        return self._values[place]

    def _advance(self) -> None:
        """The next steps, from the last of those before."""
        self._chunk += 1
        first = self._chunk * CHUNK
        draws = stream(self.seed, "shadowing on the way", self._chunk, self.device).standard_normal(CHUNK).tolist()
        value, here, values = self._values[-1], self.walk.at(first * self.every_s), []
        for k, draw in enumerate(draws, first + 1):
            there = self.walk.at(k * self.every_s)
            rho = math.exp(-math.dist(here, there) / self.correlation_m)
            value = rho * value + self.sd_db * math.sqrt(1.0 - rho * rho) * draw
            values.append(value)
            here = there
        self._values = values
