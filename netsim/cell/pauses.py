"""Devices that go off in the midst of a job and come back, and uploads that are lost: what becomes of the work."""

from __future__ import annotations

import math
from heapq import heappush
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Ints
from netsim.cell.jobs import COMPUTING, ENDED, PAUSED, RECEIVING, SENDING, WAITING, Flight
from netsim.cell.loads import SWITCHED
from netsim.trace.schema import ARRIVED, CRASHED, LOST, OFF

if TYPE_CHECKING:
    from netsim.cell.medium import Medium
    from netsim.world.faults import Faults

OUTCOME = {"availability": OFF, "crash": CRASHED}
EFFECTS = ("pause", "lose", "drop")      # of an absence on the work, the worst last
MOST_STARTS = 1000                       # a job that starts over so often will never be done, and is given up


class Pauses:
    """What absences and losses do to the jobs of a medium; what was spent stays spent."""

    def __init__(self, medium: Medium, faults: Faults) -> None:
        self.medium = medium
        self.faults = faults
        self._uploads: dict[int, int] = {}       # sent so far by devices whose uploads may be lost

    def watch(self, flight: Flight) -> None:
        """Be there when a device of these jobs goes or comes back; some may be off already."""
        now = self.medium.env.now
        for i in range(len(flight)):
            if flight.phase[i] == PAUSED and self.faults.absences(flight.device[i], now):
                self._await(flight, i, now)      # what its absence does to the work is done
            else:
                self.look(flight, i, now)

    def look(self, flight: Flight, i: int, t: float) -> None:
        """The device of a job may have gone or come back."""
        if flight.phase[i] == ENDED:
            return
        device = flight.device[i]
        absences = self.faults.absences(device, t)
        if absences:
            worst = max(absences, key=lambda absence: EFFECTS.index(absence.work))
            never = self.faults.back_at(device, t) == math.inf
            if worst.work == "drop" or never or flight.starts[i] >= MOST_STARTS:
                self.medium.cut(flight, i, OUTCOME[worst.why])
                return
            self._pause(flight, i)
            if worst.work == "lose":
                flight.start_over(i)
        elif flight.phase[i] == PAUSED:
            self._resume(flight, i)
        self._await(flight, i, t)

    def _await(self, flight: Flight, i: int, t: float) -> None:
        """Be there when the device goes or comes back next."""
        at = self.faults.next_change(flight.device[i], t)
        if at < math.inf:
            heappush(self.medium.agenda, (at, SWITCHED, flight.first + i, 0, flight, i))

    def to_send(self, flight: Flight, i: int) -> float:
        """How many bits an upload comes to, with all packets that are sent again."""
        device = flight.device[i]
        packets = self.faults.packets(device)
        if not packets:
            return flight.bits[i]
        number = self._uploads.get(device, 0)
        flight.packets[i], lost = self.faults.packets_sent(device, number)
        self._uploads[device] = number + 1
        flight.tries[i] = self.faults.tries(device) if lost else 0
        return flight.bits[i] * flight.packets[i] / packets

    def received(self, flight: Flight, i: int) -> str | None:
        """The outcome of an upload that was sent to its end; None where it was lost and is sent again."""
        device = flight.device[i]
        tries = self.faults.tries(device)
        if not tries:
            return ARRIVED
        if flight.packets[i]:
            return LOST if flight.tries[i] >= tries else ARRIVED
        number = self._uploads.get(device, 0)
        self._uploads[device] = number + 1
        if not self.faults.loses(device, number):
            return ARRIVED
        flight.tries[i] += 1
        return LOST if flight.tries[i] >= tries else None

    def snapshot(self) -> Ints:
        """Device and uploads so far, a row each; jobs that pause are rows of their flights."""
        return np.array(list(self._uploads.items()), np.int64).reshape(-1, 2)

    def restore(self, uploads: Ints) -> None:
        self._uploads = {int(device): int(count) for device, count in uploads}

    def _pause(self, flight: Flight, i: int) -> None:
        """Work stops where it is; who sends leaves the band, and the discipline divides it anew."""
        medium, now, phase = self.medium, self.medium.env.now, flight.phase[i]
        if phase == PAUSED:
            return
        medium.work.stop(flight, i, now)
        flight.tell(i, now)
        flight.phase[i], flight.since[i] = PAUSED, now
        flight.resumes[i] = phase if phase in (COMPUTING, RECEIVING) else WAITING
        if phase == SENDING:
            medium.leave_the_band(flight, i, now, ended=False)
        elif phase == WAITING:
            medium.waiting.remove((flight, i))

    def _resume(self, flight: Flight, i: int) -> None:
        """Back to work, or to those who wait for the band."""
        medium, now = self.medium, self.medium.env.now
        flight.tell(i, now)
        if flight.resumes[i] == WAITING:
            medium.to_the_radio(flight, i, now)
        elif flight.resumes[i] == RECEIVING:
            medium.work.receive(flight, i, now, flight.left[i])
        else:
            medium.work.compute(flight, i, now, flight.left[i])
