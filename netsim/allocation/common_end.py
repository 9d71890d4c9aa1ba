"""Shares of the band with which all who send end together, within what their budgets still pay for."""

from __future__ import annotations

import math

import numpy as np

from netsim import physics
from netsim.allocation.sao import foreseen
from netsim.base.arrays import Floats
from netsim.physics import LN2, ONE

ROUNDING = 1e-9     # needs may exceed the band by so much: a plan that uses all of it does, by rounding
LAST_STEP = 1e-8    # needs so near to the band that a straight line leads to it
NO_BITS = 1e-100    # stands for what rounding has left of nothing, so that it still has a share, and an end


@np.errstate(all="ignore")
def common_end(left_bits: Floats, snr_hz: Floats, left_s: Floats, bandwidth_hz: float) -> Floats:
    """Hertz for each of those with bits left, the whole band in all.

    In x seconds a device needs the b with Q(b) = left / min(x, what its budget pays for); x is where the needs add up
    to the band. ``left_s`` may be NaN: no budget. A budget that even the whole band could not keep no longer counts;
    where the budgets cannot all be kept, none does.
    """
    bits = np.maximum(left_bits, NO_BITS)
    alone = bits / physics.fdma_rate(bandwidth_hz, snr_hz)
    lasts = np.where(alone <= left_s * (1.0 + ROUNDING), left_s, np.inf)
    bound = np.isfinite(lasts)
    if bound.any() and _needs(bits[bound], snr_hz[bound], lasts[bound])[0].sum() > bandwidth_hz * (1.0 + ROUNDING):
        lasts = np.full(len(bits), np.inf)
    equal = bits / physics.fdma_rate(bandwidth_hz / len(bits), snr_hz)
    low = float(alone.max())
    high = max(float(equal.max()), float(lasts[np.isfinite(lasts)].max(initial=0.0)))
    start, _ = foreseen(alone, equal, low)
    hertz = _filled(bits, snr_hz, lasts, bandwidth_hz, low, start, high)
    return np.asarray(hertz * (bandwidth_hz / np.add.reduce(hertz)))


def _needs(bits: Floats, snr_hz: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """The bandwidth that sends so many bits in so many seconds, and its elasticity -(db/b) / (dt/t)."""
    nats = bits * LN2
    fraction = nats / (snr_hz * seconds)
    s = physics.efficiency(fraction)
    v = s + fraction
    return nats / (seconds * s), v / (v - ONE)


def _filled(
    bits: Floats, snr_hz: Floats, lasts: Floats, bandwidth_hz: float, low: float, x: float, high: float,
) -> Floats:
    """The needs at the x where they are the band: Newton on their reciprocal, nearly a straight line, in a bracket."""
    while np.isfinite(lasts).any() and (
            _needs(bits, snr_hz, np.minimum(high, lasts))[0].sum() > bandwidth_hz * (1.0 + ROUNDING)):
        high *= 2.0                                          # some budgets are tight: the others have to be slower
    x = x if low <= x <= high else math.sqrt(low * high)
    for _ in range(200):
        hertz, elasticity = _needs(bits, snr_hz, np.minimum(x, lasts))
        total = float(np.add.reduce(hertz))
        low, high = (low, x) if total <= bandwidth_hz else (x, high)
        over = total / bandwidth_hz - 1.0
        if abs(over) < 1e-14 or high - low <= 4e-16 * high:
            break
        elasticity = np.where(x < lasts, elasticity, 0.0)
        slope = float(hertz.dot(elasticity)) / (total * total * x)
        guess = x + (1.0 / bandwidth_hz - 1.0 / total) / slope if slope > 0.0 else high
        if abs(over) < LAST_STEP and not ((min(x, guess) <= lasts) & (lasts <= max(x, guess))).any():
            return hertz * (1.0 - elasticity * (guess / x - 1.0))       # to the last digits: the square is below them
        x = guess if low < guess < high else (low + high) / 2.0
    return hertz
