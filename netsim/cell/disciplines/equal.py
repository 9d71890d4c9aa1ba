"""The band is divided anew, in equal parts, at each start and end."""

from __future__ import annotations

import numpy as np

from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats


class Equal:
    """Processor sharing: everyone who wants to send has the same share."""

    fixed = False

    def bandwidth(self, active: Active, now: float) -> Floats:
        return np.full(len(active.left_bits), active.bandwidth_hz / len(active.left_bits))
