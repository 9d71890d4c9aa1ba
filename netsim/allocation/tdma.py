"""`tdma`: the whole band for one device after the other, each with a CPU frequency of its own.

A device's time on the air, a = z/Q(B), depends on nothing else; the fastest CPU that the rest of its budget pays for
makes it ready at r. The rest is one machine with release times, for which first ready, first served is optimal:
T = max over k of r_k + the sum of a_j over those with r_j >= r_k. Then the same order is put as late as possible, and
every CPU runs as slowly as that allows: the least energy for this T and order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from netsim.allocation.infeasibility import least_energy, over_budget_with_whole_band
from netsim.allocation.normalized import NormalizedProblem
from netsim.allocation.numerics import within_floats
from netsim.allocation.plan import Infeasible, Plan, plan_in_slots
from netsim.allocation.problem import Problem
from netsim.base.fields import Measure, key
from netsim.base.types import Floats, Ints
from netsim.physics import best_hz

Guard = Annotated[float, Measure("time", "not negative", bare=True), key("silence between two devices, such as 2 ms")]


@within_floats
def solve(problem: Problem, guard: Guard = 0.0) -> Plan:
    """Return the shortest round in which one device sends at a time, then the least energy for it; exact."""
    alone = SingleDevice.required(problem)
    starts = alone.turns(guard)
    return plan_in_slots(problem, np.arange(len(problem)), starts, alone.hertz, problem.cpu_for(starts))


@dataclass(frozen=True, eq=False)
class SingleDevice:
    """Each device with the whole band: the least upload time, and the earliest start of the upload."""

    hertz: Floats       # the bandwidth that carries most: the whole band for Shannon's link
    air_s: Floats       # z / Q(B)
    ready_s: Floats     # with the CPU as fast as the rest of the budget allows; inf: infeasible

    @classmethod
    @np.errstate(all="ignore")
    def of(cls, problem: Problem) -> SingleDevice:
        hertz = best_hz(problem.link, problem.bandwidth_hz, problem.snr_hz)
        air_s = problem.bits / problem.link.rate(hertz, problem.snr_hz)
        return cls(hertz, air_s, NormalizedProblem.of(problem).ready_time(air_s))

    @classmethod
    def required(cls, problem: Problem) -> SingleDevice:
        """Return the same; raise :class:`Infeasible` if and only if a device cannot keep its budget even alone."""
        alone = cls.of(problem)
        poor = np.isinf(alone.ready_s)
        if poor.any():
            least_j = least_energy(problem, problem.bandwidth_hz)
            raise Infeasible(np.flatnonzero(poor), over_budget_with_whole_band(problem, least_j, poor))
        return alone

    @property
    def bound_s(self) -> float:
        """Solo bound in seconds: an earlier start leaves less time to upload, so no schedule beats the slowest."""
        return float((self.ready_s + self.air_s).max())

    def turns(self, guard: float = 0.0) -> Floats:
        """Return the latest starts, first ready first served and without a break, that keep the shortest round."""
        order = np.argsort(self.ready_s, kind="stable")
        rest = np.cumsum(self.air_s[order][::-1] + guard)[::-1] - guard      # from each turn to the end of the last
        starts = np.empty(len(order))
        starts[order] = float((self.ready_s[order] + rest).max()) - rest
        return np.maximum(starts, self.ready_s)      # rounding must not make a CPU faster than its budget allows


def single_device_bound(problem: Problem, plan: Plan | None = None) -> float:
    """Return a lower bound on the round in seconds, for any sharing of the band in time; inf if infeasible."""
    return SingleDevice.of(problem).bound_s


def kept(problem: Problem, **options: Any) -> Ints:
    """Return the positions of the devices that are feasible with sharing in time: all that are feasible alone."""
    return np.flatnonzero(np.isfinite(SingleDevice.of(problem).ready_s))
