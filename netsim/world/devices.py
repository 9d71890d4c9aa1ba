"""All that devices meet in time, under a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.world.faults import Faults
from netsim.world.supply import HeatLimit, Supply, heat_limits_of, supplies_of

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class DevicesInTime:
    """Who goes off and loses uploads, what comes into batteries, and whose clocks fall; by default nothing."""

    faults: Faults | None = None
    supplies: Sequence[Supply] = ()
    heat_limits: Sequence[HeatLimit] = ()

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> DevicesInTime:
        """As described."""
        return cls(Faults.of(scenario, seed), supplies_of(scenario, seed), heat_limits_of(scenario))


STEADY = DevicesInTime()
