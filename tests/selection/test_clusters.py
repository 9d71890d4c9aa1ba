"""Clusters, their places, and the three methods that rank devices inside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from refused import refused

from netsim import load_scenario, simulate
from netsim.selection import make_selection
from netsim.selection.model_based import distances, places

LAYERS = {"fc1.weight": slice(0, 1), "fc2.weight": slice(1, 2), "fc2.bias": slice(2, 3)}


def models(*rows):
    return np.array(rows, dtype=np.float32)


# fc2.weight tells two groups apart, {0, 1, 2} and {3, 4, 5}; fc1.weight sets the divergence from 0.
TWO_GROUPS = models([3, 0, 0], [1, 0, 0], [2, 0, 0], [5, 9, 0], [6, 9, 0], [4, 9, 0])


@pytest.fixture
def world(view):
    def build(**changes):
        first = {"local_weights": TWO_GROUPS, "global_weights": np.zeros(3), "layers": LAYERS, "classes": 2}
        return view(**{**first, **changes})
    return build


def test_divergence_takes_the_farthest_of_each_cluster(world, rng):
    method = make_selection("divergence", {})
    assert sorted(method(world(), rng).devices) == [0, 4]
    assert sorted(method(world(cohort=4), rng).devices) == [0, 2, 3, 4]
    assert len(set(method.state["clusters"][:3])) == len(set(method.state["clusters"][3:])) == 1


def test_the_norm_can_change_the_answer(world, rng):
    # Device 0 is at (3, 0): l1 = l2 = 3; device 1 at (2, 2): l1 = 4, l2 = 2.83.
    cell = world(local_weights=models([3, 0, 0], [2, 0, 2], [0, 0, 0], [5, 9, 0], [0, 9, 0], [0, 9, 0]))
    assert sorted(make_selection("divergence", {"norm": "l2"})(cell, rng).devices) == [0, 3]
    assert sorted(make_selection("divergence", {"norm": "l1"})(cell, rng).devices) == [1, 3]


def test_divergence_looks_at_models_in_chunks(monkeypatch, world, rng):
    whole = make_selection("divergence", {}).rank(world(), rng)
    monkeypatch.setattr("netsim.selection.model_based.CHUNK", 4)      # a row at a time
    assert (make_selection("divergence", {}).rank(world(), rng) == whole).all()
    assert distances(TWO_GROUPS, np.array([0]), np.array([0, 0, 4], np.float32)) == pytest.approx(5)


def test_kmeans_takes_one_of_each_cluster_at_random(world):
    method = make_selection("kmeans", {})
    seen = {tuple(sorted(method(world(), np.random.default_rng(seed)).devices)) for seed in range(100)}
    assert seen == {(a, b) for a in range(3) for b in range(3, 6)}


def test_cluster_round_robin_takes_the_longest_unused(world, rng):
    method = make_selection("cluster-round-robin", {})
    last = [4, 3, 2, 5, 5, 1]
    assert sorted(method(world(round=6, last_round=last), rng).devices) == [2, 5]


def test_cluster_round_robin_goes_on_when_a_device_never_answers(world, rng):
    method = make_selection("cluster-round-robin", {})
    turns = [sorted(method(world(round=k), rng).devices) for k in range(2, 6)]      # last_round stays 1
    assert turns == [[0, 3], [1, 4], [2, 5], [0, 3]]


def test_clusters_are_made_once_and_kept(world, rng):
    method = make_selection("divergence", {})
    method(world(), rng)
    before = method.state["clusters"].copy()
    mixed = TWO_GROUPS[[3, 0, 4, 1, 5, 2]]
    method(world(round=3, local_weights=mixed), rng)
    assert (method.state["clusters"] == before).all()


def test_a_device_whose_model_comes_late_joins_the_nearest_cluster(world, rng):
    method = make_selection("divergence", {})
    method(world(last_round=[1, 1, 1, 1, 1, 0]), rng)
    assert method.state["clusters"][5] == -1
    method(world(round=3, last_round=[1, 1, 1, 1, 1, 2]), rng)
    assert method.state["clusters"][5] == method.state["clusters"][3]


@pytest.mark.parametrize("name", ["kmeans", "divergence", "cluster-round-robin"])
def test_a_run_that_starts_with_a_cohort_first_meets_everybody(world, rng, name):
    method = make_selection(name, {})
    met: set[int] = set()
    last = np.zeros(6, dtype=int)
    for k in (1, 2, 3):
        chosen = method(world(round=k, last_round=last), rng).devices
        met |= set(chosen.tolist())
        assert "clusters" not in method.state
        last[chosen] = k
    assert met == set(range(6))
    chosen = method(world(round=4, last_round=last), rng).devices
    labels = method.state["clusters"]
    assert labels[chosen[0]] != labels[chosen[1]]


def test_nobody_answered_yet(world, rng):
    chosen = make_selection("divergence", {})(world(last_round=0), rng).devices
    assert len(set(chosen.tolist())) == 2


def test_an_unknown_layer_is_named(world, rng):
    with refused("unknown-name", "selection.layer"):
        make_selection("kmeans", {"layer": "fc9.weight"})(world(), rng)


def test_models_that_are_not_finite_are_the_users_to_mend(world, rng):
    broken = TWO_GROUPS.copy()
    broken[2, 1] = np.nan
    with refused("not-finite", "round 2, devices' models"):
        make_selection("kmeans", {})(world(local_weights=broken), rng)


def test_an_unknown_layer_is_named_before_the_first_round(tmp_path):
    scenario = load_scenario("quickstart", ["selection.method=kmeans", "selection.layer=fc9.weight"])
    with refused("unknown-name", "selection.layer"):
        simulate(scenario, tmp_path / "run", workers=1)
    assert not (tmp_path / "run" / "run.json").exists()


def test_any_layer_can_give_the_features(world, rng):
    method = make_selection("kmeans", {"layer": "fc1.weight"})
    method(world(local_weights=models(*[[n % 2, n, 0] for n in range(6)])), rng)
    even, odd = method.state["clusters"][::2], method.state["clusters"][1::2]
    assert len(set(even)) == len(set(odd)) == 1
    assert even[0] != odd[0]
    everything = make_selection("kmeans", {"layer": "all", "clusters": 3})
    everything(world(), rng)
    assert set(everything.state["clusters"]) == {0, 1, 2}


# Three clusters: {0, 1, 2}, {3, 4}, {5}; the rank falls with the number.
LABELS = np.array([0, 0, 0, 1, 1, 2])
RANK = np.array([9.0, 8, 7, 6, 5, 4])
ALL = np.ones(6, dtype=bool)


@pytest.mark.parametrize(("size", "chosen"), [
    (3, [0, 3, 5]),                # one each
    (4, [0, 3, 5, 1]),             # the one left over: the cluster whose next ranks highest, device 1
    (5, [0, 3, 5, 1, 4]),          # two left over: different clusters, so 4 and not 2
    (6, [0, 1, 3, 4, 5, 2]),       # two each; the third cluster is one short, and 2 is the best of the rest
    (2, [0, 3]),                   # fewer places than clusters: at most one each
    (9, [0, 1, 2, 3, 4, 5]),       # more than there are
])
def test_places(size, chosen):
    assert places(LABELS, RANK, ALL, size).tolist() == chosen


def test_places_without_the_unavailable_and_with_the_unclustered():
    assert places(LABELS, RANK, np.array([0, 1, 1, 1, 1, 0], bool), 3).tolist() == [1, 3, 2]
    labels, rank = np.array([0, 0, 1, -1]), np.array([1.0, 2, 3, np.inf])
    assert places(labels, rank, np.ones(4, bool), 2).tolist() == [1, 2]
    assert places(labels, rank, np.array([1, 1, 0, 1], bool), 2).tolist() == [1, 3]


@given(st.data())
def test_places_hold_their_rule(data):
    count = data.draw(st.integers(1, 30))
    labels = data.draw(arrays.arrays(np.int64, count, elements=st.integers(-1, 5)))
    labels[data.draw(st.integers(0, count - 1))] = 0      # at least one cluster
    rank = data.draw(arrays.arrays(np.float64, count, elements=st.integers(0, 3)))
    available = data.draw(arrays.arrays(np.bool_, count))
    size = data.draw(st.integers(1, 35))
    chosen = places(labels, rank, available, size)
    assert len(set(chosen.tolist())) == len(chosen) == min(size, available.sum())
    assert available[chosen].all()
    share = size // (labels.max() + 1)
    for cluster in range(labels.max() + 1):
        there = available & (labels == cluster)
        assert (labels[chosen] == cluster).sum() >= min(share, there.sum())
        left = rank[there & ~np.isin(np.arange(count), chosen)]
        taken = rank[chosen[labels[chosen] == cluster]]
        assert not (left.size and taken.size) or left.max() <= taken.min()
