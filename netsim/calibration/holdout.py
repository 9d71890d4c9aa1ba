"""Validation on held-out rounds: predicted round lengths and energies against the measured ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from netsim.base.types import Floats, Ints
from netsim.calibration.laws import Laws
from netsim.calibration.log import DURATIONS, Log

FOLDS = 5
DRAWS = 400
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
AT_ONCE = 4_000_000          # draws in memory
MOST_ROWS = 200_000          # rows of rounds that are predicted; of longer logs, rounds at regular distances
MOST_JOBS = 20_000           # jobs of a round that is predicted


@dataclass(frozen=True, eq=False)
class Holdout:
    """Held-out rounds: measured values and quantiles of their predictions.

    ``rounds`` has the columns round, measured_s, the quantiles low95_s, low50_s, median_s, high50_s, high95_s, and the
    same with _j if the log has energies.
    """

    rounds: pl.DataFrame
    skipped: int             # rounds with a device that the other rounds do not show, or with more than MOST_JOBS

    def as_json(self) -> dict[str, Any]:
        """Return errors and coverages: shares, errors relative to the measured value."""
        if not self.rounds.height:
            return {"median_error": None, "coverage_50": None, "coverage_95": None, "rounds": 0,
                    "skipped": self.skipped}
        found: dict[str, Any] = {**self._errors("s"), "rounds": self.rounds.height, "skipped": self.skipped}
        if "measured_j" in self.rounds.columns and (energy := self._errors("j")):
            found["energy"] = energy
        return found

    def _errors(self, unit: str) -> dict[str, float]:
        measured, low95, low50, median, high50, high95 = (
            self.rounds[f"{name}_{unit}"].to_numpy() for name in ("measured", *NAMES))
        known = np.isfinite(measured) & np.isfinite(median)
        if not known.any():
            return {}
        error = np.abs(median - measured)[known]
        return {
            "median_error": float(np.median(error / measured[known])), f"median_error_{unit}": float(np.median(error)),
            "coverage_50": float(np.mean((low50 <= measured)[known] & (measured <= high50)[known])),
            "coverage_95": float(np.mean((low95 <= measured)[known] & (measured <= high95)[known])),
        }


NAMES = ("low95", "low50", "median", "high50", "high95")


def validate(log: Log, rng: np.random.Generator, last: float | None = None) -> Holdout:
    """Fit to some rounds and predict the others; a row without a round is predicted on its own.

    ``last`` is the share of the rounds, the last ones, that are predicted from the earlier rounds. By default each
    fifth of the rounds is predicted from the other four.
    """
    log = log.finished
    log = log.only(log.round % -(-len(log) // MOST_ROWS) == 0) if len(log) > MOST_ROWS else log
    tables, skipped = [], 0
    for held_out in _folds(log, rng, last):
        rest, test = log.only(~held_out), log.only(held_out)
        if not np.isfinite(rest["compute_s"]).any():
            continue
        laws = Laws.of(rest)
        known = laws.covers(test)
        size = int(test.round.max()) + 1
        whole = (np.bincount(test.round[~known], minlength=size)[test.round] == 0) & (
            np.bincount(test.round, minlength=size)[test.round] <= MOST_JOBS)
        skipped += len(np.unique(test.round[~whole]))
        if whole.any():
            tables.append(_predicted(laws, test.only(whole), rng))
    return Holdout(_frame(log, np.concatenate(tables) if tables else np.empty((0, 13))), skipped)


def _frame(log: Log, rows: Floats) -> pl.DataFrame:
    """Return the predictions as a table with the labels of the rounds; without energies if the log has none."""
    names = ["number", *(f"{name}_{unit}" for unit in "sj" for name in ("measured", *NAMES))]
    frame = pl.DataFrame(rows, schema=names, orient="row").sort("number")
    labels = [log.rounds[int(number)] if number < len(log.rounds) else "" for number in frame["number"]]
    frame = frame.with_columns(round=pl.Series(labels, dtype=pl.String))
    energies = "energy_j" in log.columns
    return frame.select("round", *(name for name in names[1:] if energies or name.endswith("_s")))


def _folds(log: Log, rng: np.random.Generator, last: float | None) -> list[Any]:
    """Return masks of held-out rows: consecutive rounds; of rows without a round, each device's in random order."""
    if not log.has_rounds:
        order = np.lexsort((rng.random(len(log)), log.unit))
        place = np.empty(len(log), dtype=np.int64)
        first = np.searchsorted(log.unit[order], log.unit[order])
        place[order] = np.arange(len(log)) - first
        if last is not None:
            return [place >= (1 - last) * np.bincount(log.unit)[log.unit]]
        return [place % FOLDS == fold for fold in range(min(FOLDS, int(place.max()) + 1))]
    rounds, number = np.unique(log.round, return_inverse=True)
    if last is not None:
        return [number >= round((1 - last) * len(rounds))]
    folds = min(FOLDS, len(rounds))
    return [number * folds // len(rounds) == fold for fold in range(folds)]


def _predicted(laws: Laws, test: Log, rng: np.random.Generator) -> Floats:
    """Return number, measured seconds, quantiles, measured joules and quantiles of each round."""
    order = np.argsort(test.round, kind="stable")
    test = test.only(order)
    starts = np.flatnonzero(np.diff(test.round, prepend=-1))
    ends = np.append(starts[1:], len(test))
    chunks, first = [], 0
    for place in range(len(starts)):
        if (ends[place] - starts[first]) * DRAWS > AT_ONCE or place == len(starts) - 1:
            rows = np.arange(starts[first], ends[place])
            chunks.append(_chunk(laws, test.only(rows), starts[first:place + 1] - starts[first], rng))
            first = place + 1
    return np.concatenate(chunks)


def _chunk(laws: Laws, test: Log, starts: Ints, rng: np.random.Generator) -> Floats:
    seconds, joules = laws.draw(test, rng, DRAWS)
    measured = np.nansum([test[name] for name in DURATIONS], axis=0)
    parts = [test.round[starts].astype(float), np.maximum.reduceat(measured, starts),
             *np.quantile(np.maximum.reduceat(seconds, starts, axis=1), QUANTILES, axis=0)]
    if joules is None:
        parts += [np.full(len(starts), np.nan)] * 6
    else:       # a round without one of its energies has none
        parts += [np.add.reduceat(test["energy_j"], starts),
                  *np.quantile(np.add.reduceat(joules, starts, axis=1), QUANTILES, axis=0)]
    return np.stack(parts, axis=1)
