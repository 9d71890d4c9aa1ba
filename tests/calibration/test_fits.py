"""Fits of linear laws with log-normal residuals."""

import numpy as np
import pytest

from netsim.calibration.fits import fit, moderated


def one_unit(x0, x1, y):
    x0, x1, y = (np.array(values, float) for values in (x0, x1, y))
    return fit(np.zeros(len(y), np.int64), x0, x1, y, 1)


def test_an_exact_law_is_found_exactly():
    # 2 s per batch and 0.5 s per sample
    found = one_unit([1, 1, 2, 4], [4, 8, 8, 10], [4, 6, 8, 13])
    assert found.value[0] == pytest.approx([2.0, 0.5], rel=1e-9)
    assert found.separable[0]


def test_one_coefficient_is_the_geometric_mean_with_the_t_interval_of_the_logs():
    found = fit(np.zeros(4, np.int64), None, np.array([1.0, 2, 4, 8]), np.array([2.0, 4, 8, 32]), 1)
    logs = np.log([2, 2, 2, 4])                            # y / x
    half = 3.182446305 * logs.std(ddof=1) / 2              # t(3), 0.975
    assert found.value[0, 1] == pytest.approx(np.exp(logs.mean()), rel=1e-9)
    assert found.low[0, 1] == pytest.approx(np.exp(logs.mean() - half), rel=1e-6)
    assert found.high[0, 1] == pytest.approx(np.exp(logs.mean() + half), rel=1e-6)


def test_the_fit_is_the_least_squares_of_the_logarithm():
    from scipy.optimize import least_squares

    rng = np.random.default_rng(4)
    x0, x1 = rng.integers(1, 20, 30).astype(float), rng.integers(10, 200, 30).astype(float)
    y = (0.3 * x0 + 0.02 * x1) * np.exp(0.4 * rng.standard_normal(30))
    theirs = least_squares(lambda ab: np.log(y) - np.log(ab[0] * x0 + ab[1] * x1), [0.3, 0.02], xtol=1e-14, ftol=1e-14)
    found = one_unit(x0, x1, y)
    assert found.value[0] == pytest.approx(theirs.x, rel=1e-5)
    covariance = np.linalg.inv(theirs.jac.T @ theirs.jac)
    assert found.root[0] @ found.root[0].T == pytest.approx(covariance, rel=1e-4)


def test_a_constant_ratio_leaves_one_coefficient_with_the_sum_of_both():
    found = one_unit([1, 2, 3], [10, 20, 30], [3, 6, 9])         # (2 s + 10 * 0.1 s) per batch of 10
    assert not found.separable[0]
    assert found.value[0] == pytest.approx([0.0, 0.3])


def test_a_negative_cost_becomes_zero_and_the_other_is_fitted_alone():
    batch = np.array([1.0, 2, 4, 8, 16])
    found = one_unit(np.ones(5), batch, [0.150, 0.313, 0.633, 1.344, 2.816])      # superlinear
    assert found.free[0, 0] < 0
    assert found.value[0, 0] == 0
    assert found.low[0, 0] == 0
    assert found.value[0, 1] == pytest.approx(np.exp(np.mean(np.log(np.array([0.150, 0.313, 0.633, 1.344, 2.816])
                                                                     / batch))))


def test_units_do_not_disturb_each_other():
    rng = np.random.default_rng(1)
    unit = np.repeat([0, 1, 2], 20)
    x0, x1 = rng.integers(1, 20, 60).astype(float), rng.integers(10, 200, 60).astype(float)
    y = (0.3 * x0 + 0.02 * x1) * np.exp(0.1 * rng.standard_normal(60))
    together = fit(unit, x0, x1, y, 3)
    for one in range(3):
        rows = unit == one
        assert one_unit(x0[rows], x1[rows], y[rows]).value[0] == pytest.approx(together.value[one], rel=1e-6)


def test_rows_without_a_measurement_are_left_out_and_a_unit_without_rows_is_unknown():
    found = fit(np.array([0, 0, 1]), None, np.ones(3), np.array([2.0, 2.0, np.nan]), 2)
    assert found.rows.tolist() == [2, 0]
    assert found.value[0, 1] == pytest.approx(2.0)
    assert np.isnan(found.value[1, 1])


def test_draws_have_the_spread_of_the_interval():
    rng = np.random.default_rng(2)
    x0, x1 = rng.integers(1, 20, 40).astype(float), rng.integers(10, 200, 40).astype(float)
    found = one_unit(x0, x1, (0.3 * x0 + 0.02 * x1) * np.exp(0.1 * rng.standard_normal(40)))
    drawn, _ = found.draw(rng, np.array([0]), 20_000)
    low, high = np.quantile(drawn[:, 0], [0.025, 0.975], axis=0)
    assert low == pytest.approx(found.low[0], rel=0.03)
    assert high == pytest.approx(found.high[0], rel=0.03)
    assert (drawn >= 0).all()


def test_variances_of_few_rows_move_towards_the_common_one():
    squares, degrees = np.array([0.01, 0.02, 0.015, 4.0]), np.array([10.0, 10.0, 10.0, 1.0])
    sd, df = moderated(squares, degrees)
    assert sd[3] < 2.0
    assert (df > degrees).all()
    alone, same = moderated(np.array([0.04]), np.array([4.0]))
    assert alone[0] == pytest.approx(0.1)
    assert same[0] == 4
