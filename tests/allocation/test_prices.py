"""Shadow prices against finite differences of the optimum, for every limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from allocation_worlds import paper_world, with_budgets
from levels import extended

from netsim.allocation import Infeasible, Problem, allocate
from netsim.allocation.plan import plan_for
from netsim.allocation.planner import RoundPlan, planner_of
from netsim.allocation.sensitivities import ShadowPrices, prices_of, savings, shadow_prices

pytestmark = pytest.mark.slow

LIMITS = {"budget_j": "budget_s_per_j", "cpu_max_hz": "cpu_max_s_per_hz", "cpu_min_hz": "cpu_min_s_per_hz",
          "power_w": "power_s_per_w"}


def random_problem(rng: np.random.Generator, size: int = 6) -> Problem:
    """Some devices at the top of their CPU's range, some at its end, some between."""
    problem = replace(paper_world(rng, size), budget_j=0.03 * rng.choice([1, 10], size),
                      cpu_min_hz=rng.choice([0.2e9, 0.8e9], size))
    return with_budgets(problem, 1.02 + rng.exponential(0.5))


def raised(problem: Problem, name: str, n: int | None, factor: float) -> float:
    """The round with this much of one limit of device n, or of the cell."""
    values = getattr(problem, name)
    changed = values * factor if n is None else np.where(np.arange(len(problem)) == n, values * factor, values)
    more = {} if name != "cpu_max_hz" else {"cpu_min_hz": np.minimum(problem.cpu_min_hz, changed)}
    return allocate(replace(problem, **{name: changed}, **more)).round_s


def elasticity(prices: ShadowPrices, problem: Problem, round_s: float, name: str, n: int | None) -> float:
    """The price as per cent of the round for each per cent of the limit."""
    price = prices.bandwidth_s_per_hz if n is None else getattr(prices, LIMITS[name])[n]
    return float(price * (problem.bandwidth_hz if n is None else getattr(problem, name)[n]) / round_s)


@pytest.mark.parametrize("seed", [0, *extended(range(1, 4))])
def test_prices_are_the_slopes_of_the_optimum(seed: int) -> None:
    """50 problems a seed; a limit whose slopes to both sides differ is at a kink, and looked at below."""
    rng = np.random.default_rng(seed)
    seen = dict.fromkeys((*LIMITS, "bandwidth_hz"), 0)
    for _ in range(50):
        problem = random_problem(rng)
        round_s = allocate(problem).round_s
        prices = shadow_prices(problem, allocate(problem))
        places = [(name, n) for name in LIMITS for n in range(len(problem))]
        for name, n in [("bandwidth_hz", None), *places]:
            step = 2e-5
            try:
                up, down = raised(problem, name, n, 1 + step), raised(problem, name, n, 1 - step)
            except Infeasible:
                continue
            after, before, both = ((up - round_s) / step, (round_s - down) / step, (up - down) / (2 * step))
            if abs(after - before) > 1e-2 * abs(both) + 1e-9 * round_s:
                continue
            found = elasticity(prices, problem, round_s, name, n)
            assert found == pytest.approx(both / round_s, rel=1e-4, abs=1e-9), (name, n)
            seen[name] += found != 0.0
    assert min(seen.values()) >= 10, seen


def test_at_a_kink_they_tell_of_a_little_more() -> None:
    """A CPU's range ends where the optimum wants to be: one more hertz of it is of no use, one less would hurt."""
    rng = np.random.default_rng(9)
    kinks = 0
    for _ in range(40):
        problem = random_problem(rng)
        plan = allocate(problem)
        inside = (plan.cpu_hz > problem.cpu_min_hz * 1.01) & (plan.cpu_hz < problem.cpu_max_hz * 0.99)
        for n in np.flatnonzero(inside)[:2]:
            for end in ("cpu_max_hz", "cpu_min_hz"):
                there = replace(problem, **{end: np.where(np.arange(6) == n, plan.cpu_hz, getattr(problem, end))})
                round_s, prices = allocate(there).round_s, shadow_prices(there, allocate(there))
                for name in ("budget_j", end, "power_w"):
                    measured = (raised(there, name, n, 1 + 1e-7) - round_s) / (1e-7 * round_s)
                    found = elasticity(prices, there, round_s, name, n)
                    assert found == pytest.approx(measured, rel=1e-3, abs=1e-6), (end, name)
                measured = (raised(there, "bandwidth_hz", None, 1 + 1e-5) - round_s) / (1e-5 * round_s)
                assert elasticity(prices, there, round_s, "", None) == pytest.approx(measured, rel=1e-3)
                kinks += 1
    assert kinks >= 20


def test_batteries_and_budgets_share_the_price_of_energy() -> None:
    """200 problems: a little more or less in the battery, or of the budget, by plans that are told of both."""
    rng, step = np.random.default_rng(21), 2e-5
    seen = {"budget": 0, "battery": 0}
    for _ in range(200):
        problem = random_problem(rng)
        charge_j = np.maximum(problem.budget_j * rng.choice([0.8, 0.97, 1.3], 6), 1.02 * least_j(problem))
        told = problem.with_energy(charge_j)
        try:
            plan = allocate(told)
        except Infeasible:
            continue
        prices = shadow_prices(told, plan).within_limits(problem.budget_j, charge_j, plan.round_s, np.inf)
        n = int(rng.integers(6))
        price = {"battery": prices.battery_s_per_j[n] * charge_j[n], "budget": prices.budget_s_per_j[n]
                 * problem.budget_j[n]}
        assert 0.0 in price.values()
        for name, found in price.items():
            rounds = []
            for factor in (1 + step, 1 - step):
                more = np.where(np.arange(6) == n, factor, 1.0)
                changed = (problem.with_energy(charge_j * more) if name == "battery" else
                           replace(problem, budget_j=problem.budget_j * more).with_energy(charge_j))
                rounds.append(allocate(changed).round_s)
            after, before = (rounds[0] - plan.round_s) / step, (plan.round_s - rounds[1]) / step
            if abs(after - before) <= 1e-2 * abs(after + before) / 2 + 1e-9 * plan.round_s:       # not at a kink
                assert found == pytest.approx((after + before) / 2, rel=1e-4, abs=1e-9 * plan.round_s), name
                seen[name] += found != 0.0
    assert min(seen.values()) >= 20, seen


def least_j(problem: Problem) -> np.ndarray:
    """What each device spends with a sixth of the band and its CPU at its slowest."""
    return plan_for(problem, np.full(6, problem.bandwidth_hz / 6), problem.cpu_min_hz).device_energy_j


def test_a_second_more_of_a_deadline_is_a_second_of_the_round_where_budgets_are_raised_to_keep_it() -> None:
    rng, seen = np.random.default_rng(3), 0
    for _ in range(40):
        problem = random_problem(rng)
        deadline_s = 0.9 * allocate(problem).round_s
        agenda = relaxed(problem, deadline_s)
        if len(agenda.devices) < 6 or len(relaxed(problem, deadline_s * 1.05).devices) < 6:
            continue
        wave, = agenda.waves
        own_j, endless = problem.budget_j * agenda.relaxed, np.full(6, np.inf)
        told = shadow_prices(wave.problem, wave.plan).within_limits(own_j, endless, wave.plan.round_s, deadline_s)
        longer_s = relaxed(problem, deadline_s * 1.05).waves[0].plan.round_s
        measured = (longer_s - wave.plan.round_s) / (0.05 * deadline_s)
        assert told.deadline_s_per_s == pytest.approx(measured, abs=1e-3)       # budgets are raised to within 1e-6
        seen += told.deadline_s_per_s == 1.0
        plan = allocate(problem)
        idle = shadow_prices(problem, plan).within_limits(problem.budget_j, endless, plan.round_s, 9.0)
        assert idle.deadline_s_per_s == 0.0
    assert seen >= 20


def relaxed(problem: Problem, deadline_s: float) -> RoundPlan:
    """The cohort with budgets raised until it keeps the deadline; whoever can't, whatever its budget, is left out."""
    planner = planner_of("sao", {}, deadline_s)(lambda some: problem.subset(some))
    return planner.agenda(np.arange(6), "relax", 6)


def with_range(problem: Problem) -> Problem:
    return replace(problem, power_min_w=problem.power_w * 0.7, power_max_w=problem.power_w * 1.4)


@pytest.mark.parametrize("method", ["equal", "sao-joint", "sao-common-power"])
def test_other_methods_have_prices_too(method: str) -> None:
    rng = np.random.default_rng(5)
    helped = dict.fromkeys((*LIMITS, "bandwidth_hz"), 0)
    for _ in range(8):
        problem = with_range(with_budgets(random_problem(rng, 4), 4.0 if method == "equal" else 1.5))
        plan = allocate(problem, method)
        prices = prices_of(problem, plan, method)
        assert prices is not None
        for name, n in [("bandwidth_hz", None), *((name, n) for name in LIMITS for n in range(4))]:
            field = name if name != "power_w" or method == "equal" else "power_max_w"
            values = getattr(problem, field)
            more = values * (1 + 1e-5) if n is None else np.where(np.arange(4) == n, values * (1 + 1e-5), values)
            try:
                after = allocate(replace(problem, **{field: more}), method).round_s
            except Infeasible:
                continue
            measured = (after - plan.round_s) / (1e-5 * plan.round_s)
            price = prices.bandwidth_s_per_hz if n is None else getattr(prices, LIMITS[name])[n]
            found = price * (values if n is None else values[n]) / plan.round_s
            assert found == pytest.approx(measured, rel=1e-3, abs=2e-5), (name, n)
            helped[name] += abs(found) > 1e-3
    assert helped["bandwidth_hz"] == 8
    assert helped["cpu_max_hz"] > 0


def test_a_method_without_prices_has_none() -> None:
    problem = random_problem(np.random.default_rng(1))
    assert prices_of(problem, allocate(problem), "fedl") is None
    assert prices_of(problem, allocate(problem), "mylab.own:method") is None


def test_a_device_at_its_maximum_has_no_use_for_energy() -> None:
    problem = Problem(bits=2e6, cycles=1e9, capacitance=1e-28, gain=[1.2e-13, 2.4e-13], power_w=0.1,
                      budget_j=[10.0, 0.25], cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=2e6, noise_w_per_hz=4e-21)
    plan = allocate(problem)
    prices = shadow_prices(problem, plan)
    assert plan.cpu_hz[0] == 1e9
    assert prices.budget_s_per_j[0] == 0.0
    assert prices.cpu_max_s_per_hz[0] < 0.0
    assert prices.bandwidth_s_per_hz < 0.0


def test_a_saving_is_that_of_the_change_itself() -> None:
    problem = random_problem(np.random.default_rng(3))
    plan = allocate(problem)
    prices = shadow_prices(problem, plan)
    found = {saving.change: saving.seconds for saving in savings(problem, plan, prices, "sao", {})}
    wider = allocate(replace(problem, bandwidth_hz=problem.bandwidth_hz + 1e6))
    assert found["1 MHz more"] == plan.round_s - wider.round_s
    assert len(found) >= 2
