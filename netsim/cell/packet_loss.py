"""Uploads that do not get through."""

from __future__ import annotations

import numpy as np

from netsim.base.arrays import Ints
from netsim.cell.job import Job
from netsim.trace.schema import ARRIVED, LOST
from netsim.world.faults import Faults


class PacketLoss:
    """Loses whole uploads, or packets of them; a device's n-th upload has the same fate in every run under a seed."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._uploads: dict[int, int] = {}       # uploads so far, by device

    def bits_to_send(self, job: Job) -> float:
        """Bits that an upload comes to, with all packets that are sent again."""
        packets = self.faults.packets(job.device)
        if not packets:
            return job.bits
        job.packets, lost = self.faults.packets_sent(job.device, self._next(job.device))
        job.attempts = self.faults.tries(job.device) if lost else 0
        return job.bits * job.packets / packets

    def outcome(self, job: Job) -> str | None:
        """The outcome of an upload that was sent to its end; None if it is sent again."""
        tries = self.faults.tries(job.device)
        if not tries:
            return ARRIVED
        if job.packets:
            return LOST if job.attempts >= tries else ARRIVED
        if not self.faults.loses(job.device, self._next(job.device)):
            return ARRIVED
        job.attempts += 1
        return LOST if job.attempts >= tries else None

    def _next(self, device: int) -> int:
        number = self._uploads.get(device, 0)
        self._uploads[device] = number + 1
        return number

    def snapshot(self) -> Ints:
        """Device and uploads so far, a row each."""
        return np.array(list(self._uploads.items()), np.int64).reshape(-1, 2)

    def restore(self, uploads: Ints) -> None:
        self._uploads = {int(device): int(count) for device, count in uploads}
