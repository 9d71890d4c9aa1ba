"""Named random streams: who draws what never depends on who else draws.

Every draw in a run comes from ``stream(seed, name, round, device)``. Names stand for fixed integers, so a stream
is the same in every version, process and order of calls, and two methods under one seed meet the same world.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from netsim.base.errors import InputError, one_of

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
})


def stream(seed: int, name: str, round: int = 0, device: int = 0) -> np.random.Generator:
    """The random generator of one purpose, in one round, for one device."""
    import numpy as np

    if name not in STREAM:
        raise KeyError(f'no random stream "{name}"; {one_of(name, STREAM)}')
    # SeedSequence(seed, spawn_key=(name, round, device)), its words put together here: that takes half the time
    words = [*_words(seed), 0, 0, 0][:max(POOL, len(_words(seed)))]
    for number in (STREAM[name], round, device):
        words += _words(number)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(np.array(words, np.uint32))))


MOST_STEPS = 5_000_000      # days, where something is drawn every 100 ms

POOL = 4      # words that a seed fills up to before the key of a stream follows it


def _words(number: int) -> list[int]:
    """A whole number as words of 32 bits, the lowest first."""
    if 0 <= number < 1 << 32:
        return [number]
    if number < 0:
        raise ValueError(f"a seed, round or device below 0: {number}")
    return [number & 0xFFFFFFFF, *_words(number >> 32)]


def follow(steps: int, what: str, t: float) -> None:
    """Raise InputError where it would take for ever to follow what is drawn step by step up to an instant ``t``.

    ``steps`` counts from the beginning of the run, so that a run that is taken up again ends where it would have.
    """
    if steps > MOST_STEPS:
        raise InputError("too-large", f"{t:.6g} s ahead", f"{what} more than {MOST_STEPS:,} times until then",
                         hint="Let that happen less often, or let nothing take so long")
