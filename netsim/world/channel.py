"""The channel of each device: its mean gain, and how that changes from round to round."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Floats, frozen
from netsim.base.streams import stream
from netsim.fleet.population import Population, linear, table_numbers

if TYPE_CHECKING:
    from netsim.scenario import Scenario


class Channel:
    """The gains of a scenario's devices under a seed, the same whoever asks and whatever the methods.

    ``gain(round)`` has one entry for each device; ``changes`` is whether it differs from round to round.
    """

    changes = False

    def __init__(self, scenario: Scenario, population: Population, seed: int) -> None:
        self.changes = scenario.cell.fading != "none" or scenario.cell.gain_trace is not None
        self._gain = lru_cache(maxsize=2)(lambda round: round_gain(scenario, population, seed, round))

    def gain(self, round: int) -> Floats:
        """The channel gains in a round (the first is 1)."""
        return self._gain(round)


def round_gain(scenario: Scenario, population: Population, seed: int, round: int) -> Floats:
    """The channel gains in a round (the first is 1): with this round's fading, or as recorded."""
    trace = scenario.cell.gain_trace
    if trace is not None:
        return frozen(linear(trace.db[(round - 1) % len(trace.db)]))
    if scenario.cell.fading == "none":
        return population.gain
    # Rayleigh: the received power is exponentially distributed around its mean.
    factors = [stream(seed, "fading", round, number).standard_exponential(table.size)
               for table, number in zip(scenario.population, table_numbers(scenario), strict=True)]
    return frozen(population.gain * np.maximum(np.concatenate(factors), np.finfo(float).tiny))
