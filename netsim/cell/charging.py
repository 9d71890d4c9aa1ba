"""Batteries with an idle load and charging: levels are piecewise linear between empty and full.

    level' = incoming power - idle load - load of the work, within 0 and the capacity

Idle devices have no events: their levels are computed on request, from the instant at which they were last known. What
comes in to a full battery is lost; an empty one gives the idle load no more than what comes in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import simpy

from netsim.base.arrays import Bools, Floats, Ints, State
from netsim.cell.battery import Batteries, Battery
from netsim.trace.schema import BOOKS
from netsim.world.supply import Supply

MOST_EDGES = 10_000                       # of charging hours that are looked ahead: years
MARGIN = 1e-9                             # above what a job takes at least, before a device counts as able


class ChargedBatteries(Batteries):
    """Arrays with the level of each device at its own last instant, and the books since the run began."""

    recharge = True

    def __init__(
        self, env: simpy.Environment, capacity_j: Floats, least_j: Floats | None, supplies: Sequence[Supply],
    ) -> None:
        count = len(capacity_j)
        self.supplies = supplies
        self.since_s: Floats = np.zeros(count)
        self.work_w: Floats = np.zeros(count)
        self.books: dict[str, Floats] = {name: np.zeros(count) for name in BOOKS}
        on_battery = np.isfinite(capacity_j)
        self._idle_w = [supply.idle_w * on_battery[supply.first:supply.end] for supply in supplies]
        self._on_battery = [on_battery[supply.first:supply.end].astype(float) for supply in supplies]
        super().__init__(env, capacity_j, least_j)

    # Time.

    def settle(self, devices: Ints | None = None) -> None:
        """Let time pass until now, for some devices or all."""
        now = self.env.now
        for number, supply in enumerate(self.supplies):
            if devices is None:
                self._settle(number, slice(0, supply.end - supply.first), now)
            else:
                own = devices[(devices >= supply.first) & (devices < supply.end)] - supply.first
                if len(own):
                    self._settle(number, own, now)

    def settle_one(self, number: int, device: int, place: Ints) -> None:
        """The same for one device, known by its population and its place there."""
        now = self.env.now
        if self.since_s[device] < now:
            self._settle(number, place, now)

    @np.errstate(invalid="ignore")           # nothing that comes in is lost where there is no end to a battery
    def _settle(self, number: int, places: Ints | slice, now: float) -> None:
        """Devices of one population, from edge to edge of its charging hours."""
        supply = self.supplies[number]
        own = slice(supply.first, supply.end) if isinstance(places, slice) else places + supply.first
        idle_w, capacity_j = self._idle_w[number][places], self.capacity_j[own]
        while (since := self.since_s[own]).min(initial=now) < now:
            incoming_w, until = self._incoming(number, places, since)
            seconds = np.minimum(until, now) - since
            harvest_j, idle_j = incoming_w * seconds, idle_w * seconds
            level_j = self.left_j[own] + harvest_j - (idle_j + self.work_w[own] * seconds)
            self.left_j[own] = np.clip(level_j, 0.0, capacity_j)
            self.since_s[own] = np.minimum(until, now)
            self.books["harvest"][own] += harvest_j
            self.books["idle"][own] += np.maximum(idle_j + np.minimum(level_j, 0.0), 0.0)
            self.books["spilt"][own] += np.fmax(level_j - capacity_j, 0.0)

    def _incoming(self, number: int, places: Ints | slice, t: Floats) -> tuple[Floats, Floats]:
        incoming_w, until = self.supplies[number].incoming(places, t)
        return incoming_w * self._on_battery[number][places], until

    def able_from(self) -> Floats:
        """From when on each device has the energy for a job if it rests until then; inf: never."""
        self.settle()
        now, from_s = self.env.now, np.full(len(self.left_j), np.inf)
        for number, supply in enumerate(self.supplies):
            own = slice(supply.first, supply.end)
            from_s[own] = self._able_from(number, now, self.left_j[own].copy())
        return from_s

    def _able_from(self, number: int, now: float, level_j: Floats) -> Floats:
        supply = self.supplies[number]
        own, all_of_it = slice(supply.first, supply.end), slice(0, supply.end - supply.first)
        idle_w, capacity_j, least_j = self._idle_w[number], self.capacity_j[own], self.least_j[own]
        found = np.where(level_j > least_j, now, np.inf)
        t, edges, a_day_ago_j = np.full(len(level_j), now), 0, np.full(len(level_j), -np.inf)
        while (found == np.inf).any() and edges < MOST_EDGES:
            incoming_w, until = self._incoming(number, all_of_it, t)
            rises_w = incoming_w - idle_w
            # a hair more than a job takes, and more than the clock's rounding: at that instant it is there
            target_j = least_j * (1.0 + MARGIN) + np.maximum(rises_w, 0.0) * 4 * np.spacing(t)
            with np.errstate(divide="ignore", invalid="ignore"):
                at = t + np.maximum(target_j - level_j, 0.0) / np.where(rises_w > 0.0, rises_w, np.nan)
                there = (found == np.inf) & (at <= until) & (target_j <= capacity_j)
                found[there] = at[there]
                if until.min() == np.inf:
                    break
                level_j = np.clip(level_j + rises_w * (until - t), 0.0, capacity_j)
            t, edges = until, edges + 1
            if edges % 2 == 0:                     # the same time of the next day: who has not risen never will
                if not (level_j[found == np.inf] > a_day_ago_j[found == np.inf]).any():
                    break
                a_day_ago_j = level_j
        return found

    # As batteries that only run down.

    @property
    def available(self) -> Bools:
        self.settle()
        return self.left_j > self.least_j

    @property
    def alive(self) -> int:
        """Devices that have the energy for a job, or will have it."""
        return int((self.able_from() < np.inf).sum())

    def level_j(self, devices: Ints | slice) -> Floats:
        self.settle(None if isinstance(devices, slice) else devices)
        level_j: Floats = self.left_j[devices]
        return level_j.copy()

    def _battery(self, device: int) -> Battery:
        return ChargedBattery(self, device)

    def empty_at(self, number: int, device: int, place: Ints) -> float:
        """Instant of depletion of a battery under its present load; inf if it never comes."""
        draws_w = float(self._idle_w[number][place[0]] + self.work_w[device])
        capacity_j, level_j, t = float(self.capacity_j[device]), float(self.left_j[device]), float(self.since_s[device])
        a_day_ago_j, edges = math.inf, 0
        while edges < MOST_EDGES:
            incoming_w, until = (float(each[0]) for each in self._incoming(number, place, np.array([t])))
            falls_w = draws_w - incoming_w
            if falls_w > 0.0 and t + level_j / falls_w < until:
                return t + level_j / falls_w
            if until == math.inf:
                return math.inf
            level_j = min(capacity_j, level_j - falls_w * (until - t))
            t, edges = until, edges + 1
            if edges % 2 == 0:                     # the same time of the next day: what has not fallen never will
                if level_j >= a_day_ago_j:
                    return math.inf
                a_day_ago_j = level_j
        return math.inf

    def totals(self) -> dict[str, float]:
        """The books of all devices together, and what is in their batteries."""
        self.settle()
        return {"battery": float(self.left_j[self._finite].sum()),
                **{name: float(book.sum()) for name, book in self.books.items()}}

    def told(self, devices: Ints) -> dict[str, Floats]:
        """The same of some devices, one by one."""
        self.settle(devices)
        return {"battery": self.left_j[devices], **{name: book[devices] for name, book in self.books.items()}}

    def snapshot(self) -> State:
        """Levels, their instants and the books, too."""
        return {**super().snapshot(), "left_j": self.left_j.copy(), "since_s": self.since_s.copy(),
                **{name: book.copy() for name, book in self.books.items()}}

    def restore(self, state: State) -> None:
        self.left_j, self.since_s = state["left_j"].copy(), state["since_s"].copy()
        self.work_w[:] = 0.0
        self.books = {name: state[name].copy() for name in BOOKS}
        super().restore(state)


class ChargedBattery(Battery):
    """The battery of a device with work; level, instant and load are a row of the arrays."""

    def __init__(self, rows: ChargedBatteries, device: int) -> None:
        self._rows, self._device = rows, device
        self._number = next(n for n, supply in enumerate(rows.supplies) if device in supply)
        self._place = np.array([device - rows.supplies[self._number].first])
        self.env = rows.env
        super().__init__(rows.env, float(rows.capacity_j[device]), self.level_j)

    @property
    def level_j(self) -> float:
        self._rows.settle_one(self._number, self._device, self._place)
        return self.settled_j

    def stop(self, joules: float) -> None:
        """Draw nothing any more; the level at this instant has in it what the load took."""
        self.settled_j = self.level_j
        super().stop(0.0)

    def empty_at(self) -> float:
        return self._rows.empty_at(self._number, self._device, self._place) if self.load_w > 0.0 else math.inf

    @property
    def settled_j(self) -> float:
        return float(self._rows.left_j[self._device])

    @settled_j.setter
    def settled_j(self, joules: float) -> None:
        self._rows.left_j[self._device] = joules

    @property
    def since(self) -> float:    
        return float(self._rows.since_s[self._device])

    @since.setter
    def since(self, t: float) -> None:
        self._rows.since_s[self._device] = t

    @property
    def load_w(self) -> float:   
        return float(self._rows.work_w[self._device])

    @load_w.setter
    def load_w(self, watts: float) -> None:
        self._rows.work_w[self._device] = watts
