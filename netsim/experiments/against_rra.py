"""Fig. 12: divergence selection with thirty devices against RRA."""

from __future__ import annotations

import math

import numpy as np

from netsim.experiments import trials
from netsim.experiments.cells import Record
from netsim.experiments.learned import (
    computing,
    curve_rows,
    draw_accuracy,
    frame_accuracy,
    nothing_yet,
    rounds_to_target,
    settings,
)
from netsim.experiments.plots import COLOURS, NAMES, canvas
from netsim.experiments.report import Finding, Report
from netsim.experiments.reproduce import Context
from netsim.experiments.trials import TITLES

Rounds = dict[str, dict[str, dict[int, float]]]      # dataset -> method -> trial -> rounds to the target


def fig12(context: Context) -> Report | None:
    """Accuracy over rounds at sigma 0.8."""
    planned = trials.with_rra(context)
    records = trials.run_trials(planned, context, "fig12")
    if not records:
        return None
    data = trials.datasets(context)
    names = list(data)
    figure, panels = canvas(4.4 * len(names), 4, 1, len(names))
    rounds: Rounds = {name: {} for name in names}
    sizes: dict[str, float] = {}       # of RRA's cohorts, by dataset
    for panel, dataset in zip(panels.flat, names, strict=True):
        drawn: list[Record] = []
        for method in ("divergence", "rra-as-run"):
            found = {trial.number: record for trial, record in records.items()
                     if (trial.dataset, trial.method) == (dataset, method)}
            if found:
                size = [devices_a_round(record) for record in found.values()]
                if method == "rra-as-run":
                    sizes[dataset] = float(np.mean(size))
                rounds[dataset][method] = {number: rounds_to_target(record) for number, record in found.items()}
                label = f"{NAMES[method]}, {np.mean(size):.0f} devices a round"
                draw_accuracy(panel, list(found.values()), COLOURS[method], label)
                drawn += found.values()
        frame_accuracy(panel, f"{TITLES[dataset]}, sigma 0.8", drawn, data[dataset].targets["0.8"])
    panels[0, 0].set_ylabel("test accuracy (%)")
    return Report(
        findings=[_fewer(rounds, data[names[0]].cap), _cohort(sizes, data[names[0]].devices)],
        how=f"Lines are means over trials. {settings(context, records, planned)}", rows=curve_rows(records),
        summary={dataset: {method: [None if math.isinf(count) else count for count in counts.values()]
                           for method, counts in by_method.items()} for dataset, by_method in rounds.items()},
        figure=figure, seconds=computing(records))


def devices_a_round(record: Record) -> float:
    """Without the first round, in which all take part."""
    return float(np.mean(record["by_round"]["arrived"][1:] or [math.nan]))


def _fewer(rounds: Rounds, cap: int) -> Finding:
    paper = "divergence selection with 30 devices reaches the target in fewer rounds than RRA with 45"
    pairs = {}
    for dataset, by_method in rounds.items():
        mine, theirs = (by_method.get(method, {}) for method in ("divergence", "rra-as-run"))
        both = sorted(mine.keys() & theirs.keys())       # trials that only one has played would compare splits
        decided = [(mine[number], theirs[number]) for number in both if min(mine[number], theirs[number]) < math.inf]
        if decided:
            pairs[dataset] = decided
    if not pairs:
        return nothing_yet(paper)
    words = "; ".join(f"{TITLES[dataset]} " + ", ".join(f"{_count(mine, cap)} against {_count(other, cap)}"
                                                        for mine, other in found) + " rounds"
                      for dataset, found in pairs.items())
    fewer = [mine < other for found in pairs.values() for mine, other in found]
    return Finding(paper, words, "agrees" if all(fewer) else "agrees in part" if any(fewer) else "differs")


def _count(rounds: float, cap: int) -> str:
    return f"more than {cap}" if math.isinf(rounds) else f"{rounds:g}"


def _cohort(sizes: dict[str, float], devices: int) -> Finding:
    paper = "RRA chooses 45 of 100 devices on average"
    if not sizes:
        return nothing_yet(paper)
    share = 100 * float(np.mean(list(sizes.values()))) / devices
    each = ", ".join(f"{TITLES[dataset]} {100 * size / devices:.0f}" for dataset, size in sizes.items())
    return Finding(paper, f"{share:.0f} in a hundred on average ({each})", "agrees" if 35 < share < 55 else "differs",
                   "the smaller the model, the more devices are worth their sending energy; RRA as the comparison "
                   "seems to have run it: two turns of its iteration from a random start")
