"""The band shared anew at each start and end of an upload, without a simulation; and the shares that end together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from netsim.allocation.extremes import first_not_positive
from netsim.allocation.in_seconds import NO_BUDGET_S, InSeconds
from netsim.allocation.problem import Plan, Problem, plan_in_slots
from netsim.allocation.sao import Bracket, shortest_round
from netsim.base.arrays import Floats
from netsim.base.tolerances import AMPLE, CONSTRAINT
from netsim.physics import SHANNON, LinkModel, Shannon, best_hz

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

    It is the problem of `sao` for devices that have nothing left to compute. ``left_s`` may be NaN: no budget. A budget
    that even the whole band could not keep no longer counts; where the budgets cannot all be kept, none does. By a link
    whose needs jump, a part of the band may stay free.
    """
    snr_hz, link = active.snr_hz, active.link
    bits = np.maximum(active.left_bits, NO_BITS)
    bandwidth_hz = min(active.bandwidth_hz, AMPLE * float(snr_hz.sum()))
    alone = bits / link.rate(best_hz(link, bandwidth_hz, snr_hz), snr_hz)
    kept = alone <= active.left_s * (1.0 + CONSTRAINT)
    devices = InSeconds.sending(bits, snr_hz, np.where(kept, active.left_s, NO_BUDGET_S), link)
    hertz = devices.least_bandwidth() if kept.any() else np.zeros(len(bits))
    least_hz = float(np.add.reduce(hertz))
    if least_hz > bandwidth_hz * (1.0 + CONSTRAINT):
        devices = devices._replace(budget=np.full(len(bits), NO_BUDGET_S))
    elif least_hz > bandwidth_hz and not kept.all():           # too much by rounding, and the others need some
        bandwidth_hz = least_hz * (1.0 + CONSTRAINT)
    if type(link) is not Shannon:
        return _first_that_fits(devices, bandwidth_hz, float(alone.max()))
    if not bandwidth_hz < least_hz <= bandwidth_hz * (1.0 + CONSTRAINT):
        hertz = shortest_round(devices, bandwidth_hz, Bracket.of(devices, bandwidth_hz)).bandwidth_hz
    return np.asarray(hertz * (active.bandwidth_hz / np.add.reduce(hertz)))


def _first_that_fits(devices: InSeconds, bandwidth_hz: float, soonest_s: float) -> Floats:
    """The needs at the least end at which they fit the band, by bisection."""

    def overfull(end_s: float) -> float:
        return float(devices.least_bandwidth(end_s).sum()) / bandwidth_hz - 1.0

    latest_s = soonest_s
    while overfull(latest_s) > CONSTRAINT:
        latest_s *= 2.0
    return devices.least_bandwidth(first_not_positive(overfull, soonest_s, latest_s))
