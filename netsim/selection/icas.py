"""Selection ``icas``: devices drawn with probabilities that weigh importance against channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netsim.base.arrays import Floats
from netsim.selection.method import Method, draw, upload_s
from netsim.selection.view import Choice, View

LONGEST_S = 1e9     # an upload that gets nowhere counts as this long
LEAST = 1e-9        # of the largest norm: so that every device can be drawn


@dataclass(frozen=True)
class Icas(Method):
    """S draws without replacement by p_k = (n_k/n) |g_k| sqrt(rho / ((1 - rho) T_k + lam)), where lam makes sum p = 1.

    n_k/n is the device's share of the data, |g_k| the norm of its gradient when it last took part (a device that
    never did counts as the largest known), T_k its upload time over the full band, rho the weight of importance.
    ``Choice.probability`` is p_k in the order drawn, for ICAS's unbiased aggregation.

    Source: Ren et al., Scheduling for Cellular Federated Edge Learning with Importance and Channel Awareness, IEEE
    Transactions on Wireless Communications, 2020.
    """

    barrier: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})
    gives: ClassVar[frozenset[str]] = frozenset({"chances"})

    rho: Annotated[float, Field(gt=0, le=1)] = 0.9

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        there = np.flatnonzero(view.available)
        norm = view.gradient_norm[there]
        known = np.isfinite(norm)
        most = norm[known].max() if known.any() else 1.0
        norm = np.maximum(np.where(known, norm, most), LEAST * most or 1.0)
        samples = view.population.samples[there]
        p = probabilities(samples / samples.sum() * norm, upload_s(view, view.bandwidth_hz)[there], self.rho)
        drawn = draw(p, view.cohort_size, rng)
        return Choice(there[drawn], p[drawn])


def probabilities(importance: Floats, time_s: Floats, rho: float) -> Floats:
    """p = importance sqrt(rho / ((1 - rho) T + lam)) with the one lam, possibly negative, for which they sum to 1.

    With mu = lam + (1 - rho) min T the sum falls in mu, and lies above 1 where the fastest device alone reaches 1,
    and below 1 where all devices together would not if all were as fast as the fastest.
    """
    from scipy.optimize import brentq

    later = (1 - rho) * (np.minimum(time_s, LONGEST_S) - min(time_s.min(), LONGEST_S))

    def given(log_mu: float) -> Floats:
        p: Floats = importance * np.sqrt(rho / (later + np.exp(log_mu)))
        return p

    fastest = importance[np.argmin(later)]
    low, high = np.log(rho * fastest**2) - 1e-9, np.log(rho * importance.sum() ** 2) + 1e-9     # a hair, for rounding
    p = given(brentq(lambda log_mu: given(log_mu).sum() - 1, low, high, xtol=1e-12))
    return p / float(p.sum())
