"""One round's allocation problem for one random cohort, without simulating: what `netsim allocate` compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.allocation import METHODS, Problem, check_method
from netsim.allocation.compare import Result, compare
from netsim.base.arrays import Ints
from netsim.base.options import with_options
from netsim.base.streams import stream
from netsim.fleet.population import draw_population
from netsim.fleet.work import problem_for
from netsim.learning.named import permit_learning, samples_without_learning, upload_bits
from netsim.scenario.effect import Idle
from netsim.world.channel import round_gain

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class OneRound:
    """A cohort and its problem."""

    devices: Ints           # numbers of the devices, rising
    problem: Problem


def one_round(scenario: Scenario, seed: int, *, allow_import: bool = False) -> OneRound:
    """A uniformly random cohort of the scenario's size, and the problem that it poses in round 1.

    The draw depends on the seed alone, so all methods meet the same devices. ``allow_import`` lets the scenario name
    code of packages that are not made for netsim: its model says how large an upload is, its split who holds what.
    """
    permit_learning(scenario, allow_import=allow_import)
    population = draw_population(scenario, seed, samples_without_learning(scenario, seed))
    cohort = stream(seed, "cohort").choice(len(population), scenario.selection.cohort, replace=False)
    cohort.sort()
    gain = round_gain(scenario, population, seed, round=1)
    problem = problem_for(scenario, population, cohort, gain=gain, bits=upload_bits(scenario))
    return OneRound(cohort, problem.with_energy(population.battery_j[cohort]))


def compare_methods(
    scenario: Scenario, methods: Sequence[str], seed: int, *, allow_import: bool = False,
) -> list[Result]:
    """Each method's plan for the same cohort; without methods, the scenario's own.

    A method may carry options, as in ``fedl:lambda=2``; the scenario's own method has its options from there.
    ``allow_import`` lets methods and scenario name code of packages that are not made for netsim.
    """
    own = scenario.allocation
    chosen = [with_options(text) for text in methods] or [(own.method, own.options)]
    chosen = [(name, options or (own.options if name == own.method else {})) for name, options in chosen]
    if own.method not in [name for name, _ in chosen]:
        idle = "--method says which methods are compared; leave one of the two out"
        scenario.said.refuse(Idle(("allocation", name), ("allocation", name), idle, changes_only=True)
                             for name in ("method", *own.options))
    for name, _ in chosen:
        METHODS.permit(name, allow_import=allow_import)
    for name, options in chosen:
        check_method(name, options)
    drawn = one_round(scenario, seed, allow_import=allow_import)
    return compare(drawn.problem, chosen, drawn.devices)
