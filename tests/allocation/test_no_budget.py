"""Devices without an energy budget: every method plans with infinite budgets exactly, or refuses in one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world, wild_world, with_budgets
from refused import refused
from scipy.optimize import brentq

from netsim import load_scenario, simulate
from netsim.allocation import METHODS, Infeasible, Problem, allocate, sensitivities
from netsim.allocation.planner import planner_of
from netsim.allocation.sensitivities import prices_of

pytestmark = pytest.mark.filterwarnings("error")
TO_THE_LETTER = ("algorithm5", "algorithm6")
RNG = np.random.default_rng(5)
WORLDS = {
    "paper": replace(paper_world(RNG, 6), power_min_w=0.01, power_max_w=1.0),
    "wild": wild_world(RNG, 5),
    "computing is free": replace(paper_world(RNG, 4), capacitance=0.0),
    "one device": paper_world(RNG, 1),
}


def without(problem: Problem, who: object = slice(None)) -> Problem:
    budget_j = problem.budget_j.copy()
    budget_j[who] = np.inf
    return replace(problem, budget_j=budget_j)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("method", [method for method in METHODS if method not in TO_THE_LETTER])
@pytest.mark.parametrize("some", [False, True], ids=["no budgets", "budgets of some"])
def test_no_budget_is_the_limit_of_large_budgets(method: str, world: str, some: bool) -> None:
    problem = with_budgets(WORLDS[world], 3.0)
    who = np.arange(len(problem)) % 2 == 0 if some else np.full(len(problem), True)
    none = without(problem, who)
    plan = allocate(none, method)
    check_constraints(none, plan, budgets=method not in ("rra", "fedl"))
    ample = plan.device_energy_j.max() + plan.power_w.max() * plan.round_s
    rich = allocate(replace(problem, budget_j=np.where(who, 1e6 * ample, problem.budget_j)), method)
    assert plan.round_s == pytest.approx(rich.round_s, rel=1e-9)
    assert plan.device_energy_j == pytest.approx(rich.device_energy_j, rel=1e-5)


@pytest.mark.parametrize("world", WORLDS)
def test_the_shortest_round_without_budgets_has_a_simple_equation(world: str) -> None:
    """All CPUs at their maximum, and the band exactly full: sum of b_n(T - U_n/f_n) = B."""
    problem = without(WORLDS[world])
    compute_s = problem.cycles / problem.cpu_max_hz

    def excess(round_s: float) -> float:
        return float(problem.link.bandwidth(problem.bits / (round_s - compute_s), problem.snr_hz).sum()
                     ) / problem.bandwidth_hz - 1.0

    plan = allocate(problem, "sao")
    busy = problem.cycles > 0
    assert plan.cpu_hz[busy] == pytest.approx(problem.cpu_max_hz[busy], rel=1e-9)
    assert plan.round_s == pytest.approx(brentq(excess, plan.round_s * 0.99, plan.round_s * 1.01, rtol=1e-15), rel=1e-9)
    assert allocate(problem, "sao-joint").round_s <= plan.round_s * (1 + 1e-12)


@pytest.mark.parametrize("method", TO_THE_LETTER)
def test_methods_that_divide_by_budgets_refuse(method: str) -> None:
    with refused("needs", "allocation.method"):
        allocate(without(WORLDS["paper"], 2), method)


def test_no_budget_has_no_price() -> None:
    problem = without(WORLDS["paper"])
    for method in ("sao", "equal", "sao-joint"):
        found = prices_of(problem, allocate(problem, method), method)
        assert found is not None
        assert (found.budget_s_per_j == 0.0).all()
        assert found.bandwidth_s_per_hz < 0.0
    plan = allocate(problem, "sao")
    found = prices_of(problem, plan, "sao")
    assert found is not None
    changes = [saving.change for saving in sensitivities.savings(problem, plan, found, "sao", {})]
    assert changes[0] == "1 MHz more"
    assert not any("mJ" in change for change in changes)


def test_without_budgets_there_is_nothing_to_relax() -> None:
    problem = without(WORLDS["paper"])
    planner = planner_of("sao", {}, within_s=allocate(problem, "sao").round_s * 0.8)(
        lambda devices: problem.subset(devices), None, None)
    agenda = planner.agenda(np.arange(len(problem)), "relax", 3)
    assert 0 < len(agenda.devices) < len(problem)
    assert agenda.relaxed == 1.0


def test_a_scenario_without_budgets_runs() -> None:
    run = simulate("tiny")
    none = simulate(load_scenario("tiny", {"population.node.budget": "none"}))
    rich = simulate(load_scenario("tiny", {"population.node.budget": "1 kJ"}))
    assert none.rounds["round_s"].to_list() == rich.rounds["round_s"].to_list() < run.rounds["round_s"].to_list()
    assert np.isinf(none.devices["budget_j"].to_numpy()).all()
    assert none.explain(1).what_if
    columns = {"x": ["1 m"], "y": ["0 m"], "budget": ["none"]}
    mixed = load_scenario("tiny").with_({"population.node.devices": {
        name: [*column, *column] if name != "budget" else ["none", "6 mJ"] for name, column in columns.items()},
        "selection.cohort": 2})
    assert simulate(mixed).devices["budget_j"].to_list() == [np.inf, 6e-3]
    with refused("no-effect", "rounds.on_budget_exceeded"):
        load_scenario("tiny", {"population.node.budget": "none", "rounds.on_budget_exceeded": "abort"})


def test_a_device_with_a_battery_is_limited_by_it_alone() -> None:
    problem = without(WORLDS["paper"])
    spent = allocate(problem, "sao").device_energy_j
    limited = problem.with_energy(np.where(np.arange(6) == 2, spent / 2, np.inf))
    assert np.isinf(limited.budget_j).tolist() == [True, True, False, True, True, True]
    plan = allocate(limited, "sao")
    assert plan.device_energy_j[2] == pytest.approx(spent[2] / 2, rel=1e-6)
    with pytest.raises(Infeasible):
        allocate(problem.with_energy(np.full(6, 1e-12)), "sao")
