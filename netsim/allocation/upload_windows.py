"""The best division of the band if every device sends in a window of its own: a concave program, by its dual.

Between two instants at which a window opens or closes the bandwidths are constant, and all devices with an open window
send. The common factor theta, by which every device could send more than its bits, is the least over weights l (sum of
l z = 1) of sum_k D_k max over bandwidths of sum_n l_n Q_n(b_n): the weights price bits, and a price m_k the band of
slot k, with l_n Q_n'(b) = m_k. A barrier keeps all weights positive where one device alone decides; Newton finds them.
The band is 1 here, J and bits are divided by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.base.types import Bools, Floats, Ints
from netsim.physics import LN2, rate_slope

MOST_STEPS = 60
SMALL = 1e-12         # of the value: a gain so small is lost in its rounding, and not looked for


@dataclass(frozen=True, eq=False)
class BandDivision:
    """The best division of the band; arrays of slots have a row per slot, a column per device."""

    edges_s: Floats
    share: Floats           # of the band; 0 outside of the window
    rate: Floats            # bits a second and hertz of the whole band
    price: Floats           # m_k
    weight: Floats          # l_n
    value: float            # theta, less the barrier
    ratio: Floats           # what each device can send, over what it has to
    open: Bools             # whose window is open

    @property
    def last_second(self) -> float:
        """Derivative of theta with respect to the length of the last slot."""
        return float(self.weight @ self.rate[-1])


@np.errstate(all="ignore")           # where a price is far above a weight, the share is nothing
def divide(
    bits: Floats, snr: Floats, opens_s: Floats, closes_s: Floats, barrier: float, weight: Floats | None = None,
) -> BandDivision:
    """Return the division with the largest theta; ``weight`` is the start of the iteration."""
    edges = np.unique(np.concatenate([opens_s, closes_s]))
    lasts = np.diff(edges)
    open_ = (opens_s <= edges[:-1, None]) & (closes_s >= edges[1:, None])
    used = open_.any(axis=1)
    x = np.full(len(bits), 1.0 / len(bits)) if weight is None else weight * bits
    market = _BandDual(bits, snr, lasts[used], open_[used])
    x = _least(market, x / x.sum(), barrier)
    rows = len(lasts)
    share, rate, price = np.zeros((rows, len(bits))), np.zeros((rows, len(bits))), np.zeros(rows)
    share[used], rate[used], price[used] = market.share, market.rate, market.price
    value = market.value - barrier * float(np.log(x).sum())
    return BandDivision(edges, share, rate, price, x / bits, value, market.sent, open_)


@np.errstate(all="ignore")
def worth(bits: Floats, snr: Floats, division: BandDivision, slots: Ints) -> Floats:
    """Return, for each device, the value of a second in its slot with it, less the value without it."""
    others = division.open[slots] & ~np.eye(len(bits), dtype=bool)
    some = others.any(axis=1)
    without = np.zeros(len(bits))
    if some.any():
        market = _BandDual(bits, snr, np.ones(int(some.sum())), others[some])
        market.at(division.weight * bits)
        without[some] = market.rate @ division.weight
    return np.asarray(division.rate[slots] @ division.weight - without)


class _BandDual:
    """The slots at given weights of the bits: bandwidths, prices, and the derivatives of the value."""

    def __init__(self, bits: Floats, snr: Floats, lasts: Floats, open_: Bools) -> None:
        self.bits, self.snr, self.lasts = bits, snr, lasts
        self.open = open_
        self.whole = rate_slope(1.0, snr)                                   # Q'(1)
        self.part = rate_slope(1.0, snr * open_.sum(axis=1)[:, None])       # Q'(1/count)
        self.price = np.zeros(len(lasts))

    def at(self, x: Floats) -> None:
        """Find the prices at which the devices want the whole band."""
        level = x / self.bits
        least = np.where(self.open, level * self.whole, 0.0).max(axis=1)
        most = np.where(self.open, level * self.part, 0.0).max(axis=1)
        price = np.clip(self.price, least, most)
        per_price = LN2 / level
        for _ in range(60):
            d = price[:, None] * per_price
            s = efficiency_at(d)
            share = np.where(self.open, self.snr / np.expm1(s), 0.0)
            total = share.sum(axis=1)
            falls = (share * d / np.square(np.expm1(-s))).sum(axis=1)       # -dtotal / dln price
            least, most = np.where(total >= 1.0, price, least), np.where(total <= 1.0, price, most)
            if (np.abs(total - 1.0) < 1e-13).all():
                break
            guess = price * np.exp(np.clip(total * np.log(total) / falls, -2.0, 2.0))
            inside = (guess > least) & (guess < most)
            price = np.where(np.abs(total - 1.0) < 1e-14, price, np.where(inside, guess, (least + most) / 2.0))
            if (most - least <= 4e-16 * most).all():
                break
        self.price, self.share, self.s, self.d = price, share / total[:, None], s, d
        self.rate = self.share * s / LN2
        self.sent = (self.lasts @ self.rate) / self.bits
        self.value = float(self.sent @ x)

    def curvature(self, x: Floats) -> Floats:
        """Return the second derivatives of the value with respect to x."""
        level = x / self.bits
        slope = np.where(self.open, self.d / LN2, 0.0)                      # Q' of each, = m/l
        give = np.where(self.open, self.share * LN2 / np.square(np.expm1(-self.s)) / level, 0.0)      # -1/(l Q'')
        own = (self.lasts[:, None] * slope * slope * give).sum(axis=0)
        moved = slope * give * np.sqrt(self.lasts / give.sum(axis=1))[:, None]
        return np.asarray((np.diag(own) - moved.T @ moved) / np.outer(self.bits, self.bits))


def _least(market: _BandDual, x: Floats, barrier: float) -> Floats:
    """Return the weights x = l z of least value less the barrier, by Newton along sum x = 1."""
    market.at(x)
    worth = market.value - barrier * np.log(x).sum()
    size = len(x)
    for _ in range(MOST_STEPS):
        slope = market.sent - barrier / x
        system = np.ones((size + 1, size + 1))
        system[-1, -1] = 0.0
        system[:-1, :-1] = market.curvature(x) + np.diag(barrier / np.square(x))
        step = np.linalg.solve(system, np.append(-slope, 0.0))[:-1]
        gain = -float(slope @ step)
        if gain <= 1e-9 * barrier or not np.isfinite(gain):
            break
        shrinking = step < 0.0
        length = min(1.0, 0.95 * float((-x[shrinking] / step[shrinking]).min(initial=np.inf)))
        while length > 1e-8:
            tried = x + length * step
            market.at(tried)
            now = market.value - barrier * np.log(tried).sum()
            if now <= worth - 1e-4 * length * gain or gain < SMALL * abs(worth):
                break
            length /= 2.0
        else:
            market.at(x)
            break
        x, worth = tried, now
    return x


def efficiency_at(d: Floats) -> Floats:
    """Return the spectral efficiency s = ln(1 + J/b) in nats at which Q'(b) = d / ln 2: s + e^-s - 1 = d, by Newton."""
    s = np.sqrt(2.0 * d) + d / 3.0
    for _ in range(4):
        decay = np.expm1(-s)
        s = s + (s + decay - d) / decay
    return s
