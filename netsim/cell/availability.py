"""Devices that become unavailable during a job: one process per device with a job, which wakes at the next change."""

from __future__ import annotations

import math
from collections.abc import Mapping

import simpy
from simpy.events import ProcessGenerator

from netsim.cell.clock import sleep_until
from netsim.cell.device import Device
from netsim.cell.job import Interruption, Policy, check_progress
from netsim.environment.availability import AvailabilityModel
from netsim.trace.schema import CRASHED, OFF

REASONS = {"availability": OFF, "crash": CRASHED}
POLICIES: tuple[Policy, ...] = ("pause", "restart", "abort")      # the most severe last
MOST_RESTARTS = 100        # a job that restarts more often is aborted


class Availability:
    """Interrupts the jobs of devices that become unavailable, and resumes them when the devices are available."""

    def __init__(self, env: simpy.Environment, faults: AvailabilityModel, devices: Mapping[int, Device]) -> None:
        self.env, self.faults = env, faults
        self.devices = devices
        self._watched: set[int] = set()

    def watch(self, device: int) -> None:
        """Track the availability of a device with a job; the device may be unavailable already."""
        self.look(device)
        if device not in self._watched and self.faults.next_change(device, self.env.now) < math.inf:
            self._watched.add(device)
            self.env.process(self.run(device))

    def run(self, device: int) -> ProcessGenerator:
        """Wake at each change of availability while the device has a job."""
        while self.devices[device].job is not None and (at := self.faults.next_change(device, self.env.now)) < math.inf:
            yield from sleep_until(self.env, at)
            self.look(device)
        self._watched.discard(device)

    def look(self, number: int) -> None:
        """Interrupt the job of a device that is unavailable now, or resume it."""
        device = self.devices[number]
        if device.job is None:
            return
        now = self.env.now
        absences = self.faults.absences(number, now)
        if not absences:
            device.come_back()
            return
        worst = max(absences, key=lambda absence: POLICIES.index(absence.on_interrupt))
        work = device.job.work
        spent = work.restarts >= MOST_RESTARTS and not work.away            # one that is away has nothing to restart
        hopeless = spent or self.faults.back_at(number, now) == math.inf
        if not hopeless and worst.on_interrupt == "pause":
            interruptions = len(device.job.segments or ()) // 2             # work and absence alternate
            check_progress(device.job, interruptions, "interruptions", now, "Increase its bandwidth or power, reduce "
                           "its work, or interrupt it less often (population.availability, population.crash)")
        device.interrupt(Interruption(REASONS[worst.why], "abort" if hopeless else worst.on_interrupt))
