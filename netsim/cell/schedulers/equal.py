"""Scheduler ``equal``: equal parts, reallocated at each start and end."""

from __future__ import annotations

import numpy as np

from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats


class Equal:
    """Processor sharing: every job that wants to send has the same share."""

    fixed = False

    def bandwidth(self, active: Active, now: float) -> Floats:
        return np.full(len(active.left_bits), active.bandwidth_hz / len(active.left_bits))
