"""Selection ``cluster-round-robin``: from each cluster the devices not chosen for longest (a control)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.base.arrays import Floats
from netsim.selection.clusters import ClusterMethod
from netsim.selection.view import View


@dataclass(frozen=True)
class ClusterRoundRobin(ClusterMethod):
    """From each cluster the s devices that were not chosen for longest; equals in the order of their numbers.

    ``divergence`` without the divergence: the model that was uploaded longest ago is mostly also the farthest from
    the global one, so the gain of ``divergence`` over this method is what the norm itself brings.
    """

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        return -np.maximum(self.state["asked"], view.last_round).astype(np.float64)
