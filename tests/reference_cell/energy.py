"""Batteries and heat of all devices, followed from event to event."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

DAY_S = 86_400.0


def seconds_of(clock: str) -> float:
    hours, minutes = clock.split(":")
    return 3600.0 * int(hours) + 60.0 * int(minutes)


class Batteries:
    """level' = harvest + charging - idle - work, between 0 and the capacity."""

    def __init__(self, scenario: Any, capacity_j: Any, idle_w: Any, harvest_w: Any) -> None:
        self.capacity = [float(each) for each in capacity_j]
        self.level = list(self.capacity)
        self.idle, self.harvest = idle_w, harvest_w
        self.hours: list[tuple[float, float, float] | None] = []
        for table in scenario.population:
            hours = None
            if table.charging is not None:
                start, end = seconds_of(table.charging.start), seconds_of(table.charging.end)
                midnight = 0.0 if scenario.rounds.starts_at is None else -seconds_of(scenario.rounds.starts_at)
                hours = (float(table.charging.power), midnight + start, (end - start) % DAY_S)
            self.hours += [hours] * table.size
        self.in_time = any(t.idle_power or t.harvest_power or t.charging for t in scenario.population)

    def finite(self, device: int) -> bool:
        return self.capacity[device] < math.inf

    def net_w(self, device: int, t: float, load_w: float) -> tuple[float, float]:
        """Watts by which the level rises, and until when."""
        rises, until = self.harvest[device] - self.idle[device] - load_w, math.inf
        if self.hours[device] is not None:
            watts, start, length = self.hours[device]
            day = math.floor((t - start) / DAY_S)
            begun = start + day * DAY_S
            charging = t < begun + length
            rises += watts * charging
            until = begun + length if charging else begun + DAY_S
        return rises, until

    def advance(self, device: int, t: float, seconds: float, load_w: float) -> None:
        if self.finite(device):
            level = self.level[device] + self.net_w(device, t, load_w)[0] * seconds
            self.level[device] = min(max(level, 0.0), self.capacity[device])

    def empty_at(self, device: int, t: float, load_w: float) -> float:
        """Only a load of work empties a battery so that it matters."""
        if not self.finite(device) or load_w <= 0.0:
            return math.inf
        rises, _ = self.net_w(device, t, load_w)
        return t + self.level[device] / -rises if rises < 0.0 else math.inf

    def able_at(self, device: int, now: float, least_j: float) -> float:
        """When a device at rest has the energy for a job."""
        level, t = self.level[device], now
        if level > least_j:
            return now
        if not self.in_time:
            return math.inf
        for _ in range(2000):
            rises, until = self.net_w(device, t, 0.0)
            # at an instant whose rounding, times the power, exceeds the margin, the level would fall short
            target = least_j * (1.0 + 1e-9) + max(rises, 0.0) * 4 * math.ulp(t)
            if rises > 0.0 and target <= self.capacity[device] and t + (target - level) / rises <= until:
                return t + (target - level) / rises
            if until == math.inf:
                break
            level, t = min(max(level + rises * (until - t), 0.0), self.capacity[device]), until
        return math.inf


class Heat:
    """Seconds of load that each CPU has had: computing above the limit adds to them, rest takes them away."""

    def __init__(self, scenario: Any) -> None:
        self.limit = [None if table.throttle is None else
                      (float(table.throttle.after), float(table.throttle.to), float(table.throttle.recovery_time))
                      for table in scenario.population for _ in range(table.size)]
        self.warmth = np.zeros(len(self.limit)).tolist()

    def clock(self, device: int, hz: float) -> tuple[float, float]:
        """Frequency that a CPU starts with, and for how many seconds."""
        if self.limit[device] is None or hz <= self.limit[device][1]:
            return hz, math.inf
        after, to, _ = self.limit[device]
        left = after - self.warmth[device]
        return (to, math.inf) if left <= 0.0 else (hz, left)

    def is_hot(self, device: int) -> None:
        """The limit is reached, whatever rounding has left of it."""
        self.warmth[device] = self.limit[device][0]

    def advance(self, device: int, seconds: float, hz: float) -> None:
        """``hz`` is 0 at rest."""
        if self.limit[device] is not None:
            after, to, recovers = self.limit[device]
            if hz == 0.0:
                self.warmth[device] = max(0.0, self.warmth[device] - seconds * after / recovers)
            elif hz > to:
                self.warmth[device] = min(after, self.warmth[device] + seconds)
