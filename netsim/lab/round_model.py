"""Model of the lab: one round of one cohort, with each method's plan or its infeasibility, and the limiting device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.allocation.equal_finish import shared_plan
from netsim.allocation.planner import Wave
from netsim.allocation.sensitivities import prices_of
from netsim.analysis.breakdown import TOGETHER
from netsim.analysis.counterfactuals import BAND, BUDGET, CPU, Change, limit_now
from netsim.base.tolerances import CONSTRAINT
from netsim.base.types import Floats, Ints
from netsim.cell.schedulers import SCHEDULERS
from netsim.devices.population import Population, draw_population
from netsim.environment.fading import BlockFading
from netsim.learning.backend import NoLearning
from netsim.sample_problem import sample_problem
from netsim.scenario import Scenario
from netsim.server.replay import play_wave

TWICE, NEXT = 2.0, 1.01      # times a limit
LITTLE = 1e-3                # of a round: smaller savings are not shown


@dataclass(frozen=True)
class BestChange:
    """The change of one limit that shortens a round most, of a device or of the cell."""

    device: int | None      # position in the cohort; None: no single one
    change: str             # in words
    saves_s: float
    next_s: float           # saving of one per cent more


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Answer of a method: a plan, or the devices that make it infeasible and the reason."""

    method: str
    plan: Plan | None
    stuck: tuple[int, ...] = ()       # positions in the cohort
    reason: str = ""
    pace: BestChange | None = None    # what would shorten the round most

    @property
    def limiting_device(self) -> int | None:
        """Position of the device that limits the round: the last, or, if all finish together, of the best change."""
        last = None if self.plan is None else single_last_device(self.plan)
        return self.pace.device if last is None and self.pace is not None else last


@dataclass(frozen=True, eq=False)
class LabView:
    """A cohort with the answers of some methods; arrays are by position in the cohort."""

    population: Population
    devices: Ints               # their numbers in the population
    problem: Problem
    answers: tuple[MethodResult, ...]

    @property
    def plans(self) -> list[Plan]:
        return [answer.plan for answer in self.answers if answer.plan is not None]

    @property
    def longest_s(self) -> float:
        """The longest round, for a common time axis; 0 without a plan."""
        return max((plan.round_s for plan in self.plans), default=0.0)

    @property
    def order(self) -> Ints:
        """Positions, the slowest first under the first feasible method; one order for all charts."""
        slow = self.plans[0].end_s if self.plans else -self.problem.gain
        return np.argsort(-slow, kind="stable")

    @property
    def distance_m(self) -> Floats:
        """Distance of each device from the base station."""
        return np.hypot(self.population.x_m, self.population.y_m)[self.devices]


def part_of_band(plan: Plan, bandwidth_hz: float) -> Floats:
    """Return each device's share of the band; for time-varying plans, its share of the used band over the round."""
    used = plan.bandwidth_hz if plan.slots is None else plan.bandwidth_hz * plan.upload_s
    return np.asarray(used / (bandwidth_hz if plan.slots is None else used.sum()))


def single_last_device(plan: Plan) -> int | None:
    """Return the position of the device that finishes last; None if several finish together."""
    ends = np.sort(plan.end_s)
    return int(np.argmax(plan.end_s)) if len(ends) > 1 and ends[-1] - ends[-2] > TOGETHER * plan.round_s else None


def look(scenario: Scenario, methods: Sequence[str], seed: int) -> LabView:
    """Return the round that ``netsim allocate`` shows for the same scenario, methods and seed."""
    drawn = sample_problem(scenario, seed)
    drawn = replace(drawn, problem=replace(drawn.problem, names=None))      # of one kind: they go by their numbers
    learns = NoLearning.of(scenario, seed)
    population = draw_population(scenario, seed, learns.samples, learns.flops_per_sample(scenario))
    sharing = scenario.cell.scheduler or "planned"

    def ask(method: str) -> MethodResult:
        """Return the method's plan, simulated with the scheduler of the scenario."""
        try:
            plan = allocate(drawn.problem, method)
        except Infeasible as refusal:
            return MethodResult(method, None, tuple(refusal.devices), refusal.reason)
        if sharing == "planned":
            return MethodResult(method, plan, pace=best_change(drawn.problem, plan, method))
        return MethodResult(method, shared_plan(drawn.problem, plan, SCHEDULERS.find(sharing)().bandwidth))

    return LabView(population, drawn.devices, drawn.problem, tuple(map(ask, methods)))


def best_change(problem: Problem, plan: Plan, method: str) -> BestChange | None:
    """Compare doubling the band with doubling the most valuable limit of a device; None if neither helps.

    The most valuable limit has the largest saving per relative increase, also if all devices finish together.
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
class FadingDemo:
    """Rayleigh fading around the gains of a problem, a draw a coherence time; devices by their positions."""

    fading: BlockFading
    mean: Floats

    def gain(self, devices: Ints, t: float) -> Floats:
        found: Floats = self.mean[devices] * self.fading.factor(devices, t, 1)
        return found

    def next_change(self, t: float) -> float:
        return self.fading.next_change(t)


def faded_round(problem: Problem, coherence_s: float, believes: str, seed: int) -> tuple[Plan, Plan] | None:
    """Return a plan and the simulated round with fading channels; None if there is no plan.

    The plan uses the gains at the start (``"instantaneous"``) or the gains without fading (``"mean"``).
    """
    devices = np.arange(len(problem))
    air = FadingDemo(BlockFading(seed, devices.tolist(), None, coherence_s), problem.gain)
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
