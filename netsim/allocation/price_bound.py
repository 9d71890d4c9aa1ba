"""A round that no schedule can undercut, proven by prices: how far an answer can still be from the best.

Put a price m(t) on the band that never falls. In a round of T seconds all devices together cannot pay more than
B times the integral of m. Each must deliver its bits, and C_n is the least that it can pay for that on its own: since
prices never fall, it sends without a break from the moment s at which it is ready till its budget is spent, so
C_n = min over s of max over l of [l z - integral of max over b of (l Q(b) - m b)]. If the sum of C_n is more than there
is to pay, T is too short, whatever the schedule. Any prices will do; those of a good schedule prove the most. Every
interval of s is taken at its best (ready at its beginning, with the budget of its end): no grid spoils the proof.
"""

from __future__ import annotations

import numpy as np

from netsim.allocation.alone import Alone
from netsim.allocation.problem import Plan, Problem
from netsim.allocation.sao_adaptive import BARRIER, SHARP, StartSearch
from netsim.allocation.windows import Division, efficiency_at
from netsim.base.arrays import Floats
from netsim.base.tolerances import CONSTRAINT
from netsim.physics import LN2

STEPS = (1e-5, 1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.4)     # below the plan's round
MOST_DEVICES = 60      # of more, the solo bound has to do: the proof takes minutes
HALVINGS = 6           # of the last of these
CELLS, WORST, PARTS, DEPTH = 32, 6, 8, 3      # of starts; how many are split again, into how many, how often


@np.errstate(all="ignore")
def price_bound(problem: Problem, plan: Plan) -> float:
    """Seconds that no round undercuts, however the band is shared in time; at least the solo bound.

    The plan's windows give the prices: the better it is, the more they prove.
    """
    alone = Alone.of(problem)
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
    """Shows that rounds are too short, by prices of the plan's windows."""

    def __init__(self, problem: Problem, plan: Plan, alone: Alone) -> None:
        self.search, self.alone, self.plan = StartSearch(problem, alone), alone, plan
        self.best = self.divided(plan.round_s, BARRIER)

    def divided(self, round_s: float, barrier: float) -> Division:
        """The band in the plan's windows, cut to a round."""
        starts = np.clip(self.plan.start_s, self.alone.ready_s, self.search.latest(round_s))
        return self.search.divided(starts, round_s, barrier)

    def too_short(self, round_s: float) -> bool:
        """Whether the devices would have to pay more than there is: at prices of the plan, or of a shorter one."""
        return (self.unaffordable(self.best, round_s)
                or self.unaffordable(self.divided(round_s, SHARP), round_s))

    def unaffordable(self, division: Division, round_s: float) -> bool:
        """Whether these prices, stretched to the round and made never to fall, are more than the band's worth."""
        edges = np.concatenate([[0.0], division.edges_s * (round_s / division.edges_s[-1])])
        price = np.maximum.accumulate(np.concatenate([[0.0], division.price]))
        pays = sum(self.least(n, edges, price, float(weight)) for n, weight in enumerate(division.weight))
        return pays > float(price @ np.diff(edges)) * (1.0 + CONSTRAINT)

    def least(self, n: int, edges: Floats, price: Floats, weight: float) -> float:
        """C_n, or a little less."""
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
        """The least that a device pays if it is ready between these times; the best of some l, each of them sure."""
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
