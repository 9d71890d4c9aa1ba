"""Fig. 10 and 11: accuracy over rounds, and rounds to the target, of five selection methods."""

from __future__ import annotations

import math
from typing import Any

from netsim.base.counts import counted
from netsim.paper import trials
from netsim.paper.learned import (
    ENDED,
    by_panel,
    computing,
    curve_rows,
    draw_accuracy,
    fewer_rounds,
    frame_accuracy,
    rises_faster,
    round_rows,
    rounds_summary,
    rounds_to_target,
    settings,
    smaller_spread,
    smallest_shades,
)
from netsim.paper.plots import COLOURS, NAMES, canvas
from netsim.paper.report import Finding, Report
from netsim.paper.reproduce import Context
from netsim.paper.trials import METHODS, TITLES
from netsim.sweep.points import Record

CONTROL = "cluster-round-robin"
PANELS = "a row a dataset, a column a sigma"
INTERVAL = "in brackets the 95 % confidence interval over pairs"


def fig10(context: Context) -> Report | None:
    """Accuracy over rounds."""
    planned = trials.compared(context)
    records = trials.run_trials(planned, context, "fig10")
    if not records:
        return None
    grid, data = by_panel(records), trials.datasets(context)
    figure, panels = canvas(13, 1.2 + 3.2 * len(data), len(data), 3)
    for row, column, dataset, sigma in trials.panels(context):
        panel, found = panels[row, column], grid[dataset, sigma]
        for method in METHODS:
            if found[method]:
                draw_accuracy(panel, found[method], COLOURS[method], NAMES[method])
        drawn = [record for records in found.values() for record in records]
        frame_accuracy(panel, f"{TITLES[dataset]}, sigma {sigma}", drawn, data[dataset].targets[sigma])
    for panel in panels[:, 0]:
        panel.set_ylabel("test accuracy (%)")
    return Report(
        findings=[
            rises_faster("K-means selection is mostly above FedAvg", records, "kmeans", "fedavg"),
            rises_faster("divergence selection rises fastest: faster than FedAvg", records, "divergence", "fedavg"),
            rises_faster("and faster than K-means selection", records, "divergence", "kmeans"),
            rises_faster("and faster than ICAS", records, "divergence", "icas"),
            rises_faster("(control) and faster than each cluster's devices in turn", records, "divergence", CONTROL),
            smallest_shades("the shaded regions of divergence selection are the smallest", grid, "divergence",
                            ("fedavg", "kmeans", "icas")),
        ],
        how="Lines are means over trials, shades go from the lowest to the highest, the number of trials is in "
            f"brackets; {PANELS}. {ENDED} Mean accuracy is over the rounds that both runs played; "
            f"{INTERVAL}. "
            f"{settings(context, records, planned)}",
        rows=curve_rows(records), summary=rounds_summary(grid), figure=figure, seconds=computing(records))


def fig11(context: Context) -> Report | None:
    """Rounds to the target accuracy, as box plots."""
    planned = trials.compared(context)
    records = trials.run_trials(planned, context, "fig11")
    if not records:
        return None
    grid, data = by_panel(records), trials.datasets(context)
    figure, panels = canvas(13, 1.2 + 3.0 * len(data), len(data), 3)
    for row, column, dataset, sigma in trials.panels(context):
        panel, found = panels[row, column], grid[dataset, sigma]
        for place, method in enumerate(METHODS):
            _draw_rounds(panel, place, found[method], method, data[dataset].cap)
        panel.set_xticks(range(len(METHODS)), ["divergence", "FedAvg", "K-means", "round\nrobin", "ICAS"], fontsize=8)
        panel.set(title=f"{TITLES[dataset]}, sigma {sigma}", xlim=(-0.6, len(METHODS) - 0.4),
                  ylim=(0, data[dataset].cap * 1.2))
    for panel in panels[:, 0]:
        panel.set_ylabel("rounds to the target")
    return Report(
        findings=[
            fewer_rounds("divergence selection needs fewer rounds than FedAvg", records, "divergence", "fedavg"),
            fewer_rounds("and than K-means selection", records, "divergence", "kmeans"),
            fewer_rounds("and than ICAS", records, "divergence", "icas"),
            fewer_rounds("(control) and than each cluster's devices in turn", records, "divergence", CONTROL),
            fewer_rounds("(control) each cluster's devices in turn need fewer rounds than FedAvg", records, CONTROL,
                         "fedavg"),
            smaller_spread("divergence selection's rounds spread less than FedAvg's", grid, "divergence", "fedavg"),
            smaller_spread("so do those of K-means selection", grid, "kmeans", "fedavg"),
            *_icas_on_cifar10(grid["cifar10", "0.8"]["icas"]),
        ],
        how=f"Points are trials, with boxes where there are three or more; {PANELS}. Where one run of a pair did not "
            "reach its target the other counts as faster; pairs in which neither did are left out. How many times as "
            f"many is a geometric mean over the pairs in which both did; {INTERVAL}. "
            f"{settings(context, records, planned)}",
        rows=round_rows(records), summary=rounds_summary(grid), figure=figure, seconds=computing(records))


def _draw_rounds(panel: Any, place: int, records: list[Record], method: str, cap: int) -> None:
    rounds = [rounds_to_target(record) for record in records]
    if not rounds:
        panel.annotate("not\nmeasured", (place, 0), ha="center", va="bottom", fontsize=7, color="0.3")
    reached = [count for count in rounds if count < math.inf]
    if len(reached) > 2:
        box = panel.boxplot([reached], positions=[place], widths=0.6, patch_artist=True, showfliers=False,
                            medianprops={"color": "black"})
        box["boxes"][0].set(facecolor=COLOURS[method], alpha=0.4)
    panel.plot([place] * len(reached), reached, "o", color=COLOURS[method], markersize=4)
    missed = len(rounds) - len(reached)
    if missed:
        panel.annotate(f"{missed} not\nreached", (place, cap), ha="center", va="bottom", fontsize=7, color="0.3")


def _icas_on_cifar10(records: list[Record]) -> list[Finding]:
    """The one claim about a method that fails; nothing where it was not measured."""
    if not records:
        return []
    best = [max(record["by_round"]["accuracy"]) for record in records]
    reached = sum(record["target_reached"] for record in records)
    return [Finding(
        "on CIFAR-10 at sigma 0.8 ICAS ends at about 53 % and never gets to 55 %",
        f"reached in {reached} of {counted(len(records), 'run')}; best accuracy {min(best):.1%} to {max(best):.1%}",
        "differs" if reached else "agrees", "" if reached else f"within {records[0]['most_rounds']} rounds")]
