"""Schedulers: bandwidth of each active job at an instant."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from netsim.allocation.equal_finish import ActiveUploads, equal_finish
from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry
from netsim.base.tolerances import CONSTRAINT
from netsim.base.types import Floats


class Scheduler(Protocol):
    """Interface of a scheduler, which divides the band among the jobs that send or want to send.

    The uplink calls ``bandwidth`` whenever an upload starts or ends and whenever the channel changes.

    Attributes
    ----------
    fixed : bool
        True if every job keeps its planned bandwidth from start to end; ``bandwidth`` is then called only while a job
        waits, or when a plan changes its shares in time.
    alone : bool, optional
        True if one job at a time has the whole band; plans of single jobs then assume all of it.

    Examples
    --------
    >>> class ShortestFirst:
    ...     fixed = False
    ...     def bandwidth(self, active, now):
    ...         return np.where(np.arange(len(active.left_bits)) == active.left_bits.argmin(), active.bandwidth_hz, 0.0)
    """

    @property
    def fixed(self) -> bool: ...

    def bandwidth(self, active: ActiveUploads, now: float) -> Floats:
        """Return the bandwidth of each job.

        Parameters
        ----------
        active : ActiveUploads
            The n active jobs as read-only columns of shape (n,): planned_hz, left_bits, snr_hz, left_s (seconds of
            sending within the energy budget), sending (current Hz); and the bandwidth_hz and link of the cell. Jobs
            that send come first, then waiting jobs, each in the order in which they were ready.
        now : float
            Simulated time in seconds.

        Returns
        -------
        array of float, shape (n,)
            Hz per job, 0 for a job that waits. The sum must not exceed ``active.bandwidth_hz``.
        """


class Planned:
    """FDMA with the planned shares, which are constant as in the paper or change at the instants that the plan sets.

    Jobs that send keep their share, also beyond their planned end. Waiting jobs start in the order of readiness as
    long as they fit into the rest of the band; no job overtakes another.
    """

    fixed = True

    def bandwidth(self, active: ActiveUploads, now: float) -> Floats:
        hertz = np.zeros(len(active.left_bits))
        slack = active.bandwidth_hz * CONSTRAINT
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
    """Processor sharing: every active job has the same share of the band."""

    fixed = False

    def bandwidth(self, active: ActiveUploads, now: float) -> Floats:
        return np.full(len(active.left_bits), active.bandwidth_hz / len(active.left_bits))


class Adaptive:
    """Reallocate the whole band so that all uploads end together, within their energy budgets.

    No upload ends later than with constant planned shares, and every energy budget that such a plan meets is met: at
    every instant the bandwidths needed to end by the plan's end, within the budgets, fit into the band. Using the whole
    band makes the common end no later, so every job gets at least the bandwidth it needs, and the needs do not grow.
    Plans whose shares change in time (slots) have no such guarantee.
    """

    fixed = False

    def bandwidth(self, active: ActiveUploads, now: float) -> Floats:
        return equal_finish(active)


class Tdma:
    """The whole band for one job at a time, until its upload ends; the order is that of readiness."""

    fixed = False
    alone = True

    def bandwidth(self, active: ActiveUploads, now: float) -> Floats:
        hertz = np.zeros(len(active.left_bits))
        hertz[int(np.argmax(active.sending > 0.0))] = active.bandwidth_hz      # the first of the queue if none sends
        return hertz


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and hasattr(found, "bandwidth") and hasattr(found, "fixed")):
        raise InputError("wrong-interface", "cell.scheduler", f'"{name}", which is not a scheduler',
                         'a class with "fixed" and bandwidth(active, now)')


SCHEDULERS = Registry("scheduler", "cell.scheduler", {
    "planned": Entry("netsim.cell.schedulers:Planned", "the share that the plan gave, from start to end"),
    "equal": Entry("netsim.cell.schedulers:Equal", "equal parts, reallocated at each start and end"),
    "adaptive": Entry("netsim.cell.schedulers:Adaptive",
                      "reallocated so that all uploads end together, within their energy budgets"),
    "tdma": Entry("netsim.cell.schedulers:Tdma", "the whole band for one after the other, first ready first"),
}, check=_check)
