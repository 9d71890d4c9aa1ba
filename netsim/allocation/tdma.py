"""`tdma`: the whole band for one device after the other, each with a CPU frequency of its own.

A device's time on the air, a = z/Q(B), depends on nothing else; the fastest CPU that the rest of its budget pays for
makes it ready at r. What is left is one machine with release times, for which first ready, first served is optimal:
T = max over k of r_k + the sum of a_j over those with r_j >= r_k. Then the same order is put as late as possible, and
every CPU runs as slowly as that allows: the least energy for this T and order.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from netsim.allocation.alone import Alone, require_each_alone
from netsim.allocation.extremes import within_floats
from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.problem import Plan, Problem
from netsim.allocation.slot_plan import plan_in_slots
from netsim.base.arrays import Floats
from netsim.base.fields import Measure, key

Guard = Annotated[float, Measure("time", "not negative", bare=True), key("silence between two devices, such as 2 ms")]


@within_floats
def solve(problem: Problem, guard: Guard = 0.0) -> Plan:
    """The shortest round in which one device sends at a time, then the least energy for it; exact."""
    alone = Alone.of(problem)
    require_each_alone(problem, alone)
    order = np.argsort(alone.ready_s, kind="stable")
    rest = to_come(alone.air_s[order], guard)
    starts = np.empty(len(problem))
    starts[order] = float((alone.ready_s[order] + rest).max()) - rest
    starts = np.maximum(starts, alone.ready_s)           # rounding must not make a CPU faster than its budget allows
    return plan_in_slots(problem, np.arange(len(problem)), starts, alone.hertz, slowest_cpu(problem, starts))


def to_come(air_s: Floats, guard: float = 0.0) -> Floats:
    """The time from each device's turn to the end of the last one's, without a break; in the order of turns."""
    return np.cumsum(air_s[::-1] + guard)[::-1] - guard


def round_of(alone: Alone, guard: float = 0.0) -> float:
    """T, when the last of those that take turns has ended, first ready first served."""
    order = np.argsort(alone.ready_s, kind="stable")
    return float((alone.ready_s[order] + to_come(alone.air_s[order], guard)).max())


def slowest_cpu(problem: Problem, starts_s: Floats) -> Floats:
    """The CPU frequencies with which devices are ready just when they are to send; at least the least they have."""
    compute_s = InSeconds.of(problem).clip(starts_s)
    return np.clip(problem.cycles / compute_s, problem.cpu_min_hz, problem.cpu_max_hz)
