"""The channel of each device: mean gain, mobility and fading of a scenario, or a user's own model."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any, Protocol

import numpy as np

from netsim.base.errors import InputError, ask, describe_value
from netsim.base.registry import Entry, Registry
from netsim.base.types import Floats, Ints, as_floats, frozen
from netsim.devices.link_model import loss_db
from netsim.devices.population import Population, TableDraw, gain_of_rate, table_draws
from netsim.environment.fading import BlockFading, CorrelatedShadowing, RoundFading, block_at
from netsim.physics import gain_of_loss
from netsim.scenario import Scenario
from netsim.scenario.radio import Cell, GainTrace, RateTrace

EVERYBODY = slice(None)


class GainTimeline(Protocol):
    """Interface of a channel; a channel of your own is a class whose instances have it.

    It is created as ``YourChannel(scenario, population, seed)``. Results must depend on the arguments only, so that
    the channel is the same for every method.

    Attributes
    ----------
    changes : bool
        True if gains ever differ from the initial gains of the population.
    """

    changes: bool

    def gain(self, devices: Ints | slice, t: float, round: int) -> Floats:
        """Return the channel gains of some devices.

        Parameters
        ----------
        devices : array of int or slice
            Device numbers.
        t : float
            Simulated time in seconds.
        round : int
            Number of the round, from 1.

        Returns
        -------
        array of float, shape (number of devices,)
            Linear power gains (not dB), finite and above 0.
        """

    def mean(self, devices: Ints | slice, t: float, round: int) -> Floats:
        """Return the gains without their unpredictable part, such as fading.

        Parameters
        ----------
        devices, t, round : see ``gain``

        Returns
        -------
        array of float, shape (number of devices,)
            Linear power gains, finite and above 0.
        """

    def next_change(self, t: float) -> float:
        """Return the next instant at which a gain may change.

        Parameters
        ----------
        t : float
            Simulated time in seconds.

        Returns
        -------
        float
            Instant after ``t`` in seconds; inf if gains are constant during a round.
        """


class Channel:
    """The channel gains of a scenario with a seed, independent of methods and of the order of calls."""

    def __init__(self, scenario: Scenario, population: Population, seed: int) -> None:
        cell = scenario.cell
        self.population = population
        self.trace, self.midnight_s = cell.gain_trace, scenario.rounds.midnight_s
        draws = table_draws(scenario, seed)
        self.fading = _fading(cell, draws, seed)
        self.ways: list[MobileGains | RecordedRates] = [
            MobileGains(cell, draw) for draw in draws if draw.table.mobility is not None and self.trace is None]
        self.ways += [RecordedRates(cell, draw, population, self.midnight_s) for draw in draws
                      if isinstance(draw.table.values("rate"), RateTrace)]
        self.changes = self.fading is not None or self.trace is not None or bool(self.ways)

    def gain(self, devices: Ints | slice, t: float, round: int) -> Floats:
        mean = self.mean(devices, t, round)
        return mean if self.fading is None else frozen(mean * self.fading.factor(devices, t, round))

    def mean(self, devices: Ints | slice, t: float, round: int) -> Floats:
        """Return the gains by position and shadowing, or as recorded."""
        if self.trace is not None:
            timed = self.trace.t is not None
            row = (bisect_right(edges(self.trace, t, self.midnight_s), t) - 1 if timed
                   else (round - 1) % len(self.trace.db))
            return frozen(gain_of_loss(np.negative(self.trace.db[row]))[devices])
        if not self.ways:
            return self.population.gain if devices is EVERYBODY else self.population.gain[devices]
        gain = self.population.gain[devices].copy()
        numbers = np.arange(len(self.population))[devices]
        for way in self.ways:
            here = np.flatnonzero((numbers >= way.devices.start) & (numbers < way.devices.stop))
            if len(here):
                gain[here] = way.gain(numbers[here] - way.devices.start, t)
        return frozen(gain)

    def next_change(self, t: float) -> float:
        soonest = [part.next_change(t) for part in (self.fading, *self.ways) if part is not None]
        if self.trace is not None and self.trace.t is not None:
            instants = edges(self.trace, t, self.midnight_s)
            soonest.append(instants[bisect_right(instants, t)])
        return min(soonest, default=math.inf)


class MobileGains:
    """Gains of the moving devices of one population."""

    def __init__(self, cell: Cell, draw: TableDraw) -> None:
        self.cell, self.devices, self.movers = cell, draw.devices, draw.movers(cell)
        self.every_s = float(self.movers.table.update_interval)
        self.shadow_db = draw.shadowing_db(cell)
        self._ways: dict[int, CorrelatedShadowing] = {}
        self._step, self._gain = -1, dict[int, float]()          # cache of the last step, by device

    def gain(self, devices: Ints, t: float) -> Floats:
        """Return path loss and shadowing at the position of each device, which is constant for a step of every_s."""
        step = block_at(t, self.every_s)
        if step != self._step:
            self._step, self._gain = step, {}
        numbers = devices.tolist()
        new = [device for device in numbers if device not in self._gain]
        if new:
            x, y = self.movers.places(np.array(new), step * self.every_s)
            shadow_db = np.array([self._shadow(device, step) for device in new])
            gains = gain_of_loss(loss_db(self.cell.path_loss, np.hypot(x, y)) + shadow_db)
            self._gain.update(zip(new, gains.tolist(), strict=True))
        return np.array([self._gain[device] for device in numbers])

    def next_change(self, t: float) -> float:
        return (block_at(t, self.every_s) + 1) * self.every_s

    def _shadow(self, device: int, step: int) -> float:
        correlation = getattr(self.cell.shadowing, "correlation", None)
        if correlation is None:
            return float(self.shadow_db[device])
        if device not in self._ways:
            self._ways[device] = CorrelatedShadowing(
                self.movers.walk(device), self.movers.seed, self.movers.keys[device], float(self.shadow_db[device]),
                self.cell.shadowing_db, correlation, self.every_s)
        return self._ways[device].at(step)


class RecordedRates:
    """Measured rates over time of one population, as gains; see :func:`~netsim.devices.population.gain_of_rate`."""

    def __init__(self, cell: Cell, draw: TableDraw, population: Population, midnight_s: float) -> None:
        self.devices, self.trace, self.midnight_s = draw.devices, draw.table.values("rate"), midnight_s
        radiated = population.power_w if population.radiated is None else population.power_w * population.radiated
        powers = radiated[draw.devices.start:draw.devices.stop]
        self._rows = [gain_of_rate(cell, powers, np.array(row)) for row in self.trace.bit_per_s]

    def gain(self, devices: Ints, t: float) -> Floats:
        found: Floats = self._rows[bisect_right(edges(self.trace, t, self.midnight_s), t) - 1][devices]
        return found

    def next_change(self, t: float) -> float:
        instants = edges(self.trace, t, self.midnight_s)
        return instants[bisect_right(instants, t)]


def _fading(cell: Cell, draws: list[TableDraw], seed: int) -> RoundFading | BlockFading | None:
    if cell.fading == "none":
        return None
    table = None if isinstance(cell.fading, str) else cell.fading
    k_db = getattr(table, "k", None)
    if table is None or table.coherence == "round":
        return RoundFading(seed, [(draw.number, draw.table.size) for draw in draws], k_db)
    return BlockFading(seed, [key for draw in draws for key in draw.keys], k_db, float(table.coherence))


def edges(trace: GainTrace | RateTrace, t: float, midnight_s: float) -> list[float]:
    """Return the start of each row of a periodic recording in the period around ``t``, and of the next period.

    A recording starts at the midnight before the run.
    """
    turn = block_at(t - midnight_s, trace.period_s)
    return [midnight_s + (turn * trace.period_s + each) for each in trace.t or ()] + [
        midnight_s + (turn + 1) * trace.period_s]


ASKED = ("gain", "mean", "next_change")      # methods of a GainTimeline


def _check(name: str, given: Any) -> None:
    if not (isinstance(given, type) and all(hasattr(given, each) for each in ("changes", *ASKED))):
        raise InputError("wrong-interface", "cell.channel", f'"{name}"', 'a class with "changes", '
                         "gain(devices, t, round), mean(devices, t, round) and next_change(t)")


CHANNELS = Registry("channel", "cell.channel", {
    "described": Entry("netsim.environment.channel:Channel",
                       "path loss, shadowing, mobility and fading, or recorded gains"),
}, given=3, check=_check)


def round_gain(scenario: Scenario, population: Population, seed: int, round: int) -> Floats:
    """Return the gains of all devices at 0 s, in a round (from 1)."""
    return Channel(scenario, population, seed).gain(EVERYBODY, 0.0, round)


def channel_of(scenario: Scenario, population: Population, seed: int) -> GainTimeline:
    """Return the channel of a scenario: the described one, or the user's own."""
    name = scenario.cell.channel
    if name is None or name in CHANNELS:
        return Channel(scenario, population, seed)
    return UserChannel(name, scenario, population, seed)


class UserChannel:
    """A user's own channel; invalid results and errors are reported with the round and the line of code."""

    def __init__(self, name: str, scenario: Scenario, population: Population, seed: int) -> None:
        self._name = name
        self._everybody = np.arange(len(population))
        self._own = ask(f"channel {name}", CHANNELS.make(name, {}), scenario, population, seed)
        self.changes = bool(self._own.changes)

    def gain(self, devices: Ints | slice, t: float, round: int) -> Floats:
        return self._gains("gain", devices, t, round)

    def mean(self, devices: Ints | slice, t: float, round: int) -> Floats:
        return self._gains("mean", devices, t, round)

    def next_change(self, t: float) -> float:
        where = f"channel {self._name}"
        answer = ask(where, self._own.next_change, t, at=t)
        if isinstance(answer, bool) or not hasattr(answer, "__float__") or not float(answer) > t:
            raise InputError("wrong-answer", where, f"next_change({t:g}) = {describe_value(answer)}",
                             "a later instant in seconds, or inf where gains change from round to round alone")
        return float(answer)

    def _gains(self, what: str, devices: Ints | slice, t: float, round: int) -> Floats:
        where = f"round {round}, channel {self._name}"
        answer = ask(where, getattr(self._own, what), devices, t, round, at=t)
        asked = self._everybody[devices]
        gains = as_floats(answer)
        if gains.shape != asked.shape:
            raise InputError("wrong-answer", where, f"{what}(...) = {describe_value(answer)} at {t:.6g} s",
                             f"an array with a gain for each of {len(asked)} devices")
        wrong = np.flatnonzero(~(np.isfinite(gains) & (gains > 0.0)))
        if wrong.size:
            raise InputError("wrong-answer", where,
                             f"{what} of device {asked[wrong[0]]} = {gains[wrong[0]]:g} at {t:.6g} s",
                             "finite and above 0: a factor, not decibels")
        return gains
