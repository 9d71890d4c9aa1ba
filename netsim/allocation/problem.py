"""What an allocation method is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netsim.arrays import Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """One cohort's round: arrays of one length S, and the cell's constants; SI units (problem (19) of the paper)."""

    bits: Floats                  # z_n
    cycles: Floats                # U_n = L C_n D_n
    capacitance: Floats           # alpha/2, so that computing costs capacitance * cycles * f^2
    gain: Floats                  # h_n, linear
    power_w: Floats               # p_n
    budget_j: Floats              # e_n
    cpu_min_hz: Floats
    cpu_max_hz: Floats
    bandwidth_hz: float           # B
    noise_w_per_hz: float         # N_0
    power_min_w: Floats | None = None     # range for the methods that choose the power; None: power_w alone
    power_max_w: Floats | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What each device of the cohort gets, and what follows from it by the closed forms."""

    bandwidth_hz: Floats
    cpu_hz: Floats
    power_w: Floats
    compute_s: Floats
    upload_s: Floats
    device_energy_j: Floats
    round_s: float
    energy_j: float


class Infeasible(ValueError):
    """No plan meets every constraint; ``devices`` are positions in the problem's arrays."""

    devices: Sequence[int]
    reason: str
