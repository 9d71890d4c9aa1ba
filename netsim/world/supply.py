"""What comes into the batteries of devices and what they draw at rest, by absolute time, whoever looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.fleet.population import TableDraw, table_draws
from netsim.scenario.time_varying import seconds_of

if TYPE_CHECKING:
    from netsim.scenario import Scenario

DAY_S = 86_400.0


@dataclass(frozen=True)
class Hours:
    """So much power for some hours of every day."""

    watts: float
    start_s: float           # of those of some day
    length_s: float

    def at(self, t: Floats) -> tuple[Bools, Floats]:
        """Whether it is that time, and until when that stays so; edges are multiplied, so that all meet the same."""
        day = np.floor((t - self.start_s) / DAY_S)
        day -= self._begin(day) > t          # where the division was rounded
        day += self._begin(day + 1) <= t
        end = self._begin(day) + self.length_s
        return t < end, np.where(t < end, end, self._begin(day + 1))

    def _begin(self, day: Floats) -> Floats:
        return self.start_s + day * DAY_S


@dataclass(frozen=True, eq=False)
class Supply:
    """Of the devices of one population, from ``first`` on: what they draw at rest, and what comes in."""

    first: int
    idle_w: Floats
    harvest_w: Floats
    hours: Hours | None = None

    def __contains__(self, device: int) -> bool:
        return self.first <= device < self.end

    @property
    def end(self) -> int:
        """The number after that of its last device."""
        return self.first + len(self.idle_w)

    def incoming(self, places: Ints | slice, t: Floats) -> tuple[Floats, Floats]:
        """What comes in to the devices at these places, each at an instant of its own, and until when."""
        harvest_w = self.harvest_w[places]
        if self.hours is None:
            return harvest_w, np.full(len(t), np.inf)
        charging, until = self.hours.at(t)
        return harvest_w + self.hours.watts * charging, until


def supplies_of(scenario: Scenario, seed: int) -> tuple[Supply, ...]:
    """One for each population; none at all where nobody draws at rest and nothing comes in."""
    if not any(table.idle or table.harvest or table.charging for table in scenario.population):
        return ()
    return tuple(_supply(draw, scenario.rounds.midnight_s) for draw in table_draws(scenario, seed))


def _supply(draw: TableDraw, midnight_s: float) -> Supply:
    table, charging = draw.table, draw.table.charging
    hours = None
    if charging is not None:
        start_s, end_s = seconds_of(charging.start), seconds_of(charging.end)
        hours = Hours(float(charging.power), midnight_s + start_s, (end_s - start_s) % DAY_S)
    return Supply(draw.devices.start, draw("idle", table.idle or 0.0), draw("harvest", table.harvest or 0.0), hours)


@dataclass(frozen=True)
class HeatLimit:
    """How long these devices bear a higher clock than this, and how long a rest they need then."""

    devices: range
    load_s: float
    clock_hz: float
    rest_s: float


def heat_limits_of(scenario: Scenario) -> tuple[HeatLimit, ...]:
    """Of the devices that throttle their clocks."""
    return tuple(
        HeatLimit(devices, table.throttle.after, table.throttle.to, table.throttle.recovers)
        for table, devices in zip(scenario.population, scenario.numbers, strict=True) if table.throttle is not None)
