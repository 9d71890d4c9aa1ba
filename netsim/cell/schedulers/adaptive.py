"""Scheduler ``adaptive``: reallocated at each start and end, such that all uploads end together."""

from __future__ import annotations

from netsim.allocation.common_end import common_end
from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats


class Adaptive:
    """No upload ends later than with planned shares that stay, and every energy budget that such a plan keeps is kept.

    At every instant the bandwidths needed to end by the plan's end, within the budgets, fit into the band. Giving the
    whole band away makes the common end no later, so every job gets at least what it needs, and the needs do not grow.
    Plans whose shares change in time (slots) have no such guarantee.
    """

    fixed = False

    def bandwidth(self, active: Active, now: float) -> Floats:
        return common_end(active.left_bits, active.snr_hz, active.left_s, active.bandwidth_hz, active.link)
