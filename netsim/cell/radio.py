"""What radios make of the band and of the channels that they get."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.physics import fdma_rate


@dataclass(frozen=True)
class RateLaw:
    """What radios make of Shannon's limit, and of a budget that is spent in mid-upload."""

    efficiency: float = 1.0
    cap: float = math.inf               # bit/s/Hz
    drops_over_budget: bool = False

    def rate(self, hz: Floats | float, snr_hz: Floats | float) -> Floats:
        """Bits a second."""
        rate = fdma_rate(hz, snr_hz)
        if self.cap < math.inf:
            rate = np.minimum(rate, np.multiply(hz, self.cap))
        return rate if self.efficiency == 1.0 else rate * self.efficiency


SHANNON = RateLaw()


class Air(Protocol):
    """The channels now, and until when; see :class:`~netsim.world.channel.GainTimeline`."""

    def gain(self, devices: Ints, t: float) -> Floats: ...

    def next_change(self, t: float) -> float: ...
