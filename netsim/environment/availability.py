"""Availability of devices, crashes, and loss of uploads.

All draws belong to the device, whether it is selected or not, so that faults are the same for all methods with one
seed. Dwell times are exponential and the first state is drawn from the stationary distribution, so there is no warm-up:
the fraction of time on is m1 / (m1 + m0), and since the distribution is memoryless the first dwell time needs no
correction.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from netsim.base.rng import advance, stream
from netsim.base.types import Bools, Floats
from netsim.devices.population import TableDraw, table_draws
from netsim.environment.energy_sources import EnergySources, ThermalLimit, energy_sources_of, thermal_limits_of
from netsim.environment.variation import JobVariation
from netsim.scenario import Scenario
from netsim.scenario.time_varying import Intervals, Loss

CHUNK = 64          # dwell times drawn at once: one random stream for each would be slow


class OnOffProcess:
    """On-off process of one device: its initial state, and the instants of its changes, extended on demand."""

    def __init__(self, on: bool, edges: list[float]) -> None:
        self.starts_on, self.edges = on, edges

    def on(self, t: float) -> bool:
        """Return True if the device is on at ``t`` (seconds); at an instant of change, the new state."""
        return self.starts_on != bool(self._passed(t) % 2)

    def next_change(self, t: float) -> float:
        """Return the first change after ``t`` in seconds; inf for none."""
        passed = self._passed(t)
        return self.edges[passed] if passed < len(self.edges) else math.inf

    def extend(self) -> bool:
        """Add further instants of change; return False if there are none."""
        return False

    def _passed(self, t: float) -> int:
        while (not self.edges or t >= self.edges[-1]) and self.extend():
            advance(len(self.edges), "a device goes and comes", t)
        return bisect_right(self.edges, t)


def begin(rng: np.random.Generator, size: int, on_s: float, off_s: float) -> tuple[Bools, Floats]:
    """Draw the state of ``size`` devices at 0 s and the instants of their first changes, with mean times in s."""
    draws = rng.random((size, 2))
    on = draws[:, 0] < on_s / (on_s + off_s)
    return on, -np.log1p(-draws[:, 1]) * np.where(on, on_s, off_s)


class RandomOnOffProcess(OnOffProcess):
    """On-off process with exponential times of these means, which starts in steady state (:func:`begin`)."""

    def __init__(
        self, purpose: str, seed: int, device: int, means_s: tuple[float, float], on: bool, first_change: float,
    ) -> None:
        self.purpose, self.seed, self.device, self.means_s = purpose, seed, device, means_s
        self.chunks = 0
        super().__init__(on, [first_change])

    def extend(self) -> bool:
        self.chunks += 1
        draws = stream(self.seed, self.purpose, self.chunks, self.device).standard_exponential(CHUNK).tolist()
        t = self.edges[-1]
        state = (0 if self.starts_on else 1) + len(self.edges)       # even: on
        for place, draw in enumerate(draws, state):
            t += draw * self.means_s[place % 2]
            self.edges.append(t)
        return True


def shifted(intervals: Intervals, period_s: float | None, by_s: float) -> Intervals:
    """Return recorded intervals as a run sees them in which their time 0 is at ``by_s`` <= 0 (seconds).

    Intervals that have ended before the run begins are omitted; periodic ones come back at the end of the period.
    """
    if by_s == 0.0:
        return intervals
    pairs = [(on + by_s, off + by_s) for on, off in zip(intervals.on, intervals.off, strict=True)]
    if period_s is not None:
        turns = [math.floor(on / period_s) * period_s for on, _ in pairs]
        pairs = [(on - turn, off - turn) for (on, off), turn in zip(pairs, turns, strict=True)]
        pairs = sorted([*pairs, *((on - period_s, off - period_s) for on, off in pairs if off > period_s)])
        pairs = [(on, min(off, period_s)) for on, off in pairs]
    kept = [(max(on, 0.0), off) for on, off in pairs if off > max(on, 0.0)]
    return intervals.model_construct(on=tuple(on for on, _ in kept), off=tuple(off for _, off in kept))


class RecordedOnOffProcess(OnOffProcess):
    """Recorded on-off process, once or periodic."""

    def __init__(self, intervals: Intervals, period_s: float | None) -> None:
        edges = [edge for pair in zip(intervals.on, intervals.off, strict=True) for edge in pair]
        starts_on = bool(edges) and edges[0] == 0.0
        if starts_on:
            edges = edges[1:] if period_s is None else [*edges[1:], period_s]      # on again when a period starts
            edges = edges[:-2] if edges[-2:] == [period_s, period_s] else edges     # no change between two periods
        super().__init__(starts_on, edges)
        self.period_s = period_s if edges else None
        self.turn, self.turns = list(self.edges), 1

    def extend(self) -> bool:
        if self.period_s is None:
            return False
        self.edges.extend(self.turns * self.period_s + edge for edge in self.turn)      # products, not sums
        self.turns += 1
        return True


@dataclass(frozen=True)
class Outage:
    """Reason of an outage, and its effect on a running job."""

    why: Literal["availability", "crash"]
    on_interrupt: Literal["pause", "restart", "abort"]


class OutageProcess:
    """Availability of the devices of one population with respect to one reason."""

    def __init__(
        self, first: int, size: int, absence: Outage, switches: Callable[[int], OnOffProcess],
        begun: tuple[Bools, Floats] | None = None,
    ) -> None:
        self.first, self.size, self.absence = first, size, absence
        self._make = switches
        self._switches: dict[int, OnOffProcess] = {}
        # last known states, and the instants until which they hold; ``begun`` saves one process per device
        self._on: Bools
        self._until: Floats
        self._on, self._until = (np.zeros(size, bool), np.full(size, -np.inf)) if begun is None else begun
        self._asked = 0.0

    def of(self, device: int) -> OnOffProcess:
        place = device - self.first
        if place not in self._switches:
            self._switches[place] = self._make(place)
        return self._switches[place]

    def on(self, t: float) -> Bools:
        """Return the states of all devices of the population at ``t`` (seconds); updates only those that may change."""
        if t < self._asked:
            self._until[:] = -np.inf
        for place in np.flatnonzero(self._until <= t).tolist():
            switches = self.of(self.first + place)
            self._on[place], self._until[place] = switches.on(t), switches.next_change(t)
        self._asked = t
        return self._on


class AvailabilityModel:
    """Outages and upload losses of a scenario's devices with a seed."""

    def __init__(
        self, size: int, presences: Sequence[OutageProcess] = (), losses: Sequence[tuple[range, Loss]] = (),
        seed: int = 0,
        keys: Sequence[int] = (),
    ) -> None:
        self.size, self.presences, self.losses = size, presences, losses
        self.seed, self.keys = seed, keys
        self._drawn: dict[int, tuple[int, list[float]]] = {}         # last chunk of each device

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> AvailabilityModel:
        draws = table_draws(scenario, seed)
        losses = [(draw.devices, draw.table.loss) for draw in draws if draw.table.loss is not None]
        return cls(scenario.size, [presence for draw in draws for presence in _presences(draw)], losses, seed,
                   [key for draw in draws for key in draw.keys] if losses else ())

    def __bool__(self) -> bool:
        return bool(self.presences or self.losses)

    def available(self, t: float) -> Bools:
        """Return the mask of available devices at ``t`` (seconds), shape (N,)."""
        there = np.ones(self.size, bool)
        for presence in self.presences:
            there[presence.first:presence.first + presence.size] &= presence.on(t)
        return there

    def absences(self, device: int, t: float) -> list[Outage]:
        """Return the outages of a device at ``t`` (seconds); empty if it is available."""
        return [absence for absence, switches in self._about(device) if not switches.on(t)]

    def next_change(self, device: int, t: float) -> float:
        """Return the next instant after ``t`` (seconds) at which the device may become unavailable or available."""
        return min((switches.next_change(t) for _, switches in self._about(device)), default=math.inf)

    def back_at(self, device: int, t: float) -> float:
        """Return the first instant from ``t`` (seconds) on at which a device is available; inf for never."""
        while t < math.inf:
            off = [switches for _, switches in self._about(device) if not switches.on(t)]
            if not off:
                return t
            t = max(switches.next_change(t) for switches in off)
        return math.inf

    def loss(self, device: int) -> Loss | None:
        return next((loss for devices, loss in self.losses if device in devices), None)

    def packets_sent(self, device: int, number: int) -> tuple[int, int]:
        """Return the number of packets sent in the n-th upload of a device, and the number lost in all attempts."""
        loss = self.loss(device)
        if loss is None or not loss.packets:
            return 0, 0
        rng = stream(self.seed, "packets", number, self.keys[device])
        left, sent, tries = loss.packets, 0, 0
        while left and tries < loss.max_attempts:
            sent, left, tries = sent + left, int(rng.binomial(left, loss.probability)), tries + 1
        return sent, left

    def loses(self, device: int, number: int) -> bool:
        """Return True if the n-th upload of a device (from 0) is lost."""
        loss = self.loss(device)
        if loss is None:
            return False
        chunk, place = divmod(number, CHUNK)
        known = self._drawn.get(device)
        if known is None or known[0] != chunk:
            draws = stream(self.seed, "loss", chunk, self.keys[device]).random(CHUNK)
            known = self._drawn[device] = (chunk, draws.tolist())
        return known[1][place] < loss.probability

    def _about(self, device: int) -> list[tuple[Outage, OnOffProcess]]:
        return [(presence.absence, presence.of(device)) for presence in self.presences
                if presence.first <= device < presence.first + presence.size]


def _presences(draw: TableDraw) -> Iterator[OutageProcess]:
    table, crash = draw.table.availability, draw.table.crash
    if table is not None and table.model == "recorded":
        switches = []
        for each in table.intervals:
            period_s = table.period if each.period is None else each.period
            switches.append(RecordedOnOffProcess(shifted(each, period_s, draw.midnight_s), period_s))
        yield OutageProcess(
            draw.devices.start, len(switches), Outage("availability", table.on_interrupt), switches.__getitem__)
    elif table is not None:
        yield _random_outages(draw, Outage("availability", table.on_interrupt), table.on, table.off)
    if crash is not None:
        yield _random_outages(draw, Outage("crash", crash.on_interrupt), crash.mean_time_between_failures,
                        crash.mean_repair_time)


def _random_outages(draw: TableDraw, absence: Outage, on_s: float, off_s: float) -> OutageProcess:
    """Return the random outages of a population; devices without a change or a job need no process."""
    on, change = begin(draw.rng(absence.why), len(draw.devices), on_s, off_s)
    keys = draw.keys

    def switches(device: int) -> OnOffProcess:
        return RandomOnOffProcess(
            absence.why, draw.seed, keys[device], (on_s, off_s), bool(on[device]), float(change[device]))

    return OutageProcess(draw.devices.start, len(draw.devices), absence, switches, (on.copy(), change.copy()))


@dataclass(frozen=True, eq=False)
class DeviceDynamics:
    """Dynamics of devices: faults, energy sources, thermal limits and variation of job times; by default none."""

    faults: AvailabilityModel | None = None
    supplies: Sequence[EnergySources] = ()
    heat_limits: Sequence[ThermalLimit] = ()
    variation: JobVariation | None = None

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> DeviceDynamics:
        return cls(AvailabilityModel.of(scenario, seed), energy_sources_of(scenario, seed), thermal_limits_of(scenario),
                   JobVariation.of(scenario, seed))


STEADY = DeviceDynamics()
