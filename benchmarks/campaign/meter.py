"""Looks over the medium's shoulder: who had how much of the band from when to when, try by try.

What was sent is then worked out from that alone, with a channel of its own; the medium's own sums are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netsim.cell.cell_parts import CellParts
from netsim.cell.fades import Fades
from netsim.cell.medium import Medium
from netsim.cell.radio_cell import RadioCell


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
    _on_air: dict[int, tuple[Try, float, float]] = field(default_factory=dict)       # by job: since when, hertz
    _last: dict[int, Try] = field(default_factory=dict)
    _fresh: set[int] = field(default_factory=set)                                    # jobs that have just computed
    _as_of: dict[int, tuple[float, int]] = field(default_factory=dict)               # by job: when its gain was taken

    def sends(self, flight: Any, i: int, now: float, hz: float) -> None:
        job = flight.first + i
        self.leaves(flight, i, now)
        if job not in self._last or self._last[job].complete or job in self._fresh:
            self._last[job] = Try(job, flight.device[i], flight.left[i], flight.power_w[i])
            self.tries.append(self._last[job])
            self._fresh.discard(job)
        self._on_air[job] = (self._last[job], now, hz)

    def changes(self, flight: Any, i: int, now: float, hz: float) -> None:
        job = flight.first + i
        trial = self._on_air[job][0]
        self.leaves(flight, i, now)
        self._on_air[job] = (trial, now, hz)

    def leaves(self, flight: Any, i: int, now: float) -> None:
        job = flight.first + i
        if job in self._on_air:
            trial, since, hz = self._on_air.pop(job)
            as_of = self._as_of.get(job, (flight.began, flight.version + 1))
            if now > since:
                trial.stretches.append((since, now, hz, as_of))

    def is_sent(self, flight: Any, i: int, now: float) -> None:
        self.leaves(flight, i, now)
        self._last[flight.first + i].complete = True

    def takes_over(self, fades: Fades, some: list[tuple[Any, int]], now: float) -> None:
        """The gains of these jobs hold from now on; what was sent until now was so with those of before."""
        assert self.cell is not None
        for flight, i in some:
            job = flight.first + i
            if job in self._on_air:
                trial, _, hz = self._on_air[job]
                self.leaves(flight, i, fades.medium.env.now)
                self._on_air[job] = (trial, fades.medium.env.now, hz)
            self._as_of[job] = (now, self.cell.version + 1)


@contextmanager
def metered() -> Iterator[Meter]:
    """What happens in the cell that is opened meanwhile."""
    meter = Meter()
    kept = [(owner, name, getattr(owner, name)) for owner, name in (
        (Medium, "_send"), (Medium, "change_rate"), (Medium, "leave_the_band"), (Medium, "_sent"),
        (Medium, "_computed"), (Fades, "take_over"), (CellParts, "put_up"))]

    def first(name: str, notice: Callable[..., None]) -> None:
        """Let the meter see what is asked of a method before it is done."""
        owner, original = next((owner, original) for owner, each, original in kept if each == name)

        def seen(self: Any, *given: Any, **named: Any) -> Any:
            notice(self, *given)
            return original(self, *given, **named)

        setattr(owner, name, seen)

    def opened(parts: CellParts, *given: Any) -> RadioCell:
        meter.parts, meter.cell = parts, kept[-1][2](parts, *given)
        return meter.cell

    first("_send", lambda medium, flight, i, now, hz, rate: meter.sends(flight, i, now, hz))
    first("change_rate", lambda medium, flight, i, now, hz, rate: meter.changes(flight, i, now, hz))
    first("leave_the_band", lambda medium, flight, i, now, **named: meter.leaves(flight, i, now))
    first("_sent", lambda medium, flight, i, now: meter.is_sent(flight, i, now))
    first("_computed", lambda medium, flight, i, now: meter._fresh.add(flight.first + i))
    first("take_over", meter.takes_over)
    CellParts.put_up = opened                                                     # type: ignore[method-assign]
    try:
        yield meter
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)


def bits_sent(trial: Try, parts: CellParts, noise_w_per_hz: float) -> float:
    """What so many hertz for so long carry over the channel; raises where a change of the channel was missed."""
    sent = 0.0
    for t0, t1, hz, (as_of, round_) in trial.stretches:
        edge = parts.channel.next_change(as_of)
        if edge < t1 - 1e-9 * max(1.0, t1):
            raise AssertionError(f"job {trial.job} sent from {t0!r} to {t1!r} s by the gain of {as_of!r} s, which "
                                 f"changed at {edge!r} s")
        gain = float(parts.channel.gain(np.array([trial.device]), as_of, round_)[0])
        sent += float(parts.radio.rate(hz, gain * trial.power_w / noise_w_per_hz)) * (t1 - t0)
    return sent
