"""One after the other with the whole band: by hand, against every order, and what it takes in energy."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world, with_budgets
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from worlds_in_time import SOLO, TWO_ALIKE, UNEQUAL, UNEQUAL_OPTIMUM

from netsim import load_scenario
from netsim.allocation import Infeasible, Problem, Shannon, allocate
from netsim.allocation.tdma import SingleDevice, single_device_bound
from netsim.sample_problem import sample_problem


def test_a_device_alone_takes_two_seconds() -> None:
    """A second on the air takes .2 of 1.2 J; with the rest 1e9 cycles run at 1 GHz."""
    plan = allocate(SOLO, "tdma")
    assert (plan.round_s, plan.upload_s[0], plan.cpu_hz[0]) == (
        pytest.approx(2.0, rel=1e-12), pytest.approx(1.0), pytest.approx(1e9))
    assert single_device_bound(SOLO) == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize(("problem", "round_s"), [(TWO_ALIKE, 3.0), (UNEQUAL, 2.339147), (UNEQUAL_OPTIMUM, 2.258617)])
def test_examples_worked_out_by_hand(problem: Problem, round_s: float) -> None:
    plan = allocate(problem, "tdma")
    assert plan.round_s == pytest.approx(round_s, abs=1e-6)
    check_constraints(problem, plan)


def test_of_two_alike_the_second_has_time_to_compute() -> None:
    plan = allocate(UNEQUAL_OPTIMUM, "tdma")
    assert plan.upload_s == pytest.approx([0.601973] * 2, abs=5e-7)
    assert plan.start_s == pytest.approx([1.054671, 1.656644], abs=5e-7)
    assert plan.device_energy_j[0] == pytest.approx(1.2)
    assert plan.device_energy_j[1] < 0.7


def test_layout_0_of_the_paper() -> None:
    problem = sample_problem(load_scenario("paper"), 0).problem
    plan, fixed = allocate(problem, "tdma"), allocate(problem, "sao")
    assert (1e3 * fixed.round_s, 1e3 * fixed.energy_j) == (pytest.approx(128.154, abs=5e-4),
                                                           pytest.approx(248.374, abs=5e-4))
    assert (1e3 * plan.round_s, 1e3 * plan.energy_j) == (pytest.approx(124.167, abs=5e-4),
                                                         pytest.approx(119.217, abs=5e-4))
    assert np.argsort(plan.start_s).tolist() == [3, 8, 5, 2, 4, 9, 7, 0, 6, 1]
    last = int(np.argmax(plan.start_s))
    assert 1e3 * plan.start_s[last] == pytest.approx(121.283, abs=5e-4)
    assert plan.cpu_hz[last] == pytest.approx(1.1935e9, abs=5e4)
    assert 1e3 * plan.device_energy_j[last] == pytest.approx(21.194, abs=5e-4)
    assert plan.device_energy_j[last] == pytest.approx(problem.budget_j[last])
    assert single_device_bound(problem) == pytest.approx(plan.round_s, rel=1e-12)      # nothing is shorter
    assert allocate(problem, "sao-adaptive").energy_j == plan.energy_j


@pytest.mark.slow
@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 5), st.floats(1.05, 5.0), st.just(0.0) | st.floats(1e-9, 0.01))
def test_no_order_is_shorter_and_no_energy_is_wasted(seed: int, size: int, room: float, guard: float) -> None:
    problem = with_budgets(paper_world(np.random.default_rng(seed), size), room)
    alone = SingleDevice.of(problem)
    plan = allocate(problem, "tdma", guard=guard)
    ends = []
    for order in itertools.permutations(range(size)):
        now = -guard
        for n in order:
            now = max(now + guard, float(alone.ready_s[n])) + float(alone.air_s[n])
        ends.append(now)
    assert plan.round_s == pytest.approx(min(ends), rel=1e-12)
    assert (plan.device_energy_j <= problem.budget_j * (1 + 1e-9)).all()
    waits = plan.start_s - plan.compute_s
    assert ((waits <= 1e-12) | (plan.cpu_hz <= problem.cpu_min_hz * (1 + 1e-12))).all()      # else it could be slower


def test_silence_between_devices() -> None:
    plan = allocate(TWO_ALIKE, "tdma", guard="100 ms")
    assert plan.round_s == pytest.approx(3.1)
    assert plan.start_s == pytest.approx([1.0, 2.1])
    with refused("out-of-range", "allocation.guard"):
        allocate(TWO_ALIKE, "tdma", guard="-1 ms")


def test_a_rate_that_is_capped() -> None:
    alone = SingleDevice.of(replace(UNEQUAL, link=Shannon(cap=2.0)))
    assert alone.air_s == pytest.approx([3.0, 3.0])            # 6 Mbit at 2 bit/s/Hz in 1 MHz
    assert np.isinf(alone.ready_s).all()                       # which 1.2 J do not pay for


def test_who_cannot_even_alone_is_named() -> None:
    poor = replace(TWO_ALIKE, budget_j=np.array([1.2, 0.15]))
    with pytest.raises(Infeasible, match=r"^device 1: budget below the least possible energy .* even with the whole"):
        allocate(poor, "tdma")
    with pytest.raises(Infeasible, match="device 1"):
        allocate(poor, "sao-adaptive")
