"""A device of the cohort: it computes, then uploads, while its battery lasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import simpy

from netsim.cell.battery import Battery
from netsim.cell.uplink import Uplink
from netsim.trace.rows import Recorder


@dataclass(frozen=True)
class Share:
    """What the plan gives one device, and what follows from it."""

    device: int
    compute_s: float
    compute_w: float
    upload_s: float
    power_w: float
    bandwidth_hz: float


@dataclass(frozen=True)
class Outcome:
    """How a device's round ended: ``dropped`` is empty when its model arrived, else the reason."""

    device: int
    dropped: str
    compute_s: float
    upload_s: float
    energy_j: float
    ended_s: float       # clock time at which its work ended
    last_row: int        # trace row that ended its work

    @property
    def arrived(self) -> bool:
        """Whether the server has its model."""
        return not self.dropped


class Device:
    """CPU and radio of one device, fed by its battery."""

    def __init__(
        self, env: simpy.Environment, share: Share, battery: Battery, uplink: Uplink, recorder: Recorder,
        deliver: Callable[[int], None],
    ) -> None:
        self.env = env
        self.share = share
        self.battery = battery
        self.uplink = uplink
        self.recorder = recorder
        self.deliver = deliver          # hands the trained model over when the upload ends

    def serve(self, after: int) -> Generator[simpy.Event, Any, Outcome]:
        """Compute and upload, or drop out with a reason; ``after`` is the trace row of the allocation.

        A drop-out is an outcome, not an exception: whoever waits for this process goes on.
        """
        share = self.share
        compute_row, computed_s, compute_j, dropped = yield from self.spend(
            "compute", share.compute_w, share.compute_s, [after])
        if dropped:
            return self.drop(dropped, computed_s, 0.0, compute_j, compute_row)

        lease = self.uplink.lease(share.bandwidth_hz)
        asked = self.env.now
        try:
            made_room = yield lease
        except simpy.Interrupt as interrupt:
            self.uplink.release(lease)
            record_wait(self.recorder, share.device, asked, self.env.now)
            return self.drop(str(interrupt.cause), computed_s, 0.0, compute_j, compute_row)
        record_wait(self.recorder, share.device, asked, self.env.now)
        causes = [compute_row] if made_room is None else [compute_row, made_room]
        upload_row, uploaded_s, upload_j, dropped = yield from self.spend(
            "upload", share.power_w, share.upload_s, causes)
        self.uplink.release(lease, upload_row)
        if dropped:
            return self.drop(dropped, computed_s, uploaded_s, compute_j + upload_j, upload_row)
        self.deliver(share.device)
        return Outcome(share.device, "", computed_s, uploaded_s, compute_j + upload_j, self.env.now, upload_row)

    def spend(
        self, name: str, watts: float, seconds: float, after: list[int]
    ) -> Generator[simpy.Event, Any, tuple[int, float, float, str]]:
        """Work at a constant power; returns trace row, seconds, joules and the reason if it was cut short."""
        began, dropped = self.env.now, ""
        load = self.battery.connect(watts, seconds)
        try:
            yield self.env.timeout(seconds)
        except simpy.Interrupt as interrupt:
            dropped, seconds = str(interrupt.cause), self.env.now - began
        energy_j = self.battery.disconnect(load, complete=not dropped)
        row = self.recorder.span(name, self.share.device, began, self.env.now, energy_j=energy_j, after=after)
        if self.battery.capacity_j < float("inf"):
            self.recorder.counter("battery", self.share.device, self.env.now, self.battery.level_j)
        return row, seconds, energy_j, dropped

    def drop(self, reason: str, compute_s: float, upload_s: float, energy_j: float, row: int) -> Outcome:
        """Record that the device is out of this round."""
        last = self.recorder.instant(reason, self.share.device, self.env.now, after=[row])
        return Outcome(self.share.device, reason, compute_s, upload_s, energy_j, self.env.now, last)


def record_wait(recorder: Recorder, device: int, t0: float, t1: float) -> None:
    """Record a device's idle time, if there was any beyond the rounding of the clock."""
    if t1 - t0 > 64 * math.ulp(t1):
        recorder.span("wait", device, t0, t1)
