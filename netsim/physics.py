"""The laws of the cell as pure array functions: path gain, FDMA rate and its inverse, times and energies.

All values are SI. Two numbers describe a radio link: the bandwidth b, and J = h p / N0, the received power over the
noise density, in Hz too, so that J/b is the signal-to-noise ratio and J/ln 2 the rate that no bandwidth exceeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from netsim.base.arrays import Floats

Values = Floats | float    # an array of SI values, or one for all

LN2 = math.log(2.0)
# Constants as arrays without dimension: on few devices a Python number makes an operation half as dear again.
ZERO, ONE, TWO, SIX, THIRTY_SIX = (np.array(value) for value in (0.0, 1.0, 2.0, 6.0, 36.0))
HALF, THIRD, TWO_THIRDS, NEAR, TINY = (np.array(value) for value in (1 / 2, 1 / 3, 2 / 3, 1e-6, 1e-300))
LIGHT_M_PER_S = 299_792_458.0
CLOSEST_M = 1.0   # the log-distance law is a far-field law: nearer devices are treated as one metre away


def path_gain(distance_m: Values, intercept_db: float, slope_db: float, shadowing_db: Values = 0.0) -> Floats:
    """Linear channel gain when the loss is ``intercept + slope log10(d / 1 km) + shadowing`` decibels.

    Distances below one metre count as one metre, where the law would otherwise amplify.
    """
    return gain_of_loss(log_distance_loss(np.maximum(distance_m, CLOSEST_M), intercept_db, slope_db) + shadowing_db)


def log_distance_loss(distance_m: Values, intercept_db: float, slope_db: float) -> Floats:
    """Decibels lost on the way: ``intercept + slope log10(d / 1 km)``."""
    return np.asarray(intercept_db + slope_db * np.log10(np.divide(distance_m, 1e3)))


def free_space_loss(distance_m: Values, frequency_hz: float) -> Floats:
    """Decibels lost where nothing stands in the way (Friis): ``20 log10(4 pi d f / c)``."""
    return np.asarray(20.0 * np.log10(np.multiply(distance_m, 4.0 * math.pi * frequency_hz / LIGHT_M_PER_S)))


def gain_of_loss(loss_db: Values) -> Floats:
    """Linear channel gain after so many decibels of loss."""
    return np.asarray(10.0 ** (np.negative(loss_db) / 10.0), dtype=np.float64)


def fdma_rate(bandwidth_hz: Values, snr_hz: Values) -> Floats:
    """Bits per second in bandwidth b: Q(b) = b log2(1 + J/b), eq. (7); zero without bandwidth."""
    b = np.asarray(bandwidth_hz, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rate = b * np.log1p(snr_hz / b) / LN2
    return np.where(b > 0.0, rate, 0.0)


def rate_slope(bandwidth_hz: Values, snr_hz: Values) -> Floats:
    """How the rate grows with bandwidth: Q'(b) = (ln(1 + u) - u/(1 + u)) / ln 2 with u = J/b."""
    u = np.asarray(snr_hz / np.asarray(bandwidth_hz, dtype=np.float64), dtype=np.float64)
    series = u * u * (1 / 2 - u * (2 / 3 - u * (3 / 4 - u * (4 / 5 - u * 5 / 6))))   # the difference cancels at small u
    return np.asarray(np.where(u < 1e-3, series, np.log1p(u) - u / (1.0 + u)) / LN2)


def efficiency(fraction: Values) -> Floats:
    """Spectral efficiency s = ln(1 + J/b), in nats, at which the rate is this fraction y of its limit J/ln 2.

    It solves s / (e^s - 1) = y, whose closed form is s = -W_-1(-y e^-y) - y with Lambert's W; it is 0 for y >= 1,
    where there is no solution. With v = s + y the equation reads v - ln v = y - ln y. The expansion of v in
    t = sqrt(2 (v - 1 - ln v)), bent to its growth at large t, is within 1e-4; one step of fourth order on
    s = ln(1 + s/y) reaches the last digits. Unlike W it never meets y e^-y itself, which underflows; y below
    1e-300 counts as 1e-300. Near y = 1 the distance d = 1 - y is what counts: there s = 2d + 2d^2/3.
    """
    y: Floats = np.minimum(np.maximum(fraction, TINY), ONE)
    d = ONE - y
    near = d < NEAR
    t2 = d + np.log(y)
    t2 = np.maximum(-(t2 + t2), d * d)
    t = np.sqrt(t2)
    excess = t2 * HALF + np.log1p(t + t2 * (THIRD + t / (THIRTY_SIX + SIX * t))) + near    # v - 1; not 0/0 at y = 1
    s = excess + d
    gap = s - np.log1p(s / y)
    q = (excess + excess) * (excess - gap * TWO_THIRDS)
    rest = q - gap
    s -= gap * (s + y) * rest / (excess * (rest - gap))
    return np.asarray(np.where(near, d * (TWO + d * TWO_THIRDS), s))


def bandwidth_for_rate(rate: Values, snr_hz: Values) -> Floats:
    """The bandwidth at which the rate is reached, the inverse of :func:`fdma_rate`; inf where none is enough."""
    nats = np.asarray(rate, dtype=np.float64) * LN2
    with np.errstate(divide="ignore"):
        return np.asarray(nats / efficiency(nats / np.asarray(snr_hz)))


class LinkModel(Protocol):
    """What a radio link carries: the rate in a bandwidth, and the bandwidth for a rate.

    Plans, the cell's uplink and downlink and selection methods know radio links by this alone. Arguments are arrays
    that broadcast, or numbers; ``snr_hz`` is J = h p / N0 in Hz, the received power over the noise density, so that
    J/b is the signal-to-noise ratio in bandwidth b.
    """

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        """Bits per second in so many Hz: finite, at least 0, and 0 without bandwidth."""

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        """The least Hz in which the rate, in bit/s, is reached; inf where none is enough. Never falls with the rate."""


@dataclass(frozen=True)
class Shannon:
    """Shannon's limit as far as a radio reaches it: efficiency * min(b log2(1 + J/b), cap * b) bit/s.

    Parameters
    ----------
    efficiency : float
        Share of the limit that is reached, above 0.
    cap : float
        Spectral efficiency of the highest modulation and code, in bit/s/Hz.

    Examples
    --------
    >>> link = Shannon(efficiency=0.8, cap=5.0)
    >>> float(link.rate(1e6, 3e6)), float(link.rate(1e6, 1e9)), round(float(link.bandwidth(1.6e6, 3e6)), 3)
    (1600000.0, 4000000.0, 1000000.0)
    """

    efficiency: float = 1.0
    cap: float = math.inf

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        """Bits per second in so many Hz."""
        rate = fdma_rate(hz, snr_hz)
        if self.cap < math.inf:
            rate = np.minimum(rate, np.multiply(hz, self.cap))
        return rate if self.efficiency == 1.0 else rate * self.efficiency

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        """The least Hz in which the rate is reached; inf where none is enough."""
        limit = np.divide(rate, self.efficiency)
        hz = bandwidth_for_rate(limit, snr_hz)
        return hz if self.cap == math.inf else np.maximum(hz, limit / self.cap)

    @property
    def most_nats(self) -> float:
        """The cap in nats per second and Hz."""
        return self.cap * LN2

    def need(self, nats: Floats, limit_s: Floats, seconds: Floats) -> tuple[Floats, Floats]:
        """The Hz that send ``nats`` = z ln 2 / efficiency in this time, and their elasticity -(db/b) / (dt/t).

        ``limit_s`` = nats/J is the time that no bandwidth undercuts. With y = limit/t and s the spectral efficiency,
        b = nats / (t s) and the elasticity is v/(v - 1), v = s + y; beyond the cap that stands for s, and the
        elasticity is 1.
        """
        fraction = limit_s / seconds
        s = efficiency(fraction)
        v = s + fraction
        if self.cap == math.inf:
            return nats / (seconds * s), v / (v - ONE)
        most = self.most_nats
        return nats / (seconds * np.minimum(s, most)), np.where(s > most, ONE, v / (v - ONE))


SHANNON = Shannon()


def best_hz(link: LinkModel, most_hz: float, snr_hz: Floats) -> Floats:
    """The bandwidth up to ``most_hz`` in which a link carries most, for each J: all of it by Shannon's.

    By steps of modulation and code less may carry more: the largest rate whose bandwidth fits is bisected.
    """
    whole = np.full(len(snr_hz), most_hz)
    if type(link) is Shannon:
        return whole
    low = link.rate(whole, snr_hz)
    high = np.full(len(snr_hz), np.maximum(low, 1.0).max())
    while high[0] < 1e300 and (link.bandwidth(high, snr_hz) <= most_hz).any():
        high *= 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        fits = link.bandwidth(middle, snr_hz) <= most_hz
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        if (high - low <= 4e-16 * high).all():
            break
    return np.where(link.rate(whole, snr_hz) < low, link.bandwidth(low, snr_hz), whole)


def compute_time(cycles: Values, cpu_hz: Values) -> Floats:
    """Seconds to compute a round's cycles U at frequency f: U/f, eq. (5)."""
    return np.asarray(np.divide(cycles, cpu_hz), dtype=np.float64)


def compute_energy(cycles: Values, cpu_hz: Values, capacitance: Values) -> Floats:
    """Joules to compute them: (alpha/2) U f^2, eq. (6)."""
    return np.asarray(np.multiply(capacitance, cycles) * np.square(cpu_hz), dtype=np.float64)


def upload_time(bits: Values, rate: Values) -> Floats:
    """Seconds to send z bits: z/r, eq. (8); inf at rate zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.divide(bits, rate), dtype=np.float64)


def upload_energy(power_w: Values, upload_s: Values) -> Floats:
    """Joules to send at power p for that long, eq. (9)."""
    return np.asarray(np.multiply(power_w, upload_s), dtype=np.float64)
