"""Asynchronous strategies: staleness weighting of updates.

Each update is the difference between the model x_i that a device has trained and the model w_i that its job started
from, or the newest model w (``base = "now"``). tau_i is its staleness, the number of aggregations since the start of
its job, and s(tau) the weight of an update of that staleness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from netsim.base.errors import InputError, alternatives
from netsim.base.fields import Model, Natural, NotNegative, Positive, Time, field_error
from netsim.base.types import Floats, Ints
from netsim.learning.backend import Base
from netsim.scenario import Scenario
from netsim.selection import Selection
from netsim.server.asynchronous import AsynchronousStrategy
from netsim.server.strategy import Updates

USES = {"constant": {}, "polynomial": {"a": 0.5}, "hinge": {"a": 10.0, "b": 4.0}}      # parameters of each function

ServerRate = Annotated[Positive, Field(description="server learning rate, a factor of the mean update")]
Normalise = Annotated[Literal["count", "weights"], Field(
    description="divisor of the weighted sum: the number of updates, or the sum of their weights")]
Alpha = Annotated[float, Field(gt=0, le=1, description="weight of an update of staleness 0 in the new model")]
Similarity = Annotated[NotNegative, Field(description="weight of the direction of an update")]
Freshness = Annotated[NotNegative, Field(description="weight of the freshness of an update")]
Bound = Annotated[Positive, Field(description="staleness at which freshness is 0.5")]
Period = Annotated[Time, Field(description="length of a window")]
MaxStaleness = Annotated[Natural | None, Field(description="maximum staleness; an update above it has weight 0")]


class Staleness(Model):
    """Weight s(tau) by staleness.

    ``constant``: 1; ``polynomial``: (1 + tau)^-a; ``hinge``: 1 up to tau = b, then 1 / (a (tau - b) + 1).
    """

    kind: Literal["constant", "polynomial", "hinge"]
    a: Annotated[float, Field(gt=0, le=1000)] | None = None
    b: Annotated[float, Field(ge=0, le=1e9)] | None = None

    @model_validator(mode="after")
    def _only_what_it_has(self) -> Self:
        for name in ("a", "b"):
            if getattr(self, name) is not None and name not in USES[self.kind]:
                raise field_error("no-effect", name, hint=f'"{self.kind}" has '
                                  + (f"only {' and '.join(USES[self.kind])}" if USES[self.kind] else "no parameters"))
        return self

    def __repr__(self) -> str:
        return f"'{self.kind}'" if self.a is None and self.b is None else super().__repr__()

    def _value(self, name: str) -> float:
        given = getattr(self, name)
        return float(USES[self.kind][name] if given is None else given)

    def weights(self, tau: Ints) -> Floats:
        """Return s(tau) for each staleness tau."""
        late = np.asarray(tau, np.float64)
        if self.kind == "constant":
            return np.ones(len(late))
        if self.kind == "polynomial":
            return np.asarray((1.0 + late) ** -self._value("a"))
        return np.asarray(1.0 / (self._value("a") * np.maximum(0.0, late - self._value("b")) + 1.0))


def _by_name(given: Any) -> Any:
    """Accept a name for the function with its default parameters."""
    if isinstance(given, Mapping) and "kind" not in given:
        raise field_error("missing", "kind", expected=alternatives(list(USES)))
    return {"kind": given} if isinstance(given, str) else given


ByStaleness = Annotated[Staleness, BeforeValidator(_by_name), Field(
    description='"constant", "polynomial", "hinge", or a table with the kind and its a and b')]
POLYNOMIAL = Staleness(kind="polynomial")


@dataclass(frozen=True, kw_only=True)
class FedBuff(AsynchronousStrategy):
    """Buffered asynchronous aggregation: w <- w + server_lr (1/K) sum_i s(tau_i) (x_i - w_i).

    With ``normalise = "weights"`` the sum is divided by the sum of the weights s(tau_i) instead of by the number of
    updates K, so that a stale buffer takes as large a step as a fresh one.
    Source: Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, arXiv 2106.06639.
    """

    server_lr: ServerRate = 1.0
    staleness: ByStaleness = POLYNOMIAL
    normalise: Normalise = "count"

    def weights(self, updates: Updates) -> Floats:
        weights = self.staleness.weights(updates.staleness)
        return self.server_lr * weights / (len(weights) if self.normalise == "count" else weights.sum())


@dataclass(frozen=True, kw_only=True)
class FedAsync(AsynchronousStrategy):
    """Asynchronous aggregation of each arriving model x: w <- (1 - a) w + a x with a = alpha s(tau).

    Source: Xie, Koyejo and Gupta, Asynchronous Federated Optimization, arXiv 1903.03934. Its local training has a
    proximal term: ``learning.proximal``.
    """

    base: ClassVar[Base] = "now"
    buffer: ClassVar[int] = 1                # type: ignore[misc]

    alpha: Alpha = 0.6
    staleness: ByStaleness = POLYNOMIAL

    def weights(self, updates: Updates) -> Floats:
        return self.alpha * self.staleness.weights(updates.staleness)


@dataclass(frozen=True, kw_only=True)
class Port(AsynchronousStrategy):
    """Weights by similarity and freshness: w <- w + sum_i p_i (x_i - w_i).

    p_i is proportional to D_i (similarity (cos_i + 1) / 2 + freshness bound / (tau_i + bound)), and the p_i sum to 1.
    cos_i is the cosine between an update and the change of the global model since its job started; it is 1 for a
    staleness of at most 1.
    Source: Su and Li, How Asynchronous can Federated Learning Be?, IWQoS 2022; weights as in its authors' code.
    """

    similarity: Similarity = 1.0
    freshness: Freshness = 1.0
    bound: Bound = 10.0

    def check(self, scenario: Scenario, selection: Selection) -> None:
        super().check(scenario, selection)
        if self.freshness == 0.0:        # all weights of a buffer may be 0
            raise InputError("out-of-range", "server.freshness", self.freshness, "greater than 0",
                             "Without freshness all updates of a buffer may have weight 0")

    def weights(self, updates: Updates) -> Floats:
        tau = updates.staleness
        cosine = np.where(tau > 1, updates.alignment(), 1.0)
        weights = updates.samples * (
            self.similarity * (cosine + 1) / 2 + self.freshness * self.bound / (tau + self.bound))
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True, kw_only=True)
class Window(AsynchronousStrategy):
    """Rounds of a fixed length; a job that is not done by the end counts in the round of its arrival.

    w <- w + sum_i p_i (x_i - w_i) with p_i proportional to D_i s(tau_i), summing to 1; an update with a staleness above
    ``max_staleness`` has weight 0. Devices with finished jobs wait for the end of the window; new jobs start then.
    """

    barrier: ClassVar[bool] = True
    buffer: ClassVar[int] = 1                # type: ignore[misc]

    period: Period
    staleness: ByStaleness = POLYNOMIAL
    max_staleness: MaxStaleness = None

    @property
    def period_s(self) -> float:             # type: ignore[override]
        return float(self.period)

    def idle(self, scenario: Scenario) -> Mapping[str, str]:
        return {**super().idle(scenario), "rounds.retry_after": "aggregates after every period; remove this key"}

    def weights(self, updates: Updates) -> Floats:
        weights = updates.samples * self.staleness.weights(updates.staleness)
        if self.max_staleness is not None:
            weights = np.where(updates.staleness > self.max_staleness, 0.0, weights)
        return np.asarray(weights / (weights.sum() or 1.0))
