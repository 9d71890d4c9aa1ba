"""`algorithm5`: the paper's Algorithm 5 to the letter, kept beside the exact `sao` to show what it loses.

It takes a device's bandwidth from the energy equality (21) even where the CPU was clipped to cpu_max and the delay
binds instead, so the device gets too little and ends late; and it does not end by itself when no T fills the band.
"""

from __future__ import annotations

import numpy as np

from netsim import physics
from netsim.allocation.extremes import within_floats
from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.problem import Infeasible, Plan, Problem, plan_for
from netsim.base.arrays import Floats
from netsim.base.fields import Tolerance
from netsim.base.units import format

BIG_ENOUGH = 1e6     # T_max in units of T_min
CAP = 120            # turns of the loop at most; the interval is down to the last digit long before


@within_floats
def solve(problem: Problem, tolerance: Tolerance = 1e-6) -> Plan:
    """The plan of Algorithm 5 with eps_0 = ``tolerance`` and b_max = B, its loop capped.

    Where the band can't be filled to 1 - eps_0 the last, too small shares stand; where it stays overfull
    there is no plan.
    """
    devices = InSeconds.of(problem)
    low = float(np.max(devices.limit + devices.fastest))                               # line 1
    high = low * BIG_ENOUGH
    for _ in range(CAP):
        t = (low + high) / 2.0
        cpu_hz = problem.cycles / devices.compute_time(t)                              # lines 6 and 7, eq. (23)
        bandwidth_hz = np.minimum(_from_energy(problem, cpu_hz), problem.bandwidth_hz)               # lines 8 and 9
        ratio = float(bandwidth_hz.sum()) / problem.bandwidth_hz                       # line 12
        if 1.0 - tolerance <= ratio <= 1.0 or t in (low, high):      # or no number lies between: T stays what it is
            break
        low, high = (t, high) if ratio > 1.0 else (low, t)                             # lines 13 to 19
    if ratio > 1.0:
        reason = (f"algorithm5 does not end: in a round of {format(t, 'time')} its shares still add up to "
                  f"{ratio:.4g} times the band")
        raise Infeasible(range(len(problem)), reason)
    upload_s = problem.bits / problem.link.rate(bandwidth_hz, problem.snr_hz)
    with np.errstate(divide="ignore", invalid="ignore"):                               # line 21, eq. (21) for f
        spare = np.maximum(problem.budget_j - problem.power_w * upload_s, 0.0)
        cpu_hz = np.fmin(np.sqrt(spare / problem.compute_weight), problem.cpu_max_hz)
    return plan_for(problem, bandwidth_hz, np.fmax(cpu_hz, problem.cpu_min_hz))


def _from_energy(problem: Problem, cpu_hz: Floats) -> Floats:
    """The bandwidth at which computing at f and sending use up the budget, eq. (21); inf where there is none."""
    spare = problem.budget_j - physics.compute_energy(problem.cycles, cpu_hz, problem.capacitance)
    rate = problem.bits * problem.power_w / np.where(spare > 0.0, spare, 1e-300)
    return problem.link.bandwidth(rate, problem.snr_hz)
