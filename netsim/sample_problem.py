"""Pose one round's allocation problem for a random cohort, without simulating, for `netsim allocate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.allocation import METHODS, Problem, check_method
from netsim.allocation.compare import Result, compare
from netsim.base.options import with_options
from netsim.base.rng import stream
from netsim.base.types import Ints
from netsim.devices.population import draw_population
from netsim.devices.workload import problem_for
from netsim.environment.channel import round_gain
from netsim.learning.backend import NoLearning
from netsim.learning.registries import permit_learning, upload_bits
from netsim.scenario.unused_keys import UnusedKey

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class SampleProblem:
    devices: Ints           # device numbers in ascending order
    problem: Problem


def sample_problem(scenario: Scenario, seed: int, *, allow_import: bool = False) -> SampleProblem:
    """Draw a uniformly random cohort of the scenario's size, and return it with its problem in round 1.

    The draw depends on the seed alone, so that all methods get the same devices. ``allow_import`` permits the scenario
    to name code of packages that were not made for netsim: its model sets the upload size, its partition the samples.
    """
    permit_learning(scenario, allow_import=allow_import)
    learns = NoLearning.of(scenario, seed)
    population = draw_population(scenario, seed, learns.samples, learns.flops_per_sample(scenario))
    cohort = stream(seed, "cohort").choice(len(population), scenario.selection.cohort, replace=False)
    cohort.sort()
    gain = round_gain(scenario, population, seed, round=1)
    problem = problem_for(scenario, population, cohort, gain=gain, bits=upload_bits(scenario))
    return SampleProblem(cohort, problem.with_energy(population.battery_j[cohort]))


def compare_methods(
    scenario: Scenario, methods: Sequence[str], seed: int, *, allow_import: bool = False,
) -> list[Result]:
    """Return the plan of each method, such as ``fedl:lambda=2``, for the same random cohort.

    Without methods, plan with the scenario's own. It has the scenario's options unless it is given others.
    ``allow_import`` permits methods and scenario to name code of packages that were not made for netsim.
    """
    own = scenario.allocation
    chosen = [with_options(text) for text in methods] or [(own.method, own.options)]
    chosen = [(name, options or (own.options if name == own.method else {})) for name, options in chosen]
    if own.method not in [name for name, _ in chosen]:
        idle = "--method says which methods are compared; leave one of the two out"
        scenario.said.refuse(UnusedKey(("allocation", name), ("allocation", name), idle, changes_only=True)
                             for name in ("method", *own.options))
    for name, _ in chosen:
        METHODS.permit(name, allow_import=allow_import)
    for name, options in chosen:
        check_method(name, options)
    drawn = sample_problem(scenario, seed, allow_import=allow_import)
    return compare(drawn.problem, chosen, drawn.devices)
