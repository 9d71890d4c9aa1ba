"""Fig. 10 and 11: accuracy over rounds, and rounds to the target, of five selection methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netsim.base.counts import counted
from netsim.paper import learned, trials
from netsim.paper.learned import Records, fewer_rounds, rises_faster
from netsim.paper.plots import COLOURS, NAMES, canvas
from netsim.paper.report import Finding, Report
from netsim.paper.reproduce import Context
from netsim.paper.trials import METHODS, TITLES
from netsim.sweep.points import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTROL = "cluster-round-robin"
PANELS = "a row a dataset, a column a sigma"
INTERVAL = "in brackets the 95 % confidence interval over pairs"


def _panels(context: Context, grid: learned.Grid, height: float, label: str, draw: Callable[..., None]) -> Figure:
    """A row a dataset, a column a sigma; ``draw`` is given panel, title, records by method, data and sigma."""
    data = trials.datasets(context)
    figure, panels = canvas(13, 1.2 + height * len(data), len(data), 3)
    for row, dataset in enumerate(data):
        for column, sigma in enumerate(sorted(trials.SIGMAS)):
            draw(panels[row, column], f"{TITLES[dataset]}, sigma {sigma}", grid[dataset, sigma], data[dataset], sigma)
        panels[row, 0].set_ylabel(label)
    return figure


@learned.from_trials(trials.compared)
def fig10(context: Context, records: Records, settings: str) -> Report:
    """Accuracy over rounds."""
    def draw(panel: Any, title: str, found: dict[str, list[Record]], data: trials.Data, sigma: str) -> None:
        for method in METHODS:
            if found[method]:
                learned.draw_accuracy(panel, found[method], COLOURS[method], NAMES[method])
        learned.frame_accuracy(panel, title, [record for each in found.values() for record in each],
                               data.targets[sigma])

    grid = learned.by_panel(records)
    return Report(
        findings=[
            rises_faster("K-means selection is mostly above FedAvg", records, "kmeans", "fedavg"),
            rises_faster("divergence selection rises fastest: faster than FedAvg", records, "divergence", "fedavg"),
            rises_faster("and faster than K-means selection", records, "divergence", "kmeans"),
            rises_faster("and faster than ICAS", records, "divergence", "icas"),
            rises_faster("(control) and faster than each cluster's devices in turn", records, "divergence", CONTROL),
            learned.smallest_shades("the shaded regions of divergence selection are the smallest", grid, "divergence",
                                    ("fedavg", "kmeans", "icas")),
        ],
        how="Lines are means over trials, shades go from the lowest to the highest, the number of trials is in "
            f"brackets; {PANELS}. {learned.ENDED} Mean accuracy is over the rounds that both runs played; "
            f"{INTERVAL}. {settings}",
        rows=learned.curve_rows(records), summary=learned.rounds_summary(grid),
        figure=_panels(context, grid, 3.2, "test accuracy (%)", draw))


@learned.from_trials(trials.compared)
def fig11(context: Context, records: Records, settings: str) -> Report:
    """Rounds to the target accuracy, as box plots."""
    def draw(panel: Any, title: str, found: dict[str, list[Record]], data: trials.Data, sigma: str) -> None:
        for place, method in enumerate(METHODS):
            _draw_rounds(panel, place, found[method], method, data.cap)
        panel.set_xticks(range(len(METHODS)), ["divergence", "FedAvg", "K-means", "round\nrobin", "ICAS"], fontsize=8)
        panel.set(title=title, xlim=(-0.6, len(METHODS) - 0.4), ylim=(0, data.cap * 1.2))

    grid = learned.by_panel(records)
    return Report(
        findings=[
            fewer_rounds("divergence selection needs fewer rounds than FedAvg", records, "divergence", "fedavg"),
            fewer_rounds("and than K-means selection", records, "divergence", "kmeans"),
            fewer_rounds("and than ICAS", records, "divergence", "icas"),
            fewer_rounds("(control) and than each cluster's devices in turn", records, "divergence", CONTROL),
            fewer_rounds("(control) each cluster's devices in turn need fewer rounds than FedAvg", records, CONTROL,
                         "fedavg"),
            learned.smaller_spread("divergence selection's rounds spread less than FedAvg's", grid, "divergence",
                                   "fedavg"),
            learned.smaller_spread("so do those of K-means selection", grid, "kmeans", "fedavg"),
            *_icas_on_cifar10(grid["cifar10", "0.8"]["icas"]),
        ],
        how=f"Points are trials, with boxes where there are three or more; {PANELS}. Where one run of a pair did not "
            "reach its target the other counts as faster; pairs in which neither did are left out. How many times as "
            f"many is a geometric mean over the pairs in which both did; {INTERVAL}. {settings}",
        rows=learned.round_rows(records), summary=learned.rounds_summary(grid),
        figure=_panels(context, grid, 3.0, "rounds to the target", draw))


def _draw_rounds(panel: Any, place: int, records: list[Record], method: str, cap: int) -> None:
    rounds = [learned.rounds_to_target(record) for record in records]
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
