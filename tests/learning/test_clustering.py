"""Clusters of devices that anyone can see."""

from __future__ import annotations

import numpy as np
import pytest
from refused import refused

from netsim.learning.clustering import ari, cluster_devices

LAYERS = {"noise": slice(0, 2), "fc2.weight": slice(2, 4)}
PLACES = np.array([[0, 0], [9, 9], [0, 9]])[[2, 0, 1, 0, 2, 1, 0]]


def models() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.hstack([100 * rng.normal(size=(7, 2)), PLACES + 0.1 * rng.normal(size=(7, 2))]).astype(np.float32)


def test_devices_are_grouped_by_the_layer_asked_for() -> None:
    found = cluster_devices(models(), LAYERS, clusters=3)
    assert found.labels.tolist() == [0, 1, 2, 1, 0, 2, 1]    # numbered as they first appear
    assert found.seconds > 0
    assert ari(found.labels, np.array([2, 0, 1, 0, 2, 1, 0])) == 1.0


def test_all_weights_may_count() -> None:
    everything = cluster_devices(models(), LAYERS, layer="all", clusters=3, seed=1)
    noise = cluster_devices(models(), LAYERS, layer="noise", clusters=3, seed=1)
    assert everything.labels.tolist() == noise.labels.tolist()    # the noise is a thousand times larger


def test_the_same_seed_gives_the_same_clusters() -> None:
    one, two = (cluster_devices(models(), LAYERS, layer="noise", clusters=3, seed=4) for _ in range(2))
    assert one.labels.tolist() == two.labels.tolist()


def test_devices_that_are_all_alike_make_one_cluster() -> None:
    found = cluster_devices(np.ones((4, 4), dtype=np.float32), LAYERS, clusters=3)
    assert found.labels.tolist() == [0, 0, 0, 0]


def test_agreement_by_chance_is_about_nothing() -> None:
    rng = np.random.default_rng(0)
    assert abs(ari(rng.integers(0, 5, 1000), rng.integers(0, 5, 1000))) < 0.02


@pytest.mark.parametrize(
    ("options", "code", "key"),
    [({"layer": "fc2.weights"}, "unknown-name", "selection.layer"),
     ({"clusters": 8}, "more-than-devices", "selection.clusters")],
)
def test_a_clustering_that_cannot_be(options: dict[str, object], code: str, key: str) -> None:
    with refused(code, key):
        cluster_devices(models(), LAYERS, **options)    # type: ignore[arg-type]
