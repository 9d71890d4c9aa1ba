"""Named random streams: each draw depends only on the seed, the name of its stream, round and device.

Every draw in a run comes from ``stream(seed, name, round, device)``. Names stand for fixed integers, so a stream
is the same in every version, process and order of calls, and two methods under one seed have the same environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from netsim.base.errors import InputError, suggest

if TYPE_CHECKING:
    import numpy as np

# Never renumber: a number is part of what a seed means. New names go to the end; 17 to 19 are used up.
STREAM: Mapping[str, int] = MappingProxyType({
    "positions": 1,
    "shadowing": 2,
    "fading": 3,
    "cpu min": 4,
    "cpu max": 5,
    "cycles": 6,
    "capacitance": 7,
    "power": 8,
    "budget": 9,
    "battery": 10,
    "samples": 11,
    "partition": 12,
    "initial weights": 13,
    "training": 14,
    "selection": 15,
    "cohort": 16,
    "power min": 20,
    "power max": 21,
    "evaluation": 22,
    "mobility": 23,
    "shadowing on the way": 24,
    "availability": 25,
    "crash": 26,
    "loss": 27,
    "idle": 28,
    "harvest": 29,
    "packets": 30,
    "flower server": 31,
    "flower client": 32,
    "flops per cycle": 33,
    "cycles per batch": 34,
    "cpu spread": 35,
    "rate": 36,
    "downlink rate": 37,
    "variation": 43,
    "calibration": 44,
    "traces": 45,
})


def stream(seed: int, name: str, round: int = 0, device: int = 0) -> np.random.Generator:
    """Return the random generator of one purpose, in one round, for one device."""
    import numpy as np

    if name not in STREAM:
        raise KeyError(f'no random stream "{name}"; {suggest(name, STREAM)}')
    # same as SeedSequence(seed, spawn_key=(name, round, device)), in half the time
    words = [*_words(seed), 0, 0, 0][:max(POOL, len(_words(seed)))]
    for number in (STREAM[name], round, device):
        words += _words(number)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(np.array(words, np.uint32))))


MOST_STEPS = 5_000_000      # days, where something is drawn every 100 ms

POOL = 4      # words that a seed fills up to before the key of a stream follows it


def _words(number: int) -> list[int]:
    """Return a whole number as words of 32 bits, the lowest first."""
    if 0 <= number < 1 << 32:
        return [number]
    if number < 0:
        raise ValueError(f"a seed, round or device below 0: {number}")
    return [number & 0xFFFFFFFF, *_words(number >> 32)]


def advance(steps: int, what: str, t: float) -> None:
    """Raise InputError if too many steps would have to be drawn up to the time ``t`` in s.

    ``steps`` counts from the beginning of the run, so that a resumed run fails at the same step.
    """
    if steps > MOST_STEPS:
        raise InputError("too-large", f"{t:.6g} s ahead", f"{what} more than {MOST_STEPS:,} times until then",
                         hint="Make these changes less frequent, or the run shorter")
