"""What holds for every method: constraints, no NaN, no warnings, at the extremes too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world, wild_world, with_budgets

from netsim.allocation import METHODS, Infeasible, Problem, allocate
from netsim.allocation.infeasibility import largest_feasible
from netsim.allocation.tdma import single_device_bound
from netsim.validation import ENDS_TOGETHER

pytestmark = pytest.mark.filterwarnings("error")
IGNORES_BUDGETS = {"rra"}
SHARES_IN_TIME = {"tdma", "sao-adaptive"}       # and may so be quicker than the optimum of fixed bands


def check(problem: Problem, method: str) -> bool:
    """Solve it if the method can; whether it could."""
    try:
        plan = allocate(problem, method)
    except Infeasible as why:
        assert why.devices                                        # noqa: PT017
        assert set(why.devices) <= set(range(len(problem)))       # noqa: PT017
        assert str(why)                                           # noqa: PT017
        return False
    check_constraints(problem, plan, budgets=method not in IGNORES_BUDGETS)
    if method in SHARES_IN_TIME:
        assert plan.round_s >= single_device_bound(problem) * (1 - 1e-9)
    elif method != "algorithm5" and method not in IGNORES_BUDGETS:
        assert plan.round_s >= allocate(problem, "sao-joint").round_s * (1 - 1e-9)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_wild_problems(method: str) -> None:
    rng = np.random.default_rng(1)
    solved = 0
    for _ in range(30):
        room = float(rng.choice([0.9, 1 + 1e-9, 1.1, 3.0, 100.0]))
        solved += check(with_budgets(wild_world(rng, int(rng.integers(1, 12))), room), method)
    assert solved >= 10


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("change", [
    {"cycles": 0.0}, {"capacitance": 0.0}, {"cpu_min_hz": 1e9, "cpu_max_hz": 1e9},
    {"power_min_w": 0.01, "power_max_w": 1.0},
], ids=["nothing to compute", "computing is free", "one CPU speed", "a power range"])
def test_special_worlds(method: str, change: dict[str, float]) -> None:
    for seed in range(3):
        assert check(with_budgets(replace(paper_world(np.random.default_rng(seed), 6), **change), 3.0), method)


@pytest.mark.parametrize("method", METHODS)
def test_one_device_gets_the_whole_band(method: str) -> None:
    problem = paper_world(np.random.default_rng(1), 1, budget_j=0.015)
    assert allocate(problem, method).bandwidth_hz == pytest.approx([problem.bandwidth_hz], rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_ten_thousand_devices(method: str) -> None:
    room = 20.0 if method == "equal" else 2.0
    assert check(with_budgets(paper_world(np.random.default_rng(2), 10_000), room), method)


@pytest.mark.parametrize("method", METHODS)
def test_the_part_that_fits_has_a_plan(method: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(1 if METHODS[method].dear else 5):
        problem = replace(paper_world(rng, 12, budget_j=0.02), bandwidth_hz=12e6)
        kept = largest_feasible(problem, method)
        assert (np.diff(kept) > 0).all()
        if len(kept):
            allocate(problem.subset(kept), method)
        assert len(kept) == len(problem) or not check(problem, method)


@pytest.mark.parametrize("method", METHODS)
def test_first_k_is_warned_of_exactly_the_methods_whose_plans_let_all_devices_end_together(method: str) -> None:
    plans = [allocate(paper_world(np.random.default_rng(seed), 6), method) for seed in range(2)]
    together = all(np.ptp(plan.end_s) < 1e-9 * plan.round_s for plan in plans)
    assert together == (method in ENDS_TOGETHER)
