"""A device's energy store."""

from __future__ import annotations

from dataclasses import dataclass

import simpy
from simpy.events import ProcessGenerator

from netsim.trace.rows import BATTERY_EMPTY

ROUNDING = 1e-12


@dataclass
class Load:
    """A constant power drawn on behalf of a process, from ``since`` on, for at most ``seconds``."""

    owner: simpy.Process
    watts: float
    seconds: float
    since: float


class Battery:
    """Piecewise-constant drain; whoever draws is interrupted at the very instant that the energy runs out.

    The loads say how long they mean to last, so a process that watches for the end is started only
    when the end would come first.
    """

    def __init__(self, env: simpy.Environment, capacity_j: float, used_j: float = 0.0) -> None:
        self.env = env
        self.capacity_j = capacity_j
        self._used_j = used_j        # by loads that have ended
        self._loads: list[Load] = []
        self._ran_out = False
        self._watch_number = 0       # a watch with an older number has been overtaken by a change of the loads

    @property
    def used_j(self) -> float:
        """Energy drawn until now."""
        return self._used_j + sum(load.watts * (self.env.now - load.since) for load in self._loads)

    @property
    def level_j(self) -> float:
        """Energy left now."""
        return max(0.0, self.capacity_j - self.used_j)

    def connect(self, watts: float, seconds: float) -> Load:
        """Draw ``watts`` for ``seconds`` on behalf of the process that calls."""
        owner = self.env.active_process
        assert owner is not None, "only a process can draw from a battery"
        load = Load(owner, watts, seconds, self.env.now)
        self._loads.append(load)
        self._watch()
        return load

    def disconnect(self, load: Load, *, complete: bool) -> float:
        """End a load and return the joules that it took; ``complete`` when it lasted as long as it meant to."""
        self._loads.remove(load)
        # seconds, not the clock's difference: late in a long run the clock has lost the small digits
        energy_j = load.watts * (load.seconds if complete else self.env.now - load.since)
        if self._ran_out and not complete and not self._loads:
            energy_j = max(0.0, self.capacity_j - self._used_j)      # and what was in it is known exactly
        self._used_j += energy_j
        if self._used_j > self.capacity_j * (1 - ROUNDING):
            self._used_j = self.capacity_j          # what rounding leaves in it is not energy
        self._watch()
        return energy_j

    def _watch(self) -> None:
        self._watch_number += 1
        watts = sum(load.watts for load in self._loads)
        if watts <= 0.0:
            return
        lasts_s = self.level_j / watts
        ends_s = max(load.since + load.seconds for load in self._loads) - self.env.now
        if lasts_s < ends_s * (1 - ROUNDING):      # a battery that just suffices suffices
            self.env.process(self._run_out(lasts_s, self._watch_number))

    def _run_out(self, after_s: float, watch_number: int) -> ProcessGenerator:
        yield self.env.timeout(after_s)
        if watch_number == self._watch_number:
            self._ran_out = True
            for load in tuple(self._loads):
                load.owner.interrupt(BATTERY_EMPTY)
