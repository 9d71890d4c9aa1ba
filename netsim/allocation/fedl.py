"""`fedl`: the paper's Baseline 2, which weighs the round's energy against its length: minimise E + lambda T.

It ignores budgets; :mod:`netsim.allocation.fedl_dual` explains how the plan is found. Tuned, it takes the largest
lambda whose plan keeps every budget, that is the shortest round T in which all do. A device's energy may rise and fall
with T, so that the feasible rounds can be a few short intervals: intervals that provably hold none are skipped, the
others divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import minimize_scalar

from netsim.allocation import sao
from netsim.allocation.fedl_dual import ALIKE, Balance, FedlDual
from netsim.allocation.infeasibility import over_budget, require_feasible
from netsim.allocation.normalized import NormalizedProblem
from netsim.allocation.numerics import first_not_positive, root, within_floats
from netsim.allocation.plan import Infeasible, Plan
from netsim.allocation.problem import Problem
from netsim.base.tolerances import ROUNDING
from netsim.base.types import Bools, Floats

NARROW = 1e-6        # relative width of an interval in which feasibility is monotonic
NARROWEST = 1e-12    # relative width of an interval that is not divided further
STEEP = 1e-6         # relative change of weights that counts where lengths hardly differ
ROWS = 64            # rounds evaluated together: fewer with many devices
MOST = 6_000         # rounds evaluated before the rest is searched for its least excess


Weight = Annotated[
    Annotated[float, Field(ge=0)] | Literal["tuned"], Field(alias="lambda", description='joules a second, or "tuned"')]


@within_floats
def solve(problem: Problem, weight: Weight = "tuned") -> Plan:
    """Return the plan of least energy plus ``weight`` joules per second of the round; "tuned": see :func:`tune`."""
    if isinstance(weight, str):
        return tune(problem)[1]
    market = FedlDual.of(problem)
    return market.plan(problem, market.weighing(weight))


@np.errstate(all="ignore")
def tune(problem: Problem) -> tuple[float, Plan]:
    """Return the largest weight whose plan keeps every budget, and that plan; inf if even the shortest round does.

    A larger weight means a shorter round, so this is the shortest round that keeps them. It is not shorter than that of
    `sao`, and beyond the round of weight 0 nothing changes.
    """
    require_feasible(problem, NormalizedProblem.of(problem))
    market = FedlDual.of(problem)
    soonest = max(sao.solve(problem).round_s, market.soonest)
    tuning = Tuning(market, problem.budget_j)
    at = tuning.first(soonest, max(soonest, market.idle.round_s))
    if at is None:
        least = market.energy(market.idle)[0]
        dear = least > problem.budget_j
        if not dear.any():                       # each budget can be kept, but not all by one lambda
            dear = np.ones(len(problem), dtype=np.bool_)
        reason = f"{over_budget(problem, least, dear)}, at the least total energy: no lambda keeps every budget"
        raise Infeasible(np.flatnonzero(dear), reason)
    if at.round_s <= market.soonest * (1.0 + 1e-8):
        return math.inf, market.plan(problem, at)
    at = tuning.dearest(at)
    return at.weight, market.plan(problem, at)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Intervals of round lengths, in ascending order, that may hold a feasible one, with the balance at each end."""

    starts: Floats        # columns
    ends: Balance
    good: Bools           # all budgets are kept at the end

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def widths(self) -> Floats:
        return 1.0 - self.starts[:, 0] / self.ends.rounds[:, 0]

    def part(self, which: slice | Bools) -> Pieces:
        return Pieces(self.starts[which], self.ends.rows(which), self.good[which])

    def then(self, other: Pieces) -> Pieces:
        """Return these intervals followed by longer ones."""
        return Pieces(np.concatenate([self.starts, other.starts]), self.ends.then(other.ends),
                      np.concatenate([self.good, other.good]))


@dataclass(frozen=True, eq=False)
class Tuning:
    """Search for the shortest round in which every budget is kept."""

    market: FedlDual
    budget_j: Floats

    def excess(self, at: Balance) -> Floats:
        """Return the relative excess over the worst budget, in each round; negative where all are kept."""
        return np.asarray((self.market.energy(at) / self.budget_j).max(axis=1)) - 1.0

    def first(self, soonest: float, latest: float) -> Balance | None:
        """Return the balance of the shortest feasible round, or None.

        An interval is skipped if the least energy of a device in all of it (:meth:`Market.least_energy`) exceeds its
        budget: that is a proof. The rest is divided, the shortest rounds first.
        """
        begin = self.market.balance(soonest, self.market.idle)
        if self.excess(begin)[0] <= ROUNDING:
            return begin
        rows = max(8, min(ROWS, 40_000 // len(self.budget_j)))
        edges = np.geomspace(soonest, latest, rows + 1)
        left = self.possible(edges[:-1, None], edges[1:, None], self.market.idle)
        upright = None
        for _ in range(MOST // rows):
            left, met = self.drop_narrow(left)
            upright = met or upright
            if not len(left):
                return upright
            if left.good[0] and left.widths[0] <= NARROW:
                return self.refined(float(left.starts[0, 0]), left.ends.row(0))
            count = min(len(left), rows // 2)
            now, later = left.part(slice(0, count)), left.part(slice(count, None))
            found = self.cut(now, rows // count)
            left = found if found.good.any() or not len(later) else found.then(later)
        return self.lowest(left) or upright

    def drop_narrow(self, left: Pieces) -> tuple[Pieces, Balance | None]:
        """Drop intervals that are too narrow to divide; also return the feasible balance beyond them, if there is one.

        Rounds of nearly equal length may differ in their prices: such an interval is searched along the prices.
        """
        searched = np.zeros(len(left), dtype=np.bool_)
        for k in np.flatnonzero(~left.good & (left.widths <= ALIKE)).tolist():
            low, high = self.market.about(left.ends.row(k))
            if searched[k] or not _steep(low, high):
                continue
            met = self.along_prices(low, high)
            if met is not None:
                return left.part((np.arange(len(left)) < k) & ~searched), met
            searched[k] = True
            searched |= (left.starts[:, 0] >= low.round_s) & (left.ends.rounds[:, 0] <= high.round_s) & ~left.good
        return left.part(left.good | ((left.widths > NARROWEST) & ~searched)), None

    def along_prices(self, low: Balance, high: Balance) -> Balance | None:
        """Return the feasible balance with the highest price between two rounds, or None.

        Only the price changes from one to the other, so that a device's energy is monotonic.
        """
        top = float(low.log_price[0, 0])
        span = top - float(high.log_price[0, 0])

        def missed(below: float) -> float:
            return float(self.excess(self.market.priced(top - below, low, high))[0]) - ROUNDING

        least = minimize_scalar(missed, bounds=(0.0, span), method="bounded", options={"xatol": 1e-9 * span})
        if least.fun > 0.0:
            return None
        first = root(missed, 0.0, float(least.x)) if missed(0.0) > 0.0 > least.fun else 0.0
        beyond = (first + part * (least.x - first) for part in (0.0, 1e-12, 1e-9, 1e-6, 1e-3))      # by rounding
        return self.market.priced(top - next((at for at in beyond if missed(at) <= 0.0), least.x), low, high)

    def cut(self, pieces: Pieces, into: int) -> Pieces:
        """Divide each interval into equal parts, and return those that may be feasible."""
        part = (pieces.ends.rounds - pieces.starts) / into
        starts = pieces.starts + part * np.arange(into)
        ends = np.concatenate([starts[:, 1:], pieces.ends.rounds], axis=1)
        nearest = np.repeat(np.arange(len(pieces)), into)
        return self.possible(starts.reshape(-1, 1), ends.reshape(-1, 1), pieces.ends.rows(nearest))

    def possible(self, starts: Floats, ends: Floats, near: Balance) -> Pieces:
        """Return the intervals that may hold a feasible round, up to the first that ends with one."""
        at = self.market.balance(ends, near)
        good = self.excess(at) <= ROUNDING
        if good.any():
            upto = slice(0, int(np.argmax(good)) + 1)
            starts, at, good = starts[upto], at.rows(upto), good[upto]
        least = self.market.least_energy(starts, at)
        maybe = (least <= self.budget_j * (1.0 + ROUNDING)).all(axis=1) | good
        return Pieces(starts, at, good).part(maybe)

    def refined(self, bad: float, good: Balance) -> Balance:
        """Return the shortest feasible round in a narrow interval."""
        at = good

        def missed(round_s: float) -> float:
            nonlocal at
            at = self.market.balance(round_s, at)
            return float(self.excess(at)[0]) - ROUNDING

        missed(first_not_positive(missed, bad, good.round_s))
        return at

    def dearest(self, good: Balance) -> Balance:
        """Return, of feasible balances whose rounds differ only in the last digits, that with the highest price."""
        low, high = self.market.about(good)
        met = self.along_prices(low, high) if _steep(low, high) else None
        return met if met is not None and met.weight > good.weight else good

    def _at(self, round_s: float, near: Balance) -> float:
        return float(self.excess(self.market.balance(round_s, near))[0])

    def lowest(self, left: Pieces) -> Balance | None:
        """Return a feasible round where bounds are not conclusive: at the minimum of the excess."""
        for k in range(len(left)):
            start, end = float(left.starts[k, 0]), float(left.ends.rounds[k, 0])
            if left.good[k]:
                return self.refined(start, left.ends.row(k))
            met = minimize_scalar(self._at, args=(left.ends.row(k),), bounds=(start, end), method="bounded",
                                  options={"xatol": 1e-12 * end})
            if met.fun <= ROUNDING:
                return self.refined(start, self.market.balance(float(met.x), left.ends.row(k)))
        return None


def _steep(low: Balance, high: Balance) -> bool:
    """Return True if weights differ although lengths hardly do."""
    return low.weight > high.weight * (1.0 + STEEP) and low.dearer_than(high)
