"""Transmit powers chosen with bandwidth and CPU: `sao-joint`, `sao-common-power` and the paper's `algorithm6`.

`sao-joint` has a power for each device. For a round of T seconds a device that computes for t has T - t to send and
e - W/t^2 joules to send with (W = G U^2). The best power spends all of both, p = (e - W/t^2)/(T - t), clipped to its
range: below it the energy is not used up, above it the need grows in proportion to the power. The bandwidth is then
z ln 2 / ((T - t) s), where the spectral efficiency s depends on the energy alone and is concave in the CPU frequency,
as T - t is; so the product has one maximum, and where the power is clipped the need still falls up to the crossing of
time and energy and rises behind it. Each device's optimum is thus one stationary point, clipped; and the sum of the
needs falls with T.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from netsim import physics
from netsim.allocation import sao
from netsim.allocation.normalized import BLOCK, NO_BUDGET_S, NormalizedProblem
from netsim.allocation.numerics import first_not_positive, within_floats
from netsim.allocation.plan import Infeasible, Plan, fill, plan_for
from netsim.allocation.problem import Problem
from netsim.base.errors import InputError
from netsim.base.fields import Tolerance
from netsim.base.types import Bools, Floats

LEVELS = 24      # powers tried first
SHORTER = 1e-9   # relative: a round that is shorter by less is equal
NARROW = 0.02    # width, in ln W, of an interval with one minimum; more in a range of many decades
DIPS = 5         # local minima that are refined


@within_floats
def joint(problem: Problem) -> Plan:
    """Return the shortest round over bandwidth, CPU frequency and each device's own power within its range."""
    devices = Devices.of(problem)
    others = _at_given_powers(problem)

    def overfull(round_s: float) -> float:
        return 1.0 - problem.bandwidth_hz / float(devices.need(round_s).bandwidth_hz.sum())

    soonest = float(np.max(devices.strong.fastest + devices.strong.upload_time(problem.bandwidth_hz)))
    need = devices.need(first_not_positive(overfull, soonest, min(plan.round_s for plan in others)))
    plan = plan_for(problem, fill(need.bandwidth_hz, problem.bandwidth_hz), problem.cpu_for(need.compute_s),
                    need.power_w)
    return min([plan, *others], key=lambda plan: plan.round_s)     # where a range is a point, they differ by rounding


def _at_given_powers(problem: Problem) -> list[Plan]:
    """Return the plans of `sao` at the minimum power (feasible if any is), the maximum, and that of the problem."""
    low, high = problem.power_range_w
    plans = [sao.solve(problem.with_power(low))]
    for power_w in (high, np.clip(problem.power_w, low, high)):
        with contextlib.suppress(Infeasible, InputError):
            plans.append(sao.solve(problem.with_power(power_w)))
    return plans


class JointNeed(NamedTuple):
    """The least bandwidth for a round, with its computing time and power."""

    compute_s: Floats
    power_w: Floats
    bandwidth_hz: Floats


@dataclass(frozen=True, eq=False)
class Devices:
    """A problem with power ranges, one array entry for each device."""

    weak: NormalizedProblem       # at the least power
    strong: NormalizedProblem     # at the greatest
    low_w: Floats
    high_w: Floats
    budget_j: Floats
    work: Floats          # W = G U^2: computing for t seconds costs W/t^2 joules
    least_j: Floats       # z ln 2 N0 / h: the energy that sending takes in unlimited bandwidth

    @classmethod
    def of(cls, problem: Problem, powers: tuple[Floats, Floats] | None = None) -> Devices:
        """Return the problem with its own power ranges, or with others; several per device give a row each."""
        low, high = powers or problem.power_range_w
        strong = NormalizedProblem.of(problem, high)
        return cls(
            weak=NormalizedProblem.of(problem, low), strong=strong, low_w=low, high_w=high,
            budget_j=np.minimum(problem.budget_j, NO_BUDGET_S * low),
            work=problem.compute_weight * np.square(problem.cycles),
            least_j=strong.nats * problem.noise_w_per_hz / problem.gain,
        )

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def need(self, round_s: float) -> JointNeed:
        """Return each device's best computing time and power for a round of T seconds, and its bandwidth."""
        compute_s = self._stationary(round_s, self.weak.compute_time(round_s), self.strong.compute_time(round_s))
        time_left = round_s - compute_s
        energy_left = np.maximum(self.budget_j - self.work / np.square(compute_s), 0.0)
        power_w = np.clip(energy_left / time_left, self.low_w, self.high_w)
        upload_s = np.maximum(np.minimum(time_left, energy_left / power_w), 1e-300)
        fraction = self.least_j / (power_w * upload_s)
        return JointNeed(compute_s, power_w, self.strong.nats / (upload_s * physics.efficiency(fraction)))

    def _stationary(self, round_s: float, low: Floats, high: Floats) -> Floats:
        """Return the maximum of (T - t) s(e - W/t^2) between two computing times, by bracketed Newton.

        It rises at t while the balance of :meth:`_balance` is positive, which falls with t.
        """
        low = np.where(self._balance(round_s, high)[0] >= 0.0, high, low)      # rises all the way
        high = np.where(self._balance(round_s, low)[0] <= 0.0, low, high)      # falls from the start
        t = (low + high) / 2.0
        for _ in range(60):
            balance, slope = self._balance(round_s, t)
            low, high = np.where(balance > 0.0, t, low), np.where(balance > 0.0, high, t)
            guess = t - balance / slope
            previous, t = t, np.where((guess >= low) & (guess <= high), guess, (low + high) / 2.0)
            if (np.abs(t - previous) <= 1e-9 * np.minimum(t, np.abs(round_s - t)) + 4e-16 * t).all():
                break
        return t

    def _balance(self, round_s: float, t: Floats) -> tuple[Floats, Floats]:
        """Return the gain of a longer computing time in energy to send less its cost in time, and the derivative.

        With y = least/energy and v = s + y, ln s changes by 1/(v - 1) times ln energy, so (T - t) s is stationary
        where (d energy/dt) (T - t) = energy (v - 1).
        """
        energy = np.maximum(self.budget_j - self.work / np.square(t), 1e-300)
        growth = 2.0 * self.work / t**3
        y = self.least_j / energy
        s = physics.efficiency(y)
        rest = np.where(y < 1.0, s + y - 1.0, 0.0)                             # v - 1
        slope = -growth * (3.0 * (round_s - t) / t + 1.0 + rest + s / rest - y)
        return growth * (round_s - t) - energy * rest, slope


def with_common_power(problem: Problem, power_w: float) -> Problem:
    """Return the problem with every device at this power, clipped to its range."""
    low, high = problem.power_range_w
    return problem.with_power(np.clip(power_w, low, high))


@within_floats
def algorithm6(problem: Problem, tolerance: Tolerance = 1e-4) -> Plan:
    """Return the plan of the paper's Algorithm 6 to the letter with eps_3 = ``tolerance``, over Algorithm 5.

    It compares with the best round so far, which can lead it away from the optimum, and never tries the maximum power.
    It does not define p*; here it is the power of its last iteration.
    """
    low, high = float(problem.power_range_w[0].min()), float(problem.power_range_w[1].max())      # line 1
    plan = sao.algorithm5(with_common_power(problem, low))
    best = plan.round_s
    while 1.0 - low / high > tolerance:                                                           # line 3
        power_w = (low + high) / 2.0                                                              # line 12
        if power_w in (low, high):      # no floating-point number lies between them
            break
        try:
            plan = sao.algorithm5(with_common_power(problem, power_w))                          # line 4
            round_s = plan.round_s
        except Infeasible:
            round_s = math.inf
        low, high = (power_w, high) if round_s <= best else (low, power_w)                        # lines 6 to 10
        best = min(best, round_s)
    return plan


@within_floats
def common(problem: Problem) -> Plan:
    """Return the plan of `sao` with the one power for all that makes its round shortest.

    If the devices' ranges differ, the round can have several minima over the power. So after a scan of the range,
    intervals that provably hold nothing shorter are skipped, the others divided until they are narrow. Less power never
    makes a problem infeasible (the least bandwidth for a budget is proportional to the power), so if the minimum power
    has no plan, no power has.
    """
    low, high = math.log(problem.power_range_w[0].min()), math.log(problem.power_range_w[1].max())
    search = Search(problem, {low: sao.solve(with_common_power(problem, math.exp(low)))})
    if high == low:
        return search.best
    pieces, width = np.linspace(low, high, LEVELS), max(NARROW, (high - low) / 400.0)
    search.tour(pieces, dips=1)
    first = search.best
    search.tour(pieces, DIPS)
    left = np.stack([pieces[:-1], pieces[1:]], axis=1)
    while len(left):
        left = left[search.may_be_shorter(left)]
        narrow = left[:, 1] - left[:, 0] <= width
        if narrow.all():
            break
        parts = np.linspace(left[~narrow, 0], left[~narrow, 1], 5)
        left = np.concatenate([left[narrow], np.stack([parts[:-1].ravel(), parts[1:].ravel()], axis=1)])
    for start, end in _runs(left):
        search.tour(np.linspace(start, end, 2 + math.ceil((end - start) / width)), DIPS)
    # the round is flat around its minimum: what is shorter by rounding alone is no better
    return search.best if search.best.round_s < first.round_s * (1.0 - SHORTER) else first


@dataclass(frozen=True)
class Search:
    """Powers tried so far, as logarithms, and their plans."""

    problem: Problem
    plans: dict[float, Plan]

    @property
    def best(self) -> Plan:
        return min(self.plans.values(), key=lambda plan: plan.round_s)

    def round_s(self, log_power: float) -> float:
        """Return the length of the round with this common power."""
        if log_power in self.plans:
            return self.plans[log_power].round_s
        try:
            self.plans[log_power] = sao.solve(with_common_power(self.problem, math.exp(log_power)))
        except (Infeasible, InputError):
            return 1e300                    # not inf, of which the minimiser would make NaN
        return self.plans[log_power].round_s

    def tour(self, powers: Floats, dips: int) -> None:
        """Try these powers, and refine around some that are better than their neighbours."""
        from scipy.optimize import minimize_scalar  # scipy takes its time to load

        rounds = [math.inf, *(self.round_s(x) for x in powers), math.inf]
        better = [k for k in range(1, len(rounds) - 1) if rounds[k - 1] > rounds[k] <= rounds[k + 1]]
        for k in sorted(better, key=lambda k: rounds[k])[:dips]:
            around = powers[max(k - 2, 0)], powers[min(k, len(powers) - 1)]
            minimize_scalar(self.round_s, bounds=around, method="bounded", options={"xatol": 1e-9})

    def may_be_shorter(self, pieces: Floats) -> Bools:
        """Return True for each interval of powers that may hold a round shorter than the best by more than rounding.

        It does not if no device's power changes in it, or if the band is too small for such a round even when each
        device takes its own best power in the interval (:class:`Devices`).
        """
        low, high = self.problem.power_range_w
        powers = np.clip(np.exp(pieces)[:, :, None], low, high)
        found = [Devices.of(self.problem, (part[:, 0], part[:, 1])).need(self.best.round_s * (1.0 - SHORTER))
                 for part in np.array_split(powers, 1 + powers.size // BLOCK)]
        total = np.concatenate([need.bandwidth_hz.sum(axis=1) for need in found])
        return np.asarray((total <= self.problem.bandwidth_hz) & (powers[:, 0] < powers[:, 1]).any(axis=1))


def _runs(pieces: Floats) -> list[tuple[float, float]]:
    """Merge adjacent intervals."""
    runs: list[tuple[float, float]] = []
    for start, end in sorted(map(tuple, pieces.tolist())):
        if runs and start <= runs[-1][1] + 1e-12:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((start, end))
    return runs
