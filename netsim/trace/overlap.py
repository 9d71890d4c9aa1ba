"""Time of spans, and integrals of counters, within intervals such as rounds."""

from __future__ import annotations

import numpy as np

from netsim.base.types import Floats


def seconds_within(t0: Floats, t1: Floats, begins: Floats, ends: Floats) -> Floats:
    """Return, for each interval from ``begins`` to ``ends``, the summed seconds in it of all spans ``t0`` to ``t1``."""
    return _since(t0, ends) - _since(t1, ends) - (_since(t0, begins) - _since(t1, begins))


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
