"""Small worlds: a cell in which one sees all that happens, with answers that one can work out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from netsim.base.rng import stream
from netsim.cell.battery import Batteries
from netsim.cell.cell import SimulatedCell
from netsim.cell.channel import Gains, PacketLoss, TimeVaryingChannel
from netsim.cell.job import Job, JobPlan
from netsim.cell.schedulers import Planned, Scheduler
from netsim.cell.uplink import Uplink
from netsim.environment.availability import AvailabilityModel, DeviceDynamics, RandomOnOffProcess, begin
from netsim.environment.energy_sources import EnergySources, ThermalLimit
from netsim.physics import SHANNON, LinkModel
from netsim.server.job_recording import record_ended
from netsim.trace.recorder import Part, Recorder

NOISE = 1e-20


@dataclass(frozen=True)
class Device:
    """What a device of a small world has to do, and with what."""

    number: int = 0
    cycles: float = 1e9
    cpu_hz: float = 1e9
    compute_w: float = 1.0
    bits: float = 1e6
    rate: float = 1e6            # bits a second in its planned share
    power_w: float = 1.0
    bandwidth_hz: float = 1e5
    battery_j: float = math.inf
    budget_j: float = math.nan

    @property
    def snr_hz(self) -> float:
        """J such that Q(b) = b log2(1 + J/b) is the rate."""
        return self.bandwidth_hz * (2 ** (self.rate / self.bandwidth_hz) - 1)


@dataclass
class World:
    """A cell in which one sees all that happens."""

    bandwidth_hz: float = 1e6
    scheduler: Scheduler = field(default_factory=Planned)
    most_devices: int = 10
    env: simpy.Environment = field(default_factory=simpy.Environment)
    recorder: Recorder = field(default_factory=Recorder)

    def device(self, number: int = 0, **what: float) -> Device:
        return Device(number, **what)

    def open(
        self, *devices: Device, gains: Gains | None = None, link: LinkModel = SHANNON,
        faults: AvailabilityModel | None = None,
        supplies: Sequence[EnergySources] = (), heat_limits: Sequence[ThermalLimit] = (), reception_w: float = 0.0,
        least_j: float = 0.0, abort_over_budget: bool = False,
    ) -> SimulatedCell:
        """A cell with these devices' batteries."""
        battery_j = np.full(self.most_devices, np.inf)
        for device in devices:
            battery_j[device.number] = device.battery_j
        self.batteries = Batteries(self.env, battery_j, np.full(self.most_devices, least_j), supplies)
        self.uplink = Uplink(
            self.env, self.bandwidth_hz, self.scheduler, link=link, abort_over_budget=abort_over_budget,
            channel=None if gains is None else TimeVaryingChannel(self.env, gains, NOISE),
            loss=PacketLoss(faults) if faults and faults.losses else None)
        self.cell = SimulatedCell(self.env, self.uplink, self.batteries, DeviceDynamics(faults, supplies, heat_limits),
                         receive_w=reception_w)
        return self.cell

    def start(self, *devices: Device, receive_s: Sequence[float] | None = None) -> list[Job]:
        """Let them begin."""
        start = self.recorder.instant("allocate", -1, self.env.now)

        jobs = [Job(JobPlan(each.cycles, each.cpu_hz, each.compute_w, each.bits, each.power_w, each.bandwidth_hz,
                            each.budget_j, download_s=0.0 if receive_s is None else receive_s[place]),
                    each.snr_hz, each.number, place, start)
                for place, each in enumerate(devices)]
        self.cell.submit(jobs)
        return jobs

    def take(self) -> Part:
        """Write down what has ended, and take the trace."""
        record_ended(self.recorder, self.cell.collect(), self.uplink, 0)
        self.part = self.recorder.take()
        return self.part

    def play(
        self, *devices: Device, receive_s: Sequence[float] | None = None, **world: Any,
    ) -> list[tuple[str | float, ...]]:
        """Let them work; what happened, without counters: (name, t0, t1) for spans, (name, t) for instants."""
        self.open(*devices, **world)
        jobs = self.start(*devices, receive_s=receive_s)
        self.env.run(self.cell.wait(range(len(jobs))))
        return self.spans()

    def spans(self) -> list[tuple[str | float, ...]]:
        """What has happened."""
        rows = self.take().rows
        return [
            (name, t0, t1) if kind == "span" else (name, t0)
            for kind, name, t0, t1 in zip(rows["kind"], rows["name"], rows["t0"], rows["t1"], strict=True)
            if kind != "counter" and name != "allocate"
        ]


def random_switches(why: str, seed: int, count: int, on_s: float, off_s: float) -> list[RandomOnOffProcess]:
    """Devices that come and go at random, begun in the stationary law."""
    on, change = begin(stream(seed, why), count, on_s, off_s)
    return [RandomOnOffProcess(why, seed, k, (on_s, off_s), bool(on[k]), float(change[k])) for k in range(count)]
