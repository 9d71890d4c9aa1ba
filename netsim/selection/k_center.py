"""Selection ``k-center``: devices whose models lie far from each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.selection.clusters import columns_of, features_of
from netsim.selection.divergence import distances
from netsim.selection.method import Method, newcomers, note_asked
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class KCenter(Method):
    """A random device, then S - 1 times the one whose model is farthest from its nearest chosen one.

    Distances are Euclidean between the models last uploaded, over a ``layer`` or all. Devices whose model is not known
    come last.

    Source: Gonzalez, Clustering to Minimize the Maximum Intercluster Distance, Theoretical Computer Science, 1985; as a
    baseline for device selection in Wang et al., INFOCOM 2020.
    """

    barrier: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"weights"})

    layer: str = "all"

    def check_model(self, layers: Mapping[str, slice]) -> None:
        columns_of(layers, self.layer)

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        choice = newcomers(view, self.state, rng)
        if choice is not None:
            return choice
        models = features_of(view, self.layer)
        order = rng.permutation(np.flatnonzero(view.available))
        known, unknown = order[view.last_round[order] > 0], order[view.last_round[order] == 0]
        chosen = known[:1]
        known = np.sort(known)
        gap = np.full(len(known), np.inf)
        while 0 < len(chosen) < min(view.cohort_size, len(known)):
            gap = np.fmin(gap, distances(models, known, models[chosen[-1]]))
            gap[known == chosen[-1]] = -1.0        # never twice, even among equal models
            chosen = np.append(chosen, known[np.argmax(gap)])
        return note_asked(view, self.state, np.concatenate([chosen, unknown])[: view.cohort_size])
