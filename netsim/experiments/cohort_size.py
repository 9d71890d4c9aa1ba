"""Fig. 13: what the number of devices in a round does to the rounds, the delay and the energy of learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.experiments import trials
from netsim.experiments.curves import computing, draw_accuracy, nothing_yet, round_rows, settings
from netsim.experiments.plots import canvas
from netsim.experiments.report import Finding, Report
from netsim.experiments.reproduce import Context
from netsim.experiments.trials import TITLES, rounds_to_target

GAUGES = (("rounds", "rounds K"), ("simulated_s", "delay T (s)"), ("energy_j", "energy E (J)"))


def fig13(context: Context) -> Report:
    """Accuracy curves, K, T and E by cohort size, under divergence selection and SAO."""
    records = trials.run_trials(trials.cohort_sizes(context), context, "fig13")
    names = list(trials.datasets(context))
    sizes = sorted({trial.cohort for trial in trials.cohort_sizes(context)})
    figure, panels = canvas(4.4 * len(names), 9.5, 4, len(names), height_ratios=[2, 1, 1, 1])
    reached: dict[str, dict[int, dict[str, float]]] = {name: {} for name in names}
    for column, dataset in enumerate(names):
        for place, size in enumerate(sizes):
            found = [record for trial, record in records.items() if (trial.dataset, trial.cohort) == (dataset, size)]
            if not found:
                continue
            draw_accuracy(panels[0, column], found, "divergence", f"S = {size}")
            panels[0, column].lines[-1].set(color=_shade(place, len(sizes)))
            for shade in panels[0, column].collections[-1:]:
                shade.set(color=_shade(place, len(sizes)))
            if all(rounds_to_target(record) for record in found):
                reached[dataset][size] = {gauge: float(np.mean([record[gauge] for record in found])) for gauge, _ in GAUGES}
        panels[0, column].set(title=f"{TITLES[dataset]}, sigma 0.8", xlabel="round")
        panels[0, column].legend(fontsize=8, loc="lower right")
        for row, (gauge, label) in enumerate(GAUGES, start=1):
            panel = panels[row, column]
            for place, size in enumerate(sizes):
                if size in reached[dataset]:
                    value = reached[dataset][size][gauge]
                    panel.bar(place, value, color=_shade(place, len(sizes)))
                    panel.annotate(f"{value:.3g}", (place, value), ha="center", va="bottom", fontsize=8)
                else:
                    panel.annotate("–", (place, 0), ha="center", va="bottom", color="0.5")
            panel.set_xticks(range(len(sizes)), [f"S = {size}" for size in sizes], fontsize=8)
            panel.set_ylabel(label)
            panel.margins(y=0.15)
    panels[0, 0].set_ylabel("test accuracy (%)")
    return Report(
        findings=[
            _extreme("more devices, fewer rounds: S = 100 needs the fewest", reached, "rounds", sizes[-1]),
            _extreme("S = 10 always has the lowest delay T", reached, "simulated_s", 10),
            _extreme("a small S has the lowest energy E", reached, "energy_j", 10),
        ],
        how="Divergence selection with SAO, sigma 0.8; T and E are simulated, with the first round of all devices in waves of S, and "
            "so are later rounds whose budgets allow no common plan. Only cohort sizes whose runs all reached the target "
            f"have bars. {settings(context, records)}",
        rows=round_rows(records), summary={name: {str(size): found for size, found in by.items()} for name, by in reached.items()},
        figure=figure, seconds=computing(records))


def _extreme(paper: str, reached: dict[str, dict[int, dict[str, float]]], gauge: str, size: int) -> Finding:
    """A claim that one cohort size has the least of something, on the datasets where sizes can be compared."""
    compared = {name: by for name, by in reached.items() if len(by) > 1 and size in by}
    if not compared:
        return nothing_yet(paper)
    best = {name: min(by, key=lambda s: by[s][gauge]) for name, by in compared.items()}
    words = "; ".join(f"{TITLES[name]}: least at S = {best[name]} ("
                      + ", ".join(f"{s}: {by[s][gauge]:.3g}" for s in sorted(by)) + ")" for name, by in compared.items())
    right = [found == size for found in best.values()]
    return Finding(paper, words, "agrees" if all(right) else "agrees in part" if any(right) else "differs")


def _shade(place: int, count: int) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](0.9 * place / max(1, count - 1))
