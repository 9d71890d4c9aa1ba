"""Fading: power factors of mean 1 around a device's mean gain, one a round or one a coherence time.

Blocks of a coherence time Tc begin at k Tc in absolute time (multiplied, not added up), so that they do not depend on
when an upload begins and two methods under one seed meet the same channel.
"""

from __future__ import annotations

import math

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.streams import stream
from netsim.base.units import linear

CHUNK = 64          # blocks drawn at once: a stream for each would be slow
LEAST = float(np.finfo(float).tiny)      # a fade to nothing stays a number


def powers(rng: np.random.Generator, count: int, k_db: float | None) -> Floats:
    """Rayleigh (no line of sight): exponential. Rician: 2 (K + 1) g is noncentral chi-squared(2, 2 K)."""
    if k_db is None:
        return np.maximum(rng.standard_exponential(count), LEAST)
    k = linear(k_db)
    return np.maximum(rng.noncentral_chisquare(2.0, 2.0 * k, count) / (2.0 * (k + 1.0)), LEAST)


class RoundFading:
    """One draw for each device and round."""

    def __init__(self, seed: int, tables: list[tuple[int, int]], k_db: float | None) -> None:
        self.seed, self.tables, self.k_db = seed, tables, k_db           # a population's number and size
        self._round, self._factors = 0, np.zeros(0)

    def factor(self, devices: Ints | slice, t: float, round: int) -> Floats:
        if round != self._round:
            self._round, self._factors = round, np.concatenate([
                powers(stream(self.seed, "fading", round, number), size, self.k_db) for number, size in self.tables])
        return self._factors[devices]

    def next_change(self, t: float) -> float:
        return math.inf


class BlockFading:
    """One draw for each device and coherence time."""

    def __init__(self, seed: int, keys: list[int], k_db: float | None, coherence_s: float) -> None:
        self.seed, self.keys, self.k_db, self.coherence_s = seed, keys, k_db, coherence_s
        self._drawn: dict[int, tuple[int, list[float]]] = {}         # device -> its last chunk

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
    """The k with k length <= t < (k + 1) length, exactly as these products round."""
    k = int(t / length_s)
    while k * length_s > t:
        k -= 1
    while (k + 1) * length_s <= t:
        k += 1
    return k
