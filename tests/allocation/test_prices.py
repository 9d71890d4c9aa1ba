"""Shadow prices against finite differences of the optimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from allocation_worlds import paper_world, with_budgets

from netsim.allocation import Problem, allocate
from netsim.allocation.prices import shadow_prices


def difference(problem: Problem, change: float, **more: np.ndarray | float) -> float:
    """Central difference of the round when a field moves by ``more`` up and down."""
    up = replace(problem, **{name: getattr(problem, name) + step for name, step in more.items()})
    down = replace(problem, **{name: getattr(problem, name) - step for name, step in more.items()})
    return (allocate(up).round_s - allocate(down).round_s) / (2 * change)


def test_prices_are_the_slopes_of_the_optimum() -> None:
    rng = np.random.default_rng(1)
    zero = positive = 0
    for _ in range(15):
        problem = paper_world(rng, 6)
        problem = with_budgets(replace(problem, budget_j=0.03 * rng.choice([1, 10], 6)), rng.uniform(1.05, 3.0))
        prices = shadow_prices(problem, allocate(problem))
        step = 1e-5 * problem.bandwidth_hz
        measured = difference(problem, step, bandwidth_hz=step)
        assert prices.bandwidth_s_per_hz == pytest.approx(measured, rel=1e-4)
        for n in range(len(problem)):
            step = 1e-5 * problem.budget_j[n]
            measured = difference(problem, step, budget_j=step * (np.arange(len(problem)) == n))
            assert prices.budget_s_per_j[n] == pytest.approx(measured, rel=1e-3, abs=1e-6)
            zero += prices.budget_s_per_j[n] == 0.0
            positive += prices.budget_s_per_j[n] < 0.0
    assert zero >= 5
    assert positive >= 20


def test_a_device_at_its_maximum_has_no_use_for_energy() -> None:
    problem = Problem(bits=2e6, cycles=1e9, capacitance=1e-28, gain=[1.2e-13, 2.4e-13], power_w=0.1,
                      budget_j=[10.0, 0.25], cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=2e6, noise_w_per_hz=4e-21)
    plan = allocate(problem)
    prices = shadow_prices(problem, plan)
    assert plan.cpu_hz[0] == 1e9
    assert prices.budget_s_per_j[0] == 0.0
    assert prices.bandwidth_s_per_hz < 0.0
