"""Watches the uplink: which job had how much of the band from when to when, attempt by attempt.

What was sent is then computed from that alone, with a channel of its own; the uplink's own sums are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netsim.cell.band_sharing import HZ, FixedShares, SharedBand
from netsim.cell.channel import TimeVaryingChannel
from netsim.cell.device import Device
from netsim.cell.job import Job
from netsim.cell.uplink import TimedTransmission, Uplink
from netsim.server.radio_cell import CellParts, RadioCell
from netsim.server.round_recorder import RoundRecorder


@dataclass
class Try:
    """One upload from its first bit on, on the air for some stretches: t0, t1, hertz, and the channel as of when."""

    job: int
    device: int
    bits: float
    power_w: float
    stretches: list[tuple[float, float, float, tuple[float, int]]] = field(default_factory=list)
    complete: bool = False

    @property
    def seconds(self) -> float:
        return sum(t1 - t0 for t0, t1, _, _ in self.stretches)


@dataclass
class Meter:
    """All that was seen in one run."""

    tries: list[Try] = field(default_factory=list)
    parts: CellParts | None = None
    cell: RadioCell | None = None
    rounds: Any = None
    _on_air: dict[int, tuple[Try, float, float]] = field(default_factory=dict)       # by job: since when, hertz
    _last: dict[int, Try] = field(default_factory=dict)
    _fresh: set[int] = field(default_factory=set)                                    # jobs that have just computed
    _as_of: dict[int, tuple[float, int]] = field(default_factory=dict)               # by job: when its gain was taken

    def computes(self, device: Device, job: Job) -> None:
        """A job that computes sends all of its bits afterwards."""
        self._fresh.add(job.number)

    def sends(self, job: Job, now: float, hz: float, bits: float) -> None:
        """A job has this bandwidth from now on."""
        self.leaves(job, now)
        if job.number not in self._last or self._last[job.number].complete or job.number in self._fresh:
            self._last[job.number] = Try(job.number, job.device, bits, job.plan.power_w)
            self.tries.append(self._last[job.number])
            self._fresh.discard(job.number)
        self._on_air[job.number] = (self._last[job.number], now, hz)

    def leaves(self, job: Job, now: float) -> None:
        """A job is off the air, or goes on otherwise."""
        if job.number in self._on_air:
            trial, since, hz = self._on_air.pop(job.number)
            as_of = self._as_of.get(job.number, (job.t0, int(self.rounds.started_from([job.number])[0]) + 1))
            if now > since:
                trial.stretches.append((since, now, hz, as_of))

    def is_sent(self, job: Job, now: float) -> None:
        self.leaves(job, now)
        self._last[job.number].complete = True

    def takes_over(self, channel: TimeVaryingChannel, jobs: list[Job]) -> None:
        """The gains of these jobs hold from now on; what was sent until now was so with those of before."""
        assert self.cell is not None
        now = channel.env.now
        for job in jobs:
            if job.number in self._on_air:
                trial, _, hz = self._on_air[job.number]
                self.leaves(job, now)
                self._on_air[job.number] = (trial, now, hz)
            self._as_of[job.number] = (now, self.rounds.version + 1)

    def divides(self, band: SharedBand) -> None:
        """The shares of all transmissions on the air may be others."""
        for each, hz, left in zip(band.all[:band.sending], band.table[HZ].tolist(), band.table[0].tolist(),
                                  strict=False):
            self.sends(each.job, band.env.now, hz, left)


@contextmanager
def metered() -> Iterator[Meter]:
    """What happens in the cell that is built meanwhile."""
    meter = Meter()
    kept: list[tuple[Any, str, Any]] = []

    def watch(owner: Any, name: str, before: Callable[..., None] | None = None,
              after: Callable[..., None] | None = None) -> None:
        """Let the meter see what is asked of a method, before or after it is done."""
        original = getattr(owner, name)
        kept.append((owner, name, original))

        def seen(self: Any, *given: Any, **named: Any) -> Any:
            if before is not None:
                before(self, *given)
            answer = original(self, *given, **named)
            if after is not None:
                after(self, *given)
            return answer

        setattr(owner, name, seen)

    def built(rounds: RoundRecorder, *_: Any) -> None:
        meter.parts, meter.cell, meter.rounds = rounds.cell.parts, rounds.cell, rounds

    def now_sends(band: FixedShares, transmission: Any) -> None:
        job = transmission.job
        meter.sends(job, band.env.now, job.work.hz, job.work.left)

    watch(RoundRecorder, "__init__", after=built)
    watch(Device, "_compute", before=meter.computes)
    watch(FixedShares, "_set_timer", before=now_sends)
    watch(SharedBand, "reallocate", after=meter.divides)
    watch(TimedTransmission, "__init__", after=lambda each, uplink, job, battery, rate: meter.sends(
        job, uplink.env.now, job.work.hz, job.work.left))
    watch(Uplink, "leave", before=lambda uplink, job: meter.leaves(job, uplink.env.now))
    watch(Uplink, "is_lost", before=lambda uplink, each: meter.is_sent(each.job, uplink.env.now))
    watch(TimedTransmission, "__exit__", before=lambda each, kind, *_: (
        meter.is_sent if kind is None else meter.leaves)(each.job, each.env.now))
    watch(TimeVaryingChannel, "refresh", before=meter.takes_over)
    try:
        yield meter
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)


def bits_sent(trial: Try, parts: CellParts, noise_w_per_hz: float) -> float:
    """Return the bits that the stretches of a transmission carry over the channel.

    Raises where a change of the channel was missed, and where a transmission goes on though its remaining bits are
    rounding.
    """
    sent = 0.0
    for t0, t1, hz, (as_of, round_) in trial.stretches:
        edge = parts.channel.next_change(as_of)
        if edge < t1 - 1e-9 * max(1.0, t1):
            raise AssertionError(f"job {trial.job} sent from {t0!r} to {t1!r} s by the gain of {as_of!r} s, which "
                                 f"changed at {edge!r} s")
        if trial.bits - sent <= 1e-10 * trial.bits and t1 - t0 > 1e-9 * max(1.0, t1):
            raise AssertionError(f"job {trial.job} sent from {t0!r} to {t1!r} s with {trial.bits - sent} bits left")
        gain = float(parts.channel.gain(np.array([trial.device]), as_of, round_)[0])
        sent += float(parts.problems.link.rate(hz, gain * trial.power_w / noise_w_per_hz)) * (t1 - t0)
    return sent
