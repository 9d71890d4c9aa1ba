"""What devices on batteries draw, and when that will have emptied them."""

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
SENT, EMPTY, SPENT, COMPUTED, PLANNED, CHANGED = range(6)
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

    def settle(self, flight: Flight, i: int, column: str, charge: str, *, complete: bool) -> None:
        """A phase on a battery has ended: note what it took, and what is left."""
        ticket = flight.first + i
        if ticket in self._drawn:
            battery, load = self._drawn.pop(ticket)
            del battery.owners[ticket]
            getattr(flight, column)[i] = battery.disconnect(load, self.env.now, complete=complete)
            getattr(flight, charge)[i] = battery.level_j(self.env.now)
            self._watch(battery)

    def upload_energy(self, flight: Flight, i: int, *, complete: bool) -> float:
        """Joules of the upload until now."""
        if flight.first + i not in self._drawn:
            return flight.power_w[i] * flight.upload_s[i]
        before = flight.upload_j[i]
        self.settle(flight, i, "upload_j", "charge_2", complete=complete)
        return before + flight.upload_j[i]

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
