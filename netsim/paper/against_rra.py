"""Fig. 12: divergence selection with thirty devices against RRA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from netsim.paper import trials
from netsim.paper.learned import (
    ENDED,
    computing,
    curve_rows,
    draw_accuracy,
    frame_accuracy,
    paired,
    rounds_to_target,
    settings,
)
from netsim.paper.plots import COLOURS, NAMES, canvas
from netsim.paper.report import Finding, Report, all_or_some, nothing_yet
from netsim.paper.reproduce import Context
from netsim.paper.trials import TITLES
from netsim.sweep.points import Record

METHODS = ("divergence", "rra-as-run")
Pairs = Mapping[str, Sequence[tuple[float, float]]]      # by dataset, the rounds to the target of both in each trial


def fig12(context: Context) -> Report | None:
    """Accuracy over rounds at sigma 0.8."""
    planned = trials.with_rra(context)
    records = trials.run_trials(planned, context, "fig12")
    if not records:
        return None
    data = trials.datasets(context)
    names = list(data)
    figure, panels = canvas(4.4 * len(names), 4, 1, len(names))
    pairs: dict[str, list[tuple[float, float]]] = {}
    rounds: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    sizes: dict[str, float] = {}       # of RRA's cohorts, by dataset
    for panel, dataset in zip(panels.flat, names, strict=True):
        here = {trial: record for trial, record in records.items() if trial.dataset == dataset}
        pairs[dataset] = [(rounds_to_target(one), rounds_to_target(other)) for one, other in paired(here, *METHODS)]
        for method in METHODS:
            found = [record for trial, record in here.items() if trial.method == method]
            if found:
                size = float(np.mean([devices_a_round(record) for record in found]))
                if method == "rra-as-run":
                    sizes[dataset] = size
                rounds[dataset][method] = [rounds_to_target(record) for record in found]
                draw_accuracy(panel, found, COLOURS[method], f"{NAMES[method]}, {size:.0f} devices a round")
        frame_accuracy(panel, f"{TITLES[dataset]}, sigma 0.8", list(here.values()), data[dataset].targets["0.8"])
    panels[0, 0].set_ylabel("test accuracy (%)")
    return Report(
        findings=[_fewer(pairs, data[names[0]].cap), _cohort(sizes, data[names[0]].devices)],
        how=f"Lines are means over trials, shades go from the lowest to the highest. {ENDED} "
            f"{settings(context, records, planned)}",
        rows=curve_rows(records),
        summary={dataset: {method: [None if math.isinf(count) else count for count in counts]
                           for method, counts in by_method.items()} for dataset, by_method in rounds.items()},
        figure=figure, seconds=computing(records))


def devices_a_round(record: Record) -> float:
    """Without the first round, in which all take part."""
    return float(np.mean(record["by_round"]["arrived"][1:] or [math.nan]))


def _fewer(pairs: Pairs, cap: int) -> Finding:
    paper = "divergence selection with 30 devices reaches the target in fewer rounds than RRA with 45"
    decided = {dataset: [pair for pair in found if min(pair) < math.inf] for dataset, found in pairs.items()}
    fewer = [mine < other for found in decided.values() for mine, other in found]
    if not fewer:
        return nothing_yet(paper)
    words = {dataset: ", ".join(f"{_count(mine, cap)} against {_count(other, cap)}" for mine, other in found)
             for dataset, found in decided.items() if found}
    return Finding(paper, "; ".join(f"{TITLES[dataset]} {counts} rounds" for dataset, counts in words.items()),
                   all_or_some(fewer))


def _count(rounds: float, cap: int) -> str:
    return f"more than {cap}" if math.isinf(rounds) else f"{rounds:g}"


def _cohort(sizes: dict[str, float], devices: int) -> Finding:
    paper = "RRA chooses 45 of 100 devices on average"
    if not sizes:
        return nothing_yet(paper)
    share = 100 * float(np.mean(list(sizes.values()))) / devices
    each = ", ".join(f"{TITLES[dataset]} {100 * size / devices:.0f}" for dataset, size in sizes.items())
    near = [35 < 100 * size / devices < 55 for size in sizes.values()]
    return Finding(paper, f"{share:.0f} in a hundred on average ({each})", all_or_some(near),
                   f"near 45 on {sum(near)} of {len(near)} datasets: the smaller the model, the more devices are worth "
                   "their sending energy; RRA as the comparison seems to have run it: two turns of its iteration from "
                   "a random start")
