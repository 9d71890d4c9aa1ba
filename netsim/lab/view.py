"""One round of one cohort, as the lab shows it: the same draws, each method's plan or what stands in its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.allocation.sharing import shared_plan
from netsim.allocation.waves import Wave
from netsim.analysis.breakdown import TOGETHER
from netsim.base.arrays import Floats, Ints
from netsim.cell.schedulers import SCHEDULERS
from netsim.fleet.population import Population, draw_population
from netsim.lab.pace import BestChange, pace_of
from netsim.learning.named import samples_without_learning
from netsim.random_cohort import OneRound, one_round
from netsim.server.replay import play_wave
from netsim.trace.recorder import Part

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method says: a plan, or which devices can't and why."""

    method: str
    plan: Plan | None
    stuck: Ints                 # positions in the cohort
    reason: str = ""
    pace: BestChange | None = None    # what would shorten the round most

    @property
    def sets_pace(self) -> int | None:
        """The position of whom the others wait for, or of who sets the pace though all end together, if it is one."""
        last = None if self.plan is None else last_alone(self.plan)
        return self.pace.device if last is None and self.pace is not None else last


@dataclass(frozen=True, eq=False)
class LabView:
    """A cohort with the answers of some methods; every array goes by position in the cohort."""

    population: Population
    devices: Ints               # their numbers in the population
    problem: Problem
    answers: tuple[Answer, ...]

    @property
    def plans(self) -> list[Plan]:
        """The plans that there are."""
        return [answer.plan for answer in self.answers if answer.plan is not None]

    @property
    def longest_s(self) -> float:
        """The longest round, for a common time axis; 0 without a plan."""
        return max((plan.round_s for plan in self.plans), default=0.0)

    @property
    def order(self) -> Ints:
        """Positions, the slowest first under the first method that has a plan: one order for all pictures."""
        slow = done_s(self.plans[0]) if self.plans else -self.problem.gain
        return np.argsort(-slow, kind="stable")

    @property
    def distance_m(self) -> Floats:
        """How far from the base station each device is."""
        return np.hypot(self.population.x_m, self.population.y_m)[self.devices]

    def trace(self, answer: Answer) -> Part:
        """The round under this plan, simulated event by event."""
        assert answer.plan is not None
        return play_wave(Wave(self.devices, self.problem, answer.plan))


def done_s(plan: Plan) -> Floats:
    """When each device's upload ends, with all beginning at 0."""
    return plan.end_s


def part_of_band(plan: Plan, bandwidth_hz: float) -> Floats:
    """Each device's part of the band; of bands that change in time, its part of what is used of it, over the round."""
    used = plan.bandwidth_hz if plan.slots is None else plan.bandwidth_hz * plan.upload_s
    return np.asarray(used / (bandwidth_hz if plan.slots is None else used.sum()))


def last_alone(plan: Plan) -> int | None:
    """The position of the device that the others wait for; None where several end together."""
    ends = np.sort(done_s(plan))
    return int(np.argmax(done_s(plan))) if len(ends) > 1 and ends[-1] - ends[-2] > TOGETHER * plan.round_s else None


def look(scenario: Scenario, methods: Sequence[str], seed: int) -> LabView:
    """The round that ``netsim allocate`` shows for the same scenario, methods and seed."""
    drawn = one_round(scenario, seed)
    drawn = replace(drawn, problem=replace(drawn.problem, names=None))      # of one kind: they go by their numbers
    population = draw_population(scenario, seed, samples_without_learning(scenario, seed))
    sharing = scenario.allocation.sharing or "planned"
    return LabView(population, drawn.devices, drawn.problem, tuple(ask(drawn, method, sharing) for method in methods))


def ask(drawn: OneRound, method: str, sharing: str = "planned") -> Answer:
    """One method's answer to the problem of a cohort, and what becomes of it if the band is shared otherwise."""
    try:
        plan = allocate(drawn.problem, method)
        if sharing != "planned":
            plan = shared_plan(drawn.problem, plan, SCHEDULERS.find(sharing)().bandwidth)
            return Answer(method, plan, np.zeros(0, np.int64))
        return Answer(method, plan, np.zeros(0, np.int64), pace=pace_of(drawn.problem, plan, method))
    except Infeasible as refusal:
        return Answer(method, None, np.array(refusal.devices, np.int64), refusal.reason)
