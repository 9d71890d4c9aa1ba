"""Small worlds for the tests."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import simpy

from netsim.cell.battery import Battery
from netsim.cell.device import Device, Share
from netsim.cell.uplink import Uplink
from netsim.trace.rows import Recorder


@dataclass
class World:
    """A cell in which one sees all that happens."""

    bandwidth_hz: float = 1e6
    env: simpy.Environment = field(default_factory=simpy.Environment)
    recorder: Recorder = field(default_factory=Recorder)
    delivered: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uplink = Uplink(self.env, self.bandwidth_hz, self.recorder)

    def device(
        self, number: int = 0, *, cycles: float = 1e9, cpu_hz: float = 1e9, compute_w: float = 1.0, bits: float = 1e6,
        rate: float = 1e6, power_w: float = 1.0, bandwidth_hz: float = 1e5, battery_j: float = float("inf"),
    ) -> Device:
        """A device that computes cycles / cpu_hz seconds, then sends bits / rate seconds."""
        share = Share(number, cycles / cpu_hz, compute_w, bits / rate, power_w, bandwidth_hz)
        return Device(self.env, share, Battery(self.env, battery_j), self.uplink, self.recorder, self.delivered.append)

    def play(self, *devices: Device) -> list[tuple[str | float, ...]]:
        """Let them work; what happened, without counters: (name, t0, t1) for spans, (name, t) for instants."""
        start = self.recorder.instant("allocate", -1, 0.0)
        work = [self.env.process(device.serve(start)) for device in devices]
        self.env.run(self.env.all_of(work))
        rows = self.recorder.take().rows
        return [
            (name, t0, t1) if kind == "span" else (name, t0)
            for kind, name, t0, t1 in zip(rows["kind"], rows["name"], rows["t0"], rows["t1"], strict=True)
            if kind != "counter" and name != "allocate"
        ]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True, scope="session")
def quick_temporary_folders() -> None:
    """Runs without a folder of their own flush to memory where there is such a place: a disk is no part of the test."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK):
        tempfile.tempdir = str(memory)
