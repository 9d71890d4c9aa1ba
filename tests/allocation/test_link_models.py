"""Plans over links with efficiency and cap, and in steps, against other ways to the optimum."""

from dataclasses import replace

import numpy as np
import pytest
from allocation_reference import sao as by_cvxpy
from allocation_worlds import check_constraints, paper_world, with_budgets
from levels import extended
from link_reference import REAL, Steps, random_problem, shortest_in_steps, shortest_round
from refused import refused
from worlds_in_time import waiting

from netsim.allocation import METHODS, Infeasible, Problem, Shannon, allocate
from netsim.allocation.equal_finish import equal_finish
from netsim.allocation.infeasibility import budget_scaling, find_infeasibility, largest_feasible
from netsim.allocation.sensitivities import prices_of
from netsim.allocation.tdma import SingleDevice
from netsim.physics import best_hz


def strong_and_weak(seed: int, size: int = 6, link=REAL) -> Problem:
    """Half of the devices so near to the mast that the cap binds."""
    problem = replace(paper_world(np.random.default_rng(seed), size), link=link)
    return with_budgets(replace(problem, gain=np.where(np.arange(size) % 2, 1e-7, 1e-12)), 4 / 3)


@pytest.mark.parametrize("link", [Shannon(), Shannon(0.5), Shannon(cap=3.0), REAL, Steps()])
def test_bandwidth_is_the_inverse_of_the_rate(link):
    snr_hz = np.geomspace(1e3, 1e12, 40)[:, None]
    hz = np.geomspace(1e2, 1e8, 300)
    most = np.maximum.accumulate(link.rate(hz, snr_hz), axis=1)
    need = link.bandwidth(most, snr_hz)
    assert (np.diff(need, axis=1) >= 0).all()
    assert (need <= hz * (1 + 1e-9)).all()
    np.testing.assert_allclose(link.rate(need, snr_hz), most, rtol=1e-9)


def test_no_bandwidth_is_enough_beyond_shannons_limit():
    assert REAL.bandwidth(1e9, 1e6) == np.inf
    assert Steps().bandwidth(1e9, 1e6) == np.inf


def compared(number: int) -> float:
    problem = random_problem(number, REAL)
    plan = allocate(problem, "sao")
    check_constraints(problem, plan)
    return abs(plan.round_s / shortest_round(problem, REAL.efficiency, REAL.cap) - 1)


@pytest.mark.parametrize("number", range(12))
def test_sao_is_the_optimum_with_efficiency_and_cap(number):
    assert compared(number) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("problems", [range(12, 40), *extended([range(40, 200)])])
def test_sao_is_the_optimum_on_200_random_problems(problems):
    missed = [compared(number) for number in problems]
    print(f"largest deviation {max(missed):.2g}")
    assert max(missed) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_sao_with_a_cap_against_cvxpy(seed):
    problem = strong_and_weak(seed, size=8)
    assert allocate(problem).round_s == pytest.approx(by_cvxpy(problem), rel=1e-5)


def test_a_cap_that_binds_nowhere_changes_nothing():
    problem = replace(strong_and_weak(1, link=Shannon()), budget_j=1.0)
    capped = replace(problem, link=Shannon(cap=1e3))
    for method in ("sao", "equal", "tdma"):
        assert allocate(capped, method).round_s == pytest.approx(allocate(problem, method).round_s, rel=1e-12)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "algorithm6"])
def test_half_the_efficiency_is_twice_the_bits(method):
    problem = strong_and_weak(2, size=4, link=Shannon())
    half = replace(problem, link=Shannon(0.5), budget_j=problem.budget_j * 3)
    twice = replace(problem, bits=problem.bits * 2, budget_j=problem.budget_j * 3)
    assert allocate(half, method).round_s == pytest.approx(allocate(twice, method).round_s, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_no_method_undercuts_the_optimum_or_the_solo_bound(seed):
    problem = strong_and_weak(seed)
    best = allocate(problem)
    check_constraints(problem, best)
    assert np.log1p(problem.snr_hz / best.bandwidth_hz).max() > REAL.most_nats      # the cap binds
    bound = SingleDevice.of(problem).bound_s
    for method in ("algorithm5", "sao-common-power"):
        assert allocate(problem, method).round_s >= best.round_s * (1 - 1e-9)
    for method in ("tdma", "sao-adaptive"):
        plan = allocate(problem, method)
        assert bound * (1 - 1e-9) <= plan.round_s
        assert not plan.over_budget.any()
    assert allocate(problem, "sao-adaptive").round_s <= allocate(problem, "tdma").round_s


def test_sao_is_never_behind_equal():
    for seed in range(30):
        problem = replace(strong_and_weak(seed), budget_j=1.0)
        for link in (REAL, Steps()):
            posed = replace(problem, link=link)
            assert allocate(posed, "sao").round_s <= allocate(posed, "equal").round_s * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_steps_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    problem = replace(paper_world(rng, 3), link=Steps(), bandwidth_hz=10 ** rng.uniform(5.5, 7.5),
                      gain=10 ** rng.uniform(-13, -9, 3), budget_j=rng.uniform(0.05, 2.0, 3))
    best = shortest_in_steps(problem, Steps())
    if best == np.inf:
        with pytest.raises(Infeasible):
            allocate(problem)
    else:
        plan = allocate(problem)
        assert plan.round_s == pytest.approx(best, rel=1e-9)
        check_constraints(problem, plan)


def test_what_is_infeasible_in_steps_is_diagnosed():
    problem = replace(paper_world(np.random.default_rng(3), 4), link=Steps(), gain=1e-11, budget_j=0.006)
    with pytest.raises(Infeasible):
        allocate(problem)
    more = replace(problem, budget_j=problem.budget_j * budget_scaling(problem) * (1 + 1e-9))
    assert allocate(more).round_s > 0
    assert len(largest_feasible(problem)) == len(find_infeasibility(problem).cohort)


def test_less_band_may_carry_more():
    snr_hz, link = np.array([1e6, 1e7]), Steps()
    hz = best_hz(link, 10e6, snr_hz)
    tried = np.linspace(1e3, 10e6, 200_001)
    np.testing.assert_allclose(link.rate(hz, snr_hz), [link.rate(tried, snr).max() for snr in snr_hz], rtol=1e-3)
    assert (link.rate(hz, snr_hz) >= link.rate(np.full(2, 10e6), snr_hz)).all()
    assert allocate(replace(strong_and_weak(1), link=link, budget_j=10.0), "tdma").round_s > 0


@pytest.mark.parametrize("link", [REAL, Steps()])
def test_all_who_send_end_together(link):
    bits, snr_hz = np.array([1e5, 3e5, 2e5]), np.array([1e7, 1e9, 1e5])
    hz = equal_finish(waiting(bits, snr_hz, np.full(3, np.nan), 1e6, link))
    ends = bits / link.rate(hz, snr_hz)
    assert hz.sum() <= 1e6 * (1 + 1e-12)
    if link is REAL:
        assert ends == pytest.approx(np.full(3, ends[0]), rel=1e-9)
    assert ends.max() <= (bits / link.rate(np.full(3, 1e6 / 3), snr_hz)).max()


def test_prices_with_a_cap_are_differences_of_rounds():
    problem = strong_and_weak(4)
    for method in ("sao", "equal"):
        plan = allocate(problem, method)
        prices = prices_of(problem, plan, method)
        wider = allocate(replace(problem, bandwidth_hz=problem.bandwidth_hz * (1 + 1e-7)), method)
        assert (wider.round_s - plan.round_s) / (1e-7 * problem.bandwidth_hz) == pytest.approx(
            prices.bandwidth_s_per_hz, rel=1e-4)
        n = int(np.argmin(prices.budget_s_per_j))
        richer = problem.budget_j * (1 + 1e-7 * (np.arange(len(problem)) == n))
        gained = allocate(replace(problem, budget_j=richer), method).round_s - plan.round_s
        assert gained / (1e-7 * problem.budget_j[n]) == pytest.approx(prices.budget_s_per_j[n], rel=1e-4)
    assert prices_of(replace(problem, link=Steps()), plan) is None


@pytest.mark.parametrize(("method", "link"), [
    ("fedl", REAL), ("rra", REAL), ("sao-joint", REAL), ("fedl", Steps()), ("rra", Steps()), ("sao-joint", Steps()),
    ("sao-adaptive", Steps()), ("algorithm5", Steps()), ("algorithm6", Steps()), ("sao-common-power", Steps())])
def test_a_method_that_is_not_right_for_a_link_says_so(method, link):
    with refused("unsupported", "method"):
        allocate(strong_and_weak(1, link=link), method)


def test_a_link_needs_both_directions():
    with refused("wrong-interface", "link"):
        strong_and_weak(1, link=object())
