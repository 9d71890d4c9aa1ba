"""What work has taken, and what devices on batteries draw: when that will have emptied them."""

from __future__ import annotations

import math
from heapq import heappush
from typing import Any

import numpy as np
import simpy

from netsim.base.arrays import Floats
from netsim.cell.battery import Batteries, Battery, Load
from netsim.cell.jobs import Flight

# What can be due. At one instant ends come before starts, then the order of devices; a budget just kept is kept.
SENT, EMPTY, SPENT, COMPUTED, PLANNED, CHANGED, SWITCHED, RECEIVED, HOT = range(9)
Agenda = list[tuple[float, int, Any, int, Any, int]]      # when, what, whose turn, a stamp, and whom it is about


class Loads:
    """The loads of jobs whose devices are on batteries, by the number of the job."""

    def __init__(self, env: simpy.Environment, batteries: Batteries, agenda: Agenda) -> None:
        self.env = env
        self.batteries = batteries
        self.agenda = agenda
        self._drawn: dict[int, tuple[Battery, Load]] = {}

    def __bool__(self) -> bool:
        return bool(self._drawn)

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._drawn

    def draw(self, flight: Flight, i: int, watts: float, seconds: float, since: float | None = None) -> None:
        """A device on a battery begins to draw; whether that will see it through is known now."""
        battery = self.batteries.at_work(flight.device[i])
        ticket, flight.on_battery = flight.first + i, True
        began = self.env.now if since is None else since
        self._drawn[ticket] = (battery, battery.connect(began, watts, seconds))
        battery.owners[ticket] = (flight, i)
        self._watch(battery)

    def settle(self, flight: Flight, i: int, charge: str, *, complete: bool) -> float:
        """A load has ended: note what is left in the battery, and return the joules that it took."""
        battery, load = self._drawn.pop(flight.first + i)
        del battery.owners[flight.first + i]
        joules = battery.disconnect(load, self.env.now, complete=complete)
        getattr(flight, charge)[i] = battery.level_j(self.env.now)
        self._watch(battery)
        return joules

    def stop_computing(self, flight: Flight, i: int, now: float, *, complete: bool) -> None:
        """Note what computing has taken until now; undisturbed, it is what was foreseen."""
        flight.computed_at[i] = now
        if complete and not self._drawn and i not in flight.story:
            return
        before_s, before_j = (flight.compute_s[i], flight.compute_j[i]) if i in flight.story else (0.0, 0.0)
        if i in flight.story or not complete:
            seconds = flight.left[i] / flight.rate[i] if complete else now - flight.since[i]
            flight.compute_s[i] = before_s + seconds
            flight.compute_j[i] = before_j + flight.compute_w[i] * seconds
        if flight.first + i in self._drawn:
            flight.compute_j[i] = before_j + self.settle(flight, i, "charge_1", complete=complete)

    def stop_sending(self, flight: Flight, i: int, now: float, *, complete: bool) -> None:
        """Note what sending has taken until now."""
        spent_s = flight.spent_s[i]
        flight.upload_s[i] += (
            spent_s + flight.left[i] / flight.rate[i] if complete else spent_s + now - flight.since[i])
        flight.upload_j[i] = (self.upload_energy(flight, i, complete=complete) if self._drawn
                              else flight.power_w[i] * flight.upload_s[i])

    def upload_energy(self, flight: Flight, i: int, *, complete: bool) -> float:
        """Joules of the upload until now."""
        if flight.first + i not in self._drawn:
            return flight.power_w[i] * flight.upload_s[i]
        return flight.upload_j[i] + self.settle(flight, i, "charge_2", complete=complete)

    def snapshot(self) -> Floats:
        """Job, watts, seconds and since when, a row each."""
        rows = [(ticket, load.watts, load.seconds, load.since) for ticket, (_, load) in self._drawn.items()]
        return np.array(rows, np.float64).reshape(-1, 4)

    def watch_all(self) -> None:
        """Find out anew which batteries will run out."""
        for battery in dict.fromkeys(battery for battery, _ in self._drawn.values()):
            self._watch(battery)

    def _watch(self, battery: Battery) -> None:
        battery.watch += 1
        empty_at = battery.empty_at(self.env.now)
        if empty_at < math.inf:
            heappush(self.agenda, (empty_at, EMPTY, min(battery.owners), battery.watch, battery, 0))
