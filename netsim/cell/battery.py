"""Batteries: a process for each device on battery power that has work, and arrays for all devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import simpy
from simpy.events import ProcessGenerator

from netsim.base.arrays import Bools, Floats, Ints, State
from netsim.base.counts import counted
from netsim.base.units import format
from netsim.cell.clock import CLOCK_ULPS, JUST_ENOUGH, sleep_until


class Battery:
    """A device's energy store, drained by a piecewise constant load.

    Its process sleeps until the battery would be empty under the present load, and calls ``depleted`` then.

    Parameters
    ----------
    env : simpy.Environment
    capacity_j : float
        Capacity in J.
    level_j : float, optional
        Energy in it now, in J; by default it is full.
    """

    def __init__(self, env: simpy.Environment, capacity_j: float, level_j: float | None = None) -> None:
        self.env = env
        self.capacity_j = capacity_j
        self.settled_j = capacity_j if level_j is None else level_j      # level when the load last changed
        self.since = env.now
        self.load_w = 0.0
        self.depleted: Callable[[], bool] = lambda: False                # returns whether work was stopped
        self.wakes_at = math.inf
        self._process: simpy.Process | None = None
        self._ran_out = False

    @property
    def level_j(self) -> float:
        """Energy left now, in J."""
        return max(0.0, self.settled_j - self.load_w * (self.env.now - self.since))

    def draw(self, watts: float) -> None:
        """Draw so much power from now on."""
        self.settled_j, self.since, self.load_w = self.level_j, self.env.now, watts
        self.watch()

    def stop(self, joules: float) -> None:
        """Draw nothing any more; ``joules`` is what the load took, exact where the clock's difference is rounded."""
        self.settled_j, self.since, self.load_w = max(0.0, self.settled_j - joules), self.env.now, 0.0
        if self._ran_out or self.settled_j < self.capacity_j * JUST_ENOUGH:
            self.settled_j, self._ran_out = 0.0, False                   # what rounding leaves in it is not energy

    def empty_at(self) -> float:
        """Instant of depletion under the present load; inf if it never comes."""
        return self.since + self.settled_j / self.load_w if self.load_w > 0.0 else math.inf

    def watch(self) -> None:
        """Have the process awake by the time of depletion: one that sleeps until an earlier instant will see to it."""
        empty_at = self.empty_at()
        if empty_at < self.wakes_at:
            self.sleep_until(empty_at)

    def sleep_until(self, at: float) -> None:
        """Start the process; one that sleeps already is replaced."""
        self.wakes_at = at
        self._process = self.env.process(self.run())

    def run(self) -> ProcessGenerator:
        """Sleep until depletion, and call ``depleted``."""
        while self.wakes_at < math.inf:
            yield from sleep_until(self.env, self.wakes_at)
            if self._process is not self.env.active_process:             # another one has to wake earlier
                return
            self.wakes_at = self.empty_at()                              # later, where the load was smaller meanwhile
            if self.wakes_at <= self.env.now:
                self.wakes_at = math.inf
                self._ran_out = self.depleted()

    def is_rounding(self, seconds: float) -> bool:
        """Whether work that lasts so much longer than the battery ends with it: what just suffices suffices."""
        now = self.env.now
        return seconds <= CLOCK_ULPS * math.ulp(now) + JUST_ENOUGH * (now - self.since)


class Batteries:
    """Energy of all devices, in J: arrays with one entry per device, inf for mains power.

    A device that gets work gets a :class:`Battery`, whose level returns to the arrays when the work ends.
    """

    recharge = False       # whether energy comes back

    def __init__(self, env: simpy.Environment, capacity_j: Floats, least_j: Floats | None = None) -> None:
        self.env = env
        self.capacity_j = capacity_j
        self.left_j: Floats = np.array(capacity_j, float)
        self.least_j: Floats = np.zeros(len(capacity_j)) if least_j is None else least_j
        self._finite = np.isfinite(capacity_j)
        self.any_finite = bool(self._finite.any())
        self._batteries: dict[int, Battery] = {}       # of devices that have, or had, work
        self._working: set[int] = set()
        self._available: Bools | None = None           # None where a level has changed since

    @property
    def available(self) -> Bools:
        """The devices with enough energy for a job; read only."""
        if self._available is None:
            self._available = self.left_j > self.least_j
            self._available.flags.writeable = False
        return self._available

    @property
    def alive(self) -> int:
        """Number of devices that have, or will have, enough energy for a job."""
        return len(self.left_j) if not self.any_finite else int(np.count_nonzero(self.available))

    def able_from(self) -> Floats:
        """Instant from which on each device has the energy for a job; inf for never."""
        return np.where(self.available, 0.0, np.inf)

    def level_j(self, devices: Ints | slice) -> Floats:
        """Energy left to some devices; for those with work, when it started."""
        return np.array(self.left_j[devices])

    def full_j(self, devices: Ints) -> Floats:
        """Capacity of some batteries."""
        return self.capacity_j[devices]

    def hold(self, devices: Ints, joules: Floats) -> None:
        """Set the levels of some batteries, whose capacity rises with it where it must; inf for mains power."""
        self.capacity_j = self.capacity_j.copy()
        self.capacity_j[devices] = np.maximum(self.capacity_j[devices], joules)
        self.left_j[devices] = joules
        self._available = None
        self._finite = np.isfinite(self.left_j)
        self.any_finite = bool(self._finite.any())

    def too_little(self) -> str:
        """Why no device has the energy for a job."""
        first = int(np.argmax(self.capacity_j / self.least_j))
        return (f"no battery holds the least that a job takes (device {first}: "
                f"{format(float(self.capacity_j[first]), 'energy')} against "
                f"{format(float(self.least_j[first]), 'energy')})")

    def require(self, least_j: Floats) -> None:
        """Set the energy that a job takes at least."""
        self.least_j, self._available = least_j, None

    def on_battery(self, devices: Ints) -> Ints:
        """Those of some devices that are on battery power."""
        return devices[self._finite[devices]]

    def of(self, device: int) -> Battery | None:
        """The battery of a device; None for mains power."""
        if not self.any_finite or not self._finite[device]:
            return None
        battery = self._batteries.get(device)
        if battery is None:
            battery = self._batteries[device] = self._battery(device)
        return battery

    def work(self, devices: Iterable[int]) -> None:
        """Devices start to work."""
        self._working.update(device for device in devices if device in self._batteries)

    def _battery(self, device: int) -> Battery:
        return Battery(self.env, float(self.capacity_j[device]), float(self.left_j[device]))

    def rest(self, device: int) -> None:
        """A device has ended its work."""
        if device in self._working:
            self._working.remove(device)
            self.left_j[device] = self._batteries[device].level_j
            self._available = None

    def snapshot(self) -> State:
        """Levels of all devices, and the loads of those with work."""
        working = {device: self._batteries[device] for device in sorted(self._working)}
        loads = [(device, each.settled_j, each.since, each.load_w, each.wakes_at)
                 for device, each in working.items()]
        return {"left_j": self.left_j.copy(), "loads": np.array(loads, float).reshape(-1, 5)}

    def restore(self, state: State) -> None:
        """As a checkpoint has it."""
        if state["left_j"].shape != self.capacity_j.shape:
            raise ValueError(f"it is not about {counted(len(self.capacity_j), 'device')}")
        self.left_j, self._available = state["left_j"].copy(), None
        for device, settled_j, since, load_w, wakes_at in state["loads"].tolist():
            battery = self.of(int(device))
            assert battery is not None
            battery.settled_j, battery.since, battery.load_w = settled_j, since, load_w
            battery.sleep_until(wakes_at)
