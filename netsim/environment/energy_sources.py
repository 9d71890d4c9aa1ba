"""Energy sources and idle power of devices in absolute time, and thermal limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.base.errors import InputError
from netsim.base.types import Bools, Floats, Ints
from netsim.devices.population import TableDraw, table_draws
from netsim.scenario import Scenario
from netsim.scenario.time_varying import seconds_of

DAY_S = 86_400.0
MOST_DAYS = 365_000      # days of charging between two events, 1,000 years: 10 s of CPU time


@dataclass(frozen=True)
class ChargingSchedule:
    """Charging power during a daily period."""

    watts: float
    start_s: float           # start of the period on one day
    length_s: float

    def at(self, t: Floats) -> tuple[Bools, Floats]:
        """Return whether instants ``t`` lie in the period, and until when; ``DAY_S`` is multiplied, not summed up."""
        day = np.floor((t - self.start_s) / DAY_S)
        day -= self._begin(day) > t          # correct a rounded division
        day += self._begin(day + 1) <= t
        end = self._begin(day) + self.length_s
        return t < end, np.where(t < end, end, self._begin(day + 1))

    def _begin(self, day: Floats) -> Floats:
        return self.start_s + day * DAY_S


@dataclass(frozen=True, eq=False)
class EnergySources:
    """Idle power and incoming power of the devices of one population, in W."""

    first: int               # number of the first device
    idle_w: Floats
    harvest_w: Floats
    hours: ChargingSchedule | None = None

    def __contains__(self, device: int) -> bool:
        return self.first <= device < self.end

    @property
    def end(self) -> int:
        return self.first + len(self.idle_w)

    def check_days(self, since: float, until: float) -> None:
        """Raise InputError if there are too many days with charging periods between two instants in s."""
        if self.hours is not None and until - since > MOST_DAYS * DAY_S:
            raise InputError("too-large", f"{until:.6g} s ahead", f"over {MOST_DAYS:,} days of charging until then",
                             hint="Make jobs shorter, or remove population.charging")

    def incoming(self, places: Ints | slice, t: Floats, on_battery: Bools) -> tuple[Floats, Floats]:
        """Return the incoming power in W at instants ``t``, 0 on mains, and the instants until which it holds."""
        harvest_w = self.harvest_w[places]
        if self.hours is None:
            return harvest_w * on_battery, np.full(len(t), np.inf)
        charging, until = self.hours.at(t)
        return (harvest_w + self.hours.watts * charging) * on_battery, until


def energy_sources_of(scenario: Scenario, seed: int) -> tuple[EnergySources, ...]:
    """Return one supply per population; none if no population has idle power or an energy source."""
    if not any(table.idle_power or table.harvest_power or table.charging for table in scenario.population):
        return ()
    return tuple(_supply(draw, scenario.rounds.midnight_s) for draw in table_draws(scenario, seed))


def _supply(draw: TableDraw, midnight_s: float) -> EnergySources:
    table, charging = draw.table, draw.table.charging
    hours = None
    if charging is not None:
        start_s, end_s = seconds_of(charging.start), seconds_of(charging.end)
        hours = ChargingSchedule(float(charging.power), midnight_s + start_s, (end_s - start_s) % DAY_S)
    return EnergySources(draw.devices.start, draw("idle", table.idle_power or 0.0),
                         draw("harvest", table.harvest_power or 0.0), hours)


@dataclass(frozen=True)
class ThermalLimit:
    """Thermal throttling of some devices."""

    devices: range
    load_s: float            # seconds of computing above ``clock_hz`` until throttling
    clock_hz: float          # throttled CPU frequency
    rest_s: float            # seconds of recovery when idle


def thermal_limits_of(scenario: Scenario) -> tuple[ThermalLimit, ...]:
    return tuple(
        ThermalLimit(devices, table.throttle.after, table.throttle.to, table.throttle.recovery_time)
        for table, devices in zip(scenario.population, scenario.numbers, strict=True) if table.throttle is not None)
