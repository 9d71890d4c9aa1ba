"""Reallocation of the band at each start and end of an upload, without a simulation; equal-finish bandwidths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from netsim.allocation.numerics import first_not_positive
from netsim.allocation.plan import Plan, plan_in_slots
from netsim.allocation.problem import Problem
from netsim.allocation.sao import foreseen
from netsim.base.tolerances import AMPLE, CONSTRAINT, ROUNDING
from netsim.base.types import Floats
from netsim.physics import LN2, SHANNON, LinkModel, Shannon, best_hz

LAST_STEP = 1e-8    # relative distance of the needs to the band below which one linear step is exact
NO_BITS = 1e-100    # replaces 0 remaining bits (rounding), so that the job still has a bandwidth and an end


@dataclass(frozen=True, eq=False)
class ActiveUploads:
    """Jobs that are ready to send: the input of a scheduler.

    Sending jobs come first, then waiting ones in order of readiness.

    Parameters
    ----------
    planned_hz : array of float, shape (jobs,)
        Bandwidth in Hz that the plan gives each job now; 0 before its planned start.
    left_bits : array of float
        Remaining bits.
    snr_hz : array of float
        J = h p / N0 at this instant, in Hz.
    left_s : array of float
        Seconds of sending that the energy budget still covers; NaN without a budget.
    sending : array of float
        Present bandwidth in Hz; 0 for a waiting job.
    bandwidth_hz : float
        Bandwidth of the cell in Hz.
    link : LinkModel
        Rate of a radio link.
    """

    planned_hz: Floats
    left_bits: Floats
    snr_hz: Floats
    left_s: Floats
    sending: Floats
    bandwidth_hz: float
    link: LinkModel = SHANNON


def shared_plan(problem: Problem, plan: Plan, share: Callable[[ActiveUploads, float], Floats]) -> Plan:
    """Return the plan that results if a rule reallocates the band of a plan; CPU frequencies and powers stay the same.

    The rule returns the bandwidth in Hz of each active job, at each start and end of an upload. It must not take a
    job's bandwidth away before its last bit is sent.
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
            raise ArithmeticError("waiting jobs never get any bandwidth")
        left[sending] -= rate[sending] * (then - now)
        sent_s[who[hertz[who] > 0.0]] += then - now
        gone = sending[ends <= then * (1.0 + ROUNDING)].tolist()        # a remainder by rounding is no upload
        if not gone:
            active.append(ready.pop(0))
        active = [device for device in active if device not in gone]
        now = then
        who = np.array(sorted(active, key=lambda device: hertz[device] == 0.0), np.int64)
        if len(who):
            given = share(ActiveUploads(plan.bandwidth_hz[who], left[who], snr_hz[who], budget_s[who] - sent_s[who],
                                 hertz[who], problem.bandwidth_hz, problem.link), now)
            rows += [(device, now, hz) for device, hz in zip(who.tolist(), given.tolist(), strict=True)
                     if hz != hertz[device]]
            hertz[who], rate[who] = given, problem.link.rate(given, snr_hz[who])
    device, t0_s, hz = np.array(rows).reshape(-1, 3).T
    return plan_in_slots(problem, device.astype(np.int64), t0_s, hz, plan.cpu_hz)


@np.errstate(all="ignore")
def equal_finish(active: ActiveUploads, now: float = 0.0) -> Floats:
    """Return the bandwidths in Hz with which all jobs end together, within their budgets; they use the whole band.

    In x seconds a device needs the b with Q(b) = left / min(x, remaining budget in seconds); x is where the needs add
    up to the band. ``left_s`` may be NaN: no budget. A budget that even the whole band cannot keep is ignored; if the
    budgets cannot all be kept, all are ignored. With a link whose needs jump, part of the band may stay free.
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
    hertz[np.isinf(hertz)] = bandwidth_hz        # a signal so weak that rounding hides what bandwidth changes
    return np.asarray(hertz * (active.bandwidth_hz / np.add.reduce(hertz)))


Needs = Callable[[Floats], tuple[Floats, Floats]]


def _needs(bits: Floats, snr_hz: Floats, link: LinkModel) -> Needs:
    """Return a function of seconds: bandwidths that send these bits in that time, and elasticities (Shannon only)."""
    if type(link) is Shannon:
        nats = bits * (LN2 / link.efficiency)
        return partial(link.need, nats, nats / snr_hz)
    return lambda seconds: (link.bandwidth(bits / seconds, snr_hz), np.zeros(len(bits)))


def _first_that_fits(needs: Needs, lasts: Floats, bandwidth_hz: float, low: float, high: float) -> Floats:
    """Return the needs at the least x at which they fit the band, by bisection."""
    def overfull(x: float) -> float:
        return float(needs(np.minimum(x, lasts))[0].sum()) / bandwidth_hz - 1.0

    return needs(np.minimum(first_not_positive(overfull, low, high), lasts))[0]


def _filled(
    needs: Needs, lasts: Floats, bandwidth_hz: float, low: float, x: float, high: float, last_step: float,
) -> Floats:
    """Return the needs at the x where they add up to the band: bracketed Newton on their nearly linear reciprocal."""
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
