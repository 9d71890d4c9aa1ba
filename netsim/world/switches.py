"""When a device goes and comes back: instants of a device's own, drawn in absolute time, whoever looks.

Dwell times are exponential and the first state is drawn from the stationary law, so that there is no warm-up: the
share of time on is m1 / (m1 + m0), and since the law has no memory the first dwell needs no correction.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Bools, Floats
from netsim.base.streams import follow, stream

if TYPE_CHECKING:
    from netsim.scenario.time_varying import Intervals

CHUNK = 64          # dwell times drawn at once: a stream for each would be slow


class Switches:
    """On or off from the start, and the other way round at each of these instants, as far as anybody has looked."""

    def __init__(self, on: bool, edges: list[float]) -> None:
        self.starts_on, self.edges = on, edges

    def on(self, t: float) -> bool:
        """Whether the device is there; at the very instant it already is what it becomes."""
        return self.starts_on != bool(self._passed(t) % 2)

    def next_change(self, t: float) -> float:
        """The first change after ``t``; inf where it stays as it is for ever."""
        passed = self._passed(t)
        return self.edges[passed] if passed < len(self.edges) else math.inf

    def goes_on(self) -> bool:
        """Add some instants; False where there are no more."""
        return False

    def _passed(self, t: float) -> int:
        while (not self.edges or t >= self.edges[-1]) and self.goes_on():
            follow(len(self.edges), "a device goes and comes", t)
        return bisect_right(self.edges, t)


def begin(rng: np.random.Generator, size: int, on_s: float, off_s: float) -> tuple[Bools, Floats]:
    """Who of so many devices is there at 0 s, and when each changes for the first time: all of them in one draw."""
    draws = rng.random((size, 2))
    on = draws[:, 0] < on_s / (on_s + off_s)
    return on, -np.log1p(-draws[:, 1]) * np.where(on, on_s, off_s)


class RandomSwitches(Switches):
    """Exponential times on and off, of these means; begun as :func:`begin` says."""

    def __init__(
        self, purpose: str, seed: int, device: int, means_s: tuple[float, float], on: bool, first_change: float,
    ) -> None:
        self.purpose, self.seed, self.device, self.means_s = purpose, seed, device, means_s
        self.chunks = 0
        super().__init__(on, [first_change])

    def goes_on(self) -> bool:
        self.chunks += 1
        draws = stream(self.seed, self.purpose, self.chunks, self.device).standard_exponential(CHUNK).tolist()
        t = self.edges[-1]
        state = (0 if self.starts_on else 1) + len(self.edges)       # on where it is even
        for place, draw in enumerate(draws, state):
            t += draw * self.means_s[place % 2]
            self.edges.append(t)
        return True


class RecordedSwitches(Switches):
    """As recorded, once or over and over."""

    def __init__(self, intervals: Intervals, period_s: float | None) -> None:
        edges = [edge for pair in zip(intervals.on, intervals.off, strict=True) for edge in pair]
        starts_on = bool(edges) and edges[0] == 0.0
        if starts_on:
            edges = edges[1:] if period_s is None else [*edges[1:], period_s]      # it comes when the next turn begins
            edges = edges[:-2] if edges[-2:] == [period_s, period_s] else edges     # and stays where it has just gone
        super().__init__(starts_on, edges)
        self.period_s = period_s if edges else None
        self.turn, self.turns = list(self.edges), 1

    def goes_on(self) -> bool:
        if self.period_s is None:
            return False
        self.edges.extend(self.turns * self.period_s + edge for edge in self.turn)      # multiplied, not added up
        self.turns += 1
        return True
