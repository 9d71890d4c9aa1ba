"""What the selection methods share: their base class, a few ways to pick, and times as known before a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import isfunction, signature
from typing import Any, ClassVar

import numpy as np

from netsim.base.arrays import Floats, Ints, State
from netsim.physics import compute_time, upload_time
from netsim.selection.view import Choice, View

MANY = 10_000      # devices


@dataclass(frozen=True)
class Method:
    """A selection method: its dataclass fields are its options, called once a round with a view and a random stream."""

    needs: ClassVar[frozenset[str]] = frozenset()     # see Selection
    gives: ClassVar[frozenset[str]] = frozenset()     # "chances": of each device drawn, as Choice.probability
    varies: ClassVar[bool] = False                    # decides on the size of the cohort itself
    barrier: ClassVar[bool] = False                   # puts a cohort together as a whole, for a server that waits
    state: State = field(default_factory=dict, init=False, repr=False, compare=False)

    def check_model(self, layers: Mapping[str, slice]) -> None:
        """Raise InputError where the method cannot work with a model of these layers; asked before the first round."""

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        raise NotImplementedError(f"{type(self).__name__} does not say whom it chooses: define __call__(view, rng)")


@cache
def of_function(chooses: Any) -> Any:
    """The method of a plain function, chooses(view, rng), which answers with device numbers or a Choice.

    What is no such function stays as it is: nothing else is ever called.
    """
    if not isfunction(chooses) or [*signature(chooses).parameters][:1] != ["view"]:
        return chooses

    def ask(self: Method, view: View, rng: np.random.Generator) -> Any:
        answer = chooses(view, rng)
        return Choice(np.asarray(answer)) if isinstance(answer, list | tuple | np.ndarray) else answer

    return type(chooses.__name__, (Method,), {"__call__": ask, "__doc__": chooses.__doc__})


def highest(score: Floats, candidates: Ints, count: int) -> Ints:
    """The ``count`` candidates with the highest score, best first; equals in the order of their numbers."""
    candidates = np.sort(candidates)
    return candidates[np.argsort(-score[candidates], kind="stable")[: max(count, 0)]]


def draw(weights: Floats | Ints, count: int, rng: np.random.Generator) -> Ints:
    """Positions of ``count`` entries drawn one after the other without replacement, each time by the weights left.

    The smallest of exponential times with these rates come in just that order (Efraimidis and Spirakis, 2006). A weight
    of zero is drawn only when nothing else is left.
    """
    rate = np.maximum(weights, 1e-300)
    return np.argsort(rng.exponential(size=len(rate)) / rate, kind="stable")[:count]


def at_random(view: View, rng: np.random.Generator) -> Ints:
    """S available devices, drawn uniformly without replacement.

    Of many, only as many are drawn as are wanted: a permutation of a million devices would cost more than their round.
    """
    if view.alive <= MANY:
        return rng.permutation(np.flatnonzero(view.available))[: view.cohort_size]
    size = len(view.population)
    there = size if view.alive == size else np.flatnonzero(view.available)
    return rng.choice(there, min(view.cohort_size, view.alive), replace=False)


def compute_s(view: View) -> Floats:
    """Each device's computing time at its highest CPU frequency."""
    return compute_time(view.cycles, view.population.cpu_max_hz)


def upload_s(view: View, bandwidth_hz: float) -> Floats:
    """Each device's upload time over this much bandwidth, at this round's gain; inf where nothing gets through."""
    snr_hz = view.gain * view.population.power_w / view.noise_w_per_hz
    return upload_time(view.bits, view.link.rate(bandwidth_hz, snr_hz))


def typical_s(view: View) -> float:
    """A deadline where none is given: half of the devices that get through would meet it with an equal share each."""
    time_s = equal_share_s(view)[view.available]
    through = time_s[np.isfinite(time_s)]
    return float(np.median(through)) if through.size else np.inf


def equal_share_s(view: View) -> Floats:
    """Each device's time in a round with the band shared equally among a cohort."""
    return compute_s(view) + upload_s(view, view.bandwidth_hz / view.cohort_size)
