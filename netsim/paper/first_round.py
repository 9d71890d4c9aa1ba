"""Fig. 4, 8 and 9: similarity of the devices' data, inferred from their models of the first round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from netsim.base.figures import Figure
from netsim.base.pluralize import pluralize
from netsim.base.types import Floats, Ints, Weights
from netsim.paper.accuracy_common import computing, of
from netsim.paper.model_sizes import LAYERS
from netsim.paper.plots import canvas
from netsim.paper.report import Finding, Report, all_or_some, nothing_yet
from netsim.paper.reproduce import Context
from netsim.paper.trials import LOCAL_EPOCHS, SIGMAS, TITLES, Trial, datasets, measured
from netsim.sweep.points import Record, shared_by

FEATURES = (*LAYERS, "all")
HIGH = 0.7        # a high adjusted Rand index
SEEDS = 20        # of K-means, on one first round
STEADY = 0.05     # largest spread over seeds of an adjusted Rand index that does not depend on them
SHADES = {"0.5": "#56b4e9", "0.8": "#0072b2", "H": "#e69f00"}      # by sigma, in the order of the panels


@dataclass(frozen=True, eq=False)
class FirstRound:
    """Models of the devices after training from the same initial model."""

    models: Weights                    # (N, P)
    layers: dict[str, slice]
    majority: Ints                     # most frequent class of each device
    names: tuple[str, ...]             # of the classes

    def features(self, layer: str) -> Weights:
        return self.models if layer == "all" else self.models[:, self.layers[layer]]


@contextmanager
def learner_of(trial: Trial, context: Context) -> Iterator[Any]:
    """Open the learner of a trial; training results are shared between targets and with the runs of fig10."""
    from netsim.learning.local_training import open_trainer
    from netsim.learning.training_cache import TrainingCache

    scenario, _ = trial.scenario(context)
    common = TrainingCache(shared_by(trial.point(context).run))
    with open_trainer(scenario, trial.number, context.workers, common) as learner:
        yield learner


def trained(learner: Any, k: int, weights: Weights, devices: Ints) -> Weights:
    """Return the models of these devices after round k, trained from these weights."""
    training = learner.train(k, weights, devices.tolist())
    return np.stack([training.update(device).weights for device in devices.tolist()])


def first_round(trial: Trial, context: Context) -> FirstRound:
    """Train every device from the initial global model (Algorithm 2, lines 2 to 6)."""
    from netsim.learning.datasets import load_dataset

    with learner_of(trial, context) as learner:
        models = trained(learner, 1, learner.initial_weights(), np.arange(len(learner.samples)))
        names = load_dataset(trial.dataset, context.data).names
        return FirstRound(models, dict(learner.layers), learner.majority, names)


def fig4(context: Context) -> Report | None:
    """Report distance matrices by layer, devices ordered by majority class."""
    from scipy.spatial.distance import pdist, squareform
    from sklearn.metrics import silhouette_score

    dataset = "digits" if context.quick else "cifar10"
    if not context.trains(dataset):
        return None
    found = first_round(Trial(dataset, "0.8", "fedavg", 10, 1), context)
    order = np.argsort(found.majority, kind="stable")
    classes = found.majority[order]
    distance = {layer: squareform(pdist(found.features(layer)[order].astype(np.float64))) for layer in LAYERS}
    silhouette = {layer: float(silhouette_score(matrix, classes, metric="precomputed"))
                  for layer, matrix in distance.items()}
    rows = [{"layer": layer, "class_a": found.names[a], "class_b": found.names[b],
             "mean_distance": _mean(matrix, classes == a, classes == b)} for layer, matrix in distance.items()
            for a in np.unique(classes) for b in np.unique(classes) if a <= b]
    return Report(
        findings=_clearest(silhouette), rows=rows, summary={"silhouette": silhouette},
        how=f"One first round of {len(classes)} devices, {LOCAL_EPOCHS} local epochs, sigma 0.8, trial 1. Of the "
            "matrices, numbers.csv keeps the means over pairs of classes.",
        figure=_draw_distances(distance, silhouette, TITLES[dataset]))


def _draw_distances(distance: dict[str, Floats], silhouette: dict[str, float], title: str) -> Figure:
    figure, panels = canvas(13, 6.6, 2, 4)
    for panel, (layer, matrix) in zip(panels.flat, distance.items(), strict=True):
        others = matrix[~np.eye(len(matrix), dtype=bool)]
        shown = panel.imshow(matrix, cmap="viridis_r", vmin=np.percentile(others, 1), vmax=matrix.max())
        panel.grid(False)
        panel.set_title(f"{layer}: silhouette {silhouette[layer]:.2f}", fontsize=10)
        figure.colorbar(shown, ax=panel, shrink=0.8)
    for panel in panels[1]:
        panel.set_xlabel("device, by majority class")
    figure.suptitle(f"Distances between devices' models after the first round, {title}, sigma 0.8")
    return figure


def _clearest(silhouette: dict[str, float]) -> list[Finding]:
    words = ", ".join(f"{layer} {score:.2f}" for layer, score in silhouette.items())
    ranked = sorted(silhouette, key=lambda layer: -silhouette[layer])
    last_first = {"fc2.weight", "fc2.bias"} == set(ranked[:2])
    return [
        Finding("devices with the same majority class are much closer: ten lighter blocks",
                f"silhouette of the classes (1: far apart, 0: no order) by layer: {words}",
                "agrees" if silhouette["fc2.weight"] > 0.3 else "differs"),
        Finding("clearest in the last layer, hardly visible in the bias of the first convolution",
                f"clearest in {ranked[0]} and {ranked[1]}, least in {ranked[-1]} and {ranked[-2]}",
                "agrees" if last_first and "conv1.bias" in ranked[-3:] else "agrees in part"),
    ]


def _mean(matrix: Floats, a: Any, b: Any) -> float:
    """Return the mean distance between two groups of devices, without a device's distance to itself."""
    block = matrix[np.ix_(a, b)]
    pairs = block.size - int((a & b).sum())
    return float(block.sum() / pairs) if pairs else float("nan")


def clustered(trial: Trial, context: Context) -> Record:
    """Measure K-means by each layer's weights: agreement with the majority classes, and time."""
    from netsim.learning.clustering import ari, cluster_devices

    found = first_round(trial, context)
    clusters = {layer: cluster_devices(found.features(layer), {}, "all", len(found.names), seed=trial.number)
                for layer in FEATURES}
    return {"split": trial.scenario(context)[1],
            "ari": {layer: ari(each.labels, found.majority) for layer, each in clusters.items()},
            "kmeans_seconds": {layer: each.seconds for layer, each in clusters.items()},
            "features": {layer: found.features(layer).shape[1] for layer in FEATURES}}


def seeded(trial: Trial, context: Context) -> Record:
    """Measure K-means by the last layer's weights, under many seeds."""
    from netsim.learning.clustering import ari, cluster_devices

    found = first_round(trial, context)
    return {"split": trial.scenario(context)[1], "ari_by_seed": [
        ari(cluster_devices(found.models, found.layers, clusters=len(found.names), seed=seed).labels, found.majority)
        for seed in range(1, SEEDS + 1)]}


def _records(
    context: Context, name: str, measure: Callable[[Trial, Context], Record], **more: Any,
) -> dict[Trial, Record]:
    """Return the records of all datasets and sigmas; measure missing ones first, at H first, where seeds matter."""
    data = datasets(context)
    trials = [Trial(dataset, sigma, "fedavg", 10, number) for dataset in data for sigma in SIGMAS
              for number in range(1, 1 + context.count(3, quick=1))]
    records = {trial: measured(trial, context, f"{name}-{trial.number}.json", {
        "devices": data[trial.dataset].devices, "samples": data[trial.dataset].samples[trial.sigma], **more}, measure)
        for trial in sorted(trials, key=lambda trial: -SIGMAS.index(trial.sigma))}
    return {trial: record for trial in trials if (record := records[trial])}


def fig8(context: Context) -> Report | None:
    """Report the running time of K-means by layer."""
    records = _records(context, "first-round", clustered)
    names = list(dict.fromkeys(trial.dataset for trial in records))
    if not names:
        return None
    medians = {dataset: [1e3 * statistics.median(record["kmeans_seconds"][layer]
                                           for record in of(records, dataset=dataset).values())
                         for layer in FEATURES] for dataset in names}
    longest = [FEATURES[int(np.argmax(times))] == "all" for times in medians.values()]
    faster = {dataset: times[-1] / times[FEATURES.index("fc2.weight")] for dataset, times in medians.items()}
    words = ", ".join(f"{TITLES[dataset]} {speedup:.0f}" for dataset, speedup in faster.items())
    return Report(
        findings=[
            Finding("all weights take longest, a small layer is much faster",
                    f"all weights are slowest on {sum(longest)} of {len(longest)} datasets; times faster with "
                    f"fc2.weight: {words}", "agrees" if all(longest) else "agrees in part"),
        ],
        how="K-means (10 starts, one thread) over the models of the first round, the median over first rounds. Running "
            "times differ from machine to machine and a little from run to run.",
        rows=[{"dataset": trial.dataset, "sigma": trial.sigma, "trial": trial.number, "layer": layer,
               "features": record["features"][layer], "milliseconds": record["kmeans_seconds"][layer] * 1e3}
              for trial, record in records.items() for layer in FEATURES],
        summary={"speedup_of_fc2_weight": faster}, figure=_draw_times(records, medians), seconds=computing(records))


def _draw_times(records: dict[Trial, Record], medians: dict[str, list[float]]) -> Figure:
    figure, panels = canvas(4.2 * len(medians), 4, 1, len(medians))
    for panel, (dataset, times) in zip(panels.flat, medians.items(), strict=True):
        count = pluralize(len(of(records, dataset=dataset)), "first round")
        panel.barh(range(len(FEATURES)), times, color="#0072b2")
        panel.set_yticks(range(len(FEATURES)), FEATURES)
        panel.invert_yaxis()
        panel.set_xscale("log")
        panel.set(xlabel="K-means running time (ms)", title=f"{TITLES[dataset]}, {count}",
                  xlim=(5, max(100.0, *times) * 1.5))
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.xaxis.set_minor_formatter(lambda value, _: "")
    return figure


def fig9(context: Context) -> Report | None:
    """Report the adjusted Rand index of the clusters against the majority classes."""
    records = _records(context, "first-round", clustered)
    if not records:
        return None
    by_seed = _records(context, "kmeans-seeds", seeded, kmeans_seeds=SEEDS)
    data = list(datasets(context))
    rows = [{"dataset": dataset, "sigma": sigma, "trial": trial.number, "layer": layer, "ari": record["ari"][layer]}
            for dataset in data for sigma in SHADES
            for trial, record in of(records, dataset=dataset, sigma=sigma).items() for layer in FEATURES]
    means = {sigma: mean for sigma in SHADES if not np.isnan(mean := _index(rows, sigma=sigma))}
    last = {sigma: [row["ari"] for row in rows if (row["sigma"], row["layer"]) == (sigma, "fc2.weight")]
            for sigma in means}
    return Report(
        findings=_agreement(rows, data, means, last, _seeds_matter(by_seed, len(records))),
        how=f"K-means with as many clusters as classes over the models of the first round ({LOCAL_EPOCHS} local "
            "epochs); the truth is each device's majority class. Bars are means over trials, whiskers their range; the "
            "first trial has the published split, where there is one.",
        rows=rows, summary={"mean_by_sigma": means, "fc2_weight": last, "fc2_weight_by_seed": {
            f"{trial.dataset}, {trial.sigma}, {trial.number}": record["ari_by_seed"]
            for trial, record in by_seed.items()}},
        figure=_draw_agreement(records, data), seconds=computing(records))


def _draw_agreement(records: dict[Trial, Record], data: list[str]) -> Figure:
    """Draw the mean index of each layer, with its range over trials, by dataset and sigma."""
    figure, panels = canvas(4.2 * len(data), 4, 1, len(data), sharey=True)
    for panel, dataset in zip(panels.flat, data, strict=True):
        found = [of(records, dataset=dataset, sigma=sigma).values() for sigma in SHADES]
        for place, (mine, (sigma, shade)) in enumerate(zip(found, SHADES.items(), strict=True)):
            values = np.array([[record["ari"][layer] for layer in FEATURES] for record in mine])
            if len(values):
                middle = values.mean(axis=0)
                panel.bar(np.arange(len(FEATURES)) + 0.27 * (place - 1), middle, width=0.25, label=f"sigma {sigma}",
                          color=shade, yerr=[middle - values.min(axis=0), values.max(axis=0) - middle],
                          error_kw={"linewidth": 1})
        panel.set_xticks(range(len(FEATURES)), FEATURES, rotation=40, ha="right")
        panel.set(title=f"{TITLES[dataset]} (trials: {', '.join(str(len(mine)) for mine in found)})",
                  ylim=(-0.05, 1.05))
    panels[0, 0].set_ylabel("adjusted Rand index")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _agreement(rows: list[dict[str, Any]], data: list[str], means: dict[str, float],
               last: dict[str, list[float]], over_seeds: Finding) -> list[Finding]:
    """Return the findings on the index by sigma, of the last layer, over seeds, and of one layer against all."""
    index = partial(_index, rows)
    by_dataset = {dataset: {sigma: index(dataset=dataset, sigma=sigma) for sigma in means} for dataset in data}
    there = {dataset: found for dataset, found in by_dataset.items() if not np.isnan(list(found.values())).any()}
    ordered = [max(found, key=found.__getitem__) == "0.8" and min(found, key=found.__getitem__) == "H"
               for found in there.values()]
    one_and_all = {f"{TITLES[dataset]} {sigma}": [index(dataset=dataset, sigma=sigma, layer=layer)
                                                  for layer in ("fc2.weight", "all")]
                   for dataset in there for sigma in means}
    each = {sigma: ", ".join(f"{TITLES[name]} {value:.3f}" for name in data if not np.isnan(
        value := index(dataset=name, sigma=sigma, layer="fc2.weight"))) for sigma in means}
    return [
        Finding("agreement is highest at sigma 0.8 and lowest at H",
                "mean over layers and datasets: "
                + ", ".join(f"{sigma} {mean:.2f}" for sigma, mean in means.items())
                + f"; in this order on {sum(ordered)} of {len(ordered)} datasets",
                all_or_some(ordered)),
        Finding("fc2.weight has a high index whatever sigma is",
                "; ".join(f"sigma {sigma} {np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f}, "
                          f"{pluralize(len(values), 'first round')}: {each[sigma]})"
                          for sigma, values in last.items()),
                all_or_some([one > HIGH for one, _ in one_and_all.values()])),
        over_seeds,
        Finding("one layer's weights cluster better than all weights",
                "fc2.weight against all weights: " + "; ".join(
                    f"{where} {one:.2f} against {every:.2f}" for where, (one, every) in one_and_all.items()),
                all_or_some([one > every for one, every in one_and_all.values()]),
                "at equal indices it is no better, and much faster (fig8)"),
    ]


def _index(rows: list[dict[str, Any]], **where: str) -> float:
    """Return the mean index of the rows with these values; NaN without rows."""
    values = [row["ari"] for row in rows if where.items() <= row.items()]
    return float(np.mean(values)) if values else float("nan")


def _seeds_matter(by_seed: dict[Trial, Record], planned: int) -> Finding:
    """Return the finding on the spread of the last layer's index over seeds of K-means; the paper has one value."""
    paper = "(control) fc2.weight's index does not hang on the seed of K-means"
    if not by_seed:
        return nothing_yet(paper)
    words = []
    for dataset, sigma in dict.fromkeys((trial.dataset, trial.sigma) for trial in by_seed):
        here = [record["ari_by_seed"] for record in of(by_seed, dataset=dataset, sigma=sigma).values()]
        words.append(f"{TITLES[dataset]} {sigma} {np.mean(here):.3f} (within a first round by up to "
                     f"{max(map(np.ptp, here)):.2f})")
    some = "" if len(by_seed) == planned else f" of {planned}"
    return Finding(paper, f"mean over {SEEDS} seeds and {len(by_seed)}{some} first rounds: {'; '.join(words)}",
                   all_or_some([bool(np.ptp(record["ari_by_seed"]) < STEADY) for record in by_seed.values()]),
                   "each with the best of 10 starts")
