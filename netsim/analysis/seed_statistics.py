"""Means over seeds with 95 % intervals (Student's t; seeds are treated as independent draws).

Differences are paired by seed: two cases under one seed have the same environment, so their common variation cancels.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netsim.base.types import Floats

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """Mean over ``count`` seeds, half the width of its interval (None for a single seed), and the median."""

    mean: float | None
    half: float | None
    count: int
    median: float | None = None

    @property
    def low(self) -> float | None:
        return None if self.mean is None or self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        return None if self.mean is None or self.half is None else self.mean + self.half


def quantile(count: int) -> float:
    """Return the half width of the interval in standard errors: 12.7 for two seeds, 4.30 for three, 1.96 for many."""
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 0.5 + LEVEL / 2))


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of values, one per seed, with its interval.

    >>> found = estimate([1.0, 2.0, 3.0])      # 4.303 * 1 / sqrt(3)
    >>> found.mean, round(found.half, 3)
    (2.0, 2.484)
    """
    count = len(values)
    if not count:
        return Estimate(None, None, 0)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, None, 1, mean)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    return Estimate(mean, quantile(count) * deviation / math.sqrt(count), count, statistics.median(values))


def paired(values: Mapping[int, float], against: Mapping[int, float]) -> Estimate:
    """Return the mean difference of two cases over their common seeds."""
    return estimate([value - against[seed] for seed, value in values.items() if seed in against])


def records(accuracy: Sequence[float | None]) -> list[int]:
    """Return the indices at which the accuracy exceeds all earlier values: only there a target is first reached."""
    best, found = -math.inf, []
    for place, value in enumerate(accuracy):
        if value is not None and value > best:
            best = value
            found.append(place)
    return found


def mean_curve(xs: Sequence[Floats], ys: Sequence[Floats], most: int) -> tuple[Floats, list[Estimate]]:
    """Return the mean of step functions, one per seed, at up to ``most`` points.

    A curve has no value before its first point, and keeps its last value: a finished run keeps its model.
    """
    first, last = max(x[0] for x in xs), max(x[-1] for x in xs)
    places = np.unique(np.concatenate([x[(x >= first) & (x <= last)] for x in xs]))
    if len(places) > most:
        places = np.linspace(first, last, most)
    rows = np.array([y[np.searchsorted(x, places, side="right") - 1] for x, y in zip(xs, ys, strict=True)])
    return places, [estimate(column.tolist()) for column in rows.T]
