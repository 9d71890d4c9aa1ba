"""The input of a selection method (View) and its output (Choice)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from netsim.base.types import Bools, Floats, Ints, State, Weights
from netsim.devices.population import Population
from netsim.physics import SHANNON, LinkModel


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningView:
    """The server's knowledge of models and training; values that are not known yet are NaN.

    Parameters
    ----------
    loss : array of float, shape (N,)
        Mean training loss of each device's last local epoch.
    gradient_norm : array of float, shape (N,)
        Norm of the mean gradient of its last local epoch.
    global_weights : array of float, shape (P,)
        Flat weights of the global model.
    local_weights : array of float, shape (N, P)
        Models last uploaded; a row is valid where ``last_round > 0``.
    layers : mapping of str to slice
        Position of each layer, such as "fc2.weight", in the P weights.
    local_loss : callable
        Returns the loss of the global model on the data of an array of devices.
    accuracy : sequence of float
        Test accuracy after each round so far.
    classes : int
        Number of classes in the data; 0 without learning.
    """

    loss: Floats
    gradient_norm: Floats
    # default factories: a class attribute would hide the column that ``lazy`` was given
    global_weights: Weights | None = field(default_factory=lambda: None)
    local_weights: Weights | None = field(default_factory=lambda: None)
    layers: Mapping[str, slice] = field(default_factory=dict)
    local_loss: Callable[[Ints], Floats] | None = field(default_factory=lambda: None)
    accuracy: Sequence[float] = field(default_factory=tuple)
    classes: int = field(default_factory=int)


@dataclass(frozen=True, eq=False, kw_only=True)
class View(LearningView):
    """State of the cell at the start of a round: read-only arrays with an entry for each of the N devices.

    Columns are computed at first access. The columns of :class:`LearningView` are part of it.

    Parameters
    ----------
    round : int
        Round number, from 1.
    time_s : float
        Simulated time in seconds.
    cohort_size : int
        Number of devices wanted.
    population : Population
        Properties of the devices (``samples``, ``power_w``, ``cpu_max_hz``, ``budget_j``, ...).
    available : array of bool
        Devices that are switched on and have more energy than the cheapest job takes.
    battery_j : array of float
        Remaining charge in J; inf on mains.
    gain : array of float
        Linear channel gain in this round.
    bits, cycles : array of float
        Upload size in bits, and CPU cycles of a job.
    bandwidth_hz, noise_w_per_hz : float
        Bandwidth of the cell in Hz, and noise density in W/Hz.
    link : LinkModel
        Rate of a radio link.
    last_round : array of int
        Last round in which the device's upload arrived; 0 if never.
    times_used : array of int
        Number of rounds in which it arrived.
    duration_s : array of float
        Compute and upload time of the device's last job in seconds; NaN if it had none.
    """

    round: int
    time_s: float
    cohort_size: int
    population: Population
    available: Bools
    battery_j: Floats
    gain: Floats
    bits: Floats
    cycles: Floats
    bandwidth_hz: float
    noise_w_per_hz: float
    link: LinkModel = field(default_factory=lambda: SHANNON)
    last_round: Ints
    times_used: Ints
    duration_s: Floats

    @classmethod
    def lazy(cls, columns: Mapping[str, Callable[[], Any]]) -> View:
        """Return a view whose columns are computed at first access, each by a function without arguments."""
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
        """Number of available devices."""
        known = vars(self).get("_columns", {}).get("alive")
        return int(self.available.sum() if known is None else known())


@dataclass(frozen=True, eq=False)
class Choice:
    """The devices that a selection method chooses.

    Parameters
    ----------
    devices : array of int, shape (S,)
        Device numbers, in the order drawn.
    probability : array of float, shape (S,), optional
        Probability of each device, for methods that draw by known probabilities (`icas`).

    Examples
    --------
    >>> Choice(np.array([4, 1]), np.array([0.5, 0.25])).chances.tolist()
    [0.5, 0.5]
    """

    devices: Ints
    probability: Floats | None = None

    @property
    def chances(self) -> Floats | None:
        """q_m = p_m / (1 - sum_(j<m) p_j), the probability of each draw given the draws before it; None if unknown."""
        if self.probability is None:
            return None
        p = np.asarray(self.probability, dtype=np.float64)
        return np.asarray(p / (1 - (np.cumsum(p) - p)))


class Selection(Protocol):
    """Interface of a selection method; see :class:`netsim.selection.Method`, a base class that implements it."""

    @property
    def needs(self) -> frozenset[str]: ...

    @property
    def state(self) -> State: ...

    def __call__(self, view: View, rng: np.random.Generator) -> Choice: ...
