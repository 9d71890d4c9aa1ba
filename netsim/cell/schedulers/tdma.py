"""Scheduler ``tdma``: the whole band for one job at a time, first come, first served."""

from __future__ import annotations

import numpy as np

from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats


class Tdma:
    """A job keeps the band to its end; then the job that was ready first has it."""

    fixed = False
    alone = True

    def bandwidth(self, active: Active, now: float) -> Floats:
        hertz = np.zeros(len(active.left_bits))
        hertz[int(np.argmax(active.sending > 0.0))] = active.bandwidth_hz      # the first in line if none sends yet
        return hertz
