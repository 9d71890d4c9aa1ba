"""Selection ``divergence``: from each cluster the models farthest from the global one (Algorithm 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from netsim.arrays import Floats, Weights
from netsim.selection.clusters import ClusterMethod
from netsim.selection.method import known_models
from netsim.selection.view import View

CHUNK = 1 << 20     # values looked at together: 8 MB in double precision


@dataclass(frozen=True)
class Divergence(ClusterMethod):
    """From each cluster the s devices with the largest weight divergence d_n = |w_n - w|, over all layers.

    Source: Algorithms 2 and 4 of the paper, which measures by the Euclidean norm ("l2"); a public implementation sums
    absolute values ("l1"). Models are those last uploaded, so a device waits until its own is the stalest.
    """

    norm: Literal["l2", "l1"] = "l2"

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        models = known_models(view)
        assert view.global_weights is not None
        divergence = np.full(len(models), np.inf)      # of an unknown model nothing is known: first to fill a gap
        known = np.flatnonzero(view.last_round > 0)
        rows = max(1, CHUNK // models.shape[1])
        for start in range(0, len(known), rows):
            some = known[start : start + rows]
            divergence[some] = distance(models[some], view.global_weights, self.norm)
        return divergence


def distance(models: Weights, reference: Weights, norm: Literal["l2", "l1"]) -> Floats:
    """The distance of each row from the reference, summed in double precision."""
    difference = models.astype(np.float64) - reference
    result: Floats = np.linalg.norm(difference, ord={"l2": 2, "l1": 1}[norm], axis=1)
    return result
