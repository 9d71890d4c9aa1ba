"""Linear laws with log-normal residuals, fitted for all devices at once, and draws from their posterior.

The model of a unit (a device) is ``y = (a x0 + b x1) exp(e)`` with ``e ~ N(0, sd^2)``: compute_s over batches and
samples, energy_j over upload_s and compute_s, upload_s over bits (``b`` alone). ``a`` and ``b`` minimise the squares of
``log y - log(a x0 + b x1)``, so errors are relative and the law gives the median.

Intervals use the t distribution. Residual variances of units with few rows are shrunk towards those of the other units:
``(d s^2 + d0 s0^2) / (d + d0)`` with ``d + d0`` degrees of freedom, where ``d0`` and ``s0`` are estimated from all
units (Smyth, 2004).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.special import digamma, polygamma, stdtrit

from netsim.base.types import Bools, Floats, Ints

LEVEL = 0.95
SAME_RATIO = 1e-3        # variation of x0 / x1 below which a and b cannot be separated
MOST_PRIOR = 1e3         # degrees of freedom of the common variance
STEPS, HALVINGS = 60, 12
MOST_LOG, MOST_SD = 100.0, 10.0      # beyond which an interval or a drawn sd of log y says nothing
LEAST = 1e-3             # share of the estimate below which no drawn law falls


@dataclass(frozen=True, eq=False)
class Fits:
    """Laws of ``n`` units: arrays of shape (n,), or (n, 2) for the coefficients a and b.

    ``free`` are the least-squares coefficients, which may be negative; ``value`` are the physical ones. ``root`` is
    the root of their covariance for sd = 1; where ``separable`` is false only b was fitted, and ``root[:, 1, 1]`` is
    the standard error of log b for sd = 1. Units without rows have NaN.
    """

    value: Floats
    low: Floats
    high: Floats
    free: Floats
    root: Floats             # (n, 2, 2)
    sd: Floats
    df: Floats
    ratio: Floats            # mean x0 / x1
    separable: Bools
    rows: Ints

    def draw(self, rng: np.random.Generator, units: Ints, draws: int) -> tuple[Floats, Floats]:
        """Return coefficients, shape (draws, units, 2), and residual sds, shape (draws, units)."""
        df = np.where(self.df[units] > 0, self.df[units], 1.0)
        known = np.nan_to_num(self.sd[units])                # 0 where the log shows no spread
        sd = np.minimum(known * np.sqrt(df / rng.chisquare(df, (draws, len(units)))), MOST_SD)
        z = rng.standard_normal((draws, len(units), 2))
        both = self.free[units] + sd[..., None] * np.einsum("uij,duj->dui", self.root[units], z)
        alone = np.zeros_like(both)
        alone[..., 1] = self.value[units, 1] * np.exp(sd * self.root[units, 1, 1] * z[..., 1])
        drawn = np.where(self.separable[units, None], self._physical(both, units), alone)
        return drawn, sd

    def draw_once(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return coefficients, shape (n, 2), and residual sds, shape (n,)."""
        both, sd = self.draw(rng, np.arange(len(self.rows)), 1)
        return both[0], sd[0]

    def _physical(self, drawn: Floats, units: Ints) -> Floats:
        """Replace negative coefficients by 0 and keep the law at the mean ratio of x0 and x1, which is known best."""
        ratio, value = self.ratio[units], self.value[units]
        total = np.maximum(drawn[..., 1] + ratio * drawn[..., 0], LEAST * (value[:, 1] + ratio * value[:, 0]))
        a = np.clip(drawn[..., 0], 0.0, total / np.where(ratio > 0, ratio, 1.0))
        return np.stack([a, np.maximum(total - ratio * a, 0.0)], axis=-1)

    @property
    def between(self) -> tuple[float, float]:
        """Median of b over the units, and the sd of log b between units, without the error of each estimate."""
        known = np.flatnonzero((self.rows > 0) & ~self.separable)
        logs = np.log(self.value[known, 1])
        error = np.square(self.sd[known]) * np.square(self.root[known, 1, 1])
        spread = np.var(logs, ddof=1) - np.mean(error) if len(known) > 1 else np.nan
        return float(np.exp(np.mean(logs))), float(np.sqrt(max(spread, 0.0))) if len(known) > 1 else float("nan")


def fit(unit: Ints, x0: Floats | None, x1: Floats, y: Floats, units: int) -> Fits:
    """Fit the laws of all units: y over x0 and x1, or over x1 alone; rows with NaN are left out."""
    x0 = np.zeros_like(x1) if x0 is None else x0
    known = np.isfinite(x0) & np.isfinite(x1) & np.isfinite(y)
    rows = _Rows.of(unit[known], x0[known], x1[known], np.log(y[known]), units)
    separable = rows.separable()
    b, se, squares = rows.alone(rows.x1)
    value = np.stack([np.zeros(units), b], axis=1)
    free, root = value.copy(), np.zeros((units, 2, 2))
    root[:, 1, 1] = se
    degrees = np.maximum(rows.count - 1.0 - separable, 0.0)
    if separable.any():
        both, roots, least = rows.both(separable, b)
        free[separable], root[separable], squares[separable] = both, roots, least
        value[separable] = rows.physical(free, b)[separable]
    sd, df = moderated(squares, degrees)
    low, high = _intervals(value, free, root, sd, df, separable)
    return Fits(value, low, high, free, root, sd, df, rows.ratio, separable, rows.count.astype(np.int64))


def _intervals(
    value: Floats, free: Floats, root: Floats, sd: Floats, df: Floats, separable: Bools,
) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % intervals: on a linear scale for a and b, on a log scale for b alone."""
    t = np.where(df > 0, stdtrit(np.maximum(df, 1e-9), 0.5 + LEVEL / 2), np.nan)
    half = (t * sd)[:, None] * np.sqrt(np.square(root).sum(axis=2))
    factor = np.exp(np.minimum(t * sd * root[:, 1, 1], MOST_LOG))[:, None]
    low = np.where(separable[:, None], np.clip(free - half, 0.0, value), value / factor)
    high = np.where(separable[:, None], np.maximum(free + half, value), value * factor)
    low[~separable, 0] = high[~separable, 0] = np.nan
    return low, high


def moderated(squares: Floats, degrees: Floats) -> tuple[Floats, Floats]:
    """Return residual sds and degrees of freedom of all units, with a share of the variance of the other units."""
    own = np.divide(squares, degrees, out=np.zeros_like(squares), where=degrees > 0)
    some = (degrees > 0) & (own > 1e-24)       # exact repeats say nothing about chance
    if not some.any():
        return np.where(degrees > 0, 1e-12, np.nan), degrees
    d, s2 = degrees[some], own[some]
    level = np.log(s2) - digamma(d / 2) + np.log(d / 2)
    if some.sum() < 3:
        prior, common = (d.sum(), float(np.sum(d * s2) / d.sum()))
        lacking = degrees == 0
        return (np.sqrt(np.where(lacking, common, np.maximum(own, 1e-24))), np.where(lacking, prior, degrees))
    spread = float(np.var(level, ddof=1) - np.mean(polygamma(1, d / 2)))
    prior = min(_prior_degrees(spread), MOST_PRIOR, float(d.sum()))
    common = float(np.exp(np.mean(level) + digamma(prior / 2) - np.log(prior / 2)))
    return np.sqrt((degrees * own + prior * common) / (degrees + prior)), degrees + prior


def _prior_degrees(spread: float) -> float:
    """Return the d0 for which trigamma(d0 / 2) equals the variance of log variances between units."""
    if spread <= polygamma(1, MOST_PRIOR / 2):
        return MOST_PRIOR
    if spread >= polygamma(1, 0.05):
        return 0.1
    return 2 * float(brentq(lambda half: float(polygamma(1, half)) - spread, 0.05, MOST_PRIOR / 2))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows grouped by unit and equal columns: ``n`` rows each, with the mean and the squares of log y."""

    unit: Ints
    x0: Floats
    x1: Floats
    n: Floats
    y: Floats                # mean of log y
    within: Floats           # sum of squares of log y around it
    units: int

    @classmethod
    def of(cls, unit: Ints, x0: Floats, x1: Floats, y: Floats, units: int) -> _Rows:
        groups = pl.DataFrame({"unit": unit, "x0": x0, "x1": x1, "y": y}).group_by(
            "unit", "x0", "x1", maintain_order=True).agg(
            n=pl.len().cast(pl.Float64), mean=pl.col("y").mean(), within=pl.col("y").var(ddof=0) * pl.len())
        unit, x0, x1, n, mean, within = (groups[name].to_numpy() for name in groups.columns)
        return cls(unit, x0, x1, n, mean, within, units)

    def sum(self, values: Floats) -> Floats:
        found: Floats = np.bincount(self.unit, weights=self.n * values, minlength=self.units).astype(np.float64)
        return found

    @property
    def count(self) -> Floats:
        return self.sum(np.ones_like(self.y))

    @property
    def ratio(self) -> Floats:
        """Mean x0 / x1 of each unit."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Floats = self.sum(self.x0 / self.x1) / self.count
        return found

    def separable(self) -> Bools:
        """Return the units whose rows separate a and b: three rows or more, and x0 / x1 varies."""
        mean = self.ratio
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = self.sum(np.square(self.x0 / self.x1 - mean[self.unit])) / self.count
            return (self.count >= 3) & (np.sqrt(variance) > SAME_RATIO * mean) & (mean > 0)

    def alone(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Fit ``y = b x``; return b, the standard error of log b for sd = 1, and the residual sum of squares."""
        with np.errstate(invalid="ignore", divide="ignore"):
            log_b = self.sum(self.y - np.log(x)) / self.count
            residual = self.y - np.log(x) - log_b[self.unit]
            return np.exp(log_b), 1 / np.sqrt(np.maximum(self.count, 1.0)), self._squares(residual)

    def _squares(self, residual: Floats) -> Floats:
        inside = np.bincount(self.unit, weights=self.within, minlength=self.units)
        found: Floats = self.sum(np.square(residual)) + inside
        return found

    def physical(self, free: Floats, b: Floats) -> Floats:
        """Return coefficients of at least 0: where one is negative, the fit of the other alone."""
        a, _, _ = self.alone(np.maximum(self.x0, 1e-300))
        value = np.where(free[:, :1] < 0, np.stack([np.zeros_like(b), b], axis=1), free)
        return np.where(free[:, 1:] < 0, np.stack([a, np.zeros_like(a)], axis=1), value)

    def both(self, which: Bools, b: Floats) -> tuple[Floats, Floats, Floats]:
        """Fit a and b of some units by damped Gauss-Newton steps; return them, root covariances, and squares."""
        rows = which[self.unit]
        numbers = np.cumsum(which) - 1
        part = _Rows(numbers[self.unit[rows]], self.x0[rows], self.x1[rows], self.n[rows], self.y[rows],
                     self.within[rows], int(which.sum()))
        ratio, scale = self.ratio[which], b[which]
        c0, c1 = part.x0 / ratio[part.unit], part.x1            # both of the same order
        beta = np.stack([scale, scale], axis=1) / 2
        squares = part._loss(beta, c0, c1)
        for _ in range(STEPS):
            gram, slope = part._normal(beta, c0, c1)
            step: Floats = np.linalg.solve(gram, slope[..., None])[..., 0].astype(np.float64)
            moved, found = part._damped(beta, step, squares, c0, c1)
            done = np.abs(found - squares) <= 1e-12 * (squares + 1e-30)
            beta, squares = moved, found
            if done.all():
                break
        gram, _ = part._normal(beta, c0, c1)
        root = np.linalg.cholesky(np.linalg.inv(gram))
        per = np.stack([1 / ratio, np.ones_like(ratio)], axis=1)
        return beta * per, root * per[:, :, None], squares

    def _loss(self, beta: Floats, c0: Floats, c1: Floats) -> Floats:
        """Return the residual sum of squares of each unit; inf where the law is not positive in every row."""
        law = beta[self.unit, 0] * c0 + beta[self.unit, 1] * c1
        positive = self.sum((law <= 0).astype(float)) == 0
        found = self._squares(self.y - np.log(np.where(law > 0, law, 1.0)))
        return np.where(positive, found, np.inf)

    def _normal(self, beta: Floats, c0: Floats, c1: Floats) -> tuple[Floats, Floats]:
        """Return the normal equations of a Gauss-Newton step: shapes (n, 2, 2) and (n, 2)."""
        law = beta[self.unit, 0] * c0 + beta[self.unit, 1] * c1
        j0, j1, residual = c0 / law, c1 / law, self.y - np.log(law)
        s01 = self.sum(j0 * j1)
        gram = np.stack([self.sum(j0 * j0), s01, s01, self.sum(j1 * j1)], axis=1).reshape(-1, 2, 2)
        gram = gram + 1e-13 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(2)
        return gram, np.stack([self.sum(j0 * residual), self.sum(j1 * residual)], axis=1)

    def _damped(
        self, beta: Floats, step: Floats, before: Floats, c0: Floats, c1: Floats,
    ) -> tuple[Floats, Floats]:
        """Take each unit's step, halved until it does not make the fit worse."""
        size = np.ones(self.units)
        for _ in range(HALVINGS):
            moved = beta + size[:, None] * step
            after = self._loss(moved, c0, c1)
            worse = after > before * (1 + 1e-14)
            if not worse.any():
                return moved, after
            size = np.where(worse, size / 2, size)
        return np.where(worse[:, None], beta, moved), np.where(worse, before, after)
