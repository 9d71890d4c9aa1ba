"""A plan that is old when it is made: one round while all channels fade, for the lessons."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.allocation.waves import Wave
from netsim.base.arrays import Floats, Ints
from netsim.base.tolerances import CONSTRAINT
from netsim.server.replay import play_wave
from netsim.world.fading import BlockFading


@dataclass(frozen=True, eq=False)
class FadingAir:
    """Rayleigh fading around the gains of a problem, a draw a coherence time; devices by their positions."""

    fading: BlockFading
    mean: Floats

    def gain(self, devices: Ints, t: float) -> Floats:
        found: Floats = self.mean[devices] * self.fading.factor(devices, t, 1)
        return found

    def next_change(self, t: float) -> float:
        return self.fading.next_change(t)


def faded_round(problem: Problem, coherence_s: float, believes: str, seed: int) -> tuple[Plan, Plan] | None:
    """What a plan promises, and what becomes of it while the channels fade; None where there is no plan.

    The plan takes the gains of the first moment (``"now"``) or those without fading (``"mean"``) for all time.
    """
    devices = np.arange(len(problem))
    air = FadingAir(BlockFading(seed, devices.tolist(), None, coherence_s), problem.gain)
    believed = replace(problem, numbers=None, gain=problem.gain if believes == "mean" else air.gain(devices, 0.0))
    try:
        plan = allocate(believed)
    except Infeasible:
        return None
    jobs = play_wave(Wave(devices, believed, plan), gains=air).jobs
    order = np.argsort(jobs["device"])
    energy_j = np.array(jobs["energy_j"])[order]
    return plan, replace(
        plan, upload_s=np.array(jobs["upload_s"])[order], device_energy_j=energy_j, energy_j=float(energy_j.sum()),
        round_s=max(jobs["t1"]), over_budget=energy_j > problem.budget_j * (1 + CONSTRAINT))
