"""Shadow prices: how much shorter the best round would be with a little more of what is scarce."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.problem import Plan, Problem
from netsim.allocation.sao import Need
from netsim.base.arrays import Floats, frozen


@dataclass(frozen=True, eq=False)
class Prices:
    """Derivatives of the shortest round; negative, or zero where more would not help."""

    bandwidth_s_per_hz: float     # dT/dB
    budget_s_per_j: Floats        # dT/de_n, one entry for each device


@np.errstate(all="ignore")
def shadow_prices(problem: Problem, plan: Plan) -> Prices:
    """The prices at the plan of `sao`, by the implicit function theorem on sum b_n(T, e_n) = B.

    Where time and energy both bind, a device turns the part ``gained`` of each further second of round into upload, and
    the rest of each further second of sending that its budget pays for.
    """
    need = Need.at(plan.round_s, InSeconds.of(problem))
    slope = float(need.slope.sum())                                       # d need / dT
    by_budget = -need.per_second * (1.0 - need.gained) / problem.power_w      # d need / de_n
    if not slope < 0.0:                                                   # nobody can use a longer round: no answer
        return Prices(np.nan, frozen(np.full(len(problem), np.nan)))
    return Prices(1.0 / slope, frozen(0.0 - by_budget / slope))
