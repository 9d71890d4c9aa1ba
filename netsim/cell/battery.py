"""Batteries: a process for each battery-powered device that has a job, and arrays for all devices.

With idle power or charging, levels are piecewise linear between empty and full:

    d level / dt = incoming power - idle power - power of the job, limited to [0, capacity]

Idle devices have no events: their levels are computed on request, from the instant of their last update. Energy that
reaches a full battery is lost; an empty battery supplies the idle load with the incoming power only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import simpy
from simpy.events import ProcessGenerator

from netsim.base.pluralize import pluralize
from netsim.base.types import Bools, Floats, Ints, State
from netsim.base.units import format
from netsim.cell.clock import CLOCK_ULPS, JUST_ENOUGH, sleep_until
from netsim.environment.energy_sources import EnergySources
from netsim.trace.schema import BOOKS

MOST_EDGES = 10_000                       # starts and ends of charging periods examined in advance: years
MARGIN = 1e-9                             # fraction above the minimum energy of a job at which a device is able


class Battery:
    """A device's energy store, drained by a piecewise constant load.

    Its process sleeps until the battery would be empty under the current load, and then calls ``depleted``.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    capacity_j : float
        Capacity in J.
    level_j : float, optional
        Initial level in J; by default the battery is full.

    Attributes
    ----------
    depleted : callable
        Called without arguments when the battery is empty; returns True if it stopped work. A `Device` sets it.
    """

    def __init__(self, env: simpy.Environment, capacity_j: float, level_j: float | None = None) -> None:
        self.env = env
        self.capacity_j = capacity_j
        self.settled_j = capacity_j if level_j is None else level_j      # level when the load last changed
        self.since = env.now
        self.load_w = 0.0
        self.depleted: Callable[[], bool] = lambda: False
        self.wakes_at = math.inf
        self._process: simpy.Process | None = None
        self._ran_out = False

    @property
    def level_j(self) -> float:
        """Remaining energy in J at the current instant."""
        return max(0.0, self.settled_j - self.load_w * (self.env.now - self.since))

    def draw(self, watts: float) -> None:
        """Set the load in W from now on."""
        self.settled_j, self.since, self.load_w = self.level_j, self.env.now, watts
        empty_at = self.empty_at()
        if empty_at < self.wakes_at:                    # a process that wakes earlier checks the level itself
            self.sleep_until(empty_at)

    def stop(self, joules: float) -> None:
        """Remove the load, which took ``joules``: exact, where the difference of two instants is rounded."""
        self.settled_j, self.since, self.load_w = max(0.0, self.settled_j - joules), self.env.now, 0.0
        if self._ran_out or self.settled_j < self.capacity_j * JUST_ENOUGH:
            self.settled_j, self._ran_out = 0.0, False                   # the remainder is a rounding error

    def empty_at(self) -> float:
        """Return the instant of depletion in s under the current load; inf for never."""
        return self.since + self.settled_j / self.load_w if self.load_w > 0.0 else math.inf

    def sleep_until(self, at: float) -> None:
        """Start a process that wakes at ``at`` (s); it replaces an earlier one."""
        self.wakes_at = at
        self._process = self.env.process(self.run())

    def run(self) -> ProcessGenerator:
        """Sleep until depletion, then call ``depleted``: the battery's process."""
        while self.wakes_at < math.inf:
            yield from sleep_until(self.env, self.wakes_at)
            if self._process is not self.env.active_process:             # replaced by a process that wakes earlier
                return
            self.wakes_at = self.empty_at()                              # later, if the load was smaller in between
            if self.wakes_at <= self.env.now:
                self.wakes_at = math.inf
                self._ran_out = self.depleted()

    def is_rounding(self, seconds: float) -> bool:
        """Return True if work that outlasts an empty battery by ``seconds`` ends with it, but for a rounding error."""
        now = self.env.now
        return seconds <= CLOCK_ULPS * math.ulp(now) + JUST_ENOUGH * (now - self.since)


class Batteries:
    """Energy of all N devices in J: arrays of shape (N,), inf for mains power.

    A device with a job has a :class:`Battery`, whose level is written back to the arrays when the job ends. With
    energy sources, ``since_s`` is the instant of each level, and ``books`` holds the energy harvested, drawn at idle
    and spilt since the start of the run.
    """

    def __init__(
        self, env: simpy.Environment, capacity_j: Floats, least_j: Floats | None = None,
        supplies: Sequence[EnergySources] = (),
    ) -> None:
        self.env = env
        self.capacity_j = capacity_j
        self.least_j: Floats = np.zeros(len(capacity_j)) if least_j is None else least_j
        self.finite: Bools = np.isfinite(capacity_j)    # mask of the battery-powered devices
        self.any_finite = bool(self.finite.any())
        self.left_j: Floats = np.array(capacity_j, float) if self.any_finite or supplies else capacity_j
        self._batteries: dict[int, Battery] = {}       # of devices that have, or had, a job
        self._working: set[int] = set()
        self._available: Bools | None = None           # cached; None after a change of a level
        self.recharge = bool(supplies)                 # whether levels change without jobs
        self.charging = [PopulationSupply(self, supply) for supply in supplies]
        if supplies:
            self.since_s, self.work_w = np.zeros(len(capacity_j)), np.zeros(len(capacity_j))
            self.books: dict[str, Floats] = {name: np.zeros(len(capacity_j)) for name in BOOKS}

    def settle(self, devices: Ints | None = None) -> None:
        """Update the levels of some devices (default: all) to the current instant; no effect without supplies."""
        for charging in self.charging:
            first, end = charging.own.start, charging.own.stop
            places = slice(0, end - first) if devices is None else (
                devices[(devices >= first) & (devices < end)] - first)
            charging.settle(places)

    @property
    def available(self) -> Bools:
        """Mask of the devices with enough energy for a job; shape (N,), read-only."""
        if self._available is None or self.recharge:
            self.settle()
            self._available = self.left_j > self.least_j
            self._available.flags.writeable = False
        return self._available

    @property
    def alive(self) -> int:
        """Number of devices that have, or will have after charging, enough energy for a job."""
        if self.recharge:
            return int(np.count_nonzero(self.able_from() < np.inf))
        return len(self.left_j) if not self.any_finite else int(np.count_nonzero(self.available))

    def able_from(self) -> Floats:
        """Return the first instant in seconds at which each idle device has the energy for a job; inf for never."""
        able = np.where(self.available, 0.0, np.inf)
        for charging in self.charging:
            able[charging.own] = charging.able_from()
        return able

    def level_j(self, devices: Ints | slice) -> Floats:
        """Return the energy of some devices in J; without supplies, that of a working device before its job."""
        self.settle(None if isinstance(devices, slice) else devices)
        return np.array(self.left_j[devices])

    def hold(self, devices: Ints, joules: Floats) -> None:
        """Set the levels of some batteries in J, and raise capacities below them; inf for mains power."""
        self.capacity_j, self.left_j = self.capacity_j.copy(), self.left_j.copy()
        self.capacity_j[devices] = np.maximum(self.capacity_j[devices], joules)
        self.left_j[devices] = joules
        self._available = None
        self.finite = np.isfinite(self.left_j)
        self.any_finite = bool(self.finite.any())

    def too_little(self) -> str:
        """Return the reason why no device has the energy for a job."""
        first = int(np.argmax(self.capacity_j / self.least_j))
        return (f"no battery holds the minimum energy of a job (device {first}: "
                f"{format(float(self.capacity_j[first]), 'energy')} against "
                f"{format(float(self.least_j[first]), 'energy')})")

    def require(self, least_j: Floats) -> None:
        """Set the minimum energy of a job in J, one value per device."""
        self.least_j, self._available = least_j, None

    def of(self, device: int) -> Battery | None:
        """Return the battery of a device; None for mains power."""
        if not self.any_finite or not self.finite[device]:
            return None
        battery = self._batteries.get(device)
        if battery is None:
            charging = next((each for each in self.charging if device in each.supply), None)
            battery = self._batteries[device] = (
                Battery(self.env, float(self.capacity_j[device]), float(self.left_j[device])) if charging is None
                else ChargedBattery(charging, device))
        return battery

    def work(self, devices: Iterable[int]) -> None:
        """Mark devices as working."""
        self._working.update(device for device in devices if device in self._batteries)

    def rest(self, device: int) -> None:
        """Mark a device as idle and store its level."""
        if device in self._working:
            self._working.remove(device)
            self.left_j[device] = self._batteries[device].level_j
            self._available = None

    def totals(self) -> dict[str, float]:
        """Return the sums over all devices in J: battery level, and harvested, idle and spilt energy."""
        self.settle()
        return {"battery": float(self.left_j[self.finite].sum()),
                **{name: float(book.sum()) for name, book in self.books.items()}}

    def totals_of(self, devices: Ints) -> dict[str, Floats]:
        """Return the values of ``totals`` per device, for some devices, in J."""
        self.settle(devices)
        return {"battery": self.left_j[devices], **{name: book[devices] for name, book in self.books.items()}}

    def snapshot(self) -> State:
        """Return the levels of battery-powered devices and the loads of working ones; with supplies, also ``books``."""
        working = ((device, self._batteries[device]) for device in sorted(self._working))
        loads = [(device, each.settled_j, each.since, each.load_w, each.wakes_at) for device, each in working]
        charged = {"since_s": self.since_s, **self.books} if self.recharge else {}
        return {"left_j": self.left_j[self.finite], "loads": np.array(loads, float).reshape(-1, 5),
                **{name: values.copy() for name, values in charged.items()}}

    def restore(self, state: State) -> None:
        """Restore levels and loads from a checkpoint."""
        powered = int(np.count_nonzero(self.finite))
        if state["left_j"].shape != (powered,):
            raise ValueError(f"it is not about {pluralize(powered, 'battery-powered device')}")
        if self.any_finite:
            self.left_j[self.finite], self._available = state["left_j"], None
        if self.recharge:
            if any(state[name].shape != self.since_s.shape for name in ("since_s", *BOOKS)):
                raise ValueError(f"it is not about {pluralize(len(self.since_s), 'device')}")
            self.since_s, self.work_w[:] = state["since_s"].copy(), 0.0
            self.books = {name: state[name].copy() for name in BOOKS}
        for device, settled_j, since, load_w, wakes_at in state["loads"].tolist():
            battery = self.of(int(device))
            assert battery is not None
            battery.settled_j, battery.since, battery.load_w = settled_j, since, load_w
            battery.sleep_until(wakes_at)


class PopulationSupply:
    """Idle power and incoming power of the devices of one population."""

    def __init__(self, rows: Batteries, supply: EnergySources) -> None:
        self.rows, self.supply = rows, supply
        self.own = slice(supply.first, supply.end)           # indices of the devices in the arrays
        self._on_battery = np.isfinite(rows.capacity_j[self.own])
        self._idle_w = supply.idle_w * self._on_battery

    @np.errstate(invalid="ignore")           # inf - inf for mains power, of which nothing is spilt
    def settle(self, places: Ints | slice) -> None:
        """Update levels to the current instant, one charging period after another; ``places`` are local indices."""
        rows, now = self.rows, self.rows.env.now
        own = self.own if isinstance(places, slice) else places + self.supply.first
        idle_w, capacity_j = self._idle_w[places], rows.capacity_j[own]
        self.supply.check_days(rows.since_s[own].min(initial=now), now)
        while (since := rows.since_s[own]).min(initial=now) < now:
            incoming_w, until = self._incoming(places, since)
            seconds = np.minimum(until, now) - since
            harvest_j, idle_j = incoming_w * seconds, idle_w * seconds
            level_j = rows.left_j[own] + harvest_j - (idle_j + rows.work_w[own] * seconds)
            rows.left_j[own] = np.clip(level_j, 0.0, capacity_j)
            rows.since_s[own] = np.minimum(until, now)
            rows.books["harvest"][own] += harvest_j
            rows.books["idle"][own] += np.maximum(idle_j + np.minimum(level_j, 0.0), 0.0)
            rows.books["spilt"][own] += np.fmax(level_j - capacity_j, 0.0)

    def _incoming(self, places: Ints | slice, t: Floats) -> tuple[Floats, Floats]:
        return self.supply.incoming(places, t, self._on_battery[places])

    def able_from(self) -> Floats:
        """Return the instant in seconds from which each device has the energy for a job; levels must be settled."""
        rows, now = self.rows, self.rows.env.now
        level_j, capacity_j, least_j = rows.left_j[self.own], rows.capacity_j[self.own], rows.least_j[self.own]
        found = np.where(level_j > least_j, now, np.inf)
        t, edges, a_day_ago_j = np.full(len(level_j), now), 0, np.full(len(level_j), -np.inf)
        while (found == np.inf).any() and edges < MOST_EDGES:
            incoming_w, until = self._incoming(slice(None), t)
            rises_w = incoming_w - self._idle_w
            # more than a job takes by a margin above the clock's rounding error, so the level suffices at that instant
            target_j = least_j * (1.0 + MARGIN) + np.maximum(rises_w, 0.0) * 4 * np.spacing(t)
            with np.errstate(divide="ignore", invalid="ignore"):
                at = t + np.maximum(target_j - level_j, 0.0) / np.where(rises_w > 0.0, rises_w, np.nan)
                there = (found == np.inf) & (at <= until) & (target_j <= capacity_j)
                found[there] = at[there]
                if until.min() == np.inf:
                    break
                level_j = np.clip(level_j + rises_w * (until - t), 0.0, capacity_j)
            t, edges = until, edges + 1
            if edges % 2 == 0:                     # same time of the next day: a level that has not risen never will
                if not (level_j[found == np.inf] > a_day_ago_j[found == np.inf]).any():
                    break
                a_day_ago_j = level_j
        return found

    def empty_at(self, device: int) -> float:
        """Return the instant of depletion in seconds under the current load; inf for never."""
        rows, place = self.rows, np.array([device - self.supply.first])
        draws_w = float(self._idle_w[place[0]] + rows.work_w[device])
        capacity_j, level_j, t = (float(each[device]) for each in (rows.capacity_j, rows.left_j, rows.since_s))
        a_day_ago_j, edges = math.inf, 0
        while edges < MOST_EDGES:
            incoming_w, until = (float(each[0]) for each in self._incoming(place, np.array([t])))
            falls_w = draws_w - incoming_w
            if falls_w > 0.0 and t + level_j / falls_w < until:
                return t + level_j / falls_w
            if until == math.inf:
                return math.inf
            level_j = min(capacity_j, level_j - falls_w * (until - t))
            t, edges = until, edges + 1
            if edges % 2 == 0:                     # same time of the next day: a level that has not fallen never will
                if level_j >= a_day_ago_j:
                    return math.inf
                a_day_ago_j = level_j
        return math.inf


def _entry(name: str) -> Any:
    """Return a property that reads and writes the device's entry of an array of `Batteries`."""
    def read(battery: ChargedBattery) -> float:
        return float(getattr(battery.rows, name)[battery.device])

    def write(battery: ChargedBattery, value: float) -> None:
        getattr(battery.rows, name)[battery.device] = value

    return property(read, write)


class ChargedBattery(Battery):
    """Battery with energy sources; level, instant and load are entries of the arrays of `Batteries`."""

    settled_j, since, load_w = _entry("left_j"), _entry("since_s"), _entry("work_w")

    def __init__(self, charging: PopulationSupply, device: int) -> None:
        self.env, self.rows, self.charging, self.device = charging.rows.env, charging.rows, charging, device
        self._place = np.array([device - charging.supply.first])
        super().__init__(self.env, float(self.rows.capacity_j[device]), self.level_j)

    @property
    def level_j(self) -> float:
        if self.since < self.env.now:
            self.charging.settle(self._place)
        return float(self.settled_j)

    def stop(self, joules: float) -> None:
        """Remove the load; the settled level already accounts for its energy."""
        self.settled_j = self.level_j
        super().stop(0.0)

    def empty_at(self) -> float:
        return self.charging.empty_at(self.device) if self.load_w > 0.0 else math.inf
