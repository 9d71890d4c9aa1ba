"""`sao`: the exact optimum of problem (19), by one scalar root; also `equal` and the paper's `algorithm5`.

`sao` supports any link model: Shannon's, with efficiency and cap, by closed forms and Newton; others by bisection.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from netsim import physics
from netsim.allocation.infeasibility import over_budget, require_feasible
from netsim.allocation.normalized import NormalizedProblem
from netsim.allocation.numerics import first_not_positive, within_floats
from netsim.allocation.plan import Infeasible, Plan, fill, plan_for
from netsim.allocation.problem import Problem
from netsim.base.errors import InputError
from netsim.base.fields import Tolerance
from netsim.base.tolerances import SHORT_UPLOAD
from netsim.base.types import Floats
from netsim.base.units import format
from netsim.physics import HALF, ONE, TINY, ZERO, Shannon

TENTH = np.array(0.1)
NEAR = 2e-5          # relative change whose cube is below the last digits
TINY_STEP = 1e-7     # relative change of a bandwidth whose error, 0.05 of its square, is below the last digits
BIG_ENOUGH = 1e6     # T_max in units of T_min
CAP = 120            # maximum number of iterations; the interval is down to the last digit long before


@within_floats
def solve(problem: Problem) -> Plan:
    """Return the plan with the shortest round that keeps every budget.

    The least bandwidth that a device needs falls, and is convex, in the round time T; T is where the sum is B. At that
    T every device whose CPU is above its minimum ends exactly at T, and the whole band is used.
    """
    devices = NormalizedProblem.of(problem)
    if type(problem.link) is not Shannon or problem.cpu_power is not None:
        return _by_any_link(problem, devices)
    bracket = Bracket.of(devices, problem.bandwidth_hz)
    if not bracket.sure:
        require_feasible(problem, devices)
    best = shortest_round(devices, problem.bandwidth_hz, bracket)
    plan = plan_for(problem, fill(best.bandwidth_hz, problem.bandwidth_hz), problem.cpu_for(best.compute_s))
    return plan if plan.upload_s.min() > SHORT_UPLOAD * plan.round_s else _or_equal(problem, plan)


def _or_equal(problem: Problem, plan: Plan) -> Plan:
    """Return a plan whose uploads are lost in the rounding of the round, or that of equal bandwidths if better."""
    try:
        other = equal(problem)
    except Infeasible:
        other = plan
    best = other if plan.over_budget.any() or other.round_s < plan.round_s else plan
    if best.over_budget.any():
        raise ArithmeticError("uploads are shorter than the rounding of the round")
    return best


def _by_any_link(problem: Problem, devices: NormalizedProblem) -> Plan:
    """Return the optimum for a link of which only monotonicity is known: its bandwidth never falls with the rate.

    Then no need rises with T: the shortest round is the first whose needs fit the band, found by bisection. Needs may
    jump, so that part of the band stays free; more bandwidth need not make an upload shorter.
    """
    require_feasible(problem, devices)

    def overfull(round_s: float) -> float:
        return 1.0 - problem.bandwidth_hz / float(devices.least_bandwidth(round_s).sum())

    round_s = first_not_positive(overfull, float(devices.fastest.max()), float(devices.longest().max()))
    return plan_for(problem, devices.least_bandwidth(round_s), problem.cpu_for(devices.compute_time(round_s)))


@within_floats
def equal(problem: Problem) -> Plan:
    """Divide the band equally, b = B/S, and run each CPU as fast as its budget allows."""
    share = fill(np.ones(len(problem)), problem.bandwidth_hz)
    slow = plan_for(problem, share, problem.cpu_min_hz)
    poor = slow.device_energy_j > problem.budget_j
    if poor.any():
        reason = (f"{over_budget(problem, slow.device_energy_j, poor)}, with an equal share of "
                  f"{format(float(share[0]), 'frequency')} and the CPU at its slowest")
        raise Infeasible(np.flatnonzero(poor), reason)
    with np.errstate(divide="ignore", invalid="ignore"):      # nothing to compute: any frequency is affordable
        affordable = np.sqrt((problem.budget_j - problem.power_w * slow.upload_s) / problem.compute_weight)
    if problem.cpu_power is not None:
        spare_j = (problem.budget_j - problem.power_w * slow.upload_s) / np.maximum(problem.cycles, TINY)
        tabled_hz = problem.cpu_power.fastest_hz(spare_j, problem.cpu_min_hz, problem.cpu_max_hz)
        affordable = np.where(problem.cpu_power.tabled, tabled_hz, affordable)
    cpu_hz = np.fmax(np.fmin(affordable, problem.cpu_max_hz), problem.cpu_min_hz)
    return plan_for(problem, share, cpu_hz)


@within_floats
def algorithm5(problem: Problem, tolerance: Tolerance = 1e-6) -> Plan:
    """Return the plan of the paper's Algorithm 5 to the letter, with eps_0 = ``tolerance`` and b_max = B; capped loop.

    It takes a device's bandwidth from the energy equality (21) even where the CPU was clipped to cpu_max and the delay
    binds instead, so the device gets too little and ends late; and it does not terminate if no T fills the band.
    If the band can't be filled to 1 - eps_0, the last, too small bandwidths are kept; if it stays overfull, the problem
    is infeasible.
    """
    if np.isinf(problem.budget_j).any():
        raise InputError("needs", "allocation.method", "algorithm5", "an energy budget for every device",
                         "The paper's algorithm divides the band by budgets: give population.budget, or use sao")
    devices = NormalizedProblem.of(problem)
    low = float(np.max(devices.limit + devices.fastest))                               # line 1
    high = low * BIG_ENOUGH
    for _ in range(CAP):
        t = (low + high) / 2.0
        cpu_hz = problem.cycles / devices.compute_time(t)                              # lines 6 and 7, eq. (23)
        spare = problem.budget_j - physics.compute_energy(problem.cycles, cpu_hz, problem.capacitance)
        rate = problem.bits * problem.power_w / np.where(spare > 0.0, spare, 1e-300)   # eq. (21); inf where no b does
        bandwidth_hz = np.minimum(problem.link.bandwidth(rate, problem.snr_hz), problem.bandwidth_hz)      # lines 8, 9
        ratio = float(bandwidth_hz.sum()) / problem.bandwidth_hz                       # line 12
        if 1.0 - tolerance <= ratio <= 1.0 or t in (low, high):      # or no number lies between: T stays what it is
            break
        low, high = (t, high) if ratio > 1.0 else (low, t)                             # lines 13 to 19
    if ratio > 1.0:
        reason = (f"algorithm5 does not end: in a round of {format(t, 'time')} its shares still add up to "
                  f"{ratio:.4g} times the band")
        raise Infeasible(range(len(problem)), reason)
    upload_s = problem.bits / problem.link.rate(bandwidth_hz, problem.snr_hz)
    with np.errstate(divide="ignore", invalid="ignore"):                               # line 21, eq. (21) for f
        spare = np.maximum(problem.budget_j - problem.power_w * upload_s, 0.0)
        cpu_hz = np.fmin(np.sqrt(spare / problem.compute_weight), problem.cpu_max_hz)
    return plan_for(problem, bandwidth_hz, np.fmax(cpu_hz, problem.cpu_min_hz))


class Need(NamedTuple):
    """Least bandwidth of the devices of one block for a round of T seconds (or several T, a row each)."""

    devices: NormalizedProblem
    crossing_s: Floats    # computing time at which time and energy leave equally long to send, not clipped
    delayed: Floats       # derivative of the crossing with respect to T
    compute_s: Floats
    upload_s: Floats
    bandwidth_hz: Floats
    per_second: Floats    # Hz saved for each second more of upload
    gained: Floats        # seconds more of upload for each second more of round: 1 at cpu_max, 0 at cpu_min

    @property
    def slope(self) -> Floats:
        """Derivative of the need with respect to T, in Hz/s."""
        return -self.per_second * self.gained

    @classmethod
    def at(cls, round_s: float | Floats, devices: NormalizedProblem) -> Need:
        """Choose the computing time that leaves most for the upload, and the bandwidth that sends in the rest."""
        x = devices.crossing(round_s)
        crossing_s = devices.scale / x
        cube = x * x * x
        delayed = ONE / (cube + cube + ONE)
        compute_s = devices.clip(crossing_s)
        time_left = np.asarray(round_s) - compute_s
        energy_left = devices.budget - devices.work / (compute_s * compute_s)
        upload_s = np.minimum(time_left, energy_left)
        bandwidth_hz, elasticity = devices.bandwidth(upload_s)
        gained = np.where(compute_s == crossing_s, ONE - delayed, time_left <= energy_left)
        per_second = elasticity * bandwidth_hz / upload_s
        return cls(devices, crossing_s, delayed, compute_s, upload_s, bandwidth_hz, per_second, gained)

    def little_moved_by(self, step: float) -> bool:
        """Return True if a step of T changes the need so little that :class:`Nearby` is exact."""
        quickest = np.maximum(self.per_second * self.gained / self.bandwidth_hz, self.delayed / self.crossing_s)
        return bool(abs(step) * np.maximum.reduce(quickest) <= NEAR and not self._meets_cap())

    def _meets_cap(self) -> bool:
        """Return True if a link's cap begins to bind so near that a step may cross that kink."""
        most = self.devices.most
        if most == math.inf:
            return False
        snr = self.devices.nats / (self.devices.limit * self.bandwidth_hz)
        return bool(np.logical_or.reduce(np.abs(np.log1p(snr) - most) <= 2 * NEAR * most))


class Nearby:
    """Second-order extrapolation of a need to nearby rounds.

    The crossing t moves by m = 1/(1 + 2 x^3) of a step, which itself changes by 3 m^2 (1 - m)/t. The reciprocal of a
    need is nearly linear in the upload time u: with v = s + y as in :meth:`NormalizedProblem.bandwidth` its first
    derivative is v/(v - 1) times 1/(b u), its second (v + y - s/(v - 1))/(v - 1)^2 times 1/(b u^2).
    """

    def __init__(self, need: Need, round_s: float) -> None:
        self.need, self.round_s = need, round_s
        m = need.delayed
        self.turn = 1.5 * m * m * (ONE - m) / need.crossing_s
        self.rise = need.per_second * need.upload_s / need.bandwidth_hz
        rest = ONE / (self.rise - ONE)                                           # v - 1
        y = need.devices.limit / need.upload_s
        self.bend = HALF * (rest + y - (ONE - y) / rest) / (rest * rest)         # v + y - s/(v - 1), s = v - y
        if need.devices.most < math.inf:
            self.bend = np.where(self.rise == ONE, ZERO, self.bend)              # b u is constant at the cap

    def by(self, step: float) -> tuple[Floats, Floats]:
        """Return computing times and bandwidths in a round that is longer by ``step`` seconds."""
        need, devices = self.need, self.need.devices
        compute_s = devices.clip(need.crossing_s + step * (need.delayed + step * self.turn))
        energy_left = devices.budget - devices.work / (compute_s * compute_s)
        longer = np.minimum((self.round_s + step) - compute_s, energy_left) / need.upload_s - ONE
        return compute_s, need.bandwidth_hz / (ONE + longer * (self.rise + self.bend * longer))


class Bracket(NamedTuple):
    """Round times between which the shortest round lies, if one exists, and the start of the search."""

    low: float
    high: float
    start: float
    sure: bool            # a shortest round exists
    shares_hz: Floats     # approximate needs in the first round of the search

    @classmethod
    def of(cls, devices: NormalizedProblem, bandwidth_hz: float) -> Bracket:
        """Bracket T: with the whole band no device is faster; with equal bandwidths some end before T, some after it.

        Where equal bandwidths do not serve all devices: once every CPU is at its minimum, a longer round is no help.
        """
        alone, equal = devices.round_time(np.array([[bandwidth_hz], [bandwidth_hz / len(devices.nats)]]))
        low = max(float(np.maximum.reduce(alone)), float(np.minimum.reduce(equal)))
        high = float(np.maximum.reduce(equal))
        sure = high < math.inf
        if not sure:
            longest = devices.longest()
            equal, high = np.minimum(equal, longest), float(longest.max())
            low = min(low, high)             # infinite where the whole band is just enough for one, but for rounding
        high = max(low, high) * (1.0 + 1e-14)
        start, shares = foreseen(alone, equal, low)
        return cls(low, high, start if low < start < high else (low + high) / 2.0, sure, bandwidth_hz * shares)


def foreseen(alone: Floats, equal: Floats, t: float) -> tuple[float, Floats]:
    """Return the round in which needs add up to the band if the reciprocal of each is linear, which it nearly is.

    Two points of each line are known: the rounds with the whole band and with an equal part of it. Newton on the
    reciprocal of the total, which is increasing and concave: from a round that is too short it does not overshoot.
    Also return each device's part of the band in that round.
    """
    rise = (len(equal) - 1) / np.maximum(equal - alone, TINY)
    share = ONE
    for _ in range(5):
        share = ONE / (ONE + (t - alone) * rise)
        total, slope = float(np.add.reduce(share)), float(rise.dot(share * share))
        step = total * (total - 1.0) / slope if slope > 0.0 else 0.0         # a device alone has no choice
        t += step
        if not step > 2e-3 * t:
            break
    return t, share


class Shortest(NamedTuple):
    """The shortest round, with each device's computing time and bandwidth."""

    round_s: float
    compute_s: Floats
    bandwidth_hz: Floats

    @classmethod
    def of(cls, round_s: float, parts: list[tuple[Floats, Floats]]) -> Shortest:
        """Concatenate blocks."""
        if len(parts) == 1:
            return cls(round_s, *parts[0])
        return cls(round_s, np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))


def shortest_round(devices: NormalizedProblem, bandwidth_hz: float, bracket: Bracket) -> Shortest:
    """Return the round T at which the least bandwidths of the devices add up to B; the problem must be feasible.

    No step depends on an earlier problem: the same problem has the same solution, to the last digit, in every run.
    """
    together = ending_together(devices, bandwidth_hz, bracket) if bracket.sure else None
    return together or search(devices, bandwidth_hz, bracket)


def ending_together(devices: NormalizedProblem, bandwidth_hz: float, bracket: Bracket) -> Shortest | None:
    """Return the shortest round where all end at T, by Newton on the bandwidths, which give it in closed form.

    The reciprocal of a bandwidth is nearly linear in the round that it leads to. Each step follows the lines to
    the T at which the bandwidths add up to B. None if a CPU would have to be slower than its minimum, or without
    convergence.
    """
    nats, limit, budget, work, _, fastest, slowest, *_ = devices
    most = devices.most
    snr_hz, least_s = nats / limit, work / (slowest * slowest)
    b, t = bracket.shares_hz, bracket.start
    for attempt in range(10):
        snr = snr_hz / b
        shannon = np.log1p(snr)
        efficiency = shannon if most == math.inf else np.minimum(shannon, most)
        upload_s = nats / (b * efficiency)
        spare_s = budget - upload_s
        if not np.logical_and.reduce(spare_s >= least_s):    # not enough for its CPU at its slowest
            return None
        compute_s = np.sqrt(work / spare_s)                  # the least that the budget allows
        rounds = upload_s + np.maximum(compute_s, fastest)
        elasticity = ONE - snr / ((ONE + snr) * efficiency)
        if most < math.inf:
            elasticity = np.where(shannon < most, elasticity, ONE)
        slower = np.where(compute_s > fastest, compute_s / (spare_s + spare_s), ZERO)
        rise = ONE / (upload_s * elasticity * (ONE + slower))          # of the reciprocal, relative, for a second of T
        for _ in range(1 if attempt else 2):
            factor = ONE / (ONE + (t - rounds) * rise)
            share = b * factor
            total = float(np.add.reduce(share))
            t += total * (total / bandwidth_hz - 1.0) / float(share.dot(rise * factor))
        missed_s = t - rounds
        change = missed_s * rise
        b = b / np.maximum(ONE + change, TENTH)
        if np.maximum.reduce(np.abs(change)) <= TINY_STEP:
            bends = np.logical_or.reduce(np.abs(compute_s - fastest) <= NEAR * fastest)      # a step may go over one
            bends |= most < math.inf and np.logical_or.reduce(np.abs(shannon - most) <= NEAR * most)
            if np.maximum.reduce(np.abs(missed_s)) <= (1e-14 if bends else TINY_STEP) * t:
                return Shortest(t, np.maximum(t - upload_s * (ONE + elasticity * change), fastest), b)
    return None


def search(devices: NormalizedProblem, bandwidth_hz: float, bracket: Bracket) -> Shortest:
    """Return the shortest round where some CPUs are at their minimum: steps that solve a model of the needs."""
    low, high, t = bracket.low, bracket.high, bracket.start
    blocks = devices.blocks()
    for attempt in range(1, 600):
        needs = [Need.at(t, block) for block in blocks]
        total = sum(float(np.add.reduce(need.bandwidth_hz)) for need in needs)
        excess = total / bandwidth_hz - 1.0
        step = _step(needs, bandwidth_hz, total)
        settled = _settled(needs, bandwidth_hz, t, step) if abs(step) <= 1e-3 * t else None
        if settled:
            return settled
        if (abs(excess) <= 1e-10 and abs(step) <= 1e-13 * t) or t == high:
            return Shortest.of(t, [(need.compute_s, need.bandwidth_hz) for need in needs])
        low, high = (t, high) if excess > 0.0 else (low, t)
        least = math.copysign(4e-16 * t, excess)             # a step below the last digit would stand still
        t += least if abs(step) < abs(least) else step
        if not low < t < high or attempt % 8 == 0:           # also where there is no slope to follow
            t = math.sqrt(low * high) if high > 2.0 * low else (low + high) / 2.0
            t = t if high - low > 4e-16 * high else high
    raise ArithmeticError(f"the round time did not settle between {low!r} and {high!r} s")


def _settled(needs: list[Need], bandwidth_hz: float, t: float, step: float) -> Shortest | None:
    """Return the result once a step is small enough for extrapolation, else None."""
    if not all(need.little_moved_by(step) for need in needs):
        return None
    slope = -sum(float(need.per_second.dot(need.gained)) for need in needs)
    around = [Nearby(need, t) for need in needs]
    for _ in range(4):                                       # more than twice where a CPU comes to an end of its range
        parts = [near.by(step) for near in around]
        excess_hz = sum(float(np.add.reduce(part[1])) for part in parts) - bandwidth_hz
        change = -excess_hz / slope
        if abs(excess_hz) <= (1e-14 if abs(change) > 2e-16 * t else 1e-10) * bandwidth_hz:
            return Shortest.of(t + step, parts)
        step += change
    return None


def _step(needs: list[Need], bandwidth_hz: float, total_hz: float) -> float:
    """Return the step of T that fills the band if the reciprocal of every need is linear in T, which it nearly is.

    Newton on the reciprocal of the sum of b/(1 + r x), which is increasing and concave in x; one step where the total
    is near the band. NaN if no need has a slope (all CPUs at their minimum) or some need is infinite.
    """
    slope = -sum(float(need.per_second.dot(need.gained)) for need in needs)
    if not -math.inf < slope < 0.0:
        return math.nan
    x = total_hz * (1.0 - total_hz / bandwidth_hz) / slope
    if abs(total_hz / bandwidth_hz - 1.0) < 0.02:
        return x
    rates = [-need.slope / need.bandwidth_hz for need in needs]
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
