"""Means over seeds with how sure they are: Student's t, 95 %, which takes the seeds for independent draws.

Paired differences take a seed at a time: two cases under one seed meet the same world, so what the world does to both
cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netsim.base.arrays import Floats

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over so many seeds, and half the width of its interval: None where one seed cannot tell."""

    mean: float | None
    half: float | None
    count: int

    @property
    def low(self) -> float | None:
        return None if self.mean is None or self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        return None if self.mean is None or self.half is None else self.mean + self.half


def quantile(count: int) -> float:
    """By how many standard errors a mean over so many seeds may be off: 12.7 of two, 4.30 of three, 1.96 of many."""
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 0.5 + LEVEL / 2))


def estimate(values: Sequence[float]) -> Estimate:
    """The mean with its interval, of what seeds came to.

    >>> found = estimate([1.0, 2.0, 3.0])      # 4.303 * 1 / sqrt(3)
    >>> found.mean, round(found.half, 3)
    (2.0, 2.484)
    """
    count = len(values)
    if not count:
        return Estimate(None, None, 0)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    return Estimate(mean, quantile(count) * deviation / math.sqrt(count), count)


def paired(values: Mapping[int, float], against: Mapping[int, float]) -> Estimate:
    """The difference of two cases, seed by seed, over the seeds that both have."""
    return estimate([value - against[seed] for seed, value in values.items() if seed in against])


def records(accuracy: Sequence[float | None]) -> list[int]:
    """The places at which an accuracy is higher than all before: there, and only there, targets are reached first."""
    best, found = -math.inf, []
    for place, value in enumerate(accuracy):
        if value is not None and value > best:
            best = value
            found.append(place)
    return found


def mean_curve(xs: Sequence[Floats], ys: Sequence[Floats], most: int) -> tuple[Floats, list[Estimate]]:
    """The mean over seeds of curves that step at places of their own, at up to so many places.

    A curve has no value before its first place, and keeps its last one: a run that has ended keeps its model.
    """
    first, last = max(x[0] for x in xs), max(x[-1] for x in xs)
    places = np.unique(np.concatenate([x[(x >= first) & (x <= last)] for x in xs]))
    if len(places) > most:
        places = np.linspace(first, last, most)
    rows = np.array([y[np.searchsorted(x, places, side="right") - 1] for x, y in zip(xs, ys, strict=True)])
    return places, [estimate(column.tolist()) for column in rows.T]
