"""What a radio cell is put together from: as a scenario describes it, or with one part exchanged for another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import simpy

from netsim.allocation.waves import MakePlanner, planner_of
from netsim.cell.cell import LocalTraining
from netsim.cell.schedulers import SCHEDULERS, Scheduler
from netsim.fleet.population import Population
from netsim.fleet.work import JobSizes, RoundProblems
from netsim.server.rounds import RoundRecorder
from netsim.trace.recorder import Recorder
from netsim.world.channel import GainTimeline, channel_of
from netsim.world.faults import DevicesInTime

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class CellParts:
    """The devices, their world, and the rules by which they are planned and share the band."""

    population: Population
    channel: GainTimeline
    problems: RoundProblems
    scheduler: Scheduler
    planner: MakePlanner
    believes: str                 # what a plan takes for the gain of a channel
    devices: DevicesInTime        # who goes off, what comes into batteries, whose clocks fall
    abort_over_budget: bool       # whether an upload ends when its budget is spent

    @classmethod
    def of(cls, scenario: Scenario, seed: int, population: Population, sizes: JobSizes) -> CellParts:
        """As described, with jobs of these sizes."""
        allocation, rounds = scenario.allocation, scenario.rounds
        return cls(
            population, channel_of(scenario, population, seed),
            RoundProblems(scenario, population, sizes), SCHEDULERS.make(allocation.sharing or "planned", {}),
            planner_of(allocation.method, allocation.options, rounds.deadline),
            allocation.channel or "now", DevicesInTime.of(scenario, seed), rounds.over_budget == "drop")

    def build(self, env: simpy.Environment, recorder: Recorder, training: LocalTraining | None = None) -> RoundRecorder:
        """The cell with its rounds; ``training`` is what trains while devices compute."""
        return RoundRecorder(env, recorder, self, training)
