"""Schedulers: who gets how much of the band at an instant, one to a file."""

from __future__ import annotations

from typing import Any, Protocol

from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats
from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry


class Scheduler(Protocol):
    """Divides the band among the jobs that want to send; asked when one starts or ends, or when the channel changes.

    ``fixed`` promises that a job that fits gets its planned bandwidth and keeps it, so that the scheduler is asked only
    while a job waits. A scheduler with a true ``alone`` gives the whole band to one job at a time.
    """

    @property
    def fixed(self) -> bool: ...

    def bandwidth(self, active: Active, now: float) -> Floats:
        """Hertz for each job: 0 for one that has to wait, and no more than the band in all."""


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and hasattr(found, "bandwidth") and hasattr(found, "fixed")):
        raise InputError("wrong-interface", "allocation.sharing", f'"{name}", which is no scheduler',
                         'a class with "fixed" and bandwidth(active, now)')


SCHEDULERS = Registry("scheduler", "allocation.sharing", {
    "planned": Entry("netsim.cell.schedulers.planned:Planned", "the share that the plan gave, from start to end"),
    "equal": Entry("netsim.cell.schedulers.equal:Equal", "equal parts, reallocated at each start and end"),
    "adaptive": Entry("netsim.cell.schedulers.adaptive:Adaptive",
                      "reallocated so that all uploads end together, within their energy budgets"),
    "tdma": Entry("netsim.cell.schedulers.tdma:Tdma", "the whole band for one after the other, first ready first"),
}, check=_check)
