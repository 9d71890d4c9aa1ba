"""The whole band for one at a time, first ready first served."""

from __future__ import annotations

import numpy as np

from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats


class Tdma:
    """Who sends goes on to its end; then it is the turn of who was ready first."""

    fixed = False
    alone = True

    def bandwidth(self, active: Active, now: float) -> Floats:
        hertz = np.zeros(len(active.left_bits))
        hertz[int(np.argmax(active.sending > 0.0))] = active.bandwidth_hz      # the first where nobody sends yet
        return hertz
