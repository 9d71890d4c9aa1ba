"""A radio cell: devices with jobs, their shared uplink, and the interface that a server uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter

import numpy as np
import simpy

from netsim.base.types import State
from netsim.cell import job as records
from netsim.cell.availability import Availability
from netsim.cell.battery import Batteries
from netsim.cell.clock import rounding_of
from netsim.cell.device import Device, GroupedTraining, LocalTraining, Thermal
from netsim.cell.job import DONE, DOWNLOAD, Interruption, Job
from netsim.cell.uplink import Uplink
from netsim.environment.availability import STEADY, DeviceDynamics

MOST_IDLE = 10_000       # idle devices that a cell keeps; without a state, more of them only take memory


class JobsFinished(simpy.Event):
    """Event that succeeds when the wanted number of jobs has finished, or at its time limit."""

    def __init__(self, env: simpy.Environment, wanted: int) -> None:
        super().__init__(env)
        self.wanted = wanted

    def time_is_up(self, _: simpy.Event) -> None:
        """Succeed at the time limit."""
        if not self.triggered:
            self.succeed()


class SimulatedCell:
    """Submit, wait for, cancel and collect jobs; save running jobs in checkpoints and continue them.

    A finished job counts as running until it is collected.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    uplink : Uplink
        The shared band.
    batteries : Batteries
        Energy of all devices.
    dynamics : DeviceDynamics
        Availability, energy sources and thermal limits of the devices; by default nothing changes in time.
    receive_w : float
        Power in W drawn while downloading.
    training : LocalTraining, optional
        Trains the models of the devices while they compute.
    """

    def __init__(
        self, env: simpy.Environment, uplink: Uplink, batteries: Batteries, dynamics: DeviceDynamics = STEADY, *,
        receive_w: float = 0.0, training: LocalTraining | None = None,
    ) -> None:
        self.env, self.uplink, self.batteries, self.receive_w = env, uplink, batteries, receive_w
        self.heat_limits = dynamics.heat_limits
        self.training = None if training is None else GroupedTraining(env, training)
        self.devices: dict[int, Device] = {}           # devices that have, or had, a job
        self._forgets = not (dynamics.heat_limits or dynamics.faults)      # no such state but that of a battery
        self._spare: list[Device] = []                 # idle devices without a state, for other devices' jobs
        self.running: dict[int, Job] = {}              # jobs not collected yet, by number
        self.finished: list[Job] = []                  # the finished ones among them
        uplink.promised_hz = 0.0
        self.availability = Availability(env, dynamics.faults, self.devices) if dynamics.faults else None
        self._thermals: dict[int, tuple[float, float]] = {}      # of a checkpoint: (warmth_s, since) by device

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start these jobs, or continue restored ones: one process per job, in the given order."""
        process, uplink, devices, running, now = (
            self.env.process, self.uplink, self.devices, self.running, self.env.now)
        if self._forgets and len(devices) > MOST_IDLE + len(running) and not self.batteries.any_finite:
            self._spare += [devices.pop(number) for number, device in list(devices.items()) if device.job is None]
        promised_hz = uplink.promised_hz
        for job in jobs:
            device = devices.get(job.device) or self._device(job.device)
            if device.job is not None:
                raise ValueError(f"device {job.device} has a job already")
            device.job = running[job.number] = job
            job.process = process(device.perform(job))
            promised_hz += job.plan.bandwidth_hz
            if job.t0 != job.t0:
                job.t0 = now
        uplink.promised_hz = promised_hz
        if self.batteries.any_finite:
            self.batteries.work([job.device for job in jobs])
        self.uplink.follow_slots(jobs)
        if self.availability is not None:
            for job in jobs:
                self.availability.watch(job.device)

    def _device(self, number: int) -> Device:
        if self._spare and not self.batteries.any_finite:
            device = self.devices[number] = self._spare.pop()
            return device
        battery = self.batteries.of(number) if self.batteries.any_finite else None
        limit = next((limit for limit in self.heat_limits if number in limit.devices), None)
        thermal = None if limit is None else Thermal(limit, *self._thermals.get(number, (0.0, self.env.now)))
        device = self.devices[number] = Device(
            self.env, self.uplink, battery, thermal, self.receive_w, self.training, self._finish)
        return device

    def _finish(self, job: Job) -> None:
        if self.batteries.any_finite:
            self.batteries.rest(job.device)
        self.finished.append(job)
        waiter = job.waiter
        if waiter is not None:
            waiter.wanted -= 1
            if waiter.wanted == 0 and not waiter.triggered:
                waiter.succeed()

    def wait(self, numbers: Iterable[int], until: float = math.inf, count: int | None = None) -> JobsFinished:
        """Return an event that succeeds when ``count`` of these jobs (default: all) have finished, or at ``until``."""
        asked = list(numbers)
        under_way = [job for job in map(self.running.get, asked) if job is not None and job.phase != DONE]
        wanted = len(under_way) if count is None else count - (len(asked) - len(under_way))
        event = JobsFinished(self.env, wanted)
        if wanted <= 0:
            event.succeed()
            return event
        for job in under_way:
            job.waiter = event
        if until < math.inf:
            self.env.timeout(max(0.0, until - self.env.now)).callbacks.append(event.time_is_up)
        return event

    def ending_now(self) -> list[int]:
        """Return the numbers of the jobs whose uploads end at this instant, within rounding errors."""
        self.uplink.band.settle()
        return [number for number, job in self.running.items() if self.uplink.ends_now(job)]

    def collect(self, *, first: bool = False) -> list[Job]:
        """Remove and return all finished jobs in the order of their numbers.

        With ``first``, only the job that finished first; ends within rounding errors are simultaneous, and of
        simultaneous jobs that of the lowest device number is the first.
        """
        if len(self.finished) == len(self.running) and not first:
            taken, self.running, self.finished = list(self.running.values()), {}, []
            self.uplink.promised_hz = 0.0
            return taken
        taken, self.finished = sorted(self.finished, key=attrgetter("number")), []
        if first and taken:
            earliest = min(taken, key=attrgetter("ended_at", "device", "number"))
            soon = earliest.ended_at + rounding_of(earliest.ended_at, earliest.t0)
            one = min((job for job in taken if job.ended_at <= soon), key=attrgetter("device", "number"))
            taken, self.finished = [one], [job for job in taken if job is not one]
        for job in taken:
            del self.running[job.number]
            self.uplink.promised_hz -= job.plan.bandwidth_hz
        return taken

    def cancel(self, numbers: Iterable[int], reason: str) -> JobsFinished:
        """Abort jobs with an outcome ``reason``, also finished ones that were not collected.

        Return an event that succeeds when all of them have ended.
        """
        asked = list(numbers)
        for job in [self.running[number] for number in asked if number in self.running]:
            if job.phase != DONE:
                assert job.process is not None
                job.process.interrupt(Interruption(reason))
            else:
                if job.arrived and self.training is not None:
                    self.training.drop(job)
                job.outcome = reason
        return self.wait(asked)

    # Checkpoints.

    def snapshot(self) -> State:
        """Return the running jobs, the band and the thermal states of devices as named arrays."""
        jobs = [self.running[number] for number in sorted(self.running)]
        thermals = self._thermals | {
            number: (device.thermal.warmth_s, device.thermal.since) for number, device in self.devices.items()
            if device.thermal is not None}
        channel = self.uplink.channel
        return {**{f"jobs.{name}": array for name, array in records.save(jobs).items()},
                **{f"uplink.{name}": array for name, array in self.uplink.snapshot().items()},
                "thermals": np.array([(number, *state) for number, state in thermals.items()], float).reshape(-1, 3),
                "channel": np.array(math.inf if channel is None else channel.wakes_at)}

    def restore(self, state: State) -> None:
        """Continue the jobs of a checkpoint: one process per job, in the order of their numbers."""
        jobs = {job.number: job for job in records.restore(_under("jobs.", state))}
        self._thermals = {int(device): (warmth_s, since) for device, warmth_s, since in state["thermals"].tolist()}
        under_way = {number: job for number, job in jobs.items() if job.phase != DONE}
        uplink = _under("uplink.", state)
        self.uplink.restore(uplink, jobs, lambda job: self.batteries.of(job.device))
        if self.uplink.channel is not None:
            self.uplink.channel.sleep_until(float(state["channel"]))
        self.submit(list(under_way.values()))
        self.uplink.promised_hz = float(uplink["in_use"][1])      # exact; a sum in another order may be rounded
        self.finished = [job for job in jobs.values() if job.phase == DONE]
        self.running = jobs                                       # by number, as they were submitted
        if self.training is not None:
            for job in jobs.values():
                if job.phase != DOWNLOAD and (job.phase != DONE or job.arrived):
                    self.training.start(job)


def _under(prefix: str, state: State) -> State:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
