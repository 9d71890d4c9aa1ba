"""A plan whose bands change in time, by the closed forms: rates and powers are constant between changes."""

from __future__ import annotations

import numpy as np

from netsim.allocation.problem import Plan, Problem
from netsim.allocation.sharing import Share, share_out
from netsim.allocation.slots import Slots
from netsim.base.arrays import Floats, Ints, frozen
from netsim.base.tolerances import CONSTRAINT


def plan_in_slots(problem: Problem, device: Ints, t0_s: Floats, hertz: Floats, cpu_hz: Floats) -> Plan:
    """The plan in which a device has so many hertz from an instant on, until its next one or its last bit.

    ``device``, ``t0_s`` and ``hertz`` are columns of one length, every device among them; what comes after a device's
    last bit is left out.
    """
    order = np.lexsort((t0_s, device))
    device, t0_s, hertz = device[order], t0_s[order], hertz[order]
    holds = np.append((np.diff(device) != 0) | (np.diff(t0_s) > 0.0), True)      # of several at one instant, the last
    slots, upload_s, mean_hz = _until_the_last_bit(problem, device[holds], t0_s[holds], hertz[holds])
    compute_energy_j = problem.compute_weight * np.square(cpu_hz)
    energy_j = compute_energy_j + problem.power_w * upload_s
    return Plan(
        bandwidth_hz=frozen(mean_hz), cpu_hz=frozen(cpu_hz), power_w=problem.power_w,
        compute_s=frozen(problem.cycles / cpu_hz), upload_s=frozen(upload_s),
        compute_energy_j=frozen(compute_energy_j), device_energy_j=frozen(energy_j),
        round_s=float((slots.start_s + upload_s).max()), energy_j=float(energy_j.sum()),
        over_budget=frozen(energy_j > problem.budget_j * (1.0 + CONSTRAINT), dtype=np.bool_), slots=slots)


def shared_plan(problem: Problem, plan: Plan, share: Share) -> Plan:
    """What becomes of a plan whose band is shared by a rule: the same CPUs and powers, the band as it is then divided.

    The rule must not take a share away again before the last bit is sent.
    """
    posed = problem if np.array_equal(plan.power_w, problem.power_w) else problem.with_power(plan.power_w)
    shared = share_out(posed, plan, share)
    return plan_in_slots(posed, shared.device, shared.t0_s, shared.hertz, plan.cpu_hz)


def _until_the_last_bit(
    problem: Problem, device: Ints, t0_s: Floats, hertz: Floats,
) -> tuple[Slots, Floats, Floats]:
    """Slots cut where the bits are sent, the seconds from first to last, and the mean band of each device."""
    rate = problem.link.rate(hertz, problem.snr_hz[device])
    lasts = np.append(np.diff(t0_s), 0.0)
    first = np.flatnonzero(np.diff(device, prepend=-1))
    before = np.zeros(len(device))                           # bits sent before a slot
    for begin, end in zip(first.tolist(), np.append(first[1:], len(device)).tolist(), strict=True):
        if end - begin > 1:
            before[begin + 1:end] = np.cumsum(rate[begin:end - 1] * lasts[begin:end - 1])
    left = problem.bits[device] - before
    kept = (left > 0.0) | (before == 0.0)
    device, t0_s, hertz, rate, left = device[kept], t0_s[kept], hertz[kept], rate[kept], left[kept]
    last = np.append(np.diff(device) != 0, True)
    with np.errstate(divide="ignore", invalid="ignore"):
        lasts = np.where(last, left / rate, np.append(np.diff(t0_s), 0.0))
    upload_s: Floats = np.bincount(device, lasts, len(problem)).astype(np.float64)
    t1_s = np.where(last, t0_s + lasts, np.roll(t0_s, -1))
    slots = Slots(frozen(t0_s), frozen(t1_s), frozen(device, dtype=np.int64), frozen(hertz))
    return slots, upload_s, np.bincount(device, hertz * lasts, len(problem)) / upload_s
