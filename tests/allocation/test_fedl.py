"""`fedl` against CVXPY, against other plans of the same problem, and tuned to the budgets."""

from __future__ import annotations

from dataclasses import replace

import allocation_reference as reference
import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world, wild_world, with_budgets
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.allocation.fedl import tune


def weighed(problem: Problem, weight: float | str) -> Plan:
    return allocate(problem, "fedl", **{"lambda": weight})


@pytest.mark.slow
def test_agrees_with_cvxpy() -> None:
    rng = np.random.default_rng(1)
    at_the_ends = 0
    for _ in range(40):
        problem = paper_world(rng, int(rng.integers(1, 13)))
        problem = replace(problem, gain=np.minimum(problem.gain, 1e-9))
        weight = 10 ** rng.uniform(-3, 3)
        plan = weighed(problem, weight)
        check_constraints(problem, plan, budgets=False)
        assert plan.energy_j + weight * plan.round_s == pytest.approx(reference.fedl(problem, weight), rel=1e-6)
        at_the_ends += bool(np.isin(plan.cpu_hz, [0.2e9, 2e9]).any())
    assert 10 <= at_the_ends <= 35


@pytest.mark.extended
@settings(max_examples=60, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 20))
def test_each_weight_has_the_best_plan_for_itself(seed: int, size: int) -> None:
    problem = with_budgets(wild_world(np.random.default_rng(seed), size), 2.0)
    weights = [1e-6, 1e-2, 1.0, 1e2, 1e6]
    plans = [weighed(problem, weight) for weight in weights]
    others = [*plans, allocate(problem, "sao")]
    for weight, plan in zip(weights, plans, strict=True):
        check_constraints(problem, plan, budgets=False)
        assert plan.bandwidth_used_hz == pytest.approx(problem.bandwidth_hz, rel=1e-12)
        cost = plan.energy_j + weight * plan.round_s
        assert all(cost <= (other.energy_j + weight * other.round_s) * (1 + 1e-9) for other in others)


def test_no_weight_takes_the_least_energy_and_a_huge_one_the_least_time() -> None:
    problem = paper_world(np.random.default_rng(2))
    patient, hasty = weighed(problem, 0), weighed(problem, 1e9)
    assert patient.cpu_hz.tolist() == problem.cpu_min_hz.tolist()
    assert hasty.cpu_hz == pytest.approx(problem.cpu_max_hz, rel=1e-7)
    assert hasty.round_s == pytest.approx(allocate(replace(problem, budget_j=1e3), "sao").round_s, rel=1e-8)
    assert patient.energy_j < weighed(problem, 1e-3).energy_j < hasty.energy_j


def test_one_device_worked_out_by_hand() -> None:
    # 1 s of upload whatever the weight. Computing costs 0.1 f^2 J and takes 1/f s (f in GHz): f^3 = lambda / 0.2.
    problem = Problem(bits=2e6, cycles=1e9, capacitance=1e-28, gain=1.2e-13, power_w=0.1, budget_j=0.3,
                      cpu_min_hz=1e8, cpu_max_hz=2e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    plan = weighed(problem, 0.2 * 1.5**3)
    assert plan.cpu_hz == pytest.approx([1.5e9], rel=1e-8)
    assert plan.round_s == pytest.approx(1.0 + 1.0 / 1.5, rel=1e-8)
    assert plan.over_budget.tolist() == [True]                   # 0.1 + 0.225 J against 0.3 J
    weight, tuned = tune(problem)                                # 0.2 J to compute with: f^2 = 2
    assert weight == pytest.approx(0.2 * 2**1.5, rel=1e-6)
    assert tuned.cpu_hz == pytest.approx([np.sqrt(2) * 1e9], rel=1e-6)


def test_a_weight_is_heeded_though_computing_costs_next_to_nothing() -> None:
    """The same device with a CPU that takes 1e-20 times the energy: beside the transmitter's power it is lost."""
    problem = Problem(bits=2e6, cycles=1e9, capacitance=1e-48, gain=1.2e-13, power_w=0.1, budget_j=0.3,
                      cpu_min_hz=1e8, cpu_max_hz=2e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    assert weighed(problem, 0.2e-20 * 1.5**3).cpu_hz == pytest.approx([1.5e9], rel=1e-8)


@pytest.mark.slow
def test_the_tuned_weight_is_the_largest_that_keeps_the_budgets() -> None:
    rng = np.random.default_rng(3)
    weights, slower = [], []
    for _ in range(20):
        problem = replace(paper_world(rng), budget_j=rng.uniform(0.015, 0.03, 10))
        try:
            best = allocate(problem, "sao").round_s
        except Infeasible:
            continue
        weight, plan = tune(problem)
        check_constraints(problem, plan)
        assert weighed(problem, weight).round_s == pytest.approx(plan.round_s, rel=1e-6)
        assert weighed(problem, 1.01 * weight).over_budget.any()
        assert best <= plan.round_s * (1 + 1e-12)
        weights.append(weight)
        slower.append(plan.round_s / best)
    assert 0.8 < np.median(weights) < 1.5                        # 1.09 in the notes, over other layouts
    assert 1.05 < np.median(slower) < 1.3


@pytest.mark.extended
@settings(max_examples=150, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 15), room=st.sampled_from([1.01, 2.0, 100.0]))
def test_tuned_never_beats_sao(seed: int, size: int, room: float) -> None:
    problem = with_budgets(wild_world(np.random.default_rng(seed), size), room)
    try:
        plan = weighed(problem, "tuned")
    except Infeasible:
        return                                                   # the least total energy is not the least for each
    check_constraints(problem, plan)
    assert allocate(problem, "sao").round_s <= plan.round_s * (1 + 1e-9)


def test_ample_budgets_allow_any_weight() -> None:
    weight, plan = tune(paper_world(np.random.default_rng(4), budget_j=10.0))
    assert weight == np.inf
    assert plan.cpu_hz == pytest.approx(2e9, rel=1e-7)


def test_an_infeasible_problem_has_no_tuned_weight() -> None:
    problem = with_budgets(paper_world(np.random.default_rng(5)), 0.99)
    with pytest.raises(Infeasible):
        weighed(problem, "tuned")
    assert weighed(problem, 1.0).over_budget.any()               # a given weight has a plan all the same


@pytest.mark.parametrize(("weight", "code"), [
    (-1, "out-of-range"), ("much", "wrong-type"), (np.nan, "not-finite"), (np.inf, "not-finite"), (True, "wrong-type"),
    (None, "wrong-type")])
def test_bad_weights(weight: object, code: str) -> None:
    with refused(code, "allocation.lambda"):
        allocate(paper_world(np.random.default_rng(1)), "fedl", **{"lambda": weight})
