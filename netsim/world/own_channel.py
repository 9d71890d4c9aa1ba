"""The channel of a cell: as the scenario describes it, or one of the user's own, whose answers are looked at first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError, YourCodeError, found
from netsim.fleet.population import Population
from netsim.world import CHANNELS
from netsim.world.channel import GainTimeline

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def channel_of(scenario: Scenario, population: Population, seed: int) -> GainTimeline:
    """What a scenario says of the channels, or names to say it."""
    name = scenario.cell.channel
    if name is not None and name not in CHANNELS:
        return OwnChannel(name, scenario, population, seed)
    made: GainTimeline = CHANNELS.make(name or "described", {})(scenario, population, seed)
    return made


class OwnChannel:
    """A channel of the user's own; an answer that is none, or an error in it, is told with the round and its line."""

    def __init__(self, name: str, scenario: Scenario, population: Population, seed: int) -> None:
        self._name = name
        self._everybody = np.arange(len(population))
        self._own = self._ask(f"channel {name}", CHANNELS.make(name, {}), scenario, population, seed)
        self.changes = bool(self._own.changes)

    def gain(self, devices: Ints | slice, t: float, round: int) -> Floats:
        return self._gains("gain", devices, t, round)

    def mean(self, devices: Ints | slice, t: float, round: int) -> Floats:
        return self._gains("mean", devices, t, round)

    def next_change(self, t: float) -> float:
        where = f"channel {self._name}"
        answer = self._ask(where, self._own.next_change, t, at=t)
        if isinstance(answer, bool) or not hasattr(answer, "__float__") or not float(answer) > t:
            raise InputError("wrong-answer", where, f"next_change({t:g}) = {found(answer)}",
                             "a later instant in seconds, or inf where gains change from round to round alone")
        return float(answer)

    def _gains(self, what: str, devices: Ints | slice, t: float, round: int) -> Floats:
        where = f"round {round}, channel {self._name}"
        answer = self._ask(where, getattr(self._own, what), devices, t, round, at=t)
        asked = self._everybody[devices]
        try:
            gains = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            gains = np.zeros(0)
        if gains.shape != asked.shape:
            raise InputError("wrong-answer", where, f"{what}(...) = {found(answer)} at {t:.6g} s",
                             f"an array with a gain for each of {len(asked)} devices")
        wrong = np.flatnonzero(~(np.isfinite(gains) & (gains > 0.0)))
        if wrong.size:
            raise InputError("wrong-answer", where,
                             f"{what} of device {asked[wrong[0]]} = {gains[wrong[0]]:g} at {t:.6g} s",
                             "finite and above 0: a factor, not decibels")
        return gains

    def _ask(self, where: str, what: Callable[..., Any], *arguments: Any, at: float | None = None) -> Any:
        try:
            return what(*arguments)
        except InputError:
            raise
        except Exception as error:
            raise YourCodeError.of(where, error, at=at) from None
