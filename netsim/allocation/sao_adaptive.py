"""`sao-adaptive`: bands that change in time and CPU frequencies, chosen together.

First the better of two answers: `tdma`, and the plan of `sao` with its band divided anew at each start and end so that
all who send end together. Where neither meets the solo bound, a search goes on from both. In it a device is one
number, the start s of its window: it computes as slowly as that allows, and sends till its budget is spent. The best
shares for given windows are a concave program (:mod:`netsim.allocation.windows`); the starts are moved up its slope,
then the round is made shorter, in turns. The whole is not concave: the answer is good, but not proven to be the best.
With a cap on the rate there is no search, since the program's shares would not be unique.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from netsim.allocation import sao, tdma
from netsim.allocation.alone import Alone, require_each_alone
from netsim.allocation.common_end import common_end
from netsim.allocation.extremes import within_floats
from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.methods import takes_link
from netsim.allocation.problem import Infeasible, Plan, Problem
from netsim.allocation.sharing import Active
from netsim.allocation.slot_plan import plan_in_slots, shared_plan
from netsim.allocation.windows import Division, divide, worth
from netsim.base.arrays import Floats
from netsim.base.errors import InputError
from netsim.base.tolerances import CONSTRAINT
from netsim.physics import LN2

MOST_REPLAYED = 300      # devices: beyond, the plan of `sao` is left as it is
BARRIER, SHARP = 1e-6, 1e-10     # while starts are looked for, and at the end
TURNS = 12               # of moving starts, then shortening the round
STANDS = 1e-7            # of the round: a turn that saves less is the last
INSIDE = 0.02            # of a start's range: where it may begin, since with all of the budget on the CPU nothing moves

Searched = Annotated[int, Field(ge=0, description="cohorts up to this size are searched for better: seconds a plan")]


@within_floats
def solve(problem: Problem, search_up_to: Searched = 30) -> Plan:
    """The shortest round found over bands that change in time and CPU frequencies; never longer than either start."""
    alone = Alone.of(problem)
    require_each_alone(problem, alone)
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
    """A plan's CPU frequencies, with the band divided anew so that all who send end together; large cohorts as is."""
    if len(problem) > MOST_REPLAYED:
        return plan

    def share(active: Active, now: float) -> Floats:
        return common_end(active.left_bits, active.snr_hz, active.left_s, active.bandwidth_hz, active.link)

    return shared_plan(problem, plan, share)


@dataclass(frozen=True, eq=False)
class Found:
    """Starts with which a round can be that short, and the division of the band in it."""

    round_s: float
    starts_s: Floats
    division: Division


class StartSearch:
    """A search for better starts, from those of a plan on."""

    def __init__(self, problem: Problem, alone: Alone) -> None:
        self.problem, self.alone = problem, alone
        self.devices = InSeconds.of(problem)
        self.bits = self.devices.nats / (LN2 * problem.bandwidth_hz)
        self.snr = problem.snr_hz / problem.bandwidth_hz
        self.weight: Floats | None = None            # of the bits, where the last division ended

    def from_(self, plan: Plan) -> Plan | None:
        """The plan that a search from this one ends with."""
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
        """When windows close, with the budget or with the round, and how that moves with the start."""
        devices = self.devices
        compute_s = np.minimum(starts_s, devices.slowest)
        closes = starts_s + devices.budget - devices.work / np.square(compute_s)
        moves = 1.0 + np.where(starts_s < devices.slowest, 2.0 * devices.work / compute_s**3, 0.0)
        return np.minimum(closes, round_s), np.where(closes < round_s, moves, 0.0)

    def latest(self, round_s: float) -> Floats:
        """The starts beyond which waiting only loses: there the budget lasts to the end of the round."""
        devices = self.devices
        crossing = devices.scale / devices.crossing(round_s)
        idle = round_s - (devices.budget - devices.work / np.square(devices.slowest))     # the CPU at its slowest
        return np.maximum(np.where(crossing <= devices.slowest, crossing, idle), self.alone.ready_s)

    def divided(self, starts_s: Floats, round_s: float, barrier: float) -> Division:
        """The best division for these starts."""
        closes, _ = self.closes(starts_s, round_s)
        division = divide(self.bits, self.snr, starts_s, closes, barrier, self.weight)
        self.weight = division.weight
        return division

    def shortest(self, starts_s: Floats, round_s: float, barrier: float = BARRIER) -> Found | None:
        """The shortest round with these starts, or earlier ones where a round gets too short for them."""
        low, high, found = self.alone.bound_s, np.inf, None
        for _ in range(40):
            starts = np.clip(starts_s, self.alone.ready_s, self.latest(round_s))
            division = self.divided(starts, round_s, barrier)
            excess = float(division.ratio.min()) - 1.0
            if excess >= 0.0:
                high, found = round_s, Found(round_s, starts, division)
            else:
                low = round_s
            if 0.0 <= excess < 1e-10 or high - low < 1e-11 * low:
                break
            guess = round_s - (excess - 3e-11) / max(division.last_second, 1e-300)
            if not low < guess < min(high, 1.1 * round_s):
                guess = (low + high) / 2.0 if high < np.inf else 1.02 * low
            round_s = guess
        return found

    def moved(self, found: Found) -> Floats:
        """Better starts for the same round: up the slope of what all could send."""
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

    def slope(self, starts_s: Floats, round_s: float, division: Division) -> Floats:
        """How theta moves with the starts: the first second of a window is lost, some are won at its other end."""
        closes, moves = self.closes(starts_s, round_s)
        opening = worth(self.bits, self.snr, division, np.searchsorted(division.edges_s[:-1], starts_s))
        closing = worth(self.bits, self.snr, division, np.searchsorted(division.edges_s[1:], closes))
        return np.asarray(moves * closing - opening)

    def plan(self, found: Found) -> Plan | None:
        """The plan of what was found, with sharp shares."""
        sharp = self.shortest(found.starts_s, found.round_s, SHARP) or found
        division = sharp.division
        slot, device = np.nonzero(division.share)
        plan = plan_in_slots(self.problem, device, division.edges_s[slot],
                             division.share[slot, device] * self.problem.bandwidth_hz,
                             tdma.slowest_cpu(self.problem, sharp.starts_s))
        return None if plan.over_budget.any() else plan
