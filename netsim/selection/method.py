"""Base class of the selection methods, with functions that they share: draws, and times before there is a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import isfunction, signature
from typing import Any, ClassVar

import numpy as np

from netsim.base.types import Floats, Ints, State
from netsim.physics import compute_time, upload_time
from netsim.selection.view import Choice, View

MANY = 10_000      # devices, above which a permutation of all is avoided


@dataclass(frozen=True)
class Method:
    """Base class of a selection method: a frozen dataclass whose fields are the options of ``[selection]``.

    An object is called once per round and returns a :class:`Choice`. A plain function of ``(view, rng)`` that returns
    device numbers is a selection method too.

    Attributes
    ----------
    needs : frozenset of str
        Learning results that it reads: "weights", "loss", "gradient", "local loss"; a run without learning is refused.
    gives : frozenset of str
        "chances" if it returns `Choice.probability`.
    varies : bool
        True if it chooses the size of the cohort itself.
    barrier : bool
        True if it composes a cohort as a whole, for servers that wait for all; asynchronous servers refuse it.
    state : dict of str to array
        Numeric arrays kept from round to round; checkpoints save them.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Nearest(Method):
    ...     minimum_j: float = 0.0
    ...
    ...     def __call__(self, view, rng):
    ...         charged = np.flatnonzero(view.available & (view.battery_j > self.minimum_j))
    ...         return Choice(highest(view.gain, charged, view.cohort_size))
    >>> Nearest(minimum_j=5.0)
    Nearest(minimum_j=5.0)
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    gives: ClassVar[frozenset[str]] = frozenset()
    varies: ClassVar[bool] = False
    barrier: ClassVar[bool] = False
    state: State = field(default_factory=dict, init=False, repr=False, compare=False)

    def check_model(self, layers: Mapping[str, slice]) -> None:
        """Raise InputError if the method does not support a model; called before the first round.

        Parameters
        ----------
        layers : mapping of str to slice
            Name of each layer, such as "fc2.weight", and its position in the flat weights.
        """

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        """Choose the devices of a round.

        Parameters
        ----------
        view : View
            State of the cell and of learning at the start of the round.
        rng : numpy.random.Generator
            Random stream of this round; use no other randomness, so that runs can be repeated and resumed.

        Returns
        -------
        Choice
            `view.cohort_size` available devices (fewer if fewer are available; any number if `varies`).
        """
        raise NotImplementedError(f"{type(self).__name__} does not define __call__(view, rng)")


@cache
def of_function(chooses: Any) -> Any:
    """Return the Method class of a plain function of (view, rng) that returns device numbers or a Choice.

    Anything else is returned unchanged, and is never called.
    """
    if not isfunction(chooses) or [*signature(chooses).parameters][:1] != ["view"]:
        return chooses

    def ask(self: Method, view: View, rng: np.random.Generator) -> Any:
        answer = chooses(view, rng)
        return Choice(np.asarray(answer)) if isinstance(answer, list | tuple | np.ndarray) else answer

    return type(chooses.__name__, (Method,), {"__call__": ask, "__doc__": chooses.__doc__})


def highest(score: Floats, candidates: Ints, count: int) -> Ints:
    """Return the candidates with the highest scores.

    Parameters
    ----------
    score : array of float, shape (N,)
        Score of every device.
    candidates : array of int
        Device numbers to choose from.
    count : int
        Number of devices to return.

    Returns
    -------
    array of int
        Device numbers, highest score first; equal scores in ascending order of numbers.
    """
    candidates = np.sort(candidates)
    return candidates[np.argsort(-score[candidates], kind="stable")[: max(count, 0)]]


def draw(weights: Floats | Ints, count: int, rng: np.random.Generator) -> Ints:
    """Draw positions without replacement, each time with probability in proportion to the remaining weights.

    The smallest of exponential times with these rates come in just that order (Efraimidis and Spirakis, 2006).

    Parameters
    ----------
    weights : array of float or int
        Weight of each entry; a weight of 0 is drawn only after all others.
    count : int
        Number of entries to draw.
    rng : numpy.random.Generator
        Random stream.

    Returns
    -------
    array of int
        Positions in the order drawn.
    """
    rate = np.maximum(weights, 1e-300)
    return np.argsort(rng.exponential(size=len(rate)) / rate, kind="stable")[:count]


def at_random(view: View, rng: np.random.Generator) -> Ints:
    """Draw `view.cohort_size` available devices uniformly without replacement.

    For large populations this draws only as many as wanted: a permutation of a million devices costs more than a round.
    """
    if view.alive <= MANY:
        return rng.permutation(np.flatnonzero(view.available))[: view.cohort_size]
    size = len(view.population)
    there = size if view.alive == size else np.flatnonzero(view.available)
    return rng.choice(there, min(view.cohort_size, view.alive), replace=False)


def compute_s(view: View) -> Floats:
    """Return each device's computing time in seconds at its maximum CPU frequency; shape (N,)."""
    return compute_time(view.cycles, view.population.cpu_max_hz)


def upload_s(view: View, bandwidth_hz: float) -> Floats:
    """Return each device's upload time in seconds over a bandwidth, at this round's gain; inf at rate 0; shape (N,)."""
    snr_hz = view.gain * view.population.power_w / view.noise_w_per_hz
    return upload_time(view.bits, view.link.rate(bandwidth_hz, snr_hz))


def typical_s(view: View) -> float:
    """Return the default deadline in seconds: the median time of the available devices with equal bandwidths."""
    time_s = equal_share_s(view)[view.available]
    through = time_s[np.isfinite(time_s)]
    return float(np.median(through)) if through.size else np.inf


def equal_share_s(view: View) -> Floats:
    """Return each device's compute and upload time in seconds if a cohort shares the band equally; shape (N,)."""
    return compute_s(view) + upload_s(view, view.bandwidth_hz / view.cohort_size)
