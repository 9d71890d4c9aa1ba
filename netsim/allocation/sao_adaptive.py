"""`sao-adaptive`: bandwidths that change in time and CPU frequencies, chosen together.

It starts from two plans: `tdma`, and the plan of `sao` with its band reallocated at each start and end so that all
uploads end together. If neither meets the single-device bound, a search continues from both. In it a device is one
number, the start s of its window: it computes as slowly as that allows, and sends until its budget is spent. The best
bandwidths for given windows are a concave program (:mod:`~netsim.allocation.upload_windows`); the starts follow its
gradient, then the round is shortened, alternately. The whole is not concave: the result is good, but not proven to be
the optimum.
With a cap on the rate there is no search, since the program's solution would not be unique.

:func:`price_bound` proves how far it can be from the optimum. Put a price m(t) on the band that never falls. In a
round of T seconds all devices together cannot pay more than B times the integral of m. Each must deliver its bits, and
C_n is the least that it can pay for that on its own: since prices never fall, it sends without a break from the moment
s at which it is ready until its budget is spent, so C_n = min over s of max over l of [l z - integral of max over b of
(l Q(b) - m b)]. If the sum of C_n exceeds that total, T is too short for any schedule. Any prices prove something;
those of a good schedule prove the most. Every interval of s counts at its best (ready at its beginning, with the
budget of its end), so that the discretisation keeps the proof valid.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from netsim.allocation import sao, tdma
from netsim.allocation.equal_finish import equal_finish, shared_plan
from netsim.allocation.methods import takes_link
from netsim.allocation.normalized import NormalizedProblem
from netsim.allocation.numerics import within_floats
from netsim.allocation.plan import Infeasible, Plan, plan_in_slots
from netsim.allocation.problem import Problem
from netsim.allocation.tdma import SingleDevice
from netsim.allocation.upload_windows import BandDivision, divide, efficiency_at, worth
from netsim.base.errors import InputError
from netsim.base.tolerances import CONSTRAINT
from netsim.base.types import Floats
from netsim.physics import LN2

MOST_REPLAYED = 300      # devices: for larger cohorts the plan of `sao` stays unchanged
BARRIER, SHARP = 1e-6, 1e-10     # barrier during the search, and at its end
TURNS = 12               # iterations of moving starts, then shortening the round
STANDS = 1e-7            # relative saving below which an iteration is the last
INSIDE = 0.02            # part of a start's range to skip: with the whole budget spent on the CPU the gradient vanishes

# Constants of the proof
STEPS = (1e-5, 1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.4)     # below the plan's round
MOST_DEVICES = 60      # for more devices the single-device bound is used: the proof takes minutes
HALVINGS = 6           # bisections of the last step
CELLS, WORST, PARTS, DEPTH = 32, 6, 8, 3      # of starts; how many are split again, into how many, how often

Searched = Annotated[int, Field(ge=0, description="maximum cohort size for the search, which takes seconds per plan")]


@within_floats
def solve(problem: Problem, search_up_to: Searched = 30) -> Plan:
    """Return the shortest round found over bandwidths that change in time and CPU frequencies."""
    alone = SingleDevice.required(problem)
    plans = [tdma.solve(problem)]
    if plans[0].round_s <= alone.bound_s * (1.0 + CONSTRAINT):
        return plans[0]
    with contextlib.suppress(Infeasible, InputError):
        plans.append(replayed(problem, sao.solve(problem)))
    if len(problem) <= search_up_to and takes_link("uncapped", problem.link):
        search = StartSearch(problem, alone)
        plans += [found for plan in plans if (found := search.from_(plan)) is not None]
    return min(plans, key=lambda plan: plan.round_s)


def replayed(problem: Problem, plan: Plan) -> Plan:
    """Return a plan with its band reallocated so that all uploads end together; unchanged for large cohorts."""
    return plan if len(problem) > MOST_REPLAYED else shared_plan(problem, plan, equal_finish)


@dataclass(frozen=True, eq=False)
class WindowSearch:
    """Starts of the windows for a round of this length, and the division of the band in it."""

    round_s: float
    starts_s: Floats
    division: BandDivision


class StartSearch:
    """Search for better starts of the windows."""

    def __init__(self, problem: Problem, alone: SingleDevice) -> None:
        self.problem, self.alone = problem, alone
        self.devices = NormalizedProblem.of(problem)
        self.bits = self.devices.nats / (LN2 * problem.bandwidth_hz)
        self.snr = problem.snr_hz / problem.bandwidth_hz
        self.weight: Floats | None = None            # of the bits, where the last division ended

    def from_(self, plan: Plan) -> Plan | None:
        """Return the plan at which a search from this plan ends."""
        self.weight = None
        first, last = self.alone.ready_s, self.latest(plan.round_s)
        best = self.shortest(np.maximum(plan.start_s, first + INSIDE * (last - first)), plan.round_s)
        for _ in range(TURNS):
            if best is None:
                return None
            better = self.shortest(self.moved(best), best.round_s)
            if better is None or better.round_s > best.round_s * (1.0 - STANDS):
                break
            best = better
        return None if best is None else self.plan(best)

    def closes(self, starts_s: Floats, round_s: float) -> tuple[Floats, Floats]:
        """Return the ends of the windows, by budget or round, and their derivatives with respect to the starts."""
        devices = self.devices
        compute_s = np.minimum(starts_s, devices.slowest)
        closes = starts_s + devices.budget - devices.work / np.square(compute_s)
        moves = 1.0 + np.where(starts_s < devices.slowest, 2.0 * devices.work / compute_s**3, 0.0)
        return np.minimum(closes, round_s), np.where(closes < round_s, moves, 0.0)

    def latest(self, round_s: float) -> Floats:
        """Return the starts beyond which waiting is no use: there the budget lasts to the end of the round."""
        devices = self.devices
        crossing = devices.scale / devices.crossing(round_s)
        idle = round_s - (devices.budget - devices.work / np.square(devices.slowest))     # the CPU at its slowest
        return np.maximum(np.where(crossing <= devices.slowest, crossing, idle), self.alone.ready_s)

    def divided(self, starts_s: Floats, round_s: float, barrier: float) -> BandDivision:
        """Return the best division for these starts."""
        closes, _ = self.closes(starts_s, round_s)
        division = divide(self.bits, self.snr, starts_s, closes, barrier, self.weight)
        self.weight = division.weight
        return division

    def shortest(self, starts_s: Floats, round_s: float, barrier: float = BARRIER) -> WindowSearch | None:
        """Return the shortest round with these starts, or earlier ones where a round gets too short for them."""
        low, high, found = self.alone.bound_s, np.inf, None
        for _ in range(40):
            starts = np.clip(starts_s, self.alone.ready_s, self.latest(round_s))
            division = self.divided(starts, round_s, barrier)
            if not len(division.rate):      # every window is shorter than rounding
                return found
            excess = float(division.ratio.min()) - 1.0
            if excess >= 0.0:
                high, found = round_s, WindowSearch(round_s, starts, division)
            else:
                low = round_s
            if 0.0 <= excess < 1e-10 or high - low < 1e-11 * low:
                break
            guess = round_s - (excess - 3e-11) / max(division.last_second, 1e-300)
            if not low < guess < min(high, 1.1 * round_s):
                guess = (low + high) / 2.0 if high < np.inf else 1.02 * low
            round_s = guess
        return found

    def moved(self, found: WindowSearch) -> Floats:
        """Return better starts for the same round, by gradient ascent on theta."""
        from scipy.optimize import minimize

        round_s, first, last = found.round_s, self.alone.ready_s, self.latest(found.round_s)
        width = np.maximum(last - first, 1e-300)

        def short(part: Floats) -> tuple[float, Floats]:
            starts = first + width * part
            division = self.divided(starts, round_s, BARRIER)
            return -division.value, -self.slope(starts, round_s, division) * width

        begin = np.clip((found.starts_s - first) / width, 0.0, 1.0)
        answer = minimize(short, begin, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(begin),
                          options={"maxiter": 20, "maxfun": 40})
        return np.asarray(first + width * answer.x)

    def slope(self, starts_s: Floats, round_s: float, division: BandDivision) -> Floats:
        """Return the gradient of theta with respect to the starts: a window loses at its start and gains at its end."""
        closes, moves = self.closes(starts_s, round_s)
        opening = worth(self.bits, self.snr, division, np.searchsorted(division.edges_s[:-1], starts_s))
        closing = worth(self.bits, self.snr, division, np.searchsorted(division.edges_s[1:], closes))
        return np.asarray(moves * closing - opening)

    def plan(self, found: WindowSearch) -> Plan | None:
        """Return the plan of a search result, with a smaller barrier."""
        sharp = self.shortest(found.starts_s, found.round_s, SHARP) or found
        division = sharp.division
        slot, device = np.nonzero(division.share)
        plan = plan_in_slots(self.problem, device, division.edges_s[slot],
                             division.share[slot, device] * self.problem.bandwidth_hz,
                             self.problem.cpu_for(sharp.starts_s))
        return None if plan.over_budget.any() else plan


@np.errstate(all="ignore")
def price_bound(problem: Problem, plan: Plan) -> float:
    """Return a lower bound on the round in seconds for any sharing of the band, from prices of the plan's windows."""
    alone = SingleDevice.of(problem)
    if plan.round_s <= alone.bound_s * (1.0 + CONSTRAINT) or len(problem) > MOST_DEVICES:
        return alone.bound_s
    prover = _Prover(problem, plan, alone)
    high = plan.round_s
    for step in STEPS:
        low = plan.round_s * (1.0 - step)
        if low <= alone.bound_s:
            low = alone.bound_s
            break
        if prover.too_short(low):
            break
        high = low
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if prover.too_short(middle) else (low, middle)
    return low


class _Prover:
    """Proof that rounds are too short, by prices of the plan's windows."""

    def __init__(self, problem: Problem, plan: Plan, alone: SingleDevice) -> None:
        self.search, self.alone, self.plan = StartSearch(problem, alone), alone, plan
        self.best = self.divided(plan.round_s, BARRIER)

    def divided(self, round_s: float, barrier: float) -> BandDivision:
        """Return the division of the band in the plan's windows, cut to a round."""
        starts = np.clip(self.plan.start_s, self.alone.ready_s, self.search.latest(round_s))
        return self.search.divided(starts, round_s, barrier)

    def too_short(self, round_s: float) -> bool:
        """Return True if devices would have to pay more than the band costs, at prices of the plan or a shorter one."""
        return (self.unaffordable(self.best, round_s)
                or self.unaffordable(self.divided(round_s, SHARP), round_s))

    def unaffordable(self, division: BandDivision, round_s: float) -> bool:
        """Return True if these prices, scaled to the round and made non-decreasing, prove that it is too short."""
        edges = np.concatenate([[0.0], division.edges_s * (round_s / division.edges_s[-1])])
        price = np.maximum.accumulate(np.concatenate([[0.0], division.price]))
        pays = sum(self.least(n, edges, price, float(weight)) for n, weight in enumerate(division.weight))
        return pays > float(price @ np.diff(edges)) * (1.0 + CONSTRAINT)

    def least(self, n: int, edges: Floats, price: Floats, weight: float) -> float:
        """Return C_n, or a lower bound of it."""
        first, last = float(self.alone.ready_s[n]), float(edges[-1] - self.alone.air_s[n])
        borders = np.linspace(first, max(first, last), CELLS + 1)
        begins, ends = borders[:-1], borders[1:]
        pays, weights = self.pays(n, begins, ends, edges, price, np.full(CELLS, weight))
        for _ in range(DEPTH):
            worst = np.argsort(pays)[:WORST]
            parts = np.linspace(begins[worst], ends[worst], PARTS + 1)
            more = self.pays(n, parts[:-1].ravel(), parts[1:].ravel(), edges, price, np.tile(weights[worst], PARTS))
            begins, ends, pays, weights = (
                np.concatenate([np.delete(old, worst), new]) for old, new in
                zip((begins, ends, pays, weights), (parts[:-1].ravel(), parts[1:].ravel(), *more), strict=True))
        return float(pays.min())

    def pays(
        self, n: int, begins: Floats, ends: Floats, edges: Floats, price: Floats, weight: Floats,
    ) -> tuple[Floats, Floats]:
        """Return a lower bound on a device's payment if it is ready between these times, and the best l."""
        search = self.search
        snr, bits, devices = search.snr[n], search.bits[n], search.devices
        air = devices.budget[n] - devices.work[n] / np.square(np.minimum(ends, devices.slowest[n]))
        stops = np.minimum(begins + air, edges[-1])
        lasts = np.maximum(np.minimum(stops[:, None], edges[1:]) - np.maximum(begins[:, None], edges[:-1]), 0.0)
        best, best_weight = np.full(len(begins), -np.inf), weight
        for _ in range(12):
            d = price * LN2 / weight[:, None]
            s = efficiency_at(np.maximum(d, 1e-300))
            share = np.minimum(snr / np.expm1(s), 1.0)
            rate = np.where(share < 1.0, share * s, np.log1p(snr)) / LN2
            sent = (lasts * rate).sum(axis=1)
            found = weight * (bits - sent) + (lasts * share) @ price
            best, best_weight = np.where(found > best, found, best), np.where(found > best, weight, best_weight)
            gains = (lasts * np.where(share < 1.0, (share * d) * d / LN2 / np.square(np.expm1(-s)), 0.0)).sum(axis=1)
            weight = weight * np.exp(np.clip((bits - sent) / np.maximum(gains, 1e-300), -1.0, 1.0))
        return best, best_weight
