"""The interface between a server and the cell: all that a server may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import simpy

from netsim.allocation.waves import Agenda, Wave
from netsim.base.arrays import Bools, Ints
from netsim.cell.job import Job
from netsim.fleet.work import JobSizes
from netsim.selection.view import View


class CellAPI(Protocol):
    """What a server sees of the cell, and does in it. The cell knows neither rounds nor versions of the model."""

    @property
    def now(self) -> float:
        """Simulated seconds."""

    @property
    def available(self) -> Bools:
        """Which devices can be selected now: available, with the energy for a job."""

    @property
    def next_available_time(self) -> float:
        """When a device can be selected: now, later where all are off, or never (inf)."""

    def unavailable_reason(self, device: int) -> str | None:
        """Why a device cannot be selected now; None where it can."""

    def view(self, **columns: Callable[[], Any]) -> View:
        """What a selection method may see; each column, the server's own among them, is made when it is asked for."""

    def plan(self, devices: Ints, sizes: JobSizes, rule: str, size: int, shares: int = 1) -> Agenda:
        """Bandwidth, CPU frequency and power for the devices that fit, in waves of ``size`` where they need several.

        ``shares`` is the number of equal band shares of which these devices have one; ``rule`` says what becomes of
        devices without a plan (``rounds.infeasible``).
        """

    def infeasibility_reason(self, rule: str, shares: int = 1) -> str | None:
        """Why no device can ever take part again under a rule; None where one may."""

    def dispatch(self, wave: Wave, first: int = 0, cause: int = -1) -> list[Job]:
        """Let the devices of a wave begin their jobs, numbered from ``first``; ``cause`` is a row of the trace."""

    @property
    def running(self) -> Mapping[int, Job]:
        """The jobs that were not collected yet, by number."""

    def wait(self, numbers: Iterable[int], until: float = ..., count: int | None = None) -> simpy.Event:
        """An event that succeeds when ``count`` of these jobs (by default all) have finished, or at ``until``."""

    def ending_now(self) -> list[int]:
        """The jobs under way that end at this instant but for rounding."""

    def collect(self, most: int | None = None) -> list[Job]:
        """Take all finished jobs, by number; or the first ``most`` of them, in the order of time, then of devices."""

    def cancel(self, numbers: Iterable[int], reason: str) -> simpy.Event:
        """Abort these jobs, and reject those that have finished but were not collected; energy spent stays spent.

        The event succeeds when all of them have ended.
        """
