"""The band is divided anew at each start and end, such that all who send end together."""

from __future__ import annotations

from netsim.allocation.common_end import common_end
from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats


class Adaptive:
    """Nobody ends later than with the shares planned, and no budget is broken that the plan keeps.

    At every moment the bands needed to end by the plan's end, within the budgets, fit; to give the whole band away
    makes the common end no later, so that every device gets at least what it needs, and the needs do not grow.
    """

    fixed = False

    def bandwidth(self, active: Active, now: float) -> Floats:
        return common_end(active.left_bits, active.snr_hz, active.left_s, active.bandwidth_hz)
