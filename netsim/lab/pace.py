"""Who sets the pace of a round, though all may end together: what more of a limit is worth shows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.allocation.prices import Prices, prices_of
from netsim.analysis.changes import BAND, BUDGET, CPU, Change, limit_now

TWICE, NEXT = 2.0, 1.01
LITTLE = 1e-3      # of a round: what saves less is not worth a word


@dataclass(frozen=True)
class BestChange:
    """The change of one limit that shortens a round most, of a device or of the cell."""

    device: int | None      # position in the cohort; None: no single one
    change: str             # in words
    saves_s: float
    next_s: float           # what the next per cent of it saves: its price


def pace_of(problem: Problem, plan: Plan, method: str) -> BestChange | None:
    """Twice the band against twice the dearest limit of a device, each planned anew; None where neither helps."""
    prices = prices_of(problem, plan, method)
    if prices is None or len(problem) < 2:
        return None
    tried = [Change(BAND, factor=TWICE), _dearest(problem, prices)]
    saved = {change: _saves(problem, plan, change, method) for change in tried}
    best = max(tried, key=lambda change: saved[change])
    if saved[best] <= LITTLE * plan.round_s:
        return None
    names = {problem.name(n): f"device {problem.name(n)}" for n in range(len(problem))}
    n = None if best.device is None else next(n for n in range(len(problem)) if problem.name(n) == best.device)
    return BestChange(n, best.words(names, limit_now(problem, best, method)), saved[best],
                _saves(problem, plan, Change(best.key, best.device, NEXT), method))


def _dearest(problem: Problem, prices: Prices) -> Change:
    """Twice the limit of a device of which the next per cent is worth most."""
    worth = np.nan_to_num(np.array([-prices.cpu_max_s_per_hz * problem.cpu_max_hz,
                                    -prices.budget_s_per_j * problem.budget_j]))
    key, n = np.unravel_index(int(np.argmax(worth)), worth.shape)
    return Change((CPU, BUDGET)[int(key)], problem.name(int(n)), TWICE)


def _saves(problem: Problem, plan: Plan, change: Change, method: str) -> float:
    try:
        return plan.round_s - allocate(change.problem(problem, method), method).round_s
    except Infeasible:
        return 0.0
