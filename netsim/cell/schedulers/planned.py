"""Scheduler ``planned``: each job has its planned bandwidth, first come, first served."""

from __future__ import annotations

import numpy as np

from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats

ROUNDING = 1e-9   # a plan may overshoot the band by rounding, never by more


class Planned:
    """FDMA with fixed shares, as in the paper; or with shares that change at the instants that the plan names."""

    fixed = True

    def bandwidth(self, active: Active, now: float) -> Floats:
        """Jobs on the air keep their share; then, in the order of readiness, as many jobs as fit, without overtaking.

        A job that sends for longer than planned keeps its share, and later jobs get what is left.
        """
        hertz = np.zeros(len(active.left_bits))
        slack = active.bandwidth_hz * ROUNDING
        room = active.bandwidth_hz + slack
        for i in np.flatnonzero(active.sending > 0.0):
            hertz[i] = active.planned_hz[i] if active.planned_hz[i] <= room else max(0.0, room - 2.0 * slack)
            room -= hertz[i]
        for i in np.flatnonzero((active.sending == 0.0) & (active.planned_hz > 0.0)):
            if active.planned_hz[i] > room:
                break
            hertz[i] = active.planned_hz[i]
            room -= hertz[i]
        return hertz
