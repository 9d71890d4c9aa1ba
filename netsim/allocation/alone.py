"""What each device could do with the whole band to itself, and the round that no schedule can undercut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.allocation.diagnosis import obstacles, too_dear
from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.problem import Infeasible, Plan, Problem
from netsim.base.arrays import Floats, Ints
from netsim.base.units import format
from netsim.physics import best_hz


@dataclass(frozen=True, eq=False)
class Alone:
    """Each device with the whole band: the least time on the air, and how soon it can be ready for it."""

    hertz: Floats       # the part of the band that carries most: all of it by Shannon's link
    air_s: Floats       # z / Q(B)
    ready_s: Floats     # with the CPU as fast as the rest of the budget allows; inf: its budget allows nothing

    @classmethod
    @np.errstate(all="ignore")
    def of(cls, problem: Problem) -> Alone:
        devices = InSeconds.of(problem)
        hertz = best_hz(problem.link, problem.bandwidth_hz, problem.snr_hz)
        air_s = problem.bits / problem.link.rate(hertz, problem.snr_hz)
        spare = devices.budget - air_s
        ready_s = np.maximum(np.sqrt(devices.work / spare), devices.fastest)
        return cls(hertz, air_s, np.where((spare > 0.0) & (ready_s <= devices.slowest), ready_s, np.inf))

    @property
    def bound_s(self) -> float:
        """The solo bound: to be ready sooner leaves less air time, and there is no shorter one; so no schedule ends
        before the last of the devices would, were each alone."""
        return float((self.ready_s + self.air_s).max())


def solo_bound(problem: Problem, plan: Plan | None = None) -> float:
    """Seconds that no round undercuts, however the band is shared in time; inf where no schedule keeps the budgets.

    It holds for every plan, so that none needs to be given.
    """
    return Alone.of(problem).bound_s


def kept(problem: Problem, **options: Any) -> Ints:
    """Positions of those who can take part if the band is shared in time: all who could alone, whatever the options."""
    return np.flatnonzero(np.isfinite(Alone.of(problem).ready_s))


def require_each_alone(problem: Problem, alone: Alone) -> None:
    """Raise :class:`Infeasible` exactly when no sharing in time keeps every budget: somebody can't even alone."""
    poor = np.isinf(alone.ready_s)
    if poor.any():
        found = obstacles(problem)
        raise Infeasible(np.flatnonzero(poor), f"{too_dear(problem, found.least_energy_j, poor)}, even with the whole "
                                               f"band of {format(problem.bandwidth_hz, 'frequency')}")
