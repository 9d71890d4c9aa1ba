"""How the model gets to the devices: one broadcast, or a transmission for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Floats
from netsim.fleet.link_model import link_of
from netsim.physics import SHANNON, LinkModel

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True)
class Downlink:
    """A band of the base station's own; channels are as good in this direction as in the other."""

    bits: float
    bandwidth_hz: float
    power_w: float
    noise_w_per_hz: float
    each: bool = False
    reception_w: float = 0.0
    link: LinkModel = SHANNON

    @classmethod
    def of(cls, scenario: Scenario, bits: float) -> Downlink | None:
        """As described, for models of this size; None where they get to the devices in no time."""
        cell = scenario.cell
        table = cell.downlink
        return None if table is None else cls(
            bits=float(bits if table.bits is None else table.bits),
            bandwidth_hz=float(cell.bandwidth if table.bandwidth is None else table.bandwidth),
            power_w=float(table.power), noise_w_per_hz=cell.noise_w_per_hz, each=table.to == "each",
            reception_w=float(table.reception or 0.0), link=link_of(cell))

    def in_part(self, parts: int) -> Downlink:
        """With one of so many equal parts of band and power: the rate is as many times lower."""
        return self if parts == 1 else replace(self, bits=self.bits * parts)

    def seconds(self, gain: Floats) -> Floats:
        """How long devices with these channels receive that start together: all as long as the worst, or each its own.

        A broadcast of z bits takes z / min_n Q_n(B), one of S transmissions S z / Q_n(B).
        """
        rate = self.link.rate(self.bandwidth_hz, gain * self.power_w / self.noise_w_per_hz)
        return self.bits * len(gain) / rate if self.each else np.full(len(gain), self.bits / rate.min())

    def joules(self, gain: Floats) -> Floats:
        """What receiving takes from each of them."""
        return self.reception_w * self.seconds(gain)
