"""Shares of the band with which all who send end together, within what their budgets still pay for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from netsim.allocation.sao import foreseen
from netsim.base.arrays import Floats
from netsim.base.tolerances import AMPLE, CONSTRAINT
from netsim.physics import LN2, SHANNON, LinkModel, Shannon, best_hz

LAST_STEP = 1e-8    # needs so near to the band that a straight line leads to it
NO_BITS = 1e-100    # stands for what rounding has left of nothing, so that it still has a share, and an end


@np.errstate(all="ignore")
def common_end(
    left_bits: Floats, snr_hz: Floats, left_s: Floats, whole_hz: float, link: LinkModel = SHANNON,
) -> Floats:
    """Hertz for each of those with bits left, the whole band in all.

    In x seconds a device needs the b with Q(b) = left / min(x, what its budget pays for); x is where the needs add up
    to the band. ``left_s`` may be NaN: no budget. A budget that even the whole band could not keep no longer counts;
    where the budgets cannot all be kept, none does. By a link whose needs jump, a part of the band may stay free.
    """
    bits = np.maximum(left_bits, NO_BITS)
    bandwidth_hz = min(whole_hz, AMPLE * float(snr_hz.sum()))
    alone = bits / link.rate(best_hz(link, bandwidth_hz, snr_hz), snr_hz)
    needs = _needs(bits, snr_hz, link)
    lasts = np.where(alone <= left_s * (1.0 + CONSTRAINT), left_s, np.inf)
    bound = np.isfinite(lasts)
    if bound.any() and needs(np.where(bound, lasts, 1.0))[0][bound].sum() > bandwidth_hz * (1.0 + CONSTRAINT):
        lasts = np.full(len(bits), np.inf)
    equal = bits / link.rate(bandwidth_hz / len(bits), snr_hz)
    low = float(alone.max())
    high = max(float(equal.max()), float(lasts[np.isfinite(lasts)].max(initial=0.0)))
    while np.isfinite(lasts).any() and needs(np.minimum(high, lasts))[0].sum() > bandwidth_hz * (1.0 + CONSTRAINT):
        high *= 2.0                                          # some budgets are tight: the others have to be slower
    if type(link) is not Shannon:
        return _first_that_fits(needs, lasts, bandwidth_hz, low, high)
    start, _ = foreseen(alone, equal, low)
    last_step = LAST_STEP if link.cap == math.inf else 0.0            # a cap bends the line
    hertz = _filled(needs, lasts, bandwidth_hz, low, start, high, last_step)
    return np.asarray(hertz * (whole_hz / np.add.reduce(hertz)))


Needs = Callable[[Floats], tuple[Floats, Floats]]


def _needs(bits: Floats, snr_hz: Floats, link: LinkModel) -> Needs:
    """The bandwidths that send so many bits in so many seconds, and their elasticities (by other links 0)."""
    if type(link) is Shannon:
        nats = bits * (LN2 / link.efficiency)
        return partial(link.need, nats, nats / snr_hz)
    return lambda seconds: (link.bandwidth(bits / seconds, snr_hz), np.zeros(len(bits)))


def _first_that_fits(needs: Needs, lasts: Floats, bandwidth_hz: float, low: float, high: float) -> Floats:
    """The needs at the least x at which they fit the band, by bisection."""
    from netsim.allocation.roots import first_not_positive  # scipy, which takes its time to load

    def overfull(x: float) -> float:
        return float(needs(np.minimum(x, lasts))[0].sum()) / bandwidth_hz - 1.0

    return needs(np.minimum(first_not_positive(overfull, low, high), lasts))[0]


def _filled(
    needs: Needs, lasts: Floats, bandwidth_hz: float, low: float, x: float, high: float, last_step: float,
) -> Floats:
    """The needs at the x where they are the band: Newton on their reciprocal, nearly a straight line, in a bracket."""
    x = x if low <= x <= high else math.sqrt(low * high)
    for _ in range(200):
        hertz, elasticity = needs(np.minimum(x, lasts))
        total = float(np.add.reduce(hertz))
        low, high = (low, x) if total <= bandwidth_hz else (x, high)
        over = total / bandwidth_hz - 1.0
        if abs(over) < 1e-14 or high - low <= 4e-16 * high:
            break
        elasticity = np.where(x < lasts, elasticity, 0.0)
        slope = float(hertz.dot(elasticity)) / (total * total * x)
        guess = x + (1.0 / bandwidth_hz - 1.0 / total) / slope if slope > 0.0 else high
        if abs(over) < last_step and not ((min(x, guess) <= lasts) & (lasts <= max(x, guess))).any():
            return hertz * (1.0 - elasticity * (guess / x - 1.0))       # to the last digits: the square is below them
        x = guess if low < guess < high else (low + high) / 2.0
    return hertz
