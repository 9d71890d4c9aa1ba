"""Schedulers: who gets how much of the band at an instant."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from netsim.allocation.sharing import Active, common_end
from netsim.base.arrays import Floats
from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry

ROUNDING = 1e-9   # a plan may overshoot the band by rounding, never by more


class Scheduler(Protocol):
    """Divides the band among the jobs that want to send; asked when one starts or ends, or when the channel changes.

    ``fixed`` promises that a job that fits gets its planned bandwidth and keeps it, so that the scheduler is asked only
    while a job waits. A scheduler with a true ``alone`` gives the whole band to one job at a time.
    """

    @property
    def fixed(self) -> bool: ...

    def bandwidth(self, active: Active, now: float) -> Floats:
        """Hertz for each job: 0 for one that has to wait, and no more than the band in all."""


class Planned:
    """FDMA with fixed shares, as in the paper; or with shares that change at the instants that the plan names."""

    fixed = True

    def bandwidth(self, active: Active, now: float) -> Floats:
        """Jobs on the air keep their share; then, in the order of readiness, as many jobs as fit, without overtaking.

        A job that sends for longer than planned keeps its share, and later jobs get what is left.
        """
        hertz = np.zeros(len(active.left_bits))
        slack = active.bandwidth_hz * ROUNDING
        room = active.bandwidth_hz + slack
        for i in np.flatnonzero(active.sending > 0.0):
            hertz[i] = active.planned_hz[i] if active.planned_hz[i] <= room else max(0.0, room - 2.0 * slack)
            room -= hertz[i]
        for i in np.flatnonzero((active.sending == 0.0) & (active.planned_hz > 0.0)):
            if active.planned_hz[i] > room:
                break
            hertz[i] = active.planned_hz[i]
            room -= hertz[i]
        return hertz


class Equal:
    """Processor sharing: every job that wants to send has the same share."""

    fixed = False

    def bandwidth(self, active: Active, now: float) -> Floats:
        return np.full(len(active.left_bits), active.bandwidth_hz / len(active.left_bits))


class Adaptive:
    """No upload ends later than with planned shares that stay, and every energy budget that such a plan keeps is kept.

    At every instant the bandwidths needed to end by the plan's end, within the budgets, fit into the band. Giving the
    whole band away makes the common end no later, so every job gets at least what it needs, and the needs do not grow.
    Plans whose shares change in time (slots) have no such guarantee.
    """

    fixed = False

    def bandwidth(self, active: Active, now: float) -> Floats:
        return common_end(active)


class Tdma:
    """A job keeps the band to its end; then the job that was ready first has it."""

    fixed = False
    alone = True

    def bandwidth(self, active: Active, now: float) -> Floats:
        hertz = np.zeros(len(active.left_bits))
        hertz[int(np.argmax(active.sending > 0.0))] = active.bandwidth_hz      # the first in line if none sends yet
        return hertz


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and hasattr(found, "bandwidth") and hasattr(found, "fixed")):
        raise InputError("wrong-interface", "allocation.sharing", f'"{name}", which is no scheduler',
                         'a class with "fixed" and bandwidth(active, now)')


SCHEDULERS = Registry("scheduler", "allocation.sharing", {
    "planned": Entry("netsim.cell.schedulers:Planned", "the share that the plan gave, from start to end"),
    "equal": Entry("netsim.cell.schedulers:Equal", "equal parts, reallocated at each start and end"),
    "adaptive": Entry("netsim.cell.schedulers:Adaptive",
                      "reallocated so that all uploads end together, within their energy budgets"),
    "tdma": Entry("netsim.cell.schedulers:Tdma", "the whole band for one after the other, first ready first"),
}, check=_check)
