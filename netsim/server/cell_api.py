"""The interface between a server and the cell: all that a server may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import simpy

from netsim.allocation.waves import Agenda, Wave
from netsim.base.arrays import Bools, Floats, Ints
from netsim.cell.job import Job
from netsim.selection.view import View


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How some jobs ended, a row each."""

    device: Ints
    arrived: Bools
    duration_s: Floats         # computing and sending, without waiting
    energy_j: Floats


class CellAPI(Protocol):
    """What a server sees of the cell, and does in it; what it does is in the trace."""

    @property
    def now(self) -> float:
        """Simulated seconds."""

    @property
    def version(self) -> int:
        """Of the global model: how often it was aggregated."""

    @property
    def alive(self) -> int:
        """How many devices have the energy for a job."""

    @property
    def worked(self) -> bool:
        """Whether a device ever began a job, be it that nothing came of it."""

    @property
    def ready_at(self) -> float:
        """When a device is there to be chosen: now, later where all are off, or never (inf)."""

    def ready(self) -> simpy.Event:
        """An event that comes then; the wait belongs to the round that follows."""

    def view(self, **columns: Callable[[], Any]) -> View:
        """What a selection method may see; each column, the server's own among them, is made when it is asked for."""

    def absence(self, device: int) -> str | None:
        """Why a device cannot be chosen now; None where it can."""

    def select(self, devices: Ints) -> None:
        """Say who was chosen."""

    def assign(self, devices: Ints, bits: Floats, cycles: Floats, download_bits: float) -> None:
        """Say what these devices have to send and to compute from now on, and how large a model all of them receive,
        where the scenario alone does not."""

    def plan(self, devices: Ints, rule: str, size: int) -> Agenda:
        """Bandwidth, CPU frequency and power for those who fit; the others are left out."""

    def plan_alone(self, device: int, rule: str, among: int) -> Agenda:
        """The same for one device that shares the band with others who come and go, as one of so many."""

    def why_nobody_fits(self, rule: str, among: int = 1) -> str | None:
        """What keeps all devices from ever taking part again by a rule; None where one of them may."""

    def wait(self, seconds: float) -> simpy.Event:
        """Let so much time pass, whatever the others do meanwhile."""

    def dispatch(self, wave: Wave) -> Ints:
        """Let devices begin their jobs; returns the numbers of these."""

    def finished(self, jobs: Iterable[int], until: float = ..., count: int | None = None) -> simpy.Event:
        """An event that succeeds when ``count`` of these jobs (by default all) have finished, or at ``until``."""

    def running(self) -> dict[int, int]:
        """The jobs that were not collected yet, with their devices."""

    def collect(self, most: int | None = None) -> list[Job]:
        """Take all finished jobs, by number; or the first ``most`` of them, in the order of time, then of devices."""

    def cancel(self, jobs: Iterable[int], reason: str) -> simpy.Event:
        """Abort these jobs, and reject those that have finished but were not collected; energy spent stays spent.

        The event succeeds when all of them have ended.
        """

    def aggregate(self, *, barrier: bool = True) -> Outcomes:
        """Close a round: all jobs that have ended since the last one; from here on the model is a new version.

        ``barrier`` says that those who were done had to wait for it.
        """

    def stop(self) -> simpy.Event:
        """The run ends with this round: abort the jobs under way. Succeeds when all of them have ended."""

    def stopped(self) -> Outcomes:
        """The jobs that were aborted so; they belong to the last round."""

    def count(self, name: str, values: Mapping[int, float]) -> None:
        """Note quantities by device (SERVER for the server's own)."""

    def close(self) -> None:
        """The round is complete: write it down."""
