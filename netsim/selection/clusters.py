"""What ``kmeans``, ``divergence`` and ``cluster-round-robin`` share: clusters of devices, and places for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints, Weights
from netsim.base.errors import InputError, unknown
from netsim.base.fields import Natural
from netsim.selection.method import Method, at_random, highest, known_models, newcomers, note_asked
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class ClusterMethod(Method):
    """Clusters the devices once by their models (Algorithm 2), then takes the highest ranked of each cluster.

    The clusters are made in the first round in which every device has been asked for a model: the second, after a
    first round with all devices. ``state["clusters"]`` holds a number for each device, -1 where its model is
    not known; a device whose model arrives later joins the cluster with the nearest mean. A method is
    the ranking that it gives the devices (``rank``); how many come from each cluster is said in ``places``.
    """

    barrier: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"weights"})

    clusters: Natural | None = None     # c; by default the number of classes in the data
    layer: str = "last"     # features: a layer's weights, "all", or "last": the output layer, fc2.weight in the paper

    def check_model(self, layers: Mapping[str, slice]) -> None:
        columns_of(layers, self.layer)

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        choice = newcomers(view, self.state, rng)
        if choice is not None:
            return choice
        if not (view.last_round > 0).any():      # nobody's upload has ever arrived
            return note_asked(view, self.state, at_random(view, rng))
        labels = self._labels(view, rng)
        return note_asked(view, self.state, places(labels, self.rank(view, rng), view.available, view.cohort_size))

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        """How much each of the N devices is wanted; the highest of a cluster are taken."""
        raise NotImplementedError

    def _labels(self, view: View, rng: np.random.Generator) -> Ints:
        """The cluster of each device: made by K-means once, then kept, and joined by latecomers."""
        known = view.last_round > 0
        features = features_of(view, self.layer)
        labels = self.state.get("clusters")
        if labels is None:
            from netsim.learning.clustering import cluster_devices

            there = features if known.all() else features[known]
            if not np.isfinite(there).all():
                raise InputError("not-finite", f"round {view.round}, devices' models", "values that are not finite",
                                 hint="Training diverged: try a smaller learning.learning_rate")
            count = min(self.clusters or view.classes, int(known.sum()))
            seed = int(rng.integers(2**31))
            found = cluster_devices(there, {}, layer="all", clusters=count, seed=seed)
            labels = np.full(len(known), -1, dtype=np.int64)
            labels[known] = found.labels
        late = np.flatnonzero(known & (labels < 0))
        if late.size:
            means = np.stack([features[labels == cluster].mean(axis=0) for cluster in range(labels.max() + 1)])
            labels = labels.copy()
            labels[late] = [np.argmin(np.linalg.norm(means - features[device], axis=1)) for device in late]
        self.state["clusters"] = labels
        return labels


def features_of(view: View, layer: str) -> Weights:
    """The columns of the devices' models that an option names: a layer, "all", or "last", the last one with weights."""
    return known_models(view)[:, columns_of(view.layers, layer)]


def columns_of(layers: Mapping[str, slice], layer: str) -> slice:
    """Where these weights lie in a flat model."""
    if layer == "all":
        return slice(None)
    weights = [name for name in layers if name.endswith("weight")]
    name = weights[-1] if layer == "last" and weights else layer
    if name not in layers:
        raise unknown("selection.layer", layer, [*layers, "all", "last"])
    return layers[name]


def places(labels: Ints, rank: Floats, available: Bools, size: int) -> Ints:
    """Who of the clusters gets the S places, in three steps.

    1. Each of the c clusters gives its s = S // c highest ranked available devices, or all it has.
    2. The S mod c places that this leaves go to different clusters: those whose next device is ranked highest.
       (Fixed clusters would shut the others out for good whenever S < c.)
    3. What clusters too small left empty goes to the highest ranked devices of all that remain, in a cluster or not.
    """
    share, extra = divmod(size, int(labels.max()) + 1)
    there = np.flatnonzero(available)
    there = there[np.lexsort((-rank[there], labels[there]))]                 # by cluster, the best first
    position = np.arange(len(there)) - np.searchsorted(labels[there], labels[there])     # 0 for the best of its cluster
    clustered = labels[there] >= 0
    first = there[clustered & (position < share)]
    second = highest(rank, there[clustered & (position == share)], extra)
    third = highest(rank, np.setdiff1d(there, np.concatenate([first, second])), size - len(first) - len(second))
    return np.concatenate([first, second, third])
