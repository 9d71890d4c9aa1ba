"""One transmit power for all: `algorithm6` (the paper's Appendix E to the letter) and its repair `sao-common-power`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from netsim.allocation import algorithm5, sao
from netsim.allocation.extremes import within_floats
from netsim.allocation.in_seconds import BLOCK
from netsim.allocation.joint import Devices
from netsim.allocation.problem import Infeasible, Plan, Problem
from netsim.base.arrays import Bools, Floats
from netsim.base.errors import InputError
from netsim.base.fields import Tolerance

LEVELS = 24      # powers tried first
SHORTER = 1e-9   # relatively: a round that is shorter by less is the same
NARROW = 0.02    # pieces of the range, in logarithms of watts, that hold one minimum; more in a range of many decades
DIPS = 5         # powers better than their neighbours, the best of which are looked at closer


def with_common_power(problem: Problem, power_w: float) -> Problem:
    """The problem with every device sending at this power, or at the end of its range that is nearest."""
    low, high = problem.power_range_w
    return problem.with_power(np.clip(power_w, low, high))


@within_floats
def algorithm6(problem: Problem, tolerance: Tolerance = 1e-4) -> Plan:
    """Algorithm 6 to the letter with eps_3 = ``tolerance``, over Algorithm 5.

    It compares with the best round so far, which can lead it away from the optimum, and never tries the greatest power.
    It does not say what p* is; here it is the power of its last turn.
    """
    low, high = float(problem.power_range_w[0].min()), float(problem.power_range_w[1].max())      # line 1
    plan = algorithm5.solve(with_common_power(problem, low))
    best = plan.round_s
    while 1.0 - low / high > tolerance:                                                           # line 3
        power_w = (low + high) / 2.0                                                              # line 12
        if power_w in (low, high):      # no number lies between them: the tolerance asks for more than there is
            break
        try:
            plan = algorithm5.solve(with_common_power(problem, power_w))                          # line 4
            round_s = plan.round_s
        except Infeasible:
            round_s = math.inf
        low, high = (power_w, high) if round_s <= best else (low, power_w)                        # lines 6 to 10
        best = min(best, round_s)
    return plan


@within_floats
def common(problem: Problem) -> Plan:
    """`sao` with the one power for all that makes its round shortest.

    Where the devices' ranges differ the round can have several minima over the power. So after a tour of the range,
    pieces of it that surely hold nothing shorter are left out, the others cut smaller until what is left is narrow.
    Less power never makes a problem infeasible (the least bandwidth for a budget is proportional to the power), so if
    the least has no plan none has.
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
    """The powers met so far, as logarithms, and their plans."""

    problem: Problem
    plans: dict[float, Plan]

    @property
    def best(self) -> Plan:
        return min(self.plans.values(), key=lambda plan: plan.round_s)

    def round_s(self, log_power: float) -> float:
        """The round with this common power."""
        if log_power in self.plans:
            return self.plans[log_power].round_s
        try:
            self.plans[log_power] = sao.solve(with_common_power(self.problem, math.exp(log_power)))
        except (Infeasible, InputError):
            return 1e300                    # not inf, of which the minimiser would make NaN
        return self.plans[log_power].round_s

    def tour(self, powers: Floats, dips: int) -> None:
        """Try these powers one after the other, and look closer around some that are better than their neighbours."""
        rounds = [math.inf, *(self.round_s(x) for x in powers), math.inf]
        better = [k for k in range(1, len(rounds) - 1) if rounds[k - 1] > rounds[k] <= rounds[k + 1]]
        for k in sorted(better, key=lambda k: rounds[k])[:dips]:
            around = powers[max(k - 2, 0)], powers[min(k, len(powers) - 1)]
            minimize_scalar(self.round_s, bounds=around, method="bounded", options={"xatol": 1e-9})

    def may_be_shorter(self, pieces: Floats) -> Bools:
        """Whether a piece of powers may hold a round that is shorter than the best by more than rounding.

        It does not if no device's power changes in it, or if the band is too small for such a round even when each
        device takes its own best power in the piece (:mod:`netsim.allocation.joint`).
        """
        low, high = self.problem.power_range_w
        powers = np.clip(np.exp(pieces)[:, :, None], low, high)
        found = [Devices.of(self.problem, (part[:, 0], part[:, 1])).need(self.best.round_s * (1.0 - SHORTER))
                 for part in np.array_split(powers, 1 + powers.size // BLOCK)]
        total = np.concatenate([need.bandwidth_hz.sum(axis=1) for need in found])
        return np.asarray((total <= self.problem.bandwidth_hz) & (powers[:, 0] < powers[:, 1]).any(axis=1))


def _runs(pieces: Floats) -> list[tuple[float, float]]:
    """Pieces that touch each other as one."""
    runs: list[tuple[float, float]] = []
    for start, end in sorted(map(tuple, pieces.tolist())):
        if runs and start <= runs[-1][1] + 1e-12:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((start, end))
    return runs
