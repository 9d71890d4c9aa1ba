"""Random layouts of the paper's cell, each with a cohort of ten, and their plans by several methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.base.types import Floats
from netsim.base.units import watts_from_dbm
from netsim.devices.population import draw_population
from netsim.devices.workload import problem_for
from netsim.paper.plots import quartiles
from netsim.paper.reproduce import Context
from netsim.sample_problem import sample_problem
from netsim.scenario import load_scenario

LAYOUTS, QUICK_LAYOUTS = 120, 8


def layouts(context: Context) -> list[Problem]:
    """Return layouts of the `paper` scenario: layout i is its cell under seed i, with a random cohort of ten."""
    scenario = load_scenario("paper")
    return [sample_problem(scenario, seed).problem for seed in range(context.count(LAYOUTS, QUICK_LAYOUTS))]


def everybody(count: int) -> list[Problem]:
    """Return the same cells with all hundred devices in the round."""
    scenario = load_scenario("paper")
    drawn = [draw_population(scenario, seed) for seed in range(count)]
    return [problem_for(scenario, population, np.arange(len(population)), bits=scenario.bits()) for population in drawn]


def with_budget(problem: Problem, budget_mj: float | None) -> Problem:
    """Set the same budget for all devices; None keeps their own."""
    return problem if budget_mj is None else replace(problem, budget_j=np.full(len(problem), budget_mj / 1e3))


def with_power(problem: Problem, power_dbm: float) -> Problem:
    return replace(problem, power_w=np.full(len(problem), watts_from_dbm(power_dbm)))


def plan_of(problem: Problem, method: str, **options: Any) -> Plan | None:
    try:
        return allocate(problem, method, **options)
    except Infeasible:
        return None


def round_times(problems: list[Problem], method: str, **options: Any) -> Floats:
    """Return the seconds of a round in each layout; NaN without a plan."""
    return of_plans([plan_of(problem, method, **options) for problem in problems])


def of_plans(plans: Sequence[Plan | None], value: Callable[[Plan], float] = lambda plan: plan.round_s) -> Floats:
    """Return a value of each plan, by default the seconds of the round; NaN without a plan."""
    return np.array([np.nan if plan is None else value(plan) for plan in plans])


Table = Mapping[str, Mapping[str, Floats]]      # by cell and method, one value per layout; NaN: no plan


def by_layout(
    rows: Sequence[Mapping[str, Any]], column: str, cells: Sequence[str], methods: Iterable[str], count: int,
) -> Table:
    """Return a column of rows with cell, method and layout as a table."""
    table = {cell: {method: np.full(count, np.nan) for method in methods} for cell in cells}
    for row in rows:
        table[row["cell"]][row["method"]][row["layout"]] = row.get(column, np.nan)
    return table


def over_sao(table: Table, cell: str, method: str) -> Floats:
    """Return the ratio to `sao` by layout, where both have a value."""
    ratio: Floats = table[cell][method] / table[cell]["sao"]
    return ratio[np.isfinite(ratio)]


def summarized(rounds: Table, energies: Table, cell: str, method: str) -> dict[str, Any]:
    """Return the quartiles over layouts of the round, and of round and energy over those of `sao`."""
    return {"round_s": quartiles(rounds[cell][method]), "round_over_sao": quartiles(over_sao(rounds, cell, method)),
            "energy_over_sao": quartiles(over_sao(energies, cell, method))}
