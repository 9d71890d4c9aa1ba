"""Shadow prices against finite differences of the optimum, for every limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from allocation_worlds import paper_world, with_budgets

from netsim.allocation import Infeasible, Problem, allocate
from netsim.allocation.prices import Prices, prices_of, savings, shadow_prices

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


def elasticity(prices: Prices, problem: Problem, round_s: float, name: str, n: int | None) -> float:
    """The price as per cent of the round for each per cent of the limit."""
    price = prices.bandwidth_s_per_hz if n is None else getattr(prices, LIMITS[name])[n]
    return float(price * (problem.bandwidth_hz if n is None else getattr(problem, name)[n]) / round_s)


@pytest.mark.parametrize("seed", range(4))
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
