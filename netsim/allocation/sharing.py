"""The band shared anew at each start and end of an upload, without a simulation; and the shares that end together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from netsim.allocation.extremes import first_not_positive
from netsim.allocation.plan import Plan, plan_in_slots
from netsim.allocation.problem import Problem
from netsim.allocation.sao import foreseen
from netsim.base.arrays import Floats
from netsim.base.tolerances import AMPLE, CONSTRAINT
from netsim.physics import LN2, SHANNON, LinkModel, Shannon, best_hz

LAST_STEP = 1e-8    # needs so near to the band that a straight line leads to it
NO_BITS = 1e-100    # stands for what rounding has left of nothing, so that it still has a share, and an end


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


def shared_plan(problem: Problem, plan: Plan, share: Callable[[Active, float], Floats]) -> Plan:
    """What becomes of a plan whose band is shared by a rule: the same CPUs and powers, the band as it is then divided.

    The rule gives hertz to each of those who want to send; it is asked at each start and end, and must not take a
    share away again before the last bit is sent.
    """
    if not np.array_equal(plan.power_w, problem.power_w):
        problem = problem.with_power(plan.power_w)
    size, snr_hz = len(problem), problem.snr_hz
    ready = np.argsort(plan.compute_s, kind="stable").tolist()
    budget_s = (problem.budget_j - plan.compute_energy_j) / plan.power_w
    left, hertz, rate, sent_s = problem.bits.copy(), np.zeros(size), np.zeros(size), np.zeros(size)
    active: list[int] = []
    rows: list[tuple[int, float, float]] = []
    now = 0.0
    while ready or active:
        who = np.array(active, np.int64)
        sending = who[rate[who] > 0.0]
        ends = now + left[sending] / rate[sending]
        then = min(float(ends.min(initial=math.inf)), float(plan.compute_s[ready[0]]) if ready else math.inf)
        if then == math.inf:
            raise ArithmeticError("those who wait for the band never get any")
        left[sending] -= rate[sending] * (then - now)
        sent_s[who[hertz[who] > 0.0]] += then - now
        gone = sending[ends <= then].tolist()
        if not gone:
            active.append(ready.pop(0))
        active = [device for device in active if device not in gone]
        now = then
        who = np.array(sorted(active, key=lambda device: hertz[device] == 0.0), np.int64)
        if len(who):
            given = share(Active(plan.bandwidth_hz[who], left[who], snr_hz[who], budget_s[who] - sent_s[who],
                                 hertz[who], problem.bandwidth_hz, problem.link), now)
            rows += [(device, now, hz) for device, hz in zip(who.tolist(), given.tolist(), strict=True)
                     if hz != hertz[device]]
            hertz[who], rate[who] = given, problem.link.rate(given, snr_hz[who])
    device, t0_s, hz = np.array(rows).reshape(-1, 3).T
    return plan_in_slots(problem, device.astype(np.int64), t0_s, hz, plan.cpu_hz)


@np.errstate(all="ignore")
def common_end(active: Active, now: float = 0.0) -> Floats:
    """Hertz with which all who send end together, within what their budgets still pay for; the whole band in all.

    In x seconds a device needs the b with Q(b) = left / min(x, what its budget pays for); x is where the needs add up
    to the band. ``left_s`` may be NaN: no budget. A budget that even the whole band could not keep no longer counts;
    where the budgets cannot all be kept, none does. By a link whose needs jump, a part of the band may stay free.
    """
    snr_hz, left_s, link = active.snr_hz, active.left_s, active.link
    bits = np.maximum(active.left_bits, NO_BITS)
    bandwidth_hz = min(active.bandwidth_hz, AMPLE * float(snr_hz.sum()))
    alone = bits / link.rate(best_hz(link, bandwidth_hz, snr_hz), snr_hz)
    needs = _needs(bits, snr_hz, link)
    lasts = np.where(alone <= left_s * (1.0 + CONSTRAINT), left_s, np.inf)
    bound = np.isfinite(lasts)
    if bound.any() and needs(np.where(bound, lasts, 1.0))[0][bound].sum() > bandwidth_hz * (1.0 + CONSTRAINT):
        lasts = np.full(len(bits), np.inf)
    equal = bits / link.rate(bandwidth_hz / len(bits), snr_hz)
    low = float(alone.max())
    high = max(float(equal.max()), float(lasts[np.isfinite(lasts)].max(initial=0.0)))
    while np.isfinite(lasts).any() and needs(np.minimum(high, lasts))[0].sum() > bandwidth_hz * (1.0 + CONSTRAINT):
        high *= 2.0                                          # some budgets are tight: the others have to be slower
    if type(link) is not Shannon:
        return _first_that_fits(needs, lasts, bandwidth_hz, low, high)
    start, _ = foreseen(alone, equal, low)
    last_step = LAST_STEP if link.cap == math.inf else 0.0            # a cap bends the line
    hertz = _filled(needs, lasts, bandwidth_hz, low, start, high, last_step)
    return np.asarray(hertz * (active.bandwidth_hz / np.add.reduce(hertz)))


Needs = Callable[[Floats], tuple[Floats, Floats]]


def _needs(bits: Floats, snr_hz: Floats, link: LinkModel) -> Needs:
    """The bandwidths that send so many bits in so many seconds, and their elasticities (by other links 0)."""
    if type(link) is Shannon:
        nats = bits * (LN2 / link.efficiency)
        return partial(link.need, nats, nats / snr_hz)
    return lambda seconds: (link.bandwidth(bits / seconds, snr_hz), np.zeros(len(bits)))


def _first_that_fits(needs: Needs, lasts: Floats, bandwidth_hz: float, low: float, high: float) -> Floats:
    """The needs at the least x at which they fit the band, by bisection."""
    def overfull(x: float) -> float:
        return float(needs(np.minimum(x, lasts))[0].sum()) / bandwidth_hz - 1.0

    return needs(np.minimum(first_not_positive(overfull, low, high), lasts))[0]


def _filled(
    needs: Needs, lasts: Floats, bandwidth_hz: float, low: float, x: float, high: float, last_step: float,
) -> Floats:
    """The needs at the x where they are the band: Newton on their reciprocal, nearly a straight line, in a bracket."""
    x = x if low <= x <= high else math.sqrt(low * high)
    for _ in range(200):
        hertz, elasticity = needs(np.minimum(x, lasts))
        total = float(np.add.reduce(hertz))
        low, high = (low, x) if total <= bandwidth_hz else (x, high)
        over = total / bandwidth_hz - 1.0
        if abs(over) < 1e-14 or high - low <= 4e-16 * high:
            break
        elasticity = np.where(x < lasts, elasticity, 0.0)
        slope = float(hertz.dot(elasticity)) / (total * total * x)
        guess = x + (1.0 / bandwidth_hz - 1.0 / total) / slope if slope > 0.0 else high
        if abs(over) < last_step and not ((min(x, guess) <= lasts) & (lasts <= max(x, guess))).any():
            return hertz * (1.0 - elasticity * (guess / x - 1.0))       # to the last digits: the square is below them
        x = guess if low < guess < high else (low + high) / 2.0
    return hertz
