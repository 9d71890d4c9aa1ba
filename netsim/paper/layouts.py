"""Many layouts of the paper's cell, each a cohort of ten at random places, and plans of several methods for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.base.arrays import Floats
from netsim.base.units import watts_from_dbm
from netsim.fleet.population import draw_population
from netsim.fleet.work import problem_for
from netsim.paper.reproduce import Context
from netsim.random_cohort import one_round
from netsim.scenario import load_scenario

LAYOUTS, QUICK_LAYOUTS = 120, 8


def layouts(context: Context) -> list[Problem]:
    """Layout i of the `paper` scenario is its cell under seed i, with a random cohort of ten."""
    scenario = load_scenario("paper")
    return [one_round(scenario, seed).problem for seed in range(context.count(LAYOUTS, QUICK_LAYOUTS))]


def everybody(count: int) -> list[Problem]:
    """The same cells with all hundred devices in the round."""
    scenario = load_scenario("paper")
    drawn = [draw_population(scenario, seed) for seed in range(count)]
    return [problem_for(scenario, population, np.arange(len(population)), bits=scenario.bits()) for population in drawn]


def with_budget(problem: Problem, budget_mj: float | None) -> Problem:
    """All devices with the same budget; None: each with its own."""
    return problem if budget_mj is None else replace(problem, budget_j=np.full(len(problem), budget_mj / 1e3))


def with_power(problem: Problem, power_dbm: float) -> Problem:
    """All devices with the same transmit power."""
    return replace(problem, power_w=np.full(len(problem), watts_from_dbm(power_dbm)))


def plan_of(problem: Problem, method: str, **options: Any) -> Plan | None:
    """The method's plan, or None where it has none."""
    try:
        return allocate(problem, method, **options)
    except Infeasible:
        return None


def round_times(problems: list[Problem], method: str, **options: Any) -> Floats:
    """Seconds of a round in each layout; NaN where the method has no plan."""
    plans = [plan_of(problem, method, **options) for problem in problems]
    return np.array([np.nan if plan is None else plan.round_s for plan in plans])
