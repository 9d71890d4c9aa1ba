"""Fig. 13: what the number of devices in a round does to the rounds, the delay and the energy of learning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netsim.experiments import trials
from netsim.experiments.learned import computing, draw_accuracy, nothing_yet, round_rows, rounds_to_target, settings
from netsim.experiments.plots import canvas
from netsim.experiments.report import Finding, Report
from netsim.experiments.reproduce import Context
from netsim.experiments.trials import TITLES

GAUGES = {"rounds": "rounds K", "simulated_s": "delay T (s)", "energy_j": "energy E (J)"}
Reached = dict[str, dict[int, dict[str, float]]]      # dataset -> S -> gauge, where all trials reached the target


def fig13(context: Context) -> Report | None:
    """Accuracy curves, K, T and E by cohort size, under divergence selection and SAO."""
    planned = trials.cohort_sizes(context)
    records = trials.run_trials(planned, context, "fig13")
    if not records:
        return None
    names, sizes = list(trials.datasets(context)), sorted({trial.cohort for trial in planned})
    figure, panels = canvas(4.4 * len(names), 9.5, 4, len(names), height_ratios=[2, 1, 1, 1])
    reached: Reached = {name: {} for name in names}
    for column, dataset in enumerate(names):
        top = panels[0, column]
        for place, size in enumerate(sizes):
            found = [record for trial, record in records.items() if (trial.dataset, trial.cohort) == (dataset, size)]
            if found:
                draw_accuracy(top, found, _shade(place, len(sizes)), f"S = {size}")
                top.legend(fontsize=8, loc="lower right")
            if found and all(rounds_to_target(record) < math.inf for record in found):
                reached[dataset][size] = {name: float(np.mean([record[name] for record in found])) for name in GAUGES}
        top.set(title=f"{TITLES[dataset]}, sigma 0.8", xlabel="round")
        for panel, gauge in zip(panels[1:, column], GAUGES, strict=True):
            _draw_bars(panel, sizes, {size: values[gauge] for size, values in reached[dataset].items()}, GAUGES[gauge])
    panels[0, 0].set_ylabel("test accuracy (%)")
    return Report(
        findings=[
            _least(f"the more devices, the fewer rounds: fewest at S = {sizes[-1]}", reached, "rounds", sizes[-1]),
            _least("the delay T is always lowest at S = 10", reached, "simulated_s", 10),
            _least("the energy E is lowest at a small S", reached, "energy_j", 10),
        ],
        how="Divergence selection with SAO at sigma 0.8; T and E are simulated. The first round of all devices goes in "
            "waves of S, and so do later rounds whose budgets allow no common plan. Only cohort sizes whose trials all "
            f"reached the target have bars. {settings(context, records, planned)}",
        rows=round_rows(records), figure=figure, seconds=computing(records),
        summary={name: {str(size): values for size, values in by_size.items()} for name, by_size in reached.items()})


def _draw_bars(panel: Any, sizes: list[int], values: dict[int, float], label: str) -> None:
    for place, size in enumerate(sizes):
        height = values.get(size, 0.0)
        panel.bar(place, height, color=_shade(place, len(sizes)))
        label_there = f"{height:.3g}" if size in values else "–"
        panel.annotate(label_there, (place, height), ha="center", va="bottom", fontsize=8)
    panel.set_xticks(range(len(sizes)), [f"S = {size}" for size in sizes], fontsize=8)
    panel.set(ylabel=label, xlim=(-0.6, len(sizes) - 0.4))
    panel.margins(y=0.15)


def _least(paper: str, reached: Reached, gauge: str, size: int) -> Finding:
    """A claim that one cohort size has the least of something, on the datasets where sizes can be compared."""
    compared = {name: {s: values[gauge] for s, values in sorted(by_size.items())}
                for name, by_size in reached.items() if len(by_size) > 1 and size in by_size}
    if not compared:
        return nothing_yet(paper)
    best = {name: min(values, key=lambda s: values[s]) for name, values in compared.items()}
    words = []
    for name, values in compared.items():
        listed = ", ".join(f"{s}: {value:.3g}" for s, value in values.items())
        words.append(f"{TITLES[name]}: least at S = {best[name]} ({listed})")
    right = [found == size for found in best.values()]
    return Finding(paper, "; ".join(words), "agrees" if all(right) else "agrees in part" if any(right) else "differs")


def _shade(place: int, count: int) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](0.9 * place / max(1, count - 1))
