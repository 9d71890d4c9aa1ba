"""Rounds that no plan foretells: the world changes meanwhile, or the server has rules of its own for when they end.

They are played again in the cell itself, from the state in which they began (:mod:`netsim.server.again`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netsim.allocation import Problem
from netsim.allocation.prices import ON_TIME
from netsim.allocation.waves import MakePlanner
from netsim.analysis.replay import Played, Replay, numbers_of
from netsim.base.arrays import Ints
from netsim.base.errors import InputError
from netsim.cell.schedulers import Scheduler
from netsim.prepare import brought
from netsim.server import SERVERS
from netsim.server.again import Again
from netsim.trace.schema import ARRIVED, INFEASIBLE

if TYPE_CHECKING:
    from netsim.run import Run


@dataclass(frozen=True, eq=False)
class ReplayInCell(Replay):
    """One round of a run that can be played again."""

    again: Again

    def play(
        self, problem: Problem | None = None, planner: MakePlanner | None = None, scheduler: Scheduler | None = None,
    ) -> Played:
        posed = self.problem if problem is None else problem
        found = self.again.play(
            self.number, posed, self.charge_of(numbers_of(posed)), planner or self.planner,
            scheduler or self.scheduler, hurried=self.deadline_s < math.inf)
        jobs = found.part.jobs
        waves: dict[float, float] = {}         # when each began, and how long it took
        for t0, t1, outcome in zip(jobs["t0"], jobs["t1"], jobs["outcome"], strict=True):
            if outcome != INFEASIBLE:
                waves[t0] = max(waves.get(t0, 0.0), t1 - t0)
        planned_s = [wave.plan.round_s for wave in found.agenda.waves]
        return Played(
            found.round_s, found.agenda,
            frozenset(device for device, outcome in zip(jobs["device"], jobs["outcome"], strict=True)
                      if outcome == ARRIVED),
            dict(zip(jobs["device"], jobs["energy_j"], strict=True)),
            max([*waves.values(), *planned_s], default=found.round_s),
            sum(seconds >= self.deadline_s * (1 - ON_TIME) for seconds in waves.values()))


def play_again(run: Run, cohorts: dict[int, Ints], *, allow_import: bool) -> Again:
    """The rounds of a run, to be played again; refuses a run whose rounds do not stand alone."""
    scenario = run.scenario
    for registry, name, _ in brought(scenario):
        registry.permit(name, allow_import=allow_import)
    if scenario.server and not getattr(SERVERS.find(scenario.server.kind), "waits", True):
        raise InputError(
            f'{run.path}: server.kind "{scenario.server.kind}" does not wait for its jobs, which reach from one '
            "aggregation into the next, so that none of them can be changed alone; critical-path shows what each "
            "waited for")
    samples = run.devices.sort("device")["samples"].to_numpy().astype(np.int64)
    return Again(scenario, int(run.info["seed"]), samples, float(run.jobs["bits"][0]), cohorts)
