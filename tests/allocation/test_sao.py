"""`sao` against CVXPY, against worlds worked out by hand, and at the extremes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import allocation_reference as reference
import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world, wild_world, with_budgets
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.allocation import Infeasible, Problem, allocate, sao
from netsim.allocation.normalized import NormalizedProblem


def clipped(problem: Problem, cpu_hz: np.ndarray) -> str:
    """At which end of their range the CPUs of a plan are."""
    low = bool(np.isclose(cpu_hz, problem.cpu_min_hz, rtol=1e-9).any())
    high = bool(np.isclose(cpu_hz, problem.cpu_max_hz, rtol=1e-9).any())
    return {(False, False): "neither", (True, False): "low", (False, True): "high", (True, True): "both"}[low, high]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "least"), [(60, 2), pytest.param(200, 5, marks=pytest.mark.extended)])
def test_agrees_with_cvxpy(count: int, least: int) -> None:
    rng = np.random.default_rng(7)
    seen: Counter[str] = Counter()
    for k in range(count):
        problem = paper_world(rng, int(rng.integers(1, 13)))
        spread = (1.0, rng.uniform(0.3, 3.0, len(problem)), rng.choice([1.0, 30.0], len(problem)))[k % 3]
        problem = replace(problem, gain=np.minimum(problem.gain, 1e-9), budget_j=problem.budget_j * spread)
        problem = with_budgets(problem, float(rng.choice([0.9, 0.99, 1.01, 1.05, 1.3, 2.0, 5.0])))
        expected = reference.sao(problem)
        try:
            plan = allocate(problem, "sao")
        except Infeasible:
            assert expected == np.inf
            seen["infeasible"] += 1
            continue
        assert plan.round_s == pytest.approx(expected, rel=1e-6)
        check_constraints(problem, plan)
        seen[clipped(problem, plan.cpu_hz)] += 1
    assert min(seen[kind] for kind in ("neither", "low", "high", "both", "infeasible")) >= least, seen


def test_both_ways_to_the_shortest_round_agree() -> None:
    """Shares that all end together, and needs that fill the band: where both are there, they are the same."""
    rng = np.random.default_rng(5)
    both = 0
    for _ in range(300):
        problem = with_budgets(wild_world(rng, int(rng.integers(1, 40))), float(rng.choice([1.05, 1.5, 10.0, 1e3])))
        devices, band_hz = NormalizedProblem.of(problem), problem.bandwidth_hz
        with np.errstate(all="ignore"):
            bracket = sao.Bracket.of(devices, band_hz)
            together = sao.ending_together(devices, band_hz, bracket) if bracket.sure else None
            searched = sao.search(devices, band_hz, bracket)
        if together is not None:
            both += 1
            assert together.round_s == pytest.approx(searched.round_s, rel=1e-9)
            assert together.bandwidth_hz == pytest.approx(searched.bandwidth_hz, rel=1e-7)
    assert both >= 60, both


@pytest.mark.slow
@settings(max_examples=1000, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 40),
       room=st.sampled_from([1 + 1e-9, 1.0001, 1.01, 1.5, 10.0, 1e3]))
def test_wild_problems_are_solved_within_their_constraints(seed: int, size: int, room: float) -> None:
    problem = with_budgets(wild_world(np.random.default_rng(seed), size), room)
    plan = allocate(problem)
    check_constraints(problem, plan)
    assert plan.bandwidth_used_hz == pytest.approx(problem.bandwidth_hz, rel=1e-14)      # the whole band
    ends = plan.compute_s + plan.upload_s
    early = ends < plan.round_s * (1 - 1e-6)
    assert (plan.cpu_hz[early] <= problem.cpu_min_hz[early] * (1 + 1e-9)).all()          # only idle CPUs end early


@pytest.mark.slow
@settings(max_examples=300, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 40))
def test_a_hair_below_feasible_is_refused(seed: int, size: int) -> None:
    problem = with_budgets(wild_world(np.random.default_rng(seed), size), 1 - 1e-9)
    with pytest.raises(Infeasible) as caught:
        allocate(problem)
    assert set(caught.value.devices) <= set(range(size))
    assert caught.value.devices


def test_one_device_worked_out_by_hand() -> None:
    # 1 MHz at a signal-to-noise ratio of 3 is 2 Mbit/s: 1 s of upload at 0.1 W. The budget of 0.3 J leaves 0.2 J for
    # computing 1 Gcycle at 1e-28 f^2 J a cycle: f = sqrt(0.2 / 1e-19) = 1.414 GHz, within its range.
    problem = Problem(bits=2e6, cycles=1e9, capacitance=1e-28, gain=1.2e-13, power_w=0.1, budget_j=0.3,
                      cpu_min_hz=1e8, cpu_max_hz=2e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    plan = allocate(problem)
    assert plan.cpu_hz[0] == pytest.approx(np.sqrt(2) * 1e9, rel=1e-12)
    assert plan.round_s == pytest.approx(1.0 + 1.0 / np.sqrt(2), rel=1e-12)
    assert plan.energy_j == pytest.approx(0.3, rel=1e-12)


def test_two_devices_worked_out_by_hand() -> None:
    # Ample budgets: both compute 1 s at cpu_max. Device 0 sends 2 Mbit in 1 MHz at ratio 3 (2 Mbit/s), device 1 sends
    # 3 Mbit in 1 MHz at ratio 7 (3 Mbit/s): both end after 2 s with 2 MHz in all.
    problem = Problem(bits=[2e6, 3e6], cycles=1e9, capacitance=1e-28, gain=[1.2e-13, 2.8e-13], power_w=0.1,
                      budget_j=10.0, cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=2e6, noise_w_per_hz=4e-21)
    plan = allocate(problem)
    assert plan.round_s == pytest.approx(2.0, rel=1e-12)
    assert plan.bandwidth_hz == pytest.approx([1e6, 1e6], rel=1e-12)
    assert plan.cpu_hz.tolist() == [1e9, 1e9]


def test_nothing_to_compute_is_a_matter_of_bandwidth_alone() -> None:
    problem = Problem(bits=[2e6, 3e6], cycles=0.0, capacitance=1e-28, gain=[1.2e-13, 2.8e-13], power_w=0.1,
                      budget_j=10.0, cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=2e6, noise_w_per_hz=4e-21)
    plan = allocate(problem)
    assert plan.round_s == pytest.approx(1.0, rel=1e-12)
    assert plan.compute_s.tolist() == [0.0, 0.0]


def test_ten_thousand_devices_with_gains_over_twelve_decades() -> None:
    problem = with_budgets(wild_world(np.random.default_rng(3), 10_000), 1.5)
    check_constraints(problem, allocate(problem))


def test_blocks_give_what_one_piece_gives() -> None:
    from netsim.allocation import normalized

    problem = paper_world(np.random.default_rng(5), 1000, budget_j=0.08)
    whole = allocate(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalized, "BLOCK", 64)
        pieces = allocate(problem)
    assert pieces.round_s == pytest.approx(whole.round_s, rel=1e-12)
    np.testing.assert_allclose(pieces.bandwidth_hz, whole.bandwidth_hz, rtol=1e-9)


def test_a_better_world_is_never_slower() -> None:
    rng = np.random.default_rng(11)
    for _ in range(50):
        problem = with_budgets(paper_world(rng), rng.uniform(1.01, 2))
        now = allocate(problem).round_s
        changes = {"bandwidth_hz": 1.1, "budget_j": 1.1, "gain": 1.1, "cpu_max_hz": 1.1, "bits": 0.9}
        for field, factor in changes.items():
            better = replace(problem, **{field: getattr(problem, field) * factor})
            assert allocate(better).round_s <= now * (1 + 1e-12)


@pytest.mark.parametrize("near", [1e-9, 1e-8, 1e-7, 1e-6])
def test_exact_where_a_cpu_is_just_about_at_its_fastest(near: float) -> None:
    """A last step over that bend must not be taken for a straight one: the band is filled to the last digits."""
    rng = np.random.default_rng(11)
    for _ in range(100):
        problem = with_budgets(paper_world(rng, int(rng.integers(2, 9))), 1.3)
        cpu_hz = allocate(problem, "sao").cpu_hz
        top = cpu_hz * (1.0 + near * rng.uniform(-1.0, 1.0, len(problem)))
        top = np.where(rng.random(len(problem)) < 0.5, top, problem.cpu_max_hz)
        problem = replace(problem, cpu_max_hz=np.maximum(top, problem.cpu_min_hz))
        devices = NormalizedProblem.of(problem)
        found = sao.shortest_round(devices, problem.bandwidth_hz, sao.Bracket.of(devices, problem.bandwidth_hz))
        need = sao.Need.at(found.round_s, devices)
        missed_hz = need.bandwidth_hz.sum() - problem.bandwidth_hz
        assert abs(missed_hz / need.slope.sum()) <= 1e-12 * found.round_s
