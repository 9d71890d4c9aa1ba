"""Selection ``kmeans``: random devices from each cluster (Algorithm 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.base.arrays import Floats
from netsim.selection.clusters import ClusterMethod
from netsim.selection.view import View


@dataclass(frozen=True)
class KMeans(ClusterMethod):
    """s random devices from each cluster of similar models; places that clusters leave empty are drawn at random too.

    Source: Algorithms 2 and 3 of the paper; who gets the places when clusters don't divide S: ``clusters.places``.
    """

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        return rng.random(len(view.available))
