"""Selection by the devices' models: ``kmeans``, ``divergence``, ``cluster-round-robin``, ``k-center``, ``favor``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from netsim.base.errors import InputError, unknown
from netsim.base.fields import Natural
from netsim.base.types import Bools, Floats, Ints, Weights
from netsim.selection.method import Method, at_random, highest
from netsim.selection.view import Choice, View

if TYPE_CHECKING:
    from netsim.learning.favor_agent import Policy

Norm = Literal["l2", "l1"]
CHUNK = 1 << 17     # values processed together: 1 MB in double precision, which fits a cache
TRAIN = "train one with `netsim favor-train SCENARIO -o FILE`"


@dataclass(frozen=True)
class ModelMethod(Method):
    """Base class of methods that compare the devices' models: collects unknown models first, then calls ``choose``.

    After a first round with all devices every model is known. If the run starts with a cohort instead, devices that
    were never selected come first, drawn uniformly, and known ones fill up. A device is asked once for its model, so
    that a device that never answers delays no other. ``state["asked"]`` keeps the round in which each device was last
    chosen.
    """

    barrier: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"weights"})

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        before = 0 if view.round == 1 else 1      # not called in the first round: it took all devices
        asked = self.state.setdefault("asked", np.full(len(view.available), before, dtype=np.int64)).copy()
        new = view.available & (view.last_round == 0) & (asked == 0)
        if new.any():
            score = new + 0.5 * rng.random(len(new))                 # new ones above all known ones, random within
            devices = highest(score, np.flatnonzero(view.available), view.cohort_size)
        else:
            devices = self.choose(view, rng)
        asked[devices] = view.round
        self.state["asked"] = asked
        return Choice(devices)

    def check_model(self, layers: Mapping[str, slice]) -> None:
        columns_of(layers, getattr(self, "layer", "all"))      # an option of most of these methods

    def choose(self, view: View, rng: np.random.Generator) -> Ints:
        """Return the devices of a round in which all models are known."""
        raise NotImplementedError


def known_models(view: View) -> Weights:
    """Return the models last uploaded, shape (N, P); rows are valid where ``last_round > 0``."""
    if view.local_weights is None:
        raise InputError("needs", "selection.method", expected="learning: it compares the devices' models")
    return view.local_weights


def features_of(view: View, layer: str) -> Weights:
    """Return the columns of the devices' models for an option: a layer, "all", or "last", the last with weights."""
    return known_models(view)[:, columns_of(view.layers, layer)]


def columns_of(layers: Mapping[str, slice], layer: str) -> slice:
    """Return the position of a layer in the flat weights."""
    if layer == "all":
        return slice(None)
    weights = [name for name in layers if name.endswith("weight")]
    name = weights[-1] if layer == "last" and weights else layer
    if name not in layers:
        raise unknown("selection.layer", layer, [*layers, "all", "last"])
    return layers[name]


@dataclass(frozen=True)
class ClusterMethod(ModelMethod):
    """Base class of methods that cluster the devices once by their models (Algorithm 2) and take the best of each.

    The clusters are computed in the first round in which every device has been asked for a model: the second, after a
    first round with all devices. ``state["clusters"]`` holds a number for each device, -1 where its model is not known;
    a device whose model arrives later joins the cluster with the nearest mean. A subclass defines the ranking of the
    devices (``rank``); ``places`` distributes the cohort over the clusters.
    """

    clusters: Natural | None = None     # c; by default the number of classes in the data
    layer: str = "last"     # features: a layer's weights, "all", or "last": the output layer, fc2.weight in the paper

    def choose(self, view: View, rng: np.random.Generator) -> Ints:
        if not (view.last_round > 0).any():      # no upload has ever arrived
            return at_random(view, rng)
        labels = self._labels(view, rng)
        return places(labels, self.rank(view, rng), view.available, view.cohort_size)

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        """Return the rank of each of the N devices; the highest of a cluster are taken."""
        raise NotImplementedError

    def _labels(self, view: View, rng: np.random.Generator) -> Ints:
        """Return the cluster of each device: computed once by K-means, then kept; late models join."""
        known = view.last_round > 0
        features = features_of(view, self.layer)
        labels = self.state.get("clusters")
        if labels is None:
            labels = np.full(len(known), -1, dtype=np.int64)
            labels[known] = self._first_labels(view, features if known.all() else features[known], rng)
        late = np.flatnonzero(known & (labels < 0))
        if late.size:
            means = np.stack([features[labels == cluster].mean(axis=0) for cluster in range(labels.max() + 1)])
            labels = labels.copy()
            labels[late] = [np.argmin(np.linalg.norm(means - features[device], axis=1)) for device in late]
        self.state["clusters"] = labels
        return labels

    def _first_labels(self, view: View, features: Weights, rng: np.random.Generator) -> Ints:
        from netsim.learning.clustering import cluster_devices

        if not np.isfinite(features).all():
            raise InputError("not-finite", f"round {view.round}, devices' models", "values that are not finite",
                             hint="Training diverged: try a smaller learning.learning_rate")
        count, seed = min(self.clusters or view.classes, len(features)), int(rng.integers(2**31))
        return cluster_devices(features, {}, layer="all", clusters=count, seed=seed).labels


def places(labels: Ints, rank: Floats, available: Bools, size: int) -> Ints:
    """Distribute the S places of a cohort over the clusters, in three steps.

    1. Each of the c clusters gives its s = S // c highest ranked available devices, or all it has.
    2. The remaining S mod c places go to different clusters: those whose next device is ranked highest.
       (Fixed clusters would exclude the others permanently whenever S < c.)
    3. Places that small clusters leave empty go to the highest ranked remaining devices, in a cluster or not.
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


@dataclass(frozen=True)
class KMeans(ClusterMethod):
    """Draw s random devices from each cluster of similar models; places left empty are drawn at random too.

    Source: Algorithms 2 and 3 of the paper; ``clusters.places`` defines the cohort if c does not divide S.
    """

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        return rng.random(len(view.available))


@dataclass(frozen=True)
class ClusterRoundRobin(ClusterMethod):
    """Take from each cluster the s devices that were not chosen for longest; ties in the order of their numbers.

    This is ``divergence`` without the divergence: the model uploaded longest ago is mostly also the farthest from
    the global one, so the gain of ``divergence`` over this method is the contribution of the norm itself.
    """

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        return -np.maximum(self.state["asked"], view.last_round).astype(np.float64)


@dataclass(frozen=True)
class Divergence(ClusterMethod):
    """Take from each cluster the s devices with the largest weight divergence d_n = |w_n - w|, over all layers.

    Source: Algorithms 2 and 4 of the paper, with the Euclidean norm ("l2"); a public implementation sums
    absolute values ("l1"). Models are those last uploaded, so a device waits until its own is the stalest.
    """

    norm: Norm = "l2"

    def rank(self, view: View, rng: np.random.Generator) -> Floats:
        models, known = known_models(view), np.flatnonzero(view.last_round > 0)
        assert view.global_weights is not None
        divergence = np.full(len(models), np.inf)      # unknown models fill empty places first
        divergence[known] = distances(models, known, view.global_weights, self.norm)
        return divergence


def distances(models: Weights, devices: Ints, reference: Weights, norm: Norm = "l2") -> Floats:
    """Return the distances of these devices' models to a reference, in double precision, a few rows at a time."""
    rows = max(1, CHUNK // models.shape[1])
    exact = reference.astype(np.float64)
    scratch = np.empty((rows, len(exact)))
    result = np.empty(len(devices))
    for start in range(0, len(devices), rows):
        some = models[devices[start : start + rows]]
        difference = scratch[: len(some)]
        difference[:] = some          # convert first: subtracting mixed precisions takes 1.5 times as long
        difference -= exact
        if norm == "l2":
            size = np.sqrt(np.einsum("np,np->n", difference, difference))
        else:
            size = np.abs(difference, out=difference).sum(axis=1)
        result[start : start + rows] = size
    return result


@dataclass(frozen=True)
class KCenter(ModelMethod):
    """Draw a random device, then add S - 1 times the one whose model is farthest from its nearest chosen one.

    Distances are Euclidean between the models last uploaded, over a ``layer`` or all. Devices whose model is not known
    come last.

    Source: Gonzalez, Clustering to Minimize the Maximum Intercluster Distance, Theoretical Computer Science, 1985; as a
    baseline for device selection in Wang et al., INFOCOM 2020.
    """

    layer: str = "all"

    def choose(self, view: View, rng: np.random.Generator) -> Ints:
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
        return np.concatenate([chosen, unknown])[: view.cohort_size]


@dataclass(frozen=True)
class Favor(ModelMethod):
    """Take the S available devices that a trained double deep Q-network rates highest, from models compressed by PCA.

    ``policy`` is the file with the trained network. A device without a known model counts as having the global one.

    Source: Wang et al., Optimizing Federated Learning on Non-IID Data with Reinforcement Learning, INFOCOM 2020; the
    agent and its training are in ``netsim.learning.favor_agent``.
    """

    policy: str = ""

    def __post_init__(self) -> None:
        if not self.policy:
            raise InputError("missing", "selection.policy", expected="the file of a trained policy", hint=TRAIN)
        if not Path(self.policy).is_file():
            raise InputError("no-such-file", "selection.policy", f'"{self.policy}"', hint=TRAIN)
        _ = self._agent      # raise now for a broken file, not after the first round

    @cached_property
    def _agent(self) -> Policy:
        from netsim.learning.favor_agent import load_policy

        return load_policy(self.policy)

    def choose(self, view: View, rng: np.random.Generator) -> Ints:
        models = known_models(view)
        assert view.global_weights is not None
        unknown = view.last_round == 0
        if unknown.any():
            models = np.where(unknown[:, None], view.global_weights, models)
        rating = self._agent.ratings(view.global_weights, models)
        return highest(rating, np.flatnonzero(view.available), view.cohort_size)
