"""A round in which the band is divided anew at each start and end, event by event, without a simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from netsim.allocation.problem import Plan, Problem
from netsim.base.arrays import Bools, Floats, Ints
from netsim.physics import SHANNON, LinkModel


@dataclass(frozen=True, eq=False)
class Active:
    """Those who want to send now, those who do first, then the first ready first: what a scheduler is shown."""

    planned_hz: Floats            # what the plan gives each now; 0: its time has not come
    left_bits: Floats
    snr_hz: Floats                # J = h p / N0 at this moment
    left_s: Floats                # of sending that the budget still pays for; NaN: there is no budget
    sending: Floats               # hertz that each has now; 0: still waiting
    bandwidth_hz: float           # of the whole band
    link: LinkModel = SHANNON     # what a bandwidth carries


Share = Callable[[Active, float], Floats]      # hertz for each of those who want to send


@dataclass(frozen=True, eq=False)
class Shared:
    """Who had how much of the band from when on, in the order of time, and when each was done."""

    device: Ints
    t0_s: Floats
    hertz: Floats
    end_s: Floats                 # of each device, done or cut short
    sent_s: Floats                # how long it was on the air
    done: Bools                   # whether its last bit was sent


def share_out(
    problem: Problem, plan: Plan, share: Share, lasts_s: Floats | None = None, until_s: float = math.inf,
    began: float = 0.0,
) -> Shared:
    """The round of a plan's CPU frequencies when the band is shared by this rule.

    ``lasts_s`` is how long each device may compute and send until it is cut short, since its battery is empty;
    ``until_s`` is when all are, and ``began`` is when the round did, by the clock that the rule is shown.
    """
    size = len(problem)
    power_w, snr_hz = plan.power_w, problem.gain * plan.power_w / problem.noise_w_per_hz
    lasts = np.full(size, np.inf) if lasts_s is None else lasts_s
    ready_s = np.minimum(plan.compute_s, lasts)
    ready = np.argsort(ready_s, kind="stable").tolist()
    budget_s = (problem.budget_j - plan.compute_energy_j) / power_w
    left, hertz, rate, sent_s = problem.bits.copy(), np.zeros(size), np.zeros(size), np.zeros(size)
    end_s, done = np.full(size, np.nan), np.zeros(size, bool)
    active: list[int] = []
    rows: list[tuple[int, float, float]] = []
    now = 0.0
    while (ready or active) and now < until_s:
        who = np.array(active, np.int64)
        sending = who[rate[who] > 0.0]
        on_air = who[hertz[who] > 0.0]
        ends = now + left[sending] / rate[sending]
        cuts = now + (lasts - plan.compute_s - sent_s)[on_air]
        starts = float(ready_s[ready[0]]) if ready else math.inf
        then = min(float(ends.min(initial=math.inf)), float(cuts.min(initial=math.inf)), starts)
        if then == math.inf and until_s == math.inf:
            raise ArithmeticError("those who wait for the band never get any")
        if then > until_s:
            sent_s[on_air] += until_s - now
            break
        left[sending] -= rate[sending] * (then - now)
        sent_s[on_air] += then - now
        gone = np.concatenate([sending[ends <= then], on_air[cuts <= then]]).tolist()
        done[sending[ends <= then]] = True
        if not gone and ready:
            first = ready.pop(0)
            (active if plan.compute_s[first] <= lasts[first] else gone).append(first)
        end_s[gone] = then
        active = [device for device in active if device not in gone]
        now = then
        who = np.array(sorted(active, key=lambda device: hertz[device] == 0.0), np.int64)
        if len(who):
            given = share(Active(plan.bandwidth_hz[who], left[who], snr_hz[who], budget_s[who] - sent_s[who],
                                 hertz[who], problem.bandwidth_hz, problem.link), began + now)
            rows += [(device, now, hz) for device, hz in zip(who.tolist(), given.tolist(), strict=True)
                     if hz != hertz[device]]
            hertz[who], rate[who] = given, problem.link.rate(given, snr_hz[who])
    table = np.array(rows).reshape(-1, 3)
    return Shared(table[:, 0].astype(np.int64), table[:, 1], table[:, 2], np.where(np.isnan(end_s), until_s, end_s),
                  sent_s, done)
