"""Algorithm 5 to the letter: where it is right, and what it loses where it is not (notes to the paper)."""

from __future__ import annotations

import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world, wild_world, with_budgets
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.allocation import Infeasible, Problem, allocate


def loss(budget_j: float) -> float:
    """How much longer its round is than the optimum, median over layouts at 23 dBm."""
    rng = np.random.default_rng(1)
    losses = []
    for _ in range(30):
        problem = paper_world(rng, budget_j=budget_j, power_dbm=23.0)
        try:
            losses.append(allocate(problem, "algorithm5").round_s / allocate(problem, "sao").round_s - 1)
        except Infeasible:
            continue
    return float(np.median(losses))


def test_loses_nothing_where_no_cpu_is_at_its_maximum_and_much_where_all_are() -> None:
    assert loss(0.03) == pytest.approx(0.0, abs=1e-3)
    assert 0.05 < loss(0.04) < 0.5
    assert loss(0.05) > 0.5


@pytest.mark.slow
@settings(max_examples=300, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30), room=st.sampled_from([1.01, 1.5, 10.0]))
def test_keeps_the_constraints_and_is_never_faster_than_sao(seed: int, size: int, room: float) -> None:
    problem = with_budgets(wild_world(np.random.default_rng(seed), size), room)
    try:
        plan = allocate(problem, "algorithm5")
    except Infeasible:
        return                                   # its T_max was not big enough
    check_constraints(problem, plan)
    assert allocate(problem, "sao").round_s <= plan.round_s * (1 + 1e-12)


def test_does_not_end_without_a_feasible_plan() -> None:
    problem = with_budgets(paper_world(np.random.default_rng(3)), 0.99)
    with pytest.raises(Infeasible, match="algorithm5 does not end"):
        allocate(problem, "algorithm5")


def test_starves_a_device_at_its_maximum() -> None:
    # An ample budget: computing takes 1 s at cpu_max and leaves 9.9 J, so the energy equality asks for an upload of
    # 99 s although the delay is all that counts, and most of the band stays unused.
    problem = Problem(bits=2e6, cycles=1e9, capacitance=1e-28, gain=1.2e-13, power_w=0.1, budget_j=10.0,
                      cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    plan = allocate(problem, "algorithm5")
    assert plan.upload_s == pytest.approx([99.0], rel=1e-6)
    assert plan.bandwidth_used_hz < 0.01 * problem.bandwidth_hz
    assert allocate(problem, "sao").round_s == pytest.approx(2.0)
