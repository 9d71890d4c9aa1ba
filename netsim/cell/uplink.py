"""The FDMA band that the devices share."""

from __future__ import annotations

from collections import deque

import simpy

from netsim.trace.rows import CELL, Recorder

ROUNDING = 1e-9   # a plan may overshoot the band by rounding, never by more


class Lease(simpy.Event):
    """A piece of the band, granted when there is room; its value is the trace row that made room, if any did."""

    def __init__(self, env: simpy.Environment, bandwidth_hz: float) -> None:
        super().__init__(env)
        self.bandwidth_hz = bandwidth_hz


class Uplink:
    """Leases bandwidth, first come first served, and never more than there is."""

    def __init__(self, env: simpy.Environment, bandwidth_hz: float, recorder: Recorder) -> None:
        self.env = env
        self.bandwidth_hz = bandwidth_hz
        self.recorder = recorder
        self._held: set[Lease] = set()
        self._in_use_hz = 0.0
        self._waiting: deque[Lease] = deque()

    @property
    def in_use_hz(self) -> float:
        """Bandwidth on lease now."""
        return self._in_use_hz

    def lease(self, bandwidth_hz: float) -> Lease:
        """Ask for a piece of the band: wait for the event that this returns."""
        if not 0.0 < bandwidth_hz <= self.bandwidth_hz * (1 + ROUNDING):
            raise ValueError(f"a lease of {bandwidth_hz} Hz does not fit a band of {self.bandwidth_hz} Hz")
        lease = Lease(self.env, bandwidth_hz)
        self._waiting.append(lease)
        self._grant(cause=None)
        return lease

    def release(self, lease: Lease, cause: int | None = None) -> None:
        """Give a piece back, or stop waiting for it; ``cause`` is the trace row of what it was used for."""
        if lease in self._held:
            self._held.remove(lease)
            self._in_use_hz = self._in_use_hz - lease.bandwidth_hz if self._held else 0.0
            self._count()
            self._grant(cause)
        else:
            self._waiting.remove(lease)

    def _grant(self, cause: int | None) -> None:
        limit = self.bandwidth_hz * (1 + ROUNDING)
        while self._waiting and self._in_use_hz + self._waiting[0].bandwidth_hz <= limit:
            lease = self._waiting.popleft()
            self._held.add(lease)
            self._in_use_hz += lease.bandwidth_hz
            self._count()
            lease.succeed(cause)

    def _count(self) -> None:
        self.recorder.counter("bandwidth", CELL, self.env.now, self._in_use_hz)
