"""Thermal throttling of one device's CPU."""

from __future__ import annotations

import math

from netsim.cell.clock import JUST_ENOUGH
from netsim.world.supply import HeatLimit


class Thermal:
    """Warmth in seconds of load, from 0 (cold) to the limit's ``load_s`` (hot).

    Computing above the throttled frequency warms by one second per second, computing at or below it changes nothing,
    and at rest a hot CPU is cold again after ``rest_s``.
    """

    def __init__(self, limit: HeatLimit, warmth_s: float = 0.0, since: float = 0.0) -> None:
        self.limit = limit
        self.warmth_s = warmth_s
        self.since = since         # instant of ``warmth_s``: when the CPU started or stopped

    def start(self, now: float, cpu_hz: float) -> tuple[float, float]:
        """Start the CPU: return its frequency, and for how many seconds it can be kept."""
        limit = self.limit
        self.warmth_s = max(0.0, self.warmth_s - (now - self.since) * limit.load_s / limit.rest_s)
        self.since = now
        if cpu_hz <= limit.clock_hz:
            return cpu_hz, math.inf
        if self.warmth_s >= limit.load_s:
            return limit.clock_hz, math.inf
        return cpu_hz, limit.load_s - self.warmth_s

    def stop(self, now: float, cpu_hz: float, seconds: float) -> None:
        """Stop the CPU, which ran at this frequency for ``seconds``: late in a run the clock has lost digits."""
        if cpu_hz > self.limit.clock_hz:
            warmth_s = self.warmth_s + seconds
            hot = warmth_s >= self.limit.load_s * (1 - JUST_ENOUGH)
            self.warmth_s = self.limit.load_s if hot else warmth_s
        self.since = now
