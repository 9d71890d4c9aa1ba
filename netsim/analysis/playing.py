"""A wave played without a simulation: who ends when, arrived or not, and what it took.

As the cell plays it, with the same schedulers; a property test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.allocation.sharing import share_out
from netsim.allocation.waves import Wave
from netsim.base.arrays import Bools, Floats
from netsim.cell.schedulers import Scheduler

ROUNDING = 1e-12      # of a load: a battery that just suffices suffices


@dataclass(frozen=True, eq=False)
class PlayedWave:
    """How a wave went, an entry for each of its devices."""

    seconds: float
    arrived: Bools
    energy_j: Floats


def play_wave(
    wave: Wave, charge_j: Floats, patience_s: float, scheduler: Scheduler, bandwidth_hz: float, began: float = 0.0,
) -> PlayedWave:
    """Let a wave's devices compute and send until they are done, their battery is empty, or patience ends."""
    if scheduler.fixed and (wave.plan.slots is not None
                             or wave.plan.bandwidth_used_hz <= bandwidth_hz * (1 + 1e-9)):
        return _as_planned(wave, charge_j, patience_s)
    return _shared(wave, charge_j, patience_s, scheduler, began)


def _as_planned(wave: Wave, charge_j: Floats, patience_s: float) -> PlayedWave:
    """Nobody has to wait for the band longer than planned, so that each is on its own."""
    plan = wave.plan
    ends, energy_j = plan.end_s, plan.device_energy_j
    if np.isfinite(charge_j).any():
        ends = np.minimum(ends, _dies(wave, charge_j, plan.start_s))
        energy_j = np.minimum(energy_j, charge_j)
    return PlayedWave(min(float(ends.max()), patience_s), (plan.end_s <= ends) & (plan.end_s <= patience_s), energy_j)


def _shared(
    wave: Wave, charge_j: Floats, patience_s: float, scheduler: Scheduler, began: float,
) -> PlayedWave:
    """They share the band from one start or end to the next."""
    plan = wave.plan
    lasts_s = _dies(wave, charge_j, plan.compute_s)
    shared = share_out(wave.problem, plan, scheduler.bandwidth, lasts_s, patience_s, began)
    with np.errstate(divide="ignore", invalid="ignore"):
        computed = np.where(plan.compute_s > 0.0, np.minimum(shared.end_s / plan.compute_s, 1.0), 1.0)
    energy_j = np.minimum(plan.compute_energy_j * computed + plan.power_w * shared.sent_s, charge_j)
    return PlayedWave(float(shared.end_s.max()), shared.done, energy_j)


def _dies(wave: Wave, charge_j: Floats, start_s: Floats) -> Floats:
    """When each battery is empty if its device sends from ``start_s`` on; inf on mains."""
    plan = wave.plan
    left_j = charge_j - plan.compute_energy_j * (1 - ROUNDING)
    with np.errstate(divide="ignore", invalid="ignore"):
        compute_w = wave.problem.capacitance * plan.cpu_hz**3
        dies: Floats = np.where(left_j < 0.0, charge_j / compute_w, start_s + left_j / plan.power_w * (1 + ROUNDING))
    return dies
