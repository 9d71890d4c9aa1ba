"""Physical-layer formulas as pure array functions: path gain, FDMA rate and its inverse, times and energies.

All values are SI. Two numbers describe a radio link: the bandwidth b, and J = h p / N0, the received power over the
noise density, in Hz too, so that J/b is the signal-to-noise ratio and J/ln 2 the rate that no bandwidth exceeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from netsim.base.types import Floats

Values = Floats | float    # an array of SI values, or one value for all devices

LN2 = math.log(2.0)
# Constants as 0-d arrays: with few devices, an operation with a Python number takes 1.5 times as long.
ZERO, ONE, TWO, SIX, THIRTY_SIX = (np.array(value) for value in (0.0, 1.0, 2.0, 6.0, 36.0))
HALF, THIRD, TWO_THIRDS, NEAR, TINY = (np.array(value) for value in (1 / 2, 1 / 3, 2 / 3, 1e-6, 1e-300))
LIGHT_M_PER_S = 299_792_458.0
CLOSEST_M = 1.0   # the log-distance formula holds in the far field: nearer devices are treated as one metre away


def path_gain(distance_m: Values, intercept_db: float, slope_db: float, shadowing_db: Values = 0.0) -> Floats:
    """Return the linear channel gain for a log-distance path loss with shadowing.

    The loss is ``intercept_db + slope_db * log10(d / 1 km) + shadowing_db``. Distances below one metre count as one
    metre, because the far-field formula would otherwise amplify.

    Parameters
    ----------
    distance_m : array of float or float
        Distance d to the base station in metres.
    intercept_db : float
        Loss at 1 km in dB.
    slope_db : float
        Loss per decade of distance in dB (10 times the path-loss exponent).
    shadowing_db : array of float or float
        Additional loss of each device in dB; broadcasts against `distance_m`.

    Returns
    -------
    array of float
        Gain h, received over transmitted power.

    Examples
    --------
    >>> float(path_gain(1000.0, intercept_db=120.0, slope_db=40.0))
    1e-12
    """
    return gain_of_loss(log_distance_loss(np.maximum(distance_m, CLOSEST_M), intercept_db, slope_db) + shadowing_db)


def log_distance_loss(distance_m: Values, intercept_db: float, slope_db: float) -> Floats:
    """Return the path loss in dB, ``intercept_db + slope_db * log10(d / 1 km)``."""
    return np.asarray(intercept_db + slope_db * np.log10(np.divide(distance_m, 1e3)))


def free_space_loss(distance_m: Values, frequency_hz: float) -> Floats:
    """Return the free-space path loss (Friis) in dB, ``20 log10(4 pi d f / c)``."""
    return np.asarray(20.0 * np.log10(np.multiply(distance_m, 4.0 * math.pi * frequency_hz / LIGHT_M_PER_S)))


def gain_of_loss(loss_db: Values) -> Floats:
    """Return the linear gain 10^(-loss/10) for a loss in dB."""
    return np.asarray(10.0 ** (np.negative(loss_db) / 10.0), dtype=np.float64)


def fdma_rate(bandwidth_hz: Values, snr_hz: Values) -> Floats:
    """Return the Shannon rate of an FDMA link: Q(b) = b log2(1 + J/b), eq. (7) of the paper.

    Parameters
    ----------
    bandwidth_hz : array of float or float
        Bandwidth b in Hz.
    snr_hz : array of float or float
        J = h p / N0 in Hz; broadcasts against `bandwidth_hz`.

    Returns
    -------
    array of float
        Rate in bit/s; 0 where the bandwidth is 0.

    Examples
    --------
    >>> fdma_rate([0.0, 1e6], 3e6).tolist()
    [0.0, 2000000.0]
    """
    b = np.asarray(bandwidth_hz, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rate = b * np.log1p(snr_hz / b) / LN2
    return np.where(b > 0.0, rate, 0.0)


def rate_slope(bandwidth_hz: Values, snr_hz: Values) -> Floats:
    """Return the derivative of the rate, Q'(b) = (ln(1 + u) - u/(1 + u)) / ln 2 with u = J/b, in bit/s/Hz."""
    u = np.asarray(snr_hz / np.asarray(bandwidth_hz, dtype=np.float64), dtype=np.float64)
    series = u * u * (1 / 2 - u * (2 / 3 - u * (3 / 4 - u * (4 / 5 - u * 5 / 6))))   # the difference cancels at small u
    return np.asarray(np.where(u < 1e-3, series, np.log1p(u) - u / (1.0 + u)) / LN2)


def efficiency(fraction: Values) -> Floats:
    """Return the spectral efficiency s = ln(1 + J/b), in nats, at which the rate is the fraction y of its limit J/ln 2.

    It solves s / (e^s - 1) = y, whose closed form is s = -W_-1(-y e^-y) - y with Lambert's W; it is 0 for y >= 1,
    where there is no solution. With v = s + y the equation reads v - ln v = y - ln y. The expansion of v in
    t = sqrt(2 (v - 1 - ln v)), corrected for its growth at large t, is within 1e-4; one step of fourth order on
    s = ln(1 + s/y) reaches the last digits. Unlike W it never evaluates y e^-y, which underflows; y below
    1e-300 counts as 1e-300. Near y = 1 the distance d = 1 - y keeps the digits: there s = 2d + 2d^2/3.
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
    """Return the bandwidth at which a Shannon link reaches a rate: the inverse of :func:`fdma_rate`.

    Parameters
    ----------
    rate : array of float or float
        Rate in bit/s.
    snr_hz : array of float or float
        J = h p / N0 in Hz; broadcasts against `rate`.

    Returns
    -------
    array of float
        Bandwidth in Hz; inf where the rate is at least J/ln 2, which no bandwidth reaches.

    Examples
    --------
    >>> [f"{b:.6g}" for b in bandwidth_for_rate([2e6, 5e6], 3e6)]
    ['1e+06', 'inf']
    """
    nats = np.asarray(rate, dtype=np.float64) * LN2
    with np.errstate(divide="ignore"):
        return np.asarray(nats / efficiency(nats / np.asarray(snr_hz)))


class LinkModel(Protocol):
    """A radio link: the rate in a bandwidth, and the bandwidth for a rate.

    Allocation, the cell's uplink and downlink, and selection methods use links only through these two methods.
    Implement them to bring an own link model (``cell.link = { model = "package.module:Name" }``). Arguments are arrays
    that broadcast, or numbers; ``snr_hz`` is J = h p / N0 in Hz, the received power over the noise density, so that J/b
    is the signal-to-noise ratio in bandwidth b.

    Examples
    --------
    A link with one modulation: 2 bit/s/Hz above a signal-to-noise ratio of 10, otherwise nothing.

    >>> class Qpsk:
    ...     def rate(self, hz, snr_hz):
    ...         return np.where(np.multiply(hz, 10.0) <= snr_hz, np.multiply(hz, 2.0), 0.0)
    ...     def bandwidth(self, rate, snr_hz):
    ...         hz = np.divide(rate, 2.0)
    ...         return np.where(hz * 10.0 <= snr_hz, hz, np.inf)
    >>> Qpsk().rate([1e6, 2e6], 1e7).tolist(), float(Qpsk().bandwidth(1e6, 1e7))
    ([2000000.0, 0.0], 500000.0)
    """

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        """Return the rate in a bandwidth.

        Parameters
        ----------
        hz : array of float or float
            Bandwidth in Hz.
        snr_hz : array of float or float
            J = h p / N0 in Hz.

        Returns
        -------
        array of float
            Rate in bit/s: finite, at least 0, and 0 without bandwidth.
        """

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        """Return the least bandwidth in which a rate is reached; it must not decrease with the rate.

        Parameters
        ----------
        rate : array of float or float
            Rate in bit/s.
        snr_hz : array of float or float
            J = h p / N0 in Hz.

        Returns
        -------
        array of float
            Bandwidth in Hz; inf where no bandwidth is enough.
        """


@dataclass(frozen=True)
class Shannon(LinkModel):
    """Shannon's limit with an efficiency and a cap: rate = efficiency * min(b log2(1 + J/b), cap * b) bit/s.

    Parameters
    ----------
    efficiency : float
        Fraction of the limit that the radio reaches, above 0.
    cap : float
        Spectral efficiency of the highest modulation and coding scheme, in bit/s/Hz; in a scenario
        ``cell.link.max_spectral_efficiency``.

    Examples
    --------
    >>> link = Shannon(efficiency=0.8, cap=5.0)
    >>> float(link.rate(1e6, 3e6)), float(link.rate(1e6, 1e9)), round(float(link.bandwidth(1.6e6, 3e6)), 3)
    (1600000.0, 4000000.0, 1000000.0)
    """

    efficiency: float = 1.0
    cap: float = math.inf

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        rate = fdma_rate(hz, snr_hz)
        if self.cap < math.inf:
            rate = np.minimum(rate, np.multiply(hz, self.cap))
        return rate if self.efficiency == 1.0 else rate * self.efficiency

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        limit = np.divide(rate, self.efficiency)
        hz = bandwidth_for_rate(limit, snr_hz)
        return hz if self.cap == math.inf else np.maximum(hz, limit / self.cap)

    @property
    def most_nats(self) -> float:
        """Cap on the spectral efficiency in nats/s/Hz."""
        return self.cap * LN2

    def need(self, nats: Floats, limit_s: Floats, seconds: Floats) -> tuple[Floats, Floats]:
        """Return the bandwidth in Hz that sends a number of nats in a time, and its elasticity -(db/b) / (dt/t).

        With y = limit/t and s the spectral efficiency, b = nats / (t s) and the elasticity is v/(v - 1), v = s + y.
        Where the cap binds it replaces s, and the elasticity is 1. ``nats`` is z ln 2 / efficiency, ``limit_s`` =
        nats/J the time that no bandwidth undercuts.
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
    """Return, for each J, the bandwidth of at most ``most_hz`` in which a link carries most: all of it for Shannon.

    With discrete modulation and coding schemes a smaller bandwidth may carry more: bisect the largest rate whose
    bandwidth fits.
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
    """Return the time to compute a job's cycles: U/f, eq. (5) of the paper.

    Parameters
    ----------
    cycles : array of float or float
        CPU cycles U = L C D of a job (local epochs, cycles per sample, samples).
    cpu_hz : array of float or float
        CPU frequency f in Hz.

    Returns
    -------
    array of float
        Seconds.
    """
    return np.asarray(np.divide(cycles, cpu_hz), dtype=np.float64)


def compute_energy(cycles: Values, cpu_hz: Values, capacitance: Values) -> Floats:
    """Return the energy to compute a job's cycles: (alpha/2) U f^2, eq. (6) of the paper.

    Parameters
    ----------
    cycles : array of float or float
        CPU cycles U of a job.
    cpu_hz : array of float or float
        CPU frequency f in Hz.
    capacitance : array of float or float
        alpha/2, half of the effective switched capacitance, in J s^2 (per cycle and Hz^2).

    Returns
    -------
    array of float
        Joules.

    Examples
    --------
    >>> round(float(compute_energy(1e9, 1e9, 1e-28)), 6)
    0.1
    """
    return np.asarray(np.multiply(capacitance, cycles) * np.square(cpu_hz), dtype=np.float64)


def upload_time(bits: Values, rate: Values) -> Floats:
    """Return the time to send a number of bits: z/r, eq. (8) of the paper.

    Parameters
    ----------
    bits : array of float or float
        Size z of the upload in bits.
    rate : array of float or float
        Rate r in bit/s.

    Returns
    -------
    array of float
        Seconds; inf where the rate is 0.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.divide(bits, rate), dtype=np.float64)


def upload_energy(power_w: Values, upload_s: Values) -> Floats:
    """Return the energy to send for a time: p t, eq. (9) of the paper.

    Parameters
    ----------
    power_w : array of float or float
        Transmit power p in W.
    upload_s : array of float or float
        Time t to send, in seconds.

    Returns
    -------
    array of float
        Joules.
    """
    return np.asarray(np.multiply(power_w, upload_s), dtype=np.float64)
