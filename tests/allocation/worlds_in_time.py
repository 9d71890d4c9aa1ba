"""Small problems in which the band is shared in time, with answers worked out by hand or by brute force."""

from __future__ import annotations

import numpy as np

from netsim.allocation import SHANNON, LinkModel, Problem
from netsim.allocation.equal_finish import ActiveUploads
from netsim.base.types import Floats

NOISE = 1e-20


def problem(cycles: list[float], snr_mhz: float, bits: float, power_w: float, budget_j: float = 1.2) -> Problem:
    """B = 1 MHz, capacitance 1e-27, CPUs of 0.1 to 2 GHz."""
    return Problem(
        bits=bits, cycles=np.array(cycles), capacitance=1e-27, gain=snr_mhz * 1e6 * NOISE / power_w, power_w=power_w,
        budget_j=budget_j, cpu_min_hz=0.1e9, cpu_max_hz=2e9, bandwidth_hz=1e6, noise_w_per_hz=NOISE)


def waiting(bits: Floats, snr_hz: Floats, left_s: Floats, bandwidth_hz: float,
            link: LinkModel = SHANNON) -> ActiveUploads:
    """Uploads that want to start now, with budgets that pay for ``left_s`` seconds of sending."""
    return ActiveUploads(planned_hz=np.zeros(len(bits)), left_bits=bits, snr_hz=snr_hz, left_s=left_s,
                  sending=np.zeros(len(bits)), bandwidth_hz=bandwidth_hz, link=link)


SOLO = problem([1e9], 1.0, 1e6, 0.2)
TWO_ALIKE = problem([1e9, 1e9], 1.0, 1e6, 0.2)
UNEQUAL = problem([0.6e9, 1e9], 100.0, 6e6, 0.5)
UNEQUAL_OPTIMUM = problem([1e9, 1e9], 1000.0, 6e6, 0.5)      # two alike, whose best schedule treats them differently
