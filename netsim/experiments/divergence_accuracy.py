"""Table I: does the device whose model is farthest from the global one help its cluster most?"""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.arrays import Floats, Ints, Weights
from netsim.experiments.cells import Record, kept_record
from netsim.experiments.first_round import learner_of
from netsim.experiments.plots import canvas
from netsim.experiments.report import Finding, Report
from netsim.experiments.reproduce import Context
from netsim.experiments.trials import LOCAL_EPOCHS, TITLES, Trial
from netsim.learning.aggregation import plain_mean
from netsim.selection.divergence import distances
from netsim.streams import stream

ROUNDS = 10      # k: the paper does not print it


def measure(trial: Trial, rounds: int, context: Context) -> Record:
    """Divergence of every device after k rounds, and the accuracy on its cluster if it is the one chosen for k + 1.

    From the second round on a random device of each cluster takes part. In round k + 1 the devices of the other
    clusters are fixed; accuracy is on all training samples of the cluster's devices, as in the paper.
    """
    from netsim.learning.clustering import cluster_devices

    with learner_of(trial, context) as learner:
        rng = stream(trial.number, "selection")
        everybody = np.arange(len(learner.samples))
        models = _trained(learner, 1, learner.initial_weights(), everybody)
        weights = plain_mean(list(models))
        labels = cluster_devices(models, learner.layers, clusters=learner.classes, seed=trial.number).labels
        last = np.ones(len(everybody), dtype=np.int64)
        for k in range(2, rounds + 1):
            cohort = _one_of_each(labels, rng)
            models[cohort] = _trained(learner, k, weights, cohort)
            weights, last[cohort] = plain_mean(list(models[cohort])), k
        divergence = distances(models, everybody, weights)
        trained = _trained(learner, rounds + 1, weights, everybody)
        fixed = _one_of_each(labels, rng)
        accuracy = np.empty(len(everybody))
        for device in everybody:
            cohort = fixed.copy()
            cohort[labels[device]] = device
            cluster = np.flatnonzero(labels == labels[device])
            shares = learner.local_accuracy(plain_mean(list(trained[cohort])), cluster.tolist())
            accuracy[device] = np.average(shares, weights=learner.samples[cluster])
        return {
            "cluster": labels.tolist(), "majority": learner.majority.tolist(), "divergence": _short(divergence),
            "accuracy": _short(accuracy), "last_round": last.tolist(),
        }


def _trained(learner: Any, k: int, weights: Weights, devices: Ints) -> Weights:
    training = learner.train(k, weights, devices.tolist())
    return np.stack([training.update(device).weights for device in devices.tolist()])


def _one_of_each(labels: Ints, rng: np.random.Generator) -> Ints:
    return np.array([rng.choice(np.flatnonzero(labels == cluster)) for cluster in range(labels.max() + 1)])


def _short(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def table1(context: Context) -> Report | None:
    """Every cluster, not only the one that the paper shows."""
    from scipy.stats import spearmanr

    dataset = "digits" if context.quick else "cifar10"
    rounds = 4 if context.quick else ROUNDS
    trial = Trial(dataset, "0.8", "kmeans", 10, 1)
    note = {"dataset": dataset, "sigma": "0.8", "trial": 1, "rounds_before": rounds, "local_epochs": LOCAL_EPOCHS}
    record = kept_record(context.cells / dataset / "0.8" / "table1.json", note,
                         (lambda: measure(trial, rounds, context)) if context.trains(dataset) else None)
    if record is None:
        return None
    labels, divergence, accuracy, last = (np.array(record[name])
                                          for name in ("cluster", "divergence", "accuracy", "last_round"))
    clusters = [np.flatnonzero(labels == cluster) for cluster in range(labels.max() + 1)]
    large = [members for members in clusters if len(members) > 2]
    rho = np.array([spearmanr(divergence[members], accuracy[members]).statistic for members in large])
    waited = np.array([spearmanr(divergence[members], -last[members]).statistic for members in large])
    best = sum(np.argmax(divergence[members]) == np.argmax(accuracy[members]) for members in large)
    chance = sum(1 / len(members) for members in large)
    stalest = sum(last[members[np.argmax(divergence[members])]] == last[members].min() for members in large)
    farthest = [members[np.argmax(divergence[members])] for members in large]
    gains = np.array([accuracy[top] - accuracy[members].mean() for top, members in zip(farthest, large, strict=True)])
    rows = [{"cluster": int(labels[device]), "device": int(device), "weight_divergence": float(divergence[device]),
             "accuracy_on_cluster": float(accuracy[device]), "last_round_used": int(last[device])}
            for device in np.lexsort((divergence, labels))]
    return Report(
        findings=[
            Finding("in the cluster shown, the device with the largest divergence gives its cluster the highest "
                    "accuracy (53.39 % against 50.27 to 52.34 %)",
                    f"so it is in {best} of {len(large)} clusters (by chance {chance:.1f}); it gains "
                    f"{gains.mean():+.2%} on average over choosing at random ({gains.min():+.2%} to "
                    f"{gains.max():+.2%}); "
                    f"mean rank correlation {np.nanmean(rho):+.2f} ({np.nanmin(rho):+.2f} to {np.nanmax(rho):+.2f})",
                    "agrees" if best > 2 * chance and np.nanmean(rho) > 0.2 else
                    "agrees in part" if np.nanmean(rho) > 0.1 else "differs"),
            Finding("the largest divergence marks the most informative data",
                    f"in {stalest} of {len(large)} clusters it is a device that was not used for longest; rank "
                    f"correlation of divergence with the rounds waited: {np.nanmean(waited):+.2f}",
                    "differs" if stalest > 0.7 * len(large) else "agrees in part",
                    "a model that is not renewed falls behind the global one, whatever its data"),
        ],
        how=f"{TITLES[dataset]}, sigma 0.8, {len(labels)} devices, k = {rounds} rounds with one random device of each "
            "cluster after a first round of all. Then each device in turn is the one of its cluster in round k + 1, "
            "the others fixed; accuracy on the training samples of the cluster's devices.",
        rows=rows, summary={"clusters": len(large), "best_is_largest": int(best), "by_chance": float(chance),
                            "rank_correlation": [None if np.isnan(value) else float(value) for value in rho],
                            "largest_is_stalest": int(stalest)},
        figure=_draw(clusters, divergence, accuracy, last), seconds=record["seconds"])


def _draw(clusters: list[Ints], divergence: Floats, accuracy: Floats, last: Ints) -> Any:
    figure, panels = canvas(12, 5.4, 2, 5)
    for number, (panel, members) in enumerate(zip(panels.flat, clusters, strict=False)):
        points = panel.scatter(divergence[members], 100 * accuracy[members], c=last[members], cmap="viridis", s=22,
                               vmin=1, vmax=last.max())
        top = members[np.argmax(divergence[members])]
        panel.scatter(divergence[top], 100 * accuracy[top], s=90, facecolors="none", edgecolors="#d55e00")
        panel.set_title(f"cluster {number}", fontsize=10)
    for panel in panels[-1]:
        panel.set_xlabel("weight divergence")
    for panel in panels[:, 0]:
        panel.set_ylabel("accuracy on\nthe cluster (%)")
    figure.colorbar(points, ax=panels, label="round in which the device was last used", shrink=0.8)
    figure.suptitle("Choosing each device in turn; ringed: the largest divergence")
    return figure
