"""Time of spans, and integrals of counters, within intervals such as rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.types import Floats

if TYPE_CHECKING:
    import polars as pl


def seconds_within(t0: Floats, t1: Floats, begins: Floats, ends: Floats) -> Floats:
    """Return, for each interval from ``begins`` to ``ends``, the summed seconds in it of all spans ``t0`` to ``t1``."""
    return _since(t0, ends) - _since(t1, ends) - (_since(t0, begins) - _since(t1, begins))


def parts_by_overlap(rounds: pl.DataFrame, spans: pl.DataFrame, parts: Mapping[str, tuple[str, ...]]) -> pl.DataFrame:
    """Return the rounds with parts by the time of all jobs in each round, also of jobs that end in a later one.

    ``parts`` gives the names of the spans of each part.
    """
    import polars as pl

    begins, ends = rounds["t0"].to_numpy(), rounds["t1"].to_numpy()
    of = {part: spans.filter(pl.col("name").is_in(names)) for part, names in parts.items()}
    within = {part: seconds_within(own["t0"].to_numpy(), own["t1"].to_numpy(), begins, ends)
              for part, own in of.items()}
    whole = sum(within.values())
    scale = np.divide(ends - begins, whole, out=np.zeros(len(begins)), where=whole > 0.0)
    return rounds.with_columns(**{f"{part}_s": within[part] * scale for part in parts})


def _since(marks: Floats, times: Floats) -> Floats:
    """Return, for each time, the summed seconds since all marks before it."""
    marks = np.sort(marks)
    before = np.searchsorted(marks, times)
    return np.asarray(before * times - np.concatenate([[0.0], np.cumsum(marks)])[before])


def held_within(t: Floats, values: Floats, begins: Floats, ends: Floats) -> Floats:
    """Return, for each interval, the integral of a step function: ``values`` from ``t`` on, and 0 before the first."""
    order = np.argsort(t, kind="stable")
    t, values = t[order], values[order]
    whole = np.concatenate([[0.0, 0.0], np.cumsum(values[:-1] * np.diff(t))])      # until each mark
    marks, held = np.concatenate([[-np.inf], t]), np.concatenate([[0.0], values])

    def until(times: Floats) -> Floats:
        last = np.searchsorted(marks, times, side="right") - 1
        past = np.where(last > 0, times - np.where(last > 0, marks[last], 0.0), 0.0)
        return np.asarray(whole[last] + held[last] * past)

    return until(ends) - until(begins)
