"""What the selection methods share: their base class, and a few ways to pick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import isfunction, signature
from typing import Any, ClassVar

import numpy as np

from netsim.base.arrays import Floats, Ints, State, Weights
from netsim.base.errors import InputError
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


def known_models(view: View) -> Weights:
    """The models last uploaded, (N, P); rows are valid where ``last_round > 0``."""
    if view.local_weights is None:
        raise InputError("needs", "selection.method", expected="learning: it compares the devices' models")
    return view.local_weights


def newcomers(view: View, state: State, rng: np.random.Generator) -> Choice | None:
    """A cohort that makes unknown models known, or None when nobody is left to ask.

    Methods that compare the models of all devices call this first. After a first round with every device it has
    nothing to do; when the run starts with a cohort instead, devices that were never asked come first, drawn
    uniformly, and known ones fill up. A device is asked once, so that one which never answers holds nobody up.
    ``state["asked"]`` keeps the round in which each device was last chosen.
    """
    before = 0 if view.round == 1 else 1      # not called in the first round: it took everybody
    asked = state.setdefault("asked", np.full(len(view.available), before, dtype=np.int64))
    new = view.available & (view.last_round == 0) & (asked == 0)
    if not new.any():
        return None
    score = new + 0.5 * rng.random(len(new))                 # new ones above all known ones, random within
    return note_asked(view, state, highest(score, np.flatnonzero(view.available), view.cohort_size))


def note_asked(view: View, state: State, devices: Ints) -> Choice:
    """The devices as a choice, remembered in ``state["asked"]``."""
    state["asked"] = state["asked"].copy()
    state["asked"][devices] = view.round
    return Choice(devices)
