"""One round of one cohort, as the lab shows it: each method's plan or what stands in its way, and who sets the pace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.allocation.prices import prices_of
from netsim.allocation.sharing import shared_plan
from netsim.allocation.waves import Wave
from netsim.analysis.breakdown import TOGETHER
from netsim.analysis.changes import BAND, BUDGET, CPU, Change, limit_now
from netsim.base.arrays import Floats, Ints
from netsim.base.tolerances import CONSTRAINT
from netsim.cell.schedulers import SCHEDULERS
from netsim.fleet.population import Population, draw_population
from netsim.learning.named import samples_without_learning
from netsim.random_cohort import one_round
from netsim.server.replay import play_wave
from netsim.world.fading import BlockFading

if TYPE_CHECKING:
    from netsim.scenario import Scenario


TWICE, NEXT = 2.0, 1.01      # times a limit
LITTLE = 1e-3                # of a round: what saves less is not worth a word


@dataclass(frozen=True)
class BestChange:
    """The change of one limit that shortens a round most, of a device or of the cell."""

    device: int | None      # position in the cohort; None: no single one
    change: str             # in words
    saves_s: float
    next_s: float           # what the next per cent of it saves: its price


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method says: a plan, or which devices can't and why."""

    method: str
    plan: Plan | None
    stuck: tuple[int, ...] = ()       # positions in the cohort
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
        slow = self.plans[0].end_s if self.plans else -self.problem.gain
        return np.argsort(-slow, kind="stable")

    @property
    def distance_m(self) -> Floats:
        """How far from the base station each device is."""
        return np.hypot(self.population.x_m, self.population.y_m)[self.devices]


def part_of_band(plan: Plan, bandwidth_hz: float) -> Floats:
    """Each device's part of the band; of bands that change in time, its part of what is used of it, over the round."""
    used = plan.bandwidth_hz if plan.slots is None else plan.bandwidth_hz * plan.upload_s
    return np.asarray(used / (bandwidth_hz if plan.slots is None else used.sum()))


def last_alone(plan: Plan) -> int | None:
    """The position of the device that the others wait for; None where several end together."""
    ends = np.sort(plan.end_s)
    return int(np.argmax(plan.end_s)) if len(ends) > 1 and ends[-1] - ends[-2] > TOGETHER * plan.round_s else None


def look(scenario: Scenario, methods: Sequence[str], seed: int) -> LabView:
    """The round that ``netsim allocate`` shows for the same scenario, methods and seed."""
    drawn = one_round(scenario, seed)
    drawn = replace(drawn, problem=replace(drawn.problem, names=None))      # of one kind: they go by their numbers
    population = draw_population(scenario, seed, samples_without_learning(scenario, seed))
    sharing = scenario.allocation.sharing or "planned"

    def ask(method: str) -> Answer:
        """Its plan, and what becomes of that if the band is shared otherwise."""
        try:
            plan = allocate(drawn.problem, method)
        except Infeasible as refusal:
            return Answer(method, None, tuple(refusal.devices), refusal.reason)
        if sharing == "planned":
            return Answer(method, plan, pace=pace_of(drawn.problem, plan, method))
        return Answer(method, shared_plan(drawn.problem, plan, SCHEDULERS.find(sharing)().bandwidth))

    return LabView(population, drawn.devices, drawn.problem, tuple(map(ask, methods)))


def pace_of(problem: Problem, plan: Plan, method: str) -> BestChange | None:
    """Twice the band against twice the dearest limit of a device, each planned again; None where neither helps.

    The dearest is the limit of which the next per cent is worth most, though all devices may end together.
    """
    prices = prices_of(problem, plan, method)
    if prices is None or len(problem) < 2:
        return None
    worth = np.nan_to_num(np.array([-prices.cpu_max_s_per_hz * problem.cpu_max_hz,
                                    -prices.budget_s_per_j * problem.budget_j]))
    key, n = (int(at) for at in np.unravel_index(int(np.argmax(worth)), worth.shape))

    def saves(change: Change) -> float:
        try:
            return plan.round_s - allocate(change.problem(problem, method), method).round_s
        except Infeasible:
            return 0.0

    saved = {change: saves(change) for change in (
        Change(BAND, factor=TWICE), Change((CPU, BUDGET)[key], problem.name(n), TWICE))}
    best = max(saved, key=lambda change: saved[change])
    if saved[best] <= LITTLE * plan.round_s:
        return None
    said = best.words({problem.name(n): f"device {problem.name(n)}"}, limit_now(problem, best, method))
    return BestChange(None if best.device is None else n, said, saved[best], saves(replace(best, factor=NEXT)))


@dataclass(frozen=True, eq=False)
class FadingAir:
    """Rayleigh fading around the gains of a problem, a draw a coherence time; devices by their positions."""

    fading: BlockFading
    mean: Floats

    def gain(self, devices: Ints, t: float) -> Floats:
        found: Floats = self.mean[devices] * self.fading.factor(devices, t, 1)
        return found

    def next_change(self, t: float) -> float:
        return self.fading.next_change(t)


def faded_round(problem: Problem, coherence_s: float, believes: str, seed: int) -> tuple[Plan, Plan] | None:
    """What a plan promises, and what becomes of it while the channels fade; None where there is no plan.

    The plan takes the gains of the first moment (``"now"``) or those without fading (``"mean"``) for all time.
    """
    devices = np.arange(len(problem))
    air = FadingAir(BlockFading(seed, devices.tolist(), None, coherence_s), problem.gain)
    believed = replace(problem, numbers=None, gain=problem.gain if believes == "mean" else air.gain(devices, 0.0))
    try:
        plan = allocate(believed)
    except Infeasible:
        return None
    jobs = play_wave(Wave(devices, believed, plan), gains=air).jobs
    order = np.argsort(jobs["device"])
    energy_j = np.array(jobs["energy_j"])[order]
    return plan, replace(
        plan, upload_s=np.array(jobs["upload_s"])[order], device_energy_j=energy_j, energy_j=float(energy_j.sum()),
        round_s=max(jobs["t1"]), over_budget=energy_j > problem.budget_j * (1 + CONSTRAINT))
