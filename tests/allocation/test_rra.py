"""`rra`: its relaxed problem against CVXPY and against the published iteration, and what a plan of it does."""

from __future__ import annotations

import math
from dataclasses import replace

import allocation_reference as reference
import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world
from refused import refused

from netsim.allocation import Infeasible, Problem, allocate
from netsim.allocation.infeasibility import largest_feasible
from netsim.allocation.rra import rra_alternation, rra_shares


def world(rng: np.random.Generator, size: int) -> Problem:
    problem = paper_world(rng, size)
    return replace(problem, gain=np.minimum(problem.gain, 1e-9), bandwidth_hz=rng.uniform(0.1, 2.0) * 1e6 * size)


@pytest.mark.slow
def test_the_relaxed_problem_agrees_with_cvxpy() -> None:
    rng = np.random.default_rng(4)
    partly = 0
    for _ in range(60):
        problem = world(rng, int(rng.integers(1, 25)))
        deadline_s, weight = rng.uniform(0.09, 0.4), 10 ** rng.uniform(-4.5, -1)
        shares = rra_shares(problem, deadline_s, weight)
        expected = reference.rra(problem, deadline_s, weight)
        assert shares.objective == pytest.approx(expected, rel=1e-6, abs=1e-6 * weight)
        partly += 0 < shares.beta.sum() < len(problem)
    assert partly >= 10


@pytest.mark.slow
def test_the_published_iteration_goes_to_the_same_choice() -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        problem = world(rng, 12)
        deadline_s, weight = rng.uniform(0.09, 0.4), 10 ** rng.uniform(-4, -1)
        beta = np.ones(len(problem))
        for _ in range(400):
            beta = rra_alternation(problem, deadline_s, weight, beta)
        np.testing.assert_allclose(beta, rra_shares(problem, deadline_s, weight).beta, atol=0.1)


def test_two_equal_devices_share_alike() -> None:
    # A deadline of 1 s, no computing, 2 Mbit each in half of 2 MHz: 2 bits a symbol, a ratio of 3 at the receiver
    problem = Problem(bits=[2e6, 2e6], cycles=0.0, capacitance=1e-28, gain=1e-13, power_w=0.1, budget_j=1.0,
                      cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=2e6, noise_w_per_hz=4e-21)
    plan = allocate(problem, "rra", deadline=1.0)
    assert plan.bandwidth_hz == pytest.approx([1e6, 1e6])
    assert plan.power_w == pytest.approx([3 * 4e-21 * 1e6 / 1e-13] * 2)
    assert plan.round_s == pytest.approx(1.0)


def test_everyone_ends_at_the_deadline() -> None:
    problem = world(np.random.default_rng(6), 10)
    plan = allocate(problem, "rra", deadline=0.2)
    check_constraints(problem, plan, budgets=False)
    assert plan.compute_s + plan.upload_s == pytest.approx(np.full(10, 0.2), rel=1e-12)
    assert plan.cpu_hz.tolist() == problem.cpu_max_hz.tolist()


def test_without_a_deadline_it_takes_that_of_sao() -> None:
    problem = paper_world(np.random.default_rng(7), 10, budget_j=0.05)
    assert allocate(problem, "rra").round_s == pytest.approx(allocate(problem, "sao").round_s, rel=1e-9)


def test_names_those_it_leaves_out_and_keeps_the_rest() -> None:
    rng = np.random.default_rng(8)
    left_out = 0
    for _ in range(20):
        problem = world(rng, 10)
        options = {"deadline": float(rng.uniform(0.04, 0.2)), "weight": float(10 ** rng.uniform(-4, -1))}
        selected = rra_shares(problem, options["deadline"], options["weight"]).selected
        if selected.all():
            continue
        with pytest.raises(Infeasible, match="left out by rra") as caught:
            allocate(problem, "rra", **options)
        assert caught.value.devices == tuple(np.flatnonzero(~selected))
        kept = largest_feasible(problem, "rra", **options)
        assert kept.tolist() == np.flatnonzero(selected).tolist()
        if len(kept):
            allocate(problem.subset(kept), "rra", **options)
        left_out += 1
    assert left_out >= 10


def test_a_deadline_before_anyone_is_done_selects_nobody() -> None:
    problem = world(np.random.default_rng(9), 5)
    shares = rra_shares(problem, 1e-3, math.inf)
    assert not shares.selected.any()
    assert shares.gamma.tolist() == [0.0] * 5
    assert shares.objective == 0.0


@pytest.mark.parametrize(("name", "value", "code"), [
    ("deadline", 0, "out-of-range"), ("deadline", "soon", "malformed"), ("weight", -1, "out-of-range"),
    ("weight", math.nan, "wrong-unit")])
def test_bad_options(name: str, value: object, code: str) -> None:
    with refused(code, f"allocation.{name}"):
        allocate(world(np.random.default_rng(1), 3), "rra", **{name: value})
