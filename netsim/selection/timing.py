"""How long devices will take, as far as a server can tell before it has made a plan."""

from __future__ import annotations

import numpy as np

from netsim.base.arrays import Floats
from netsim.physics import compute_time, upload_time
from netsim.selection.view import View


def compute_s(view: View) -> Floats:
    """Each device's computing time at its highest CPU frequency."""
    return compute_time(view.cycles, view.population.cpu_max_hz)


def upload_s(view: View, bandwidth_hz: float) -> Floats:
    """Each device's upload time over this much bandwidth, at this round's gain; inf where nothing gets through."""
    snr_hz = view.gain * view.population.power_w / view.noise_w_per_hz
    return upload_time(view.bits, view.link.rate(bandwidth_hz, snr_hz))


def typical_s(view: View) -> float:
    """A deadline where none is given: half of the devices that get through would meet it with an equal share each."""
    time_s = equal_share_s(view)[view.available]
    through = time_s[np.isfinite(time_s)]
    return float(np.median(through)) if through.size else np.inf


def equal_share_s(view: View) -> Floats:
    """Each device's time in a round with the band shared equally among a cohort."""
    return compute_s(view) + upload_s(view, view.bandwidth_hz / view.cohort_size)
