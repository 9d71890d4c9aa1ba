"""One transmit power for all: `algorithm6` (the paper's Appendix E to the letter) and its repair `sao-common-power`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from netsim.allocation import algorithm5, sao
from netsim.allocation.problem import Infeasible, Plan, Problem
from netsim.base.fields import Tolerance

LEVELS = 24      # powers tried before the best is refined; the round had one minimum over p in every layout tried


def with_common_power(problem: Problem, power_w: float) -> Problem:
    """The problem with every device sending at this power, or at the end of its range that is nearest."""
    low, high = problem.power_range_w
    return replace(problem, power_w=np.clip(power_w, low, high))


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


def common(problem: Problem) -> Plan:
    """`sao` with the one power for all that makes its round shortest.

    A tour of the range, then a bounded minimiser around the best power met. Less power never makes a problem
    infeasible (the least bandwidth for a budget is proportional to the power), so if the least has no plan none has.
    """
    low, high = math.log(problem.power_range_w[0].min()), math.log(problem.power_range_w[1].max())
    plans = {low: sao.solve(with_common_power(problem, math.exp(low)))}

    def round_s(log_power: float) -> float:
        try:
            plans[log_power] = sao.solve(with_common_power(problem, math.exp(log_power)))
        except Infeasible:
            return 1e300                    # not inf, of which the minimiser would make NaN
        return plans[log_power].round_s

    if high > low:
        tour = np.linspace(low, high, LEVELS)
        best = int(np.argmin([round_s(x) for x in tour]))
        around = tour[max(best - 1, 0)], tour[min(best + 1, LEVELS - 1)]
        minimize_scalar(round_s, bounds=around, method="bounded", options={"xatol": 1e-9})
    return min(plans.values(), key=lambda plan: plan.round_s)
