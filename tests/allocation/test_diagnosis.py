"""What stands in the way of a plan, and whether the change that is named really mends it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from allocation_worlds import paper_world, wild_world
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.allocation import Infeasible, Problem, allocate
from netsim.allocation.infeasibility import budget_scaling, find_infeasibility, largest_feasible
from netsim.base import units


def needs(megahertz: list[float], band_hz: float) -> Problem:
    """Devices that keep their budget with exactly these bandwidths: 1 s of upload at ratio 3 and 1 W, 1 J for it."""
    b = np.array(megahertz) * 1e6
    return Problem(bits=2 * b, cycles=0.0, capacitance=1e-28, gain=3 * b * 4e-21, power_w=1.0, budget_j=1.0,
                   cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=band_hz, noise_w_per_hz=4e-21)


def test_the_largest_cohort_takes_the_least_needs() -> None:
    problem = needs([5, 1, 7, 2, 3], band_hz=6.5e6)
    assert largest_feasible(problem).tolist() == [1, 3, 4]
    found = find_infeasibility(problem)
    assert found.need_hz == pytest.approx(np.array([5, 1, 7, 2, 3]) * 1e6)
    assert found.extra_bandwidth_hz == pytest.approx(11.5e6)
    assert found.blocking_devices.tolist() == [0, 2]
    assert found.hopeless.tolist() == [False, False, True, False, False]


def test_the_message_is_for_an_engineer() -> None:
    with pytest.raises(Infeasible) as caught:
        allocate(needs([5, 1, 2], band_hz=6.5e6))
    assert caught.value.devices == (0,)
    assert "the cell needs 8 MHz, it has 6.5 MHz" in str(caught.value)
    assert "2 of 3 devices" in str(caught.value)
    with pytest.raises(Infeasible, match=r"^device 0: budget below the least .*1 J against 1.112 J.*band of 4 MHz"):
        allocate(needs([5, 1, 2], band_hz=4e6))


def test_messages_call_devices_by_their_numbers() -> None:
    problem = replace(needs([5, 1, 2], band_hz=6.5e6), numbers=[70, 80, 90])
    with pytest.raises(Infeasible, match=r"^device 70: ") as caught:
        allocate(problem)
    assert caught.value.devices == (0,)                      # positions in the arrays all the same
    with pytest.raises(Infeasible, match=r"^device 90: "):
        allocate(replace(problem.subset([1, 2]), bandwidth_hz=2.5e6))


def test_a_budget_below_the_slowest_computing_has_no_remedy_in_bandwidth() -> None:
    problem = Problem(bits=1e5, cycles=1e9, capacitance=1e-28, gain=1e-10, power_w=0.1, budget_j=[1.0, 0.0009],
                      cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    found = find_infeasibility(problem)                               # 1e9 cycles at 0.1 GHz cost 1 mJ
    assert found.extra_bandwidth_hz == np.inf
    with pytest.raises(Infeasible) as caught:
        allocate(problem)
    assert caught.value.devices == (1,)


def test_nobody_fits() -> None:
    assert largest_feasible(needs([5, 6], band_hz=4e6)).tolist() == []


def test_the_largest_cohort_is_the_largest_by_enumeration() -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        problem = replace(paper_world(rng, 6, budget_j=0.015), bandwidth_hz=rng.uniform(2e6, 1e7))
        chosen = largest_feasible(problem)
        for size in range(len(chosen) + 1, len(problem) + 1):
            for cohort in combinations(range(len(problem)), size):
                with pytest.raises(Infeasible):
                    allocate(problem.subset(list(cohort)))
        if len(chosen):
            allocate(problem.subset(chosen))


def test_equal_shares_serve_fewer() -> None:
    problem = needs([5, 1, 2], band_hz=9e6)                  # fits as a whole, but 5 MHz is more than a third or a half
    assert largest_feasible(problem, "sao").tolist() == [0, 1, 2]
    assert largest_feasible(problem, "equal").tolist() == [1, 2]


def infeasible_problems(count: int, seed: int) -> list[Problem]:
    rng = np.random.default_rng(seed)
    return [replace(problem, budget_j=problem.budget_j * budget_scaling(problem) * rng.uniform(0.2, 1 - 1e-6))
            for problem in (paper_world(rng, int(rng.integers(1, 12))) for _ in range(count))]


def test_printed_remedies_suffice_when_they_are_typed_in() -> None:
    """Every number that the message names, read back as a user would read it, is enough."""
    budgets = bands = 0
    for problem in infeasible_problems(200, seed=15):
        with pytest.raises(Infeasible) as caught:
            allocate(problem)
        said = str(caught.value)
        grew, times = (re.search(rf"every budget {what}", said)
                       for what in (r"grew by ([\d.]+) %", r"were ([\d.]+) times"))
        factor = 1 + float(grew[1]) / 100 if grew else float(times[1])
        allocate(replace(problem, budget_j=problem.budget_j * factor))
        budgets += 1
        needs_hz = re.search(r"the cell needs ([\d.]+ [kMG]?Hz)", said)
        if needs_hz:
            allocate(replace(problem, bandwidth_hz=units.parse(needs_hz[1], "frequency")))
            bands += 1
    assert budgets == 200
    assert bands >= 40


@pytest.mark.slow
@settings(max_examples=300, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_named_changes_are_enough_and_least(seed: int, size: int) -> None:
    problem = wild_world(np.random.default_rng(seed), size)
    scale = budget_scaling(problem)
    allocate(replace(problem, budget_j=problem.budget_j * scale))
    with pytest.raises(Infeasible):
        allocate(replace(problem, budget_j=problem.budget_j * scale * (1 - 1e-9)))
    found = find_infeasibility(problem)
    assert largest_feasible(problem).tolist() == found.cohort.tolist()
    if 0 < found.extra_bandwidth_hz < np.inf:
        enough = problem.bandwidth_hz + found.extra_bandwidth_hz
        allocate(replace(problem, bandwidth_hz=enough * (1 + 1e-12)))
        with pytest.raises(Infeasible):
            allocate(replace(problem, bandwidth_hz=enough * (1 - 1e-9)))
