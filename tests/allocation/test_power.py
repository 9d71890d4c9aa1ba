"""The methods that choose the transmit power: against grids, against CVXPY, and against each other."""

from __future__ import annotations

from dataclasses import replace

import allocation_reference as reference
import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world, wild_world, with_budgets
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import physics
from netsim.allocation import Infeasible, Problem, allocate, plan_for
from netsim.allocation.power import Devices, with_common_power

pytestmark = pytest.mark.slow


def ranged(problem: Problem, low: float = 0.1, high: float = 4.0) -> Problem:
    """Powers may be a tenth to four times what they are."""
    return replace(problem, power_min_w=problem.power_w * low, power_max_w=problem.power_w * high)


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1, 2, 3, 5, 10, 20]),
       room=st.sampled_from([1.0001, 1.05, 2.0, 20.0]))
def test_more_freedom_is_never_slower(seed: int, size: int, room: float) -> None:
    rng = np.random.default_rng(seed)
    problem = ranged(with_budgets(wild_world(rng, size), room), 10 ** rng.uniform(-2, 0), 10 ** rng.uniform(0, 2))
    joint, common = allocate(problem, "sao-joint"), allocate(problem, "sao-common-power")
    check_constraints(problem, joint)
    check_constraints(problem, common)
    for plan in (joint, common):
        assert (plan.power_w >= problem.power_min_w).all()
        assert (plan.power_w <= problem.power_max_w).all()
    assert joint.bandwidth_used_hz == pytest.approx(problem.bandwidth_hz, rel=1e-12)
    assert joint.round_s <= common.round_s * (1 + 1e-9)
    assert joint.round_s <= allocate(problem, "sao").round_s * (1 + 1e-9)


def test_no_point_of_a_fine_grid_needs_less() -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        problem = ranged(with_budgets(paper_world(rng, 4), rng.uniform(1.1, 3.0)))
        round_s = allocate(problem, "sao-joint").round_s * rng.uniform(1.0, 1.5)
        need = Devices.of(problem).need(round_s)
        plan = plan_for(problem, need.bandwidth_hz, problem.cycles / need.compute_s, need.power_w)
        assert plan.round_s <= round_s * (1 + 1e-12)                                    # it keeps the time
        assert (plan.device_energy_j <= problem.budget_j * (1 + 1e-12)).all()           # and the budgets
        f = np.linspace(problem.cpu_min_hz, problem.cpu_max_hz, 401)[:, None, :]
        p = np.geomspace(problem.power_min_w, problem.power_max_w, 401)[None, :, :]
        energy_left = problem.budget_j - physics.compute_energy(problem.cycles, f, problem.capacitance)
        upload_s = np.minimum(round_s - problem.cycles / f, energy_left / p)
        rate = np.where(upload_s > 0, problem.bits / np.where(upload_s > 0, upload_s, 1.0), np.inf)
        on_grid = physics.bandwidth_for_rate(rate, problem.gain * p / problem.noise_w_per_hz).min(axis=(0, 1))
        assert (need.bandwidth_hz <= on_grid * (1 + 1e-12)).all()
        assert np.median(need.bandwidth_hz / on_grid) > 0.98                            # while the grid comes near


def test_agrees_with_cvxpy_where_the_cpu_has_one_speed() -> None:
    # then the upload time is fixed by T and the bandwidth-time product is jointly convex with the energy
    rng = np.random.default_rng(2)
    for _ in range(15):
        problem = paper_world(rng, 8)
        problem = replace(problem, gain=np.minimum(problem.gain, 1e-9), cpu_max_hz=problem.cpu_min_hz)
        problem = ranged(with_budgets(problem, rng.uniform(1.2, 3.0)), low=1e-4)
        plan = allocate(problem, "sao-joint")
        assert reference.joint_need(problem, plan.round_s) == pytest.approx(problem.bandwidth_hz, rel=1e-6)


@pytest.mark.slow
def test_the_best_common_power_is_that_of_a_fine_grid() -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        problem = ranged(with_budgets(paper_world(rng), rng.uniform(1.05, 2.0)))
        rounds = []
        for power_w in np.geomspace(problem.power_min_w.min(), problem.power_max_w.max(), 300):
            try:
                rounds.append(allocate(with_common_power(problem, power_w), "sao").round_s)
            except Infeasible:
                continue
        best = allocate(problem, "sao-common-power").round_s
        assert best <= min(rounds) * (1 + 1e-12)
        assert best == pytest.approx(min(rounds), rel=1e-3)


@pytest.mark.slow
def test_algorithm6_is_near_but_never_better() -> None:
    rng = np.random.default_rng(4)
    lost = []
    for _ in range(20):
        problem = replace(paper_world(rng, budget_j=0.03), power_min_w=0.01, power_max_w=10 ** (2.3 - 3))
        try:
            common = allocate(problem, "sao-common-power").round_s
        except Infeasible:
            continue
        lost.append(allocate(problem, "algorithm6").round_s / common - 1)
    assert min(lost) > -1e-9
    assert np.median(lost) < 0.02


def test_without_a_range_the_power_stays() -> None:
    problem = paper_world(np.random.default_rng(5), budget_j=0.04)
    expected = allocate(problem, "sao").round_s
    for method in ("sao-common-power", "sao-joint"):
        plan = allocate(problem, method)
        assert plan.power_w.tolist() == problem.power_w.tolist()
        assert plan.round_s == pytest.approx(expected, rel=1e-12)
    assert allocate(problem, "algorithm6").power_w.tolist() == problem.power_w.tolist()


def test_less_power_can_save_a_budget() -> None:
    problem = with_budgets(paper_world(np.random.default_rng(6)), 0.9)
    with pytest.raises(Infeasible):
        allocate(problem, "sao")
    for method in ("sao-common-power", "sao-joint", "algorithm6"):
        check_constraints(problem, allocate(ranged(problem), method))
    with pytest.raises(Infeasible):
        allocate(ranged(problem, low=0.95), "sao-joint")


def test_algorithm6_ends_for_any_tolerance() -> None:
    problem = ranged(with_budgets(paper_world(np.random.default_rng(2), 4), 2.0))
    fine, finer = (allocate(problem, "algorithm6", tolerance=tolerance) for tolerance in (1e-12, 1e-300))
    assert finer.round_s == pytest.approx(fine.round_s, rel=1e-6)


def test_the_best_common_power_among_several_minima() -> None:
    """Where ranges differ, the round over the power can fall and rise more than once."""
    rng = np.random.default_rng(1)
    several = 0
    for _ in range(20):
        problem = with_budgets(paper_world(rng, int(rng.integers(2, 9))), rng.uniform(1.05, 3.0))
        middle = problem.power_w * 10 ** rng.uniform(-1, 1, len(problem))
        problem = replace(problem, power_min_w=middle * 10 ** -rng.uniform(0, 1, len(problem)),
                          power_max_w=middle * 10 ** rng.uniform(0, 1, len(problem)))
        rounds = rounds_over_power(problem, 150)
        if min(rounds) == 1e9:
            continue
        falls = np.diff(rounds) < 0
        if (falls[1:] & ~falls[:-1]).any() and falls[0]:
            several += 1
            rounds += rounds_over_power(problem, 400)      # a closer look where there is more than one to find
        assert allocate(problem, "sao-common-power").round_s <= min(rounds) * (1 + 1e-9)
    assert several >= 2


def rounds_over_power(problem: Problem, count: int) -> list[float]:
    """The round of `sao` at each of so many common powers; 1e9 where there is no plan."""
    rounds = []
    for power_w in np.geomspace(problem.power_min_w.min(), problem.power_max_w.max(), count):
        try:
            rounds.append(allocate(with_common_power(problem, power_w), "sao").round_s)
        except Infeasible:
            rounds.append(1e9)
    return rounds
