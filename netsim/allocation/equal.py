"""`equal`: the paper's Baseline 1, the same bandwidth for every device."""

from __future__ import annotations

import numpy as np

from netsim.allocation.diagnosis import too_dear
from netsim.allocation.extremes import within_floats
from netsim.allocation.problem import Infeasible, Plan, Problem, fill, plan_for
from netsim.base.units import format


@within_floats
def solve(problem: Problem) -> Plan:
    """Share the band equally, b = B/S, and let each CPU run as fast as its budget allows."""
    share = fill(np.ones(len(problem)), problem.bandwidth_hz)
    slow = plan_for(problem, share, problem.cpu_min_hz)
    poor = slow.device_energy_j > problem.budget_j
    if poor.any():
        reason = (f"{too_dear(problem, slow.device_energy_j, poor)}, with an equal share of "
                  f"{format(float(share[0]), 'frequency')} and the CPU at its slowest")
        raise Infeasible(np.flatnonzero(poor), reason)
    with np.errstate(divide="ignore", invalid="ignore"):      # nothing to compute: any frequency is affordable
        affordable = np.sqrt((problem.budget_j - problem.power_w * slow.upload_s) / problem.compute_weight)
    cpu_hz = np.fmax(np.fmin(affordable, problem.cpu_max_hz), problem.cpu_min_hz)
    return plan_for(problem, share, cpu_hz)
