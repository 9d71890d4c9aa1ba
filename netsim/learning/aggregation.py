"""Aggregation of uploaded models and server optimisers, on flat float32 arrays with float64 sums in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.errors import InputError
from netsim.base.fields import options_in
from netsim.base.registry import Entry, Registry, parameters_of
from netsim.base.types import Floats, Ints, State, Weights

if TYPE_CHECKING:
    from netsim.learning.sgd import Update


def aggregate(
    settings: Any, weights: Weights, updates: Sequence[Update], server: State, total: int = 0,
    chances: Floats | None = None, steps: tuple[Floats, Sequence[Weights]] | None = None,
) -> Weights:
    """Return the new global model, (P,), from the uploaded ones, by the scenario's [learning] table.

    Updates are summed in their order. ``server`` is the state of the server between rounds, updated in place; ``total``
    are the training samples of all devices, and ``chances`` the probabilities with which the devices were drawn, for
    ``unbiased``. ``steps``, the weight of each update and the model that it is a difference from, replaces
    ``learning.aggregation``.
    """
    for update in updates:
        if not np.isfinite(update.weights).all():
            raise InputError("not-finite", f"the model of device {update.device}",
                             hint=f"learning.learning_rate = {settings.learning_rate:g} may be too large")
    goal = (_mean_model(settings.aggregation, weights, updates, total, chances) if steps is None
            else _add_steps(weights, updates, *steps))
    gradients = [update.gradient for update in updates if update.gradient is not None]
    if gradients:      # FEDL's global gradient of the next round
        server["gradient"] = weighted_mean(gradients, [update.samples for update in updates])
    if settings.optimiser.kind != "none":
        options = options_in(settings.optimiser, "kind")
        goal, state = OPTIMISERS[settings.optimiser.kind](weights, goal, server, **options)
        server.update(state)
    return goal


def _mean_model(
    aggregation: str, weights: Weights, updates: Sequence[Update], total: int, chances: Floats | None = None,
) -> Weights:
    """Aggregate the uploaded models by ``learning.aggregation``.

    The parameter names of the aggregation function select its arguments (see ``OFFERED``). One that asks for
    ``chances`` is replaced by the weighted mean where no device was drawn, as in a first round with all devices.
    """
    offered = {"weights": weights, "models": [update.weights for update in updates],
               "samples": [update.samples for update in updates], "total": total, "chances": chances}
    name = "weighted" if needs_chances(aggregation) and chances is None else aggregation
    make = AGGREGATIONS.find(name)
    mean: Weights = make(**{wanted: offered[wanted] for wanted in parameters_of(make)})
    if name not in AGGREGATIONS and (np.shape(mean) != weights.shape or not np.isfinite(mean).all()):
        raise InputError("wrong-answer", f"aggregation {name}", f"an array of shape {np.shape(mean)}",
                         f"finite weights, {weights.shape}")
    return np.asarray(mean, dtype=np.float32)


def _add_steps(weights: Weights, updates: Sequence[Update], shares: Floats, starts: Sequence[Weights]) -> Weights:
    """Return w + sum_n shares_n (w_n - start_n), summed in the order given."""
    total = weights.astype(np.float64)
    for update, start, share in zip(updates, starts, shares.tolist(), strict=True):
        total += share * (update.weights.astype(np.float64) - start)
    return total.astype(np.float32)


def needs_chances(aggregation: str) -> bool:
    """Return whether an aggregation uses the probabilities with which devices were drawn."""
    return "chances" in parameters_of(AGGREGATIONS.find(aggregation))


def _check_aggregation(name: str, found: Any) -> None:
    """Raise InputError unless ``found`` is a function of ``models`` whose other parameters are all in ``OFFERED``."""
    wanted = parameters_of(found)
    if "models" not in wanted or not set(wanted) <= set(OFFERED):
        raise InputError("wrong-interface", "learning.aggregation", f"{name}, which is no aggregation",
                         f"a function of models, and of any others of {', '.join(OFFERED)}")


# Arguments that an aggregation function may declare, by name: weights, the global model (P,); models, the list of
# uploaded ones, (P,) each; samples, D_n of each; total, samples of all devices; chances, probability of each draw, or
# None. The function returns the aggregate, finite and of shape (P,).
OFFERED = ("weights", "models", "samples", "total", "chances")
AGGREGATIONS = Registry("aggregation", "learning.aggregation", {
    "weighted": Entry("netsim.learning.aggregation:weighted_mean", "weighted by samples (eq. 4)"),
    "mean": Entry("netsim.learning.aggregation:plain_mean", "unweighted mean"),
    "unbiased": Entry("netsim.learning.aggregation:unbiased", "weighted by inverse selection probabilities (ICAS)"),
}, check=_check_aggregation)


def weighted_mean(models: Sequence[Weights], samples: Sequence[int] | Ints) -> Weights:
    """Return the mean weighted by samples, sum_n D_n w_n / sum_n D_n (eq. 4)."""
    shares = np.asarray(samples, dtype=np.float64)
    return combine(models, shares / shares.sum())


def plain_mean(models: Sequence[Weights]) -> Weights:
    """Return the unweighted mean of the models."""
    return combine(models, np.full(len(models), 1 / len(models)))


def unbiased(
    weights: Weights, models: Sequence[Weights], samples: Sequence[int] | Ints, total: int, chances: Floats
) -> Weights:
    """Estimate the data-weighted mean over *all* devices from the drawn ones, in the order drawn (ICAS).

    The shares need not sum to 1, so they apply to the steps w_n - w from the global model.
    """
    shares = unbiased_shares(samples, total, chances)
    return combine([weights, *models], np.concatenate([[1 - shares.sum()], shares]))


def unbiased_shares(samples: Sequence[int] | Ints, total: int, chances: Floats) -> Floats:
    """Return the share of each of M devices drawn without replacement: (D_m / D) (1 / q_m + (M - 1 - m)) / M.

    Draw m alone gives the estimate sum_(j<m) (D_j / D) g_j + (D_m / (D q_m)) g_m, unbiased given the draws before it,
    where q_m is the probability of that draw; the shares are those of the mean of these estimates over m. A drawn
    device whose upload failed is left out, as if it had not been drawn.
    """
    later = np.arange(len(chances))[::-1]
    return np.asarray(samples, dtype=np.float64) / total * (1 / chances + later) / len(chances)


def combine(models: Sequence[Weights], shares: Floats) -> Weights:
    """Return sum_n shares_n w_n, added in float64 in the order given, so that every run has the same bits."""
    total = np.zeros(len(models[0]), dtype=np.float64)
    for model, share in zip(models, shares, strict=True):
        total += share * model.astype(np.float64)
    return total.astype(np.float32)


def server_momentum(
    weights: Weights, mean: Weights, state: State, learning_rate: float = 1.0, momentum: float = 0.9
) -> tuple[Weights, State]:
    """Apply server momentum (FedAvgM): v = momentum v + (mean - w); return w + learning_rate v and the state."""
    step = _step(weights, mean)
    velocity = momentum * state.get("velocity", np.zeros_like(step)) + step
    return _moved(weights, learning_rate * velocity), {"velocity": velocity}


def server_adam(
    weights: Weights,
    mean: Weights,
    state: State,
    learning_rate: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    epsilon: float = 1e-3,
) -> tuple[Weights, State]:
    """Apply FedAdam without bias correction; return w + learning_rate m / (sqrt(v) + epsilon) and the state."""
    step = _step(weights, mean)
    first = beta1 * state.get("first", np.zeros_like(step)) + (1 - beta1) * step
    second = beta2 * state.get("second", np.full_like(step, epsilon**2)) + (1 - beta2) * step**2
    return _moved(weights, learning_rate * first / (np.sqrt(second) + epsilon)), {"first": first, "second": second}


OPTIMISERS: dict[str, Callable[..., tuple[Weights, State]]] = {"momentum": server_momentum, "adam": server_adam}


def _step(weights: Weights, mean: Weights) -> Floats:
    return mean.astype(np.float64) - weights.astype(np.float64)


def _moved(weights: Weights, step: Floats) -> Weights:
    return (weights.astype(np.float64) + step).astype(np.float32)
