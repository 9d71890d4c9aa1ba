"""A device's energy store: an amount of joules that wears off at the sum of its loads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints, State
from netsim.base.counts import counted
from netsim.base.units import format

ROUNDING = 1e-12


@dataclass(eq=False)
class Load:
    """A constant power drawn from ``since`` on, for at most ``seconds``."""

    watts: float
    seconds: float
    since: float


class Battery:
    """Piecewise-constant drain. Mains has no battery, so there is no object for it."""

    def __init__(self, capacity_j: float, used_j: float = 0.0) -> None:
        self.capacity_j = capacity_j
        self._used_j = used_j        # by loads that have ended
        self._loads: list[Load] = []
        self.ran_out = False
        self.owners: dict[int, Any] = {}     # whoever is to be told when it runs out, by number
        self.watch = 0                       # counts changes of the loads: a forecast of before is overtaken

    @property
    def idle(self) -> bool:
        """Whether nothing draws from it."""
        return not self._loads

    def used_j(self, now: float) -> float:
        """Energy drawn until now."""
        return self._used_j + sum(load.watts * (now - load.since) for load in self._loads)

    @property
    def settled_j(self) -> float:
        """Energy drawn by loads that have ended."""
        return self._used_j

    def level_j(self, now: float) -> float:
        """Energy left now."""
        return max(0.0, self.capacity_j - self.used_j(now))

    def connect(self, now: float, watts: float, seconds: float) -> Load:
        """Begin to draw ``watts``; ``seconds`` is how long the load means to last."""
        load = Load(watts, seconds, now)
        self._loads.append(load)
        return load

    def disconnect(self, load: Load, now: float, *, complete: bool) -> float:
        """End a load and return the joules that it took; ``complete`` when it lasted as long as it meant to."""
        self._loads.remove(load)
        # seconds, not the clock's difference: late in a long run the clock has lost the small digits
        energy_j = load.watts * (load.seconds if complete else now - load.since)
        if self.ran_out and not complete and not self._loads:
            energy_j = max(0.0, self.capacity_j - self._used_j)      # what was in it is known exactly
        self._used_j += energy_j
        if self._used_j > self.capacity_j * (1 - ROUNDING):
            self._used_j = self.capacity_j          # what rounding leaves in it is not energy
        return energy_j

    def empty_at(self, now: float) -> float:
        """When it runs out if the loads stay as they are; inf where they end before."""
        watts = sum(load.watts for load in self._loads)
        if watts <= 0.0:
            return math.inf
        lasts_s = self.level_j(now) / watts
        ends_s = max(load.since + load.seconds for load in self._loads) - now
        return now + lasts_s if lasts_s < ends_s * (1 - ROUNDING) else math.inf     # what just suffices suffices


class Batteries:
    """What the devices have used of their batteries: rows of arrays, and an object only for who is at work on one."""

    recharge = False         # whether something comes in, or is drawn at rest

    def __init__(self, capacity_j: Floats, least_j: Floats | None = None) -> None:
        self.capacity_j = capacity_j                     # inf on mains
        self.least_j: Floats = np.zeros(len(capacity_j)) if least_j is None else least_j       # no job takes less
        self.used_j: Floats = np.zeros(len(capacity_j))      # by work
        self._alive = int(self.available.sum())
        self._finite: Bools = np.isfinite(capacity_j)
        self.any_finite = bool(self._finite.any())
        self._open: dict[int, Battery] = {}

    @property
    def alive(self) -> int:
        """How many devices have energy for a job."""
        return self._alive

    @property
    def available(self) -> Bools:
        """The devices that have more left than the least that a job takes."""
        return self.used_j < self.capacity_j - self.least_j

    def able_from(self) -> Floats:
        """From when on each has so much; inf: never again."""
        return np.where(self.available, 0.0, np.inf)

    def level_j(self, devices: Ints | slice) -> Floats:
        """What is left to some of the devices, but for what they are drawing now; inf on mains."""
        return self.capacity_j[devices] - self.used_j[devices]

    def hold(self, devices: Ints, joules: Floats) -> None:
        """Let batteries hold this much, whatever they held; inf: on mains."""
        other = joules != self.level_j(devices)
        devices, joules = devices[other], joules[other]
        self.capacity_j = self.capacity_j.copy()
        self.capacity_j[devices] = self.used_j[devices] + joules
        self._finite = np.isfinite(self.capacity_j)
        self.any_finite = bool(self._finite.any())
        self._alive = int(self.available.sum())

    def full_j(self, devices: Ints) -> Floats:
        """What their batteries can hold."""
        return self.capacity_j[devices]

    def too_little(self) -> str:
        """Why no device has the energy for a job."""
        first = int(np.argmax(self.capacity_j / self.least_j))
        return (f"no battery holds the least that a job takes (device {first}: "
                f"{format(float(self.capacity_j[first]), 'energy')} against "
                f"{format(float(self.least_j[first]), 'energy')})")

    def require(self, least_j: Floats) -> None:
        """From now on no job takes less than this."""
        self.least_j = least_j
        self._alive = int(self.available.sum())

    def is_finite(self, device: int) -> bool:
        """Whether a device is not on mains."""
        return bool(self._finite[device])

    def on_battery(self, devices: Ints) -> list[int]:
        """Positions of those that are not on mains."""
        return np.flatnonzero(self._finite[devices]).tolist() if self.any_finite else []

    def at_work(self, device: int) -> Battery:
        """The battery of a device that begins to work."""
        if device not in self._open:
            self._open[device] = Battery(float(self.capacity_j[device]), float(self.used_j[device]))
        return self._open[device]

    def close(self, device: int, now: float) -> None:
        """The device has ended its work: what it used is a number again."""
        battery = self._open.get(device)      # none where a job was taken up paused, and never went on
        if battery is None or not battery.idle:
            return
        del self._open[device]
        before, self.used_j[device] = self.used_j[device], battery.used_j(now)
        enough_j = self.capacity_j[device] - self.least_j[device]
        self._alive -= int(before < enough_j <= self.used_j[device])

    def draw(self, devices: Ints, joules: Floats) -> None:
        """What devices on mains have used is only counted."""
        if self.any_finite:
            mains = ~self._finite[devices]
            devices, joules = devices[mains], joules[mains]
        np.add.at(self.used_j, devices, joules)      # a device may have done several jobs

    def snapshot(self) -> State:
        """What was used, but for the loads that are on now."""
        used_j = self.used_j.copy()
        for device, battery in self._open.items():
            used_j[device] = battery.settled_j
        return {"used_j": used_j}

    def restore(self, state: State) -> None:
        """As a checkpoint says; loads are drawn again by whoever takes up the jobs."""
        used_j = state["used_j"]
        if used_j.shape != self.capacity_j.shape:
            raise ValueError(f"it is not about {counted(len(self.capacity_j), 'device')}")
        self.used_j = used_j.copy()
        self._alive = int(self.available.sum())
