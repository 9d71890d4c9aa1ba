"""Table I: accuracy of a cluster by the divergence of its selected device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from netsim.base.rng import stream
from netsim.base.types import Floats, Ints, Weights
from netsim.learning.aggregation import plain_mean
from netsim.paper.accuracy_common import computing, mean_and_range
from netsim.paper.first_round import learner_of, trained
from netsim.paper.plots import canvas
from netsim.paper.report import Finding, Report, Verdict, all_or_some
from netsim.paper.reproduce import Context
from netsim.paper.trials import TITLES, Trial, measured
from netsim.selection.model_based import distances
from netsim.sweep.points import Record

ROUNDS = (10, 2, 5, 20)      # k, which the paper does not print; the figure shows the first


def measure(rounds: int, trial: Trial, context: Context) -> Record:
    """Measure each device's divergence after k rounds, and its cluster's accuracy if it is selected in k + 1.

    From the second round on a random device of each cluster takes part. In round k + 1 the devices of the other
    clusters are fixed; accuracy is on all training samples of the cluster's devices, as in the paper.
    """
    from netsim.learning.clustering import cluster_devices

    with learner_of(trial, context) as learner:
        rng = stream(trial.number, "selection")
        everybody = np.arange(len(learner.samples))
        models = trained(learner, 1, learner.initial_weights(), everybody)
        weights, last = plain_mean(list(models)), np.ones(len(everybody), dtype=np.int64)
        labels = cluster_devices(models, learner.layers, clusters=learner.classes, seed=trial.number).labels
        for k in range(2, rounds + 1):
            cohort = _one_of_each(labels, rng)
            models[cohort] = trained(learner, k, weights, cohort)
            weights, last[cohort] = plain_mean(list(models[cohort])), k
        divergence = distances(models, everybody, weights)
        updated = trained(learner, rounds + 1, weights, everybody)
        accuracy = _accuracy_by_choice(learner, updated, labels, _one_of_each(labels, rng))
        return {
            "cluster": labels.tolist(), "majority": learner.majority.tolist(), "last_round": last.tolist(),
            **{name: [float(f"{value:.6g}") for value in values]
               for name, values in (("divergence", divergence), ("accuracy", accuracy))},
        }


def _members(labels: Ints) -> list[Ints]:
    return [np.flatnonzero(labels == number) for number in range(labels.max() + 1)]


def _one_of_each(labels: Ints, rng: np.random.Generator) -> Ints:
    return np.array([rng.choice(cluster) for cluster in _members(labels)])


def _accuracy_by_choice(learner: Any, models: Weights, labels: Ints, fixed: Ints) -> Floats:
    """Return for each device its cluster's accuracy if it is selected, with these devices of the other clusters."""
    accuracy, members = np.empty(len(models)), _members(labels)
    for device, label in enumerate(labels):
        cohort = fixed.copy()
        cohort[label] = device
        shares = learner.local_accuracy(plain_mean(list(models[cohort])), members[label].tolist())
        accuracy[device] = np.average(shares, weights=learner.samples[members[label]])
    return accuracy


@dataclass(frozen=True, eq=False)
class Cluster:
    """Devices of one cluster in one trial."""

    trial: int
    number: int
    devices: Ints
    divergence: Floats
    accuracy: Floats        # on the whole cluster, if this device is selected
    last: Ints              # last round of the device

    @property
    def farthest(self) -> int:
        """Index of the device with the largest divergence."""
        return int(np.argmax(self.divergence))

    @property
    def gain(self) -> float:
        """Accuracy gain of that device over a random one."""
        return float(self.accuracy[self.farthest] - self.accuracy.mean())

    @property
    def stalest(self) -> bool:
        """True if no other device has waited longer than that one."""
        return bool(self.last[self.farthest] == self.last.min())


def clusters_of(trial: int, record: Record) -> list[Cluster]:
    labels, *values = (np.array(record[name]) for name in ("cluster", "divergence", "accuracy", "last_round"))
    return [Cluster(trial, number, devices, *(of_all[devices] for of_all in values))
            for number, devices in enumerate(_members(labels))]


def table1(context: Context) -> Report | None:
    """Report every cluster, not only the one in the paper, after several numbers of rounds."""
    dataset = "digits" if context.quick else "cifar10"
    records = _records(dataset, context)
    if not records:
        return None
    by_k = {rounds: [cluster for number, record in found.items() for cluster in clusters_of(number, record)]
            for rounds, found in records.items()}
    shown = next(iter(by_k.values()))
    first = [cluster for cluster in shown if cluster.trial == shown[0].trial]
    rows = [{"k": rounds, "trial": cluster.trial, "cluster": cluster.number, "device": int(cluster.devices[place]),
             "weight_divergence": float(cluster.divergence[place]),
             "accuracy_on_cluster": float(cluster.accuracy[place]), "last_round_used": int(cluster.last[place])}
            for rounds, clusters in by_k.items() for cluster in clusters
            for place in np.argsort(cluster.divergence, kind="stable")]
    looked = {rounds: look_at([cluster for cluster in clusters if len(cluster.devices) > 2])
              for rounds, clusters in sorted(by_k.items())}
    trials = ", ".join(f"{len(records[rounds])} (k = {rounds})" for rounds in looked)
    return Report(
        findings=_findings(looked), summary={f"k = {rounds}": found.summary for rounds, found in looked.items()},
        rows=rows,
        how=f"{TITLES[dataset]}, sigma 0.8, {sum(len(cluster.devices) for cluster in first)} devices, trials: "
            f"{trials}; k rounds, of which the first is of all and the others of one random device of each cluster. "
            "Then each device in turn is the one of its cluster in round k + 1, the others fixed; accuracy on the "
            f"training samples of the cluster's devices. The figure is of k = {next(iter(by_k))}.",
        figure=_draw(first),
        seconds=sum(map(computing, records.values())))


def _records(dataset: str, context: Context) -> dict[int, dict[int, Record]]:
    """Return the records by k and trial; measure missing ones first."""
    records: dict[int, dict[int, Record]] = defaultdict(dict)
    for rounds in (4, 2) if context.quick else ROUNDS:
        ending = "" if rounds == ROUNDS[0] else f"-after-{rounds}"
        for number in range(1, 1 + context.count(3, quick=1)):
            record = measured(Trial(dataset, "0.8", "kmeans", 10, number), context, f"table1-{number}{ending}.json",
                              {"rounds_before": rounds}, partial(measure, rounds))
            if record is not None:
                records[rounds][number] = record
    return records


@dataclass(frozen=True)
class ClusterStatistics:
    """Statistics over the clusters of one k."""

    best: str                # text on the device with the largest divergence
    waited: str              # text on its waiting time
    helps: bool
    helps_a_little: bool
    is_stale: bool
    summary: dict[str, Any]


def look_at(clusters: list[Cluster]) -> ClusterStatistics:
    """Compute how often, and by how much, the device with the largest divergence is the best choice."""
    rho = np.array([spearmanr(cluster.divergence, cluster.accuracy).statistic for cluster in clusters])
    waited = [spearmanr(cluster.divergence, -cluster.last).statistic for cluster in clusters if np.ptp(cluster.last)]
    best = sum(cluster.farthest == np.argmax(cluster.accuracy) for cluster in clusters)
    chance = sum(1 / len(cluster.devices) for cluster in clusters)
    stalest = sum(cluster.stalest for cluster in clusters)
    gains = [cluster.gain for cluster in clusters]
    middle, low, high = mean_and_range(gains)
    return ClusterStatistics(
        f"so it is in {best} of {len(clusters)} clusters (by chance {chance:.1f}); its gain over choosing at random "
        f"is {100 * middle:+.2f} points on average ({100 * low:+.2f} to {100 * high:+.2f}), in single clusters "
        f"{100 * min(gains):+.2f} to {100 * max(gains):+.2f}; mean rank correlation {np.nanmean(rho):+.2f} "
        f"({np.nanmin(rho):+.2f} to {np.nanmax(rho):+.2f})",
        f"in {stalest} of {len(clusters)} clusters it is a device that was not used for longest; rank correlation of "
        f"divergence with the rounds waited: {np.mean(waited):+.2f}" if waited else "all have waited alike",
        helps=bool(best > 2 * chance and np.nanmean(rho) > 0.2), helps_a_little=bool(np.nanmean(rho) > 0.1),
        is_stale=stalest > 0.7 * len(clusters),
        summary={"clusters": len(clusters), "best_is_largest": int(best), "by_chance": float(chance),
                 "gain": _known([middle, low, high]), "rank_correlation": _known(rho),
                 "largest_is_stalest": int(stalest)})


def _known(values: Iterable[float]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _findings(looked: dict[int, ClusterStatistics]) -> list[Finding]:
    best, waited = ("; ".join(f"k = {rounds}: {getattr(found, words)}" for rounds, found in looked.items())
                    for words in ("best", "waited"))
    helps: Verdict = all_or_some([found.helps for found in looked.values()])
    if helps == "differs" and any(found.helps_a_little for found in looked.values()):
        helps = "agrees in part"
    stale = all(found.is_stale for found in looked.values())
    return [
        Finding("in the cluster shown, the device with the largest divergence gives its cluster the highest accuracy "
                "(53.39 % against 50.27 to 52.34 %)", best, helps),
        Finding("the largest divergence marks the most informative data", waited,
                "differs" if stale else "agrees in part",
                "a model that is not renewed falls behind the global one, whatever its data"),
    ]


def _draw(clusters: list[Cluster]) -> Any:
    figure, panels = canvas(12, 5.4, 2, 5)
    latest = max(int(cluster.last.max()) for cluster in clusters)
    for panel, cluster in zip(panels.flat, clusters, strict=False):
        points = panel.scatter(cluster.divergence, 100 * cluster.accuracy, c=cluster.last, cmap="viridis", s=22,
                               vmin=1, vmax=latest)
        panel.scatter(cluster.divergence[cluster.farthest], 100 * cluster.accuracy[cluster.farthest], s=90,
                      facecolors="none", edgecolors="#d55e00")
        panel.set_title(f"cluster {cluster.number}", fontsize=10)
    for panel in panels[-1]:
        panel.set_xlabel("weight divergence")
    for panel in panels[:, 0]:
        panel.set_ylabel("accuracy on\nthe cluster (%)")
    figure.colorbar(points, ax=panels, label="round in which the device was last used", shrink=0.8)
    figure.suptitle(f"Choosing each device in turn, trial {clusters[0].trial}; ringed: the largest divergence")
    return figure
