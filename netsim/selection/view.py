"""What a selection method sees of the cell, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints, State, Weights
from netsim.fleet.population import Population


@dataclass(frozen=True, eq=False)
class View:
    """The cell at the start of a round: read-only arrays with one entry for each of the N devices.

    Entries that nobody knows yet (the loss of a device that never took part) are NaN; rounds start at 1,
    and ``last_round`` is 0 for a device that never took part.
    """

    round: int
    time_s: float
    cohort_size: int
    population: Population
    available: Bools              # battery not empty
    battery_j: Floats             # what is left; inf on mains
    gain: Floats                  # channel gain in this round
    bits: float                   # size of an upload
    cycles: Floats                # CPU cycles of a round's computing
    bandwidth_hz: float
    noise_w_per_hz: float
    last_round: Ints              # the last round that a device's upload arrived in
    times_used: Ints              # in how many rounds it did
    duration_s: Floats            # compute and upload time when it last took part
    loss: Floats                  # mean training loss of its last local epoch
    gradient_norm: Floats         # norm of the mean gradient of its last local epoch
    global_weights: Weights | None = None         # (P,)
    local_weights: Weights | None = None          # (N, P): models last uploaded; a row is valid where last_round > 0
    layers: Mapping[str, slice] = field(default_factory=dict)   # "fc2.weight" -> its place in P
    local_loss: Callable[[Ints], Floats] | None = None          # loss of the global model on these devices' own data
    accuracy: Sequence[float] = ()                # test accuracy after each round so far
    classes: int = 0                              # number of classes in the data; 0 without learning


@dataclass(frozen=True, eq=False)
class Choice:
    """A cohort, in the order drawn; ``probability`` where the method drew by known probabilities (ICAS)."""

    devices: Ints
    probability: Floats | None = None


class Selection(Protocol):
    """A selection method: an object that is called once a round (``Method`` is a base class that fits).

    ``needs`` names what must be there: "weights" (global_weights and local_weights), "loss", "gradient",
    "local loss". ``state`` holds arrays that a method carries from round to round; a checkpoint keeps them.
    """

    @property
    def needs(self) -> frozenset[str]: ...

    @property
    def state(self) -> State: ...

    def __call__(self, view: View, rng: np.random.Generator) -> Choice: ...
