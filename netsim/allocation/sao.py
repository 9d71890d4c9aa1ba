"""`sao`: the exact optimum of the spectrum allocation problem (19), by one scalar root."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from netsim.allocation.diagnosis import require_feasible
from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.problem import Plan, Problem, fill, plan_for
from netsim.base.arrays import Floats


def solve(problem: Problem) -> Plan:
    """The plan with the shortest round that keeps every budget.

    The least bandwidth that a device needs falls, and is convex, in the round time T; T is where the sum is B. At that
    T every device whose computing is not at its slowest ends exactly at T, and the whole band is used.
    """
    devices = InSeconds.of(problem)
    equal = devices.round_time(problem.bandwidth_hz / len(problem))
    if math.isinf(equal.max()):                              # else an equal share serves all
        require_feasible(problem, devices)
    needs = shortest_round(devices, problem.bandwidth_hz, equal)
    compute_s = np.concatenate([need.compute_s for need in needs])
    bandwidth_hz = np.concatenate([need.bandwidth_hz for need in needs])
    cpu_hz = np.minimum(np.maximum(problem.cycles / compute_s, problem.cpu_min_hz), problem.cpu_max_hz)
    return plan_for(problem, fill(bandwidth_hz, problem.bandwidth_hz), cpu_hz)


@dataclass(frozen=True, eq=False)
class Need:
    """What the devices of one block need at least for a round of T seconds."""

    compute_s: Floats
    upload_s: Floats
    bandwidth_hz: Floats
    per_second: Floats    # how much less is needed for each second more of upload
    gained: Floats        # seconds more of upload for each second more of round: 1 at cpu_max, 0 at cpu_min

    @property
    def slope(self) -> Floats:
        """How the need changes with the length of the round."""
        return -self.per_second * self.gained

    @classmethod
    def at(cls, round_s: float, devices: InSeconds) -> Need:
        """Compute as long as leaves most for the upload, then send with what that takes."""
        compute_s = devices.compute_time(round_s)
        time_left = round_s - compute_s
        energy_left = devices.budget - devices.work / (compute_s * compute_s)
        upload_s = np.minimum(time_left, energy_left)
        bandwidth_hz, elasticity = devices.bandwidth(upload_s)
        inside = (compute_s > devices.fastest) & (compute_s < devices.slowest)
        doubled = devices.work + devices.work
        part = doubled / (doubled + compute_s**3)
        gained = np.where(inside, part, time_left <= energy_left)
        return cls(compute_s, upload_s, bandwidth_hz, elasticity * bandwidth_hz / upload_s, gained)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")   # a round too short needs infinite bandwidth
def shortest_round(devices: InSeconds, bandwidth_hz: float, equal: Floats) -> list[Need]:
    """What the devices, block by block, need in the round T at which their least bandwidths add up to B.

    The problem must be feasible. Each step solves a model of the needs (:func:`_step`) inside a bracket: with an equal
    share of the band (``equal``: each device's shortest round with it) some device needs a round no longer than T and
    some other one no shorter; with the whole band none beats T; once every CPU is at its slowest, longer is no help.
    """
    low = max(float(devices.round_time(bandwidth_hz).max()), float(equal.min()))
    idle = devices.slowest + devices.budget - devices.work / devices.slowest**2
    high = max(low, min(float(equal.max()), float(idle.max()))) * (1.0 + 1e-14)
    t = min(max(low, float(np.minimum(equal, idle).mean())), high)
    blocks = list(devices.blocks())
    for attempt in range(1, 600):
        needs = [Need.at(t, block) for block in blocks]
        total = sum(float(need.bandwidth_hz.sum()) for need in needs)
        excess = total / bandwidth_hz - 1.0
        step = _step(needs, bandwidth_hz, total)
        if (abs(excess) <= 1e-10 and abs(step) <= 1e-10 * t) or t == high:
            return needs
        low, high = (t, high) if excess > 0.0 else (low, t)
        least = math.copysign(4e-16 * t, excess)             # a step below the last digit would stand still
        t += least if abs(step) < abs(least) else step
        if not low < t < high or attempt % 8 == 0:           # also where there is no slope to follow
            t = math.sqrt(low * high) if high > 2.0 * low else (low + high) / 2.0
            t = t if high - low > 4e-16 * high else high
    raise ArithmeticError(f"the round time did not settle between {low!r} and {high!r} s")


def _step(needs: list[Need], bandwidth_hz: float, total_hz: float) -> float:
    """How far T has to move if the reciprocal of every need is a straight line in it, which it nearly is.

    Newton on the reciprocal of the sum of b/(1 + r x), which is increasing and concave in x; one step where the total
    is near the band. NaN where no need has a slope (all CPUs at their slowest) or some need is infinite.
    """
    slopes = [need.slope for need in needs]
    slope = sum(float(each.sum()) for each in slopes)
    if not -math.inf < slope < 0.0:
        return math.nan
    x = total_hz * (1.0 - total_hz / bandwidth_hz) / slope
    if abs(total_hz / bandwidth_hz - 1.0) < 0.02:
        return x
    rates = [-each / need.bandwidth_hz for each, need in zip(slopes, needs, strict=True)]
    leftmost = -0.9 / max(float(rate.max()) for rate in rates)
    for _ in range(3):
        x = max(x, leftmost)
        total = slope = 0.0
        for need, rate in zip(needs, rates, strict=True):
            factor = 1.0 / (1.0 + rate * x)
            now = need.bandwidth_hz * factor
            total += float(now.sum())
            slope -= float(now @ (rate * factor))
        x += total * (1.0 - total / bandwidth_hz) / slope
        if abs(total / bandwidth_hz - 1.0) < 1e-3:
            break
    return max(x, leftmost)
