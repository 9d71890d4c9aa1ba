"""K-means clustering of devices by their trained weights (Algorithm 2)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from netsim.base.errors import InputError, unknown
from netsim.base.types import Ints, Weights


@dataclass(frozen=True, eq=False)
class Clustering:
    """Cluster of each device, from 0 on, and the wall time of K-means in seconds (never part of a trace)."""

    labels: Ints
    seconds: float


def cluster_devices(
    weights: Weights, layers: Mapping[str, slice], layer: str = "fc2.weight", clusters: int = 10, seed: int = 0
) -> Clustering:
    """Cluster the devices' models (N, P) by the weights of one layer; ``layer="all"`` uses every weight.

    Clusters are numbered by their first device, so equal groupings have equal labels.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if layer != "all" and layer not in layers:
        raise unknown("selection.layer", layer, [*layers, "all"])
    if not 1 <= clusters <= len(weights):
        raise InputError("more-than-devices", "selection.clusters", clusters, f"1 to {len(weights)}")
    features = np.ascontiguousarray(weights if layer == "all" else weights[:, layers[layer]])
    start = time.perf_counter()
    # Several threads sum in varying order: bits would differ between runs.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)    # of fewer clusters than requested
        found = KMeans(clusters, n_init=10, random_state=seed).fit_predict(features)
    seconds = time.perf_counter() - start
    _, first, labels = np.unique(found, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return Clustering(rank[labels].astype(np.int64), seconds)


def ari(labels: Ints, truth: Ints) -> float:
    """Return the adjusted Rand index of a clustering: 1 for the same grouping as the truth, 0 expected by chance."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(truth, labels))
