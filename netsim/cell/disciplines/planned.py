"""Everyone gets the share that the plan gave it, and who finds no room waits for who came before."""

from __future__ import annotations

import numpy as np

from netsim.base.arrays import Floats
from netsim.cell.disciplines import Active

ROUNDING = 1e-9   # a plan may overshoot the band by rounding, never by more


class Planned:
    """FDMA with fixed shares, as the paper has it."""

    fixed = True

    def bandwidth(self, active: Active, now: float) -> Floats:
        """Those who send go on; then, in the order of readiness, as many as fit: nobody overtakes."""
        hertz = active.sending.copy()
        room = active.bandwidth_hz * (1 + ROUNDING) - float(hertz.sum())
        for i in np.flatnonzero(hertz == 0.0):
            if active.planned_hz[i] > room:
                break
            hertz[i] = active.planned_hz[i]
            room -= hertz[i]
        return hertz
