"""Fig. 12: divergence selection with thirty devices against RRA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from netsim.paper import learned, trials
from netsim.paper.learned import Records, rounds_to_target
from netsim.paper.plots import COLOURS, NAMES, canvas
from netsim.paper.report import Finding, Report, all_or_some, nothing_yet
from netsim.paper.reproduce import Context
from netsim.paper.trials import TITLES
from netsim.sweep.points import Record

METHODS = ("divergence", "rra-as-run")
Pairs = Mapping[str, Sequence[tuple[float, float]]]      # by dataset, the rounds to the target of both in each trial


@learned.from_trials(trials.with_rra)
def fig12(context: Context, records: Records, settings: str) -> Report:
    """Accuracy over rounds at sigma 0.8."""
    data = trials.datasets(context)
    names = list(data)
    figure, panels = canvas(4.4 * len(names), 4, 1, len(names))
    pairs: dict[str, list[tuple[float, float]]] = {}
    rounds: dict[str, dict[str, list[float | None]]] = {name: {} for name in names}
    sizes: dict[str, float] = {}       # of RRA's cohorts, by dataset
    for panel, dataset in zip(panels.flat, names, strict=True):
        here = {trial: record for trial, record in records.items() if trial.dataset == dataset}
        pairs[dataset] = [(rounds_to_target(one), rounds_to_target(other))
                          for one, other in learned.paired(here, *METHODS)]
        for method in METHODS:
            found = [record for trial, record in here.items() if trial.method == method]
            if found:
                size = float(np.mean([devices_a_round(record) for record in found]))
                if method == "rra-as-run":
                    sizes[dataset] = size
                rounds[dataset][method] = [float(each["rounds"]) if each["target_reached"] else None for each in found]
                learned.draw_accuracy(panel, found, COLOURS[method], f"{NAMES[method]}, {size:.0f} devices a round")
        learned.frame_accuracy(panel, f"{TITLES[dataset]}, sigma 0.8", list(here.values()),
                               data[dataset].targets["0.8"])
    panels[0, 0].set_ylabel("test accuracy (%)")
    return Report(
        findings=[_fewer(pairs, data[names[0]].cap), _cohort(sizes, data[names[0]].devices)],
        how=f"Lines are means over trials, shades go from the lowest to the highest. {learned.ENDED} {settings}",
        rows=learned.curve_rows(records), summary=rounds, figure=figure)


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
