"""Selection ``divergence``: from each cluster the models farthest from the global one (Algorithm 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from netsim.base.arrays import Floats, Ints, Weights
from netsim.selection.clusters import ClusterMethod
from netsim.selection.method import known_models
from netsim.selection.view import View

Norm = Literal["l2", "l1"]
CHUNK = 1 << 17     # values looked at together: 1 MB in double precision, which a cache holds


@dataclass(frozen=True)
class Divergence(ClusterMethod):
    """From each cluster the s devices with the largest weight divergence d_n = |w_n - w|, over all layers.

    Source: Algorithms 2 and 4 of the paper, which measures by the Euclidean norm ("l2"); a public implementation sums
    absolute values ("l1"). Models are those last uploaded, so a device waits until its own is the stalest.
    """

    norm: Norm = "l2"

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        models, known = known_models(view), np.flatnonzero(view.last_round > 0)
        assert view.global_weights is not None
        divergence = np.full(len(models), np.inf)      # of an unknown model nothing is known: first to fill a gap
        divergence[known] = distances(models, known, view.global_weights, self.norm)
        return divergence


def distances(models: Weights, devices: Ints, reference: Weights, norm: Norm = "l2") -> Floats:
    """How far these devices' models are from a reference: one pass, a few rows at a time, in double precision."""
    rows = max(1, CHUNK // models.shape[1])
    exact = reference.astype(np.float64)
    scratch = np.empty((rows, len(exact)))
    result = np.empty(len(devices))
    for start in range(0, len(devices), rows):
        some = models[devices[start : start + rows]]
        difference = scratch[: len(some)]
        difference[:] = some          # first to double precision: subtracting mixed ones is slower by half
        difference -= exact
        if norm == "l2":
            size = np.sqrt(np.einsum("np,np->n", difference, difference))
        else:
            size = np.abs(difference, out=difference).sum(axis=1)
        result[start : start + rows] = size
    return result
