"""Fading, a power factor of mean 1 per round or per coherence time, and shadowing of moving devices.

Blocks of a coherence time Tc start at k Tc in absolute time (products, not sums), so that they do not depend on the
start of an upload, and the channel is the same for all methods with one seed.
"""

from __future__ import annotations

import math
from array import array

import numpy as np

from netsim.base.errors import InputError
from netsim.base.rng import advance, stream
from netsim.base.types import Floats, Ints
from netsim.base.units import linear
from netsim.devices.mobility import Trajectory

CHUNK = 64          # blocks or steps drawn at once: one random stream for each would be slow
MOST_BLOCKS = 2.0**53      # beyond it, numbers of blocks are not exact
LEAST = float(np.finfo(float).tiny)      # lower bound of a power factor, so that gains stay positive


def powers(rng: np.random.Generator, count: int, k_db: float | None) -> Floats:
    """Return power factors of mean 1: Rayleigh (exponential) for ``k_db`` None, else Rician with factor K.

    For Rician fading 2 (K + 1) g is noncentral chi-squared with 2 degrees of freedom and noncentrality 2 K.
    """
    if k_db is None:
        return np.maximum(rng.standard_exponential(count), LEAST)
    k = linear(k_db)
    return np.maximum(rng.noncentral_chisquare(2.0, 2.0 * k, count) / (2.0 * (k + 1.0)), LEAST)


class RoundFading:
    """Fading with one factor per device and round."""

    def __init__(self, seed: int, tables: list[tuple[int, int]], k_db: float | None) -> None:
        self.seed, self.tables, self.k_db = seed, tables, k_db           # tables: number and size of each population
        self._round, self._factors = 0, np.zeros(0)

    def factor(self, devices: Ints | slice, t: float, round: int) -> Floats:
        if round != self._round:
            self._round, self._factors = round, np.concatenate([
                powers(stream(self.seed, "fading", round, number), size, self.k_db) for number, size in self.tables])
        return self._factors[devices]

    def next_change(self, t: float) -> float:
        return math.inf


class BlockFading:
    """Fading with one factor per device and coherence time."""

    def __init__(self, seed: int, keys: list[int], k_db: float | None, coherence_s: float) -> None:
        self.seed, self.keys, self.k_db, self.coherence_s = seed, keys, k_db, coherence_s
        self._drawn: dict[int, tuple[int, list[float]]] = {}         # last chunk of each device

    def factor(self, devices: Ints | slice, t: float, round: int) -> Floats:
        chunk, place = divmod(block_at(t, self.coherence_s), CHUNK)
        numbers = range(*devices.indices(len(self.keys))) if isinstance(devices, slice) else devices.tolist()
        return np.array([self._chunk(device, chunk)[place] for device in numbers])

    def next_change(self, t: float) -> float:
        return (block_at(t, self.coherence_s) + 1) * self.coherence_s

    def _chunk(self, device: int, chunk: int) -> list[float]:
        known = self._drawn.get(device)
        if known is None or known[0] != chunk:
            rng = stream(self.seed, "fading", chunk, self.keys[device])
            known = self._drawn[device] = (chunk, powers(rng, CHUNK, self.k_db).tolist())
        return known[1]


def block_at(t: float, length_s: float) -> int:
    """Return the k with k length_s <= t < (k + 1) length_s, exact for the rounded products."""
    if not t / length_s < MOST_BLOCKS:
        raise InputError("too-large", f"{t:.6g} s ahead", f"less than 2^53 times {length_s:g} s",
                         hint="Use a longer coherence time or update interval, or shorten the run")
    k = int(t / length_s)
    while k * length_s > t:
        k -= 1
    while (k + 1) * length_s <= t:
        k += 1
    return k


class CorrelatedShadowing:
    """Correlated shadowing of one moving device, step by step in absolute time.

    S' = rho S + sd sqrt(1 - rho^2) N with rho = exp(-distance / correlation) (Gudmundson). Since
    rho(a + b) = rho(a) rho(b), the distribution does not depend on the step. The first value is the device's own draw.
    """

    def __init__(
        self, walk: Trajectory, seed: int, device: int, start_db: float, sd_db: float, correlation_m: float,
        every_s: float,
    ) -> None:
        self.walk, self.seed, self.device = walk, seed, device
        self.start_db, self.sd_db, self.correlation_m, self.every_s = start_db, sd_db, correlation_m, every_s
        self._starts = array("d", [start_db])        # value before each chunk, to look back without drawing all again
        self._chunk, self._values = -1, list[float]()

    def at(self, step: int) -> float:
        """Return the shadowing in dB after ``step`` steps."""
        if step == 0:
            return self.start_db
        chunk, place = divmod(step - 1, CHUNK)
        advance(step, "shadowing changes", step * self.every_s)
        if chunk != self._chunk:
            for each in range(min(chunk, len(self._starts) - 1), chunk + 1):
                self._draw(each)
        return self._values[place]

    def _draw(self, chunk: int) -> None:
        first = chunk * CHUNK
        draws = stream(self.seed, "shadowing on the way", chunk, self.device).standard_normal(CHUNK).tolist()
        value, here, values = self._starts[chunk], self.walk.at(first * self.every_s), []
        for k, draw in enumerate(draws, first + 1):
            there = self.walk.at(k * self.every_s)
            rho = math.exp(-math.dist(here, there) / self.correlation_m)
            value = rho * value + self.sd_db * math.sqrt(1.0 - rho * rho) * draw
            values.append(value)
            here = there
        if chunk + 1 == len(self._starts):
            self._starts.append(value)
        self._chunk, self._values = chunk, values
