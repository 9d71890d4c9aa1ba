"""Bands that change in time: who has how much of the band when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.tolerances import ROUNDING


@dataclass(frozen=True, eq=False)
class Slots:
    """Rows by rising device, then time; a device sends from its first slot to the end of its last without a break.

    Seconds count from the beginning of the wave; ``device`` is a position in the problem. A device that is not done
    when its last slot ends, be it by rounding, keeps that share; where channels change, devices go off or get hot, or
    uploads are lost, it goes on with its mean share.
    """

    t0_s: Floats
    t1_s: Floats
    device: Ints
    hertz: Floats

    def __len__(self) -> int:
        return len(self.device)

    @cached_property
    def start_s(self) -> Floats:
        """When each device begins to send."""
        return self.t0_s[np.flatnonzero(np.diff(self.device, prepend=-1))]

    @cached_property
    def most_hz(self) -> float:
        """The most of the band that is in use at one time."""
        hair = ROUNDING * float(self.t1_s.max())
        times = np.concatenate([self.t0_s, np.maximum(self.t1_s - hair, self.t0_s)])
        change = np.concatenate([self.hertz, -self.hertz])
        order = np.lexsort((change, times))                # at one instant ends come before starts
        return float(np.cumsum(change[order]).max())

    def table(self) -> Floats:
        """A row for each: t0, t1, device, hertz."""
        return np.column_stack([self.t0_s, self.t1_s, self.device, self.hertz])
