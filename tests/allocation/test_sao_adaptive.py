"""Bands that change in time: the best shares in given windows, good starts, and bounds that nothing undercuts."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world, with_budgets
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds_in_time import SOLO, TWO_ALIKE, UNEQUAL, UNEQUAL_OPTIMUM, waiting

from netsim.allocation import Problem, allocate
from netsim.allocation.equal_finish import equal_finish
from netsim.allocation.sao_adaptive import StartSearch, price_bound, replayed
from netsim.allocation.tdma import SingleDevice, single_device_bound
from netsim.allocation.upload_windows import divide
from netsim.physics import fdma_rate

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(("problem", "fixed", "common", "best"), [
    (SOLO, 2.0, 2.0, 2.0), (TWO_ALIKE, 2.289121, 2.289121, 2.289121),
    (UNEQUAL, 2.753429, 2.5498016, 2.310838),              # 2.54980155 with 30 digits
    (UNEQUAL_OPTIMUM, 2.331850, 2.331850, 2.246875),
], ids=["solo", "two alike", "unequal work", "unequal optimum"])
def test_examples_by_hand_and_by_brute_force(problem: Problem, fixed: float, common: float, best: float) -> None:
    sao, plan = allocate(problem, "sao"), allocate(problem, "sao-adaptive")
    assert sao.round_s == pytest.approx(fixed, abs=5e-7)
    assert replayed(problem, sao).round_s == pytest.approx(common, abs=5e-7)
    assert best * (1 - 2e-7) <= plan.round_s <= best * (1 + 2e-6)
    check_constraints(problem, plan)
    bound = price_bound(problem, plan)
    assert single_device_bound(problem) * (1 - 1e-9) <= bound <= plan.round_s


def test_the_windows_of_the_best_schedule_of_two() -> None:
    plan = allocate(UNEQUAL, "sao-adaptive")
    assert plan.start_s == pytest.approx([0.563796, 1.230891], abs=5e-4)
    assert plan.end_s == pytest.approx([1.604730, 2.310838], abs=2e-3)
    assert 2.25 < price_bound(UNEQUAL, plan) < 2.2809 * (1 + 1e-4)      # the best of such bounds, found by hand


def random_windows(seed: int, size: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    opens = rng.uniform(0, 2, size)
    return rng.uniform(0.5, 3, size), 10 ** rng.uniform(-1, 3, size), opens, opens + rng.uniform(0.5, 3, size)


@pytest.mark.parametrize(("seed", "size"), [(1, 2), (2, 3), (3, 5)])
def test_the_best_shares_agree_with_cvxpy(seed: int, size: int) -> None:
    bits, snr, opens, closes = random_windows(seed, size)
    found = divide(bits, snr, opens, closes, 1e-10)
    lasts, there = np.diff(found.edges_s), found.open
    share, theta = cp.Variable(there.shape, nonneg=True), cp.Variable()
    sent = [sum(lasts[k] * -cp.rel_entr(share[k, n], share[k, n] + snr[n]) / np.log(2)
                for k in range(len(lasts)) if there[k, n]) for n in range(size)]
    limits = [cp.sum(share, axis=1) <= 1, cp.multiply(share, ~there) == 0]
    cp.Problem(cp.Maximize(theta), [*limits, *(sent[n] >= theta * bits[n] for n in range(size))]).solve(cp.CLARABEL)
    assert found.ratio.min() == pytest.approx(float(theta.value), rel=1e-6)
    assert found.share.sum(axis=1)[there.any(axis=1)] == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_slope_by_the_starts_is_that_of_differences(seed: int) -> None:
    problem = with_budgets(paper_world(np.random.default_rng(seed), 4), 1.5)
    search = StartSearch(problem, SingleDevice.of(problem))
    round_s = allocate(problem, "sao").round_s
    first, last = search.alone.ready_s, search.latest(round_s)
    starts = first + (last - first) * np.random.default_rng(seed).uniform(0.3, 0.7, 4)
    slope = search.slope(starts, round_s, search.divided(starts, round_s, 1e-6))
    step = 1e-6 * round_s
    values = [[search.divided(starts + sign * step * np.eye(4)[n], round_s, 1e-6).value for sign in (1, -1)]
              for n in range(4)]
    assert slope == pytest.approx([(more - less) / (2 * step) for more, less in values], rel=1e-3, abs=1e-3)


def test_brute_force_over_the_starts_of_two_finds_nothing_shorter() -> None:
    problem = with_budgets(paper_world(np.random.default_rng(5), 2), 1.3)
    plan = allocate(problem, "sao-adaptive")
    search = StartSearch(problem, SingleDevice.of(problem))
    round_s = plan.round_s * (1 - 2e-5)
    first, last = search.alone.ready_s, search.latest(round_s)
    most = 0.0
    for a in np.linspace(0, 1, 15):
        for b in np.linspace(0, 1, 15):
            most = max(most, float(search.divided(first + (last - first) * [a, b], round_s, 1e-8).ratio.min()))
    assert most < 1.0


@pytest.mark.slow
@settings(deadline=None, max_examples=8, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 4), st.floats(1.05, 3.0), st.floats(0.2, 8.0))
@pytest.mark.slow
def test_solo_bound_price_bound_best_and_the_better_of_two(seed: int, size: int, room: float, heavy: float) -> None:
    problem = paper_world(np.random.default_rng(seed), size)
    problem = with_budgets(replace(problem, bits=problem.bits * heavy), room)
    best, tdma, sao = (allocate(problem, method) for method in ("sao-adaptive", "tdma", "sao"))
    common = replayed(problem, sao)
    bound = price_bound(problem, best)
    hair = 1 + 1e-9
    assert single_device_bound(problem) <= bound * hair
    assert bound <= best.round_s * hair
    assert best.round_s <= min(tdma.round_s, common.round_s) * hair
    assert common.round_s <= sao.round_s * hair
    for plan in (best, tdma, common):
        check_constraints(problem, plan)


def test_without_a_search_it_is_the_better_of_two() -> None:
    plain = allocate(UNEQUAL, "sao-adaptive", search_up_to=1)
    assert plain.round_s == allocate(UNEQUAL, "tdma").round_s
    heavy = replace(TWO_ALIKE, cycles=1e7)
    assert allocate(heavy, "sao-adaptive", search_up_to=0).round_s < allocate(heavy, "tdma").round_s


def test_with_power_in_proportion_to_the_band_every_division_ends_like_tdma() -> None:
    """Constant power density: rates are linear, and no division that leaves no band idle is sooner or later."""
    rng = np.random.default_rng(1)
    ready, bits, efficiency = rng.uniform(0, 2, 6), rng.uniform(0.5, 2, 6), rng.uniform(1, 3, 6)
    takes = bits / efficiency
    order = np.argsort(ready)
    turns = max(ready[order][k] + takes[order][k:].sum() for k in range(6))
    now, left = 0.0, bits.copy()
    while (left > 1e-12).any():
        active = (ready <= now + 1e-15) & (left > 1e-12)
        rate = np.where(active, efficiency / max(active.sum(), 1), 0.0)
        coming = ready[ready > now + 1e-15]
        ends = left[active] / rate[active]
        step = min([*(coming - now), *ends])
        left, now = left - rate * step, now + step
    assert now == pytest.approx(turns)


def test_a_common_end_within_budgets() -> None:
    bits, snr = np.array([1e6, 2e6, 1e6]), np.array([5e6, 1e7, 1e5])
    free = equal_finish(waiting(bits, snr, np.full(3, np.nan), 1e6))
    assert free.sum() == pytest.approx(1e6)
    ends = bits / fdma_rate(free, snr)
    assert ends == pytest.approx([ends[0]] * 3)
    tight = equal_finish(waiting(bits, snr, np.array([0.9 * ends[0], np.nan, np.nan]), 1e6))
    sooner = bits / fdma_rate(tight, snr)
    assert sooner[0] == pytest.approx(0.9 * ends[0])
    assert sooner[1] == pytest.approx(sooner[2])
    assert sooner[1] > ends[1]
    hopeless = equal_finish(waiting(bits, snr, np.array([1e-9, np.nan, np.nan]),
                                    1e6))      # not even with the whole band
    assert hopeless == pytest.approx(free)


@given(st.integers(0, 2**32 - 1))
def test_all_who_send_end_together_but_for_those_whom_their_budgets_hurry(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, hertz = int(rng.integers(1, 12)), float(10 ** rng.uniform(5, 7.5))
    bits, snr = 448e3 * rng.uniform(1e-3, 1, size), 10 ** rng.uniform(5, 10, size)
    free = equal_finish(waiting(bits, snr, np.full(size, np.nan), hertz))
    end = (bits / fdma_rate(free, snr)).max()
    left = np.where(rng.random(size) < 0.5, np.nan, end * rng.uniform(0.99, 1.2, size))      # all can be kept, or none
    ends = bits / fdma_rate(equal_finish(waiting(bits, snr, left, hertz)), snr)
    assert free.sum() == pytest.approx(hertz, rel=1e-14)
    assert bits / fdma_rate(free, snr) == pytest.approx(np.full(size, end), rel=1e-10)
    hurried = ends < ends.max() * (1 - 1e-9)
    assert ends[hurried] == pytest.approx(left[hurried], rel=1e-9)
    assert ends.max() >= end * (1 - 1e-10)


@pytest.mark.parametrize("room", [1.1, 2.0, 100.0])
def test_uploads_that_end_together_leave_no_remainder_to_send(room: float) -> None:
    """A remainder of 1e-11 bit by rounding, with what is left of the band for it, once took 1e72 s."""
    for seed in range(30):
        problem = with_budgets(paper_world(np.random.default_rng(seed), 6), room)
        fixed = allocate(problem)
        assert replayed(problem, fixed).round_s <= fixed.round_s * (1 + 1e-9)


def test_windows_shorter_than_rounding_are_not_searched() -> None:
    problem = with_budgets(paper_world(np.random.default_rng(1), 3), 2.0)
    search = StartSearch(problem, SingleDevice.required(problem))
    assert search.shortest(np.full(3, 1e70), 1e72) is None


def test_a_large_cohort_has_a_plan_too() -> None:
    problem = with_budgets(paper_world(np.random.default_rng(2), 400), 2.0)
    plan = allocate(problem, "sao-adaptive")
    assert plan.round_s <= min(allocate(problem, "tdma").round_s, allocate(problem, "sao").round_s)
    assert price_bound(problem, plan) == single_device_bound(problem)
