"""What a radio cell is put together from: as a scenario describes it, or with one part exchanged for another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import simpy

from netsim.allocation.waves import MakePlanner, planner_of
from netsim.cell.disciplines import DISCIPLINES, Discipline
from netsim.cell.radio import RateLaw
from netsim.cell.radio_cell import RadioCell
from netsim.fleet.population import Population
from netsim.fleet.work import RoundProblems
from netsim.trace.recorder import Recorder
from netsim.world.channel import GainTimeline
from netsim.world.devices import DevicesInTime
from netsim.world.own_channel import channel_of

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class CellParts:
    """The devices, their world, and the rules by which they are planned and share the band."""

    population: Population
    channel: GainTimeline
    problems: RoundProblems
    discipline: Discipline
    planner: MakePlanner
    radio: RateLaw
    believes: str                 # what a plan takes for the gain of a channel
    devices: DevicesInTime        # who goes off, what comes into batteries, whose clocks fall

    @classmethod
    def of(cls, scenario: Scenario, seed: int, population: Population, bits: float) -> CellParts:
        """As described; ``bits`` is the size of an upload."""
        cell, allocation, rounds = scenario.cell, scenario.allocation, scenario.rounds
        return cls(
            population, channel_of(scenario, population, seed),
            RoundProblems(scenario, population, bits=bits), DISCIPLINES.make(allocation.sharing or "planned", {}),
            planner_of(allocation.method, allocation.options, rounds.deadline),
            RateLaw(cell.efficiency, cell.rate_cap, rounds.over_budget == "drop"), allocation.channel or "now",
            DevicesInTime.of(scenario, seed))

    def put_up(self, env: simpy.Environment, recorder: Recorder) -> RadioCell:
        """The cell."""
        return RadioCell(env, self.population, self.channel, self.problems, self.discipline, recorder, self.planner,
                         self.radio, self.believes, self.devices)
