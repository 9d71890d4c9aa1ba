"""What a selection method sees of the cell, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints, State, Weights
from netsim.fleet.population import Population
from netsim.physics import SHANNON, LinkModel


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningView:
    """What the server knows of models and training; entries that are not known yet are NaN."""

    loss: Floats                  # mean training loss of a device's last local epoch
    gradient_norm: Floats         # norm of the mean gradient of its last local epoch
    # defaults by factories: a column without a value of its own is looked up in what ``lazy`` was given
    global_weights: Weights | None = field(default_factory=lambda: None)        # (P,)
    # (N, P): models last uploaded; a row is valid where last_round > 0
    local_weights: Weights | None = field(default_factory=lambda: None)
    layers: Mapping[str, slice] = field(default_factory=dict)                   # "fc2.weight" -> its place in P
    # loss of the global model on these devices' own data
    local_loss: Callable[[Ints], Floats] | None = field(default_factory=lambda: None)
    accuracy: Sequence[float] = field(default_factory=tuple)                    # test accuracy after each round so far
    classes: int = field(default_factory=int)            # number of classes in the data; 0 without learning


@dataclass(frozen=True, eq=False, kw_only=True)
class View(LearningView):
    """The cell at the start of a round: read-only arrays with one entry for each of the N devices.

    Rounds start at 1, and ``last_round`` is 0 for a device that never took part, whose ``duration_s`` is NaN. A column
    is made when it is first asked for. What is known of models and training is in :class:`LearningView`.
    """

    round: int
    time_s: float
    cohort_size: int
    population: Population
    available: Bools              # there, with more in the battery than the least that a job takes
    battery_j: Floats             # what is left; inf on mains
    gain: Floats                  # channel gain in this round
    bits: Floats                  # size of an upload
    cycles: Floats                # CPU cycles of a round's computing
    bandwidth_hz: float
    noise_w_per_hz: float
    link: LinkModel = field(default_factory=lambda: SHANNON)      # what a bandwidth carries
    last_round: Ints              # the last round that a device's upload arrived in
    times_used: Ints              # in how many rounds it did
    duration_s: Floats            # compute and upload time when it last took part

    @classmethod
    def lazy(cls, columns: Mapping[str, Callable[[], Any]]) -> View:
        """A view whose columns are made when they are first asked for."""
        view = object.__new__(cls)
        vars(view)["_columns"] = columns
        return view

    def __getattr__(self, name: str) -> Any:
        columns = vars(self).get("_columns", {})
        if name not in columns:
            raise AttributeError(f"a view has no column {name!r}")
        return vars(self).setdefault(name, columns[name]())

    @property
    def alive(self) -> int:
        """How many devices are available."""
        known = vars(self).get("_columns", {}).get("alive")
        return int(self.available.sum() if known is None else known())


@dataclass(frozen=True, eq=False)
class Choice:
    """A cohort, in the order drawn; ``probability`` where the method drew by known probabilities (ICAS)."""

    devices: Ints
    probability: Floats | None = None

    @property
    def chances(self) -> Floats | None:
        """q_m = p_m / (1 - sum_(j<m) p_j): the chance of each draw given those before it."""
        if self.probability is None:
            return None
        p = np.asarray(self.probability, dtype=np.float64)
        return np.asarray(p / (1 - (np.cumsum(p) - p)))


class Selection(Protocol):
    """A selection method: an object that is called once a round (``Method`` is a base class that fits).

    ``needs`` names what must be there: "weights" (global_weights and local_weights), "loss", "gradient",
    "local loss". ``state`` holds arrays that a method carries from round to round; a checkpoint keeps them.
    A method may define ``check_model(layers)`` to refuse, before the first round, a layer that the model lacks.
    """

    @property
    def needs(self) -> frozenset[str]: ...

    @property
    def state(self) -> State: ...

    def __call__(self, view: View, rng: np.random.Generator) -> Choice: ...
