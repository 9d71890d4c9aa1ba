"""Small worlds: a cell in which one sees all that happens, with answers that one can work out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from netsim.base.streams import stream
from netsim.cell.battery import Batteries
from netsim.cell.charging import ChargedBatteries
from netsim.cell.disciplines import Discipline
from netsim.cell.disciplines.planned import Planned
from netsim.cell.jobs import Flight, Jobs
from netsim.cell.medium import Medium
from netsim.cell.radio import SHANNON, Air, RateLaw
from netsim.cell.recording import record_ended
from netsim.trace.recorder import Part, Recorder
from netsim.world.devices import DevicesInTime
from netsim.world.faults import Faults
from netsim.world.supply import HeatLimit, Supply
from netsim.world.switches import RandomSwitches, begin

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
    discipline: Discipline = field(default_factory=Planned)
    most_devices: int = 10
    env: simpy.Environment = field(default_factory=simpy.Environment)
    recorder: Recorder = field(default_factory=Recorder)

    def device(self, number: int = 0, **what: float) -> Device:
        return Device(number, **what)

    def open(
        self, *devices: Device, air: Air | None = None, radio: RateLaw = SHANNON, faults: Faults | None = None,
        supplies: Sequence[Supply] = (), heat_limits: Sequence[HeatLimit] = (), reception_w: float = 0.0,
        least_j: float = 0.0,
    ) -> Medium:
        """The medium with these devices' batteries."""
        battery_j = np.full(self.most_devices, np.inf)
        for device in devices:
            battery_j[device.number] = device.battery_j
        self.batteries = Batteries(battery_j) if not supplies else ChargedBatteries(
            battery_j, np.full(self.most_devices, least_j), supplies, lambda: self.env.now)
        self.medium = Medium(self.env, self.bandwidth_hz, NOISE, self.discipline, self.batteries, radio, air,
                             DevicesInTime(faults, supplies, heat_limits), reception_w)
        return self.medium

    def start(self, *devices: Device, receive_s: Sequence[float] | None = None) -> Flight:
        """Let them begin."""
        start = self.recorder.instant("allocate", -1, self.env.now)

        def column(name: str) -> np.ndarray:
            return np.array([getattr(device, name) for device in devices], float)

        gain = column("snr_hz") * NOISE / column("power_w")
        unknown = np.full(len(devices), np.nan)
        jobs = Jobs(
            device=np.array([device.number for device in devices]), bits=column("bits"), cycles=column("cycles"),
            cpu_hz=column("cpu_hz"), compute_w=column("compute_w"), power_w=column("power_w"),
            bandwidth_hz=column("bandwidth_hz"), gain=gain, budget_j=column("budget_j"), planned_s=unknown)
        return self.medium.start(0, 0, start, jobs, gain, None if receive_s is None else np.array(receive_s))

    def take(self) -> Part:
        """Write down what has ended, and take the trace."""
        record_ended(self.recorder, self.medium.take_ended(), self.medium.take_band(), 0, self.medium.gave_room)
        self.part = self.recorder.take()
        return self.part

    def play(
        self, *devices: Device, receive_s: Sequence[float] | None = None, **world: Any,
    ) -> list[tuple[str | float, ...]]:
        """Let them work; what happened, without counters: (name, t0, t1) for spans, (name, t) for instants."""
        self.open(*devices, **world)
        flight = self.start(*devices, receive_s=receive_s)
        self.env.run(self.medium.replies(np.arange(len(flight)), math.inf, None))
        return self.spans()

    def spans(self) -> list[tuple[str | float, ...]]:
        """What has happened."""
        rows = self.take().rows
        return [
            (name, t0, t1) if kind == "span" else (name, t0)
            for kind, name, t0, t1 in zip(rows["kind"], rows["name"], rows["t0"], rows["t1"], strict=True)
            if kind != "counter" and name != "allocate"
        ]


def random_switches(why: str, seed: int, count: int, on_s: float, off_s: float) -> list[RandomSwitches]:
    """Devices that come and go at random, begun in the stationary law."""
    on, change = begin(stream(seed, why), count, on_s, off_s)
    return [RandomSwitches(why, seed, k, (on_s, off_s), bool(on[k]), float(change[k])) for k in range(count)]
