"""Means over seeds, with their intervals: by hand, and against scipy's own tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from netsim.analysis.seed_statistics import estimate, mean_curve, paired, records

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20)


def test_two_seeds_by_hand() -> None:
    found = estimate([1.0, 3.0])      # deviation sqrt(2), error 1, t of one degree of freedom 12.706
    assert (found.mean, found.count) == (2.0, 2)
    assert found.half == pytest.approx(12.7062, rel=1e-5)
    assert (found.low, found.high) == (pytest.approx(-10.7062, rel=1e-5), pytest.approx(14.7062, rel=1e-5))


def test_one_seed_has_no_interval_and_none_has_no_mean() -> None:
    assert (estimate([5.0]).mean, estimate([5.0]).half, estimate([5.0]).low) == (5.0, None, None)
    assert (estimate([]).mean, estimate([]).count) == (None, 0)


@given(NUMBERS)
def test_the_interval_is_that_of_scipy(values: list[float]) -> None:
    found = estimate(values)
    error = stats.sem(values)
    if error > 0:
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), error)
        assert found.low == pytest.approx(low, rel=1e-6, abs=1e-6)
        assert found.high == pytest.approx(high, rel=1e-6, abs=1e-6)


@given(NUMBERS, st.floats(-1e3, 1e3))
def test_what_the_world_does_to_both_cancels_out(values: list[float], by: float) -> None:
    mine = {seed: value + by for seed, value in enumerate(values)}
    found = paired(mine, dict(enumerate(values)))
    assert found.mean == pytest.approx(by, abs=1e-6)
    assert found.half == pytest.approx(0, abs=1e-6)


def test_only_common_seeds_are_paired() -> None:
    found = paired({0: 2.0, 1: 5.0, 7: 100.0}, {0: 1.0, 1: 1.0, 8: -9.0})
    assert (found.mean, found.count) == (2.5, 2)
    assert paired({0: 1.0}, {1: 1.0}).mean is None


def test_targets_are_first_reached_where_accuracy_is_higher_than_before() -> None:
    assert records([None, 0.2, 0.1, 0.5, 0.5, None, 0.6]) == [1, 3, 6]


def test_curves_step_at_places_of_their_own() -> None:
    places, found = mean_curve([np.array([1.0, 3.0]), np.array([2.0, 4.0])],
                               [np.array([0.1, 0.3]), np.array([0.5, 0.7])], most=10)
    assert places.tolist() == [2, 3, 4]      # from where both have a value; the first keeps its last one
    assert [one.mean for one in found] == pytest.approx([0.3, 0.4, 0.5])
    places, found = mean_curve([np.arange(1.0, 1001)], [np.arange(1000.0)], most=5)
    assert (len(places), places[0], places[-1], found[-1].mean) == (5, 1, 1000, 999)
