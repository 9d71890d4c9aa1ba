"""The tuned lambda of `fedl`: the largest whose plan keeps every budget, also where energies rise and fall with T."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fedl_scan import largest_by_scan, with_a_good_weight, world
from levels import extended

from netsim.allocation import Problem, fedl
from netsim.allocation.fedl import Pieces, Tuning, tune
from netsim.allocation.fedl_dual import FedlDual

pytestmark = pytest.mark.slow

TWO = Problem(
    bits=448e3, cycles=[1.2012e8, 7.9698e7], capacitance=1e-28, gain=[2.0291e-9, 1.7713e-9], power_w=[.47901, .0038288],
    budget_j=[.0042384, .00065682], cpu_min_hz=2e8, cpu_max_hz=2e9, bandwidth_hz=4292100, noise_w_per_hz=3.9811e-21)


def test_two_devices_one_of_which_spends_more_in_a_longer_round() -> None:
    weight, plan = tune(TWO)
    assert weight >= .00383355
    assert not plan.over_budget.any()
    assert fedl.solve(TWO, 1.00001 * weight).over_budget.any()
    assert fedl.solve(TWO, 0.9 * weight).over_budget.any()       # once kept, budgets need not stay kept


@pytest.mark.parametrize("times", [5, *extended([15])])
def test_where_some_lambda_is_good_it_finds_one_no_smaller(times: int) -> None:
    """Budgets that are kept by a hair, by little, and with ease: the first are what a search may miss."""
    rng = np.random.default_rng(times)
    for room in (1e-9, 1e-8, 1e-7, 1e-5, 1e-3, 1e-1) * times:
        problem, weight = with_a_good_weight(rng, room)
        found, plan = tune(problem)
        assert found >= weight * (1 - 1e-6)
        assert not plan.over_budget.any()


def test_a_plan_is_that_of_the_weight_that_was_asked_for() -> None:
    """Where CPUs come to rest at their slowest, rounds of one length, to the last digits, have many weights."""
    rng, alike = np.random.default_rng(5), 0
    for _ in range(150):
        market, weight = FedlDual.of(world(rng)), float(10 ** rng.uniform(-4, -1))
        at = market.weighing(weight)
        if at.round_s > market.soonest * (1 + 1e-8):
            assert at.weight == pytest.approx(weight, rel=1e-6)
            shorter, longer = market.about(at)
            alike += shorter.weight > 1.1 * longer.weight
    assert alike > 3


def test_a_plan_is_that_of_its_weight_where_no_cpu_can_choose() -> None:
    """Then a weight moves the band alone, and small ones all lead to nearly the round of none."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        problem, weight = world(rng), float(10 ** rng.uniform(-8, -3))
        market = FedlDual.of(replace(problem, cpu_max_hz=problem.cpu_min_hz))
        at = market.weighing(weight)
        if at.round_s > market.soonest * (1 + 1e-8):
            assert at.weight == pytest.approx(weight, rel=1e-4)       # the price has no more digits here


@pytest.mark.parametrize("number", [72, 393])
@pytest.mark.parametrize("room", [1e-10, 1e-9, 1e-7])
def test_a_good_weight_is_found_among_rounds_of_one_length(number: int, room: float) -> None:
    """In parts of their length, the good rounds are some 1e-13 long."""
    rng = np.random.default_rng(5)
    for _ in range(number + 1):
        problem, weight = world(rng), float(10 ** rng.uniform(-4, -1))
    tight = replace(problem, budget_j=fedl.solve(problem, weight).device_energy_j * (1 + room))
    found, plan = tune(tight)
    assert found >= weight * (1 - 1e-6)
    assert not plan.over_budget.any()


def test_a_fine_scan_finds_no_larger_one() -> None:
    rng = np.random.default_rng(3)
    for _ in range(6):
        problem, _ = with_a_good_weight(rng)
        round_s, weight = largest_by_scan(problem, points=1000)
        found, plan = tune(problem)
        assert found >= weight * (1 - 1e-6)
        assert plan.round_s <= round_s * (1 + 1e-9)


def test_what_is_left_out_is_proved() -> None:
    """Between two rounds no device spends less than the bound, and the bound closes in on it."""
    rng = np.random.default_rng(4)
    for _ in range(30):
        market = FedlDual.of(world(rng))
        low, high = sorted(rng.uniform(market.soonest, market.idle.round_s, 2))
        for width in (1.0, 1e-3):
            end = low + (high - low) * width
            at = market.balance(np.linspace(low, end, 20), market.idle)
            least = market.least_energy(np.array([[low]]), at.row(19))[0]
            energy = market.energy(at)
            assert (energy >= least * (1 - 1e-11)).all()
        assert least == pytest.approx(energy[0], rel=0.1)


def test_what_bounds_leave_open_is_searched_for_its_least_excess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedl, "MOST", 5 * fedl.ROWS)             # so few rounds that bounds leave narrow pieces open
    rng = np.random.default_rng(5)
    searched = 0

    def lowest(self: Tuning, left: Pieces, found: Callable[[Tuning, Pieces], Any] = Tuning.lowest) -> Any:
        nonlocal searched
        searched += 1
        return found(self, left)

    monkeypatch.setattr(Tuning, "lowest", lowest)
    for _ in range(30):
        problem, weight = world(rng), float(10 ** rng.uniform(-4, 3))
        problem = replace(problem, budget_j=fedl.solve(problem, weight).device_energy_j * (1 + 1e-8))
        assert tune(problem)[0] >= weight * (1 - 1e-6)
    assert searched >= 5


def test_many_rounds_at_once_are_what_they_are_one_by_one() -> None:
    problem = world(np.random.default_rng(6))
    market = FedlDual.of(problem)
    rounds = np.linspace(market.soonest, market.idle.round_s, 7)
    together = market.balance(rounds, market.idle)
    excess = Tuning(market, problem.budget_j).excess(together)
    for k, round_s in enumerate(rounds.tolist()):
        alone = market.balance(round_s, market.idle)
        np.testing.assert_allclose(market.energy(alone)[0], market.energy(together)[k], rtol=1e-11)
        assert excess[k] == pytest.approx(Tuning(market, problem.budget_j).excess(alone)[0], abs=1e-11)
