"""The laws of the cell against high precision, and against numbers worked out by hand."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from netsim import physics

mpmath.mp.dps = 60


def exact_efficiency(y: float) -> mpmath.mpf:
    """The closed form with Lambert's W, to sixty digits."""
    y = mpmath.mpf(y)
    return -mpmath.lambertw(-y * mpmath.exp(-y), -1).real - y


@pytest.mark.parametrize("y", [0.9, 0.5, 0.1, 1e-3, 1e-10, 1e-100, 1e-299, 0.99, 0.999, 0.9999])
def test_efficiency_is_right_to_the_last_digits(y: float) -> None:
    assert float(physics.efficiency(y)) == pytest.approx(float(exact_efficiency(y)), rel=1e-15 / (1 - y))


@pytest.mark.parametrize("d", [1e-3, 1e-5, 1e-6, 1e-7, 1e-10, 1e-13, 2**-52])
def test_efficiency_near_the_limit_is_as_good_as_its_argument(d: float) -> None:
    y = 1.0 - d                                  # a rounding of y moves the answer by 1e-16/d
    assert float(physics.efficiency(y)) == pytest.approx(float(exact_efficiency(y)), rel=1e-15 / (1.0 - y) + 1e-14)


def test_efficiency_beyond_its_range() -> None:
    assert physics.efficiency([1.0, 1.5, np.inf]).tolist() == [0.0, 0.0, 0.0]
    assert np.isfinite(physics.efficiency([0.0, 5e-324])).all()


def test_inverse_undoes_the_rate_over_thirty_decades() -> None:
    rng = np.random.default_rng(1)
    snr_hz, bandwidth_hz = 10.0 ** rng.uniform(-5, 15, 20_000), 10.0 ** rng.uniform(-5, 10, 20_000)
    rate = physics.fdma_rate(bandwidth_hz, snr_hz)
    fraction = rate * physics.LN2 / snr_hz
    below = fraction < 1.0 - 1e-12
    found = physics.bandwidth_for_rate(rate[below], snr_hz[below])
    np.testing.assert_allclose(physics.fdma_rate(found, snr_hz[below]), rate[below], rtol=2e-14)
    well = fraction[below] < 0.9
    np.testing.assert_allclose(found[well], bandwidth_hz[below][well], rtol=2e-14)


def test_no_bandwidth_reaches_the_limit() -> None:
    limit = 1e6 / physics.LN2
    assert physics.bandwidth_for_rate([limit * 1.001, 2 * limit, np.inf], 1e6).tolist() == [np.inf] * 3
    assert physics.bandwidth_for_rate(0.0, 1e6) == 0.0
    assert physics.fdma_rate(1e12, 1e6) == pytest.approx(limit, rel=1e-6)


def test_rate_by_hand() -> None:
    # 1 MHz at a signal-to-noise ratio of 3: two bits a second a hertz
    assert physics.fdma_rate(1e6, 3e6) == pytest.approx(2e6, rel=1e-15)
    assert physics.bandwidth_for_rate(2e6, 3e6) == pytest.approx(1e6, rel=1e-15)
    assert physics.fdma_rate([0.0, 1e6], 3e6).tolist() == [0.0, 2e6]


@pytest.mark.parametrize("ratio", [1e6, 3.0, 1e-2, 1.001e-3, 0.999e-3, 1e-8])
def test_slope_of_the_rate(ratio: float) -> None:
    u = mpmath.mpf(ratio)
    exact = (mpmath.log(1 + u) - u / (1 + u)) / mpmath.log(2)
    assert float(physics.rate_slope(1.0, ratio)) == pytest.approx(float(exact), rel=1e-12)


def test_path_gain_by_hand() -> None:
    gain = physics.path_gain([1000.0, 100.0], 128.1, 37.6)
    assert 10 * np.log10(gain) == pytest.approx([-128.1, -90.5])
    assert 10 * np.log10(physics.path_gain(1000.0, 128.1, 37.6, 8.0)) == pytest.approx(-136.1)


def test_path_gain_stays_finite_at_the_mast() -> None:
    assert physics.path_gain(0.0, 128.1, 37.6) == physics.path_gain(1.0, 128.1, 37.6) < 1.0


def test_times_and_energies_by_hand() -> None:
    assert physics.compute_time(2e9, 1e9) == 2.0
    assert physics.compute_energy(2e9, 1e9, 1e-28) == pytest.approx(0.2)
    assert physics.upload_time([1e6, 1e6], [2e6, 0.0]).tolist() == [0.5, np.inf]
    assert physics.upload_energy(0.2, 0.5) == pytest.approx(0.1)
