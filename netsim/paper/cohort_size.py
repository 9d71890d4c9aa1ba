"""Fig. 13: what the number of devices in a round does to the rounds, the delay and the energy of learning."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from netsim.base.pictures import library
from netsim.paper import learned, trials
from netsim.paper.learned import Records, rounds_to_target
from netsim.paper.plots import canvas
from netsim.paper.report import Finding, Report, all_or_some, nothing_yet
from netsim.paper.reproduce import Context
from netsim.paper.trials import TITLES
from netsim.sweep.points import Record

GAUGES = {"rounds": "rounds K", "simulated_s": "delay T (s)", "energy_j": "energy E (J)"}
Measured = dict[str, dict[int, dict[str, float]]]      # dataset -> S -> gauge; inf where a trial missed the target


@learned.from_trials(trials.cohort_sizes)
def fig13(context: Context, records: Records, settings: str) -> Report:
    """Accuracy curves, K, T and E by cohort size, under divergence selection and SAO."""
    data = trials.datasets(context)
    sizes = sorted({trial.cohort for trial in trials.cohort_sizes(context)})
    figure, panels = canvas(4.4 * len(data), 9.5, 4, len(data), height_ratios=[2, 1, 1, 1])
    measured: Measured = {}
    for column, dataset in enumerate(data):
        top = panels[0, column]
        by_size = _by_size(records, dataset, sizes)
        measured[dataset] = {size: _gauges(found) for size, found in by_size.items()}
        for size, found in by_size.items():
            learned.draw_accuracy(top, found, _shade(size, sizes), f"S = {size}")
        drawn = [record for found in by_size.values() for record in found]
        learned.frame_accuracy(top, f"{TITLES[dataset]}, sigma 0.8", drawn, data[dataset].targets["0.8"])
        for panel, gauge in zip(panels[1:, column], GAUGES, strict=True):
            _draw_bars(panel, sizes, {size: values[gauge] for size, values in measured[dataset].items()}, GAUGES[gauge])
    panels[0, 0].set_ylabel("test accuracy (%)")
    return Report(
        findings=[
            _least(f"the more devices, the fewer rounds: fewest at S = {sizes[-1]}", measured, "rounds", sizes[-1]),
            _least("the delay T is always lowest at S = 10", measured, "simulated_s", 10),
            _usually_less("a smaller S usually takes less energy E", measured, "energy_j"),
            _usually_less("and usually a shorter delay T", measured, "simulated_s"),
        ],
        how="Divergence selection with SAO at sigma 0.8; T and E are simulated. The first round of all devices goes in "
            "waves of S, and so do later rounds whose budgets allow no common plan. Only cohort sizes whose trials all "
            f"reached the target have bars. {settings}",
        rows=learned.round_rows(records), figure=figure,
        summary={name: {str(size): {gauge: value if value < math.inf else None for gauge, value in values.items()}
                        for size, values in by_size.items()} for name, by_size in measured.items()})


def _by_size(records: Records, dataset: str, sizes: list[int]) -> dict[int, list[Record]]:
    """The trials that every cohort size has played which has played any."""
    groups = {size: {trial: record for trial, record in records.items()
                     if (trial.dataset, trial.cohort) == (dataset, size)} for size in sizes}
    played = {size: group for size, group in groups.items() if group}
    found = learned.comparable(list(played.values())) if played else []
    return {size: group for size, group in zip(played, found, strict=True) if group}


def _gauges(found: list[Record]) -> dict[str, float]:
    """Means over trials."""
    reached = all(rounds_to_target(record) < math.inf for record in found)
    return {name: float(np.mean([record[name] for record in found])) if reached else math.inf for name in GAUGES}


def _draw_bars(panel: Any, sizes: list[int], values: dict[int, float], label: str) -> None:
    """A bar a cohort size, or a word where there is none."""
    for place, size in enumerate(sizes):
        value = values.get(size)
        word = "not\nmeasured" if value is None else "not\nreached" if math.isinf(value) else f"{value:.3g}"
        height = value if value is not None and value < math.inf else 0.0
        panel.bar(place, height, color=_shade(size, sizes))
        panel.annotate(word, (place, height), ha="center", va="bottom", fontsize=8)
    panel.set_xticks(range(len(sizes)), [f"S = {size}" for size in sizes], fontsize=8)
    panel.set(ylabel=label, xlim=(-0.6, len(sizes) - 0.4))
    panel.margins(y=0.15)


def _least(paper: str, measured: Measured, gauge: str, size: int) -> Finding:
    """A claim that one cohort size has the least of something, on the datasets where sizes can be compared."""
    compared = {name: {s: values[gauge] for s, values in sorted(by_size.items())}
                for name, by_size in measured.items() if len(by_size) > 1 and size in by_size}
    compared = {name: values for name, values in compared.items() if min(values.values()) < math.inf}
    if not compared:
        return nothing_yet(paper)
    words = []
    for name, values in compared.items():
        listed = ", ".join(f"{s}: {value:.3g}" if value < math.inf else f"{s}: not reached"
                           for s, value in values.items())
        words.append(f"{TITLES[name]}: least at S = {_joined(_best(values))} ({listed})")
    right = [_best(values) == [size] for values in compared.values()]
    return Finding(paper, "; ".join(words), all_or_some(right))


def _usually_less(paper: str, measured: Measured, gauge: str) -> Finding:
    """A claim that smaller cohorts mostly have less of something: over all pairs of sizes of a dataset."""
    words, less, pairs = [], 0, 0
    for name, by_size in measured.items():
        values = [by_size[size][gauge] for size in sorted(by_size) if by_size[size][gauge] < math.inf]
        ordered = [small < large for small, large in itertools.combinations(values, 2)]
        less, pairs = less + sum(ordered), pairs + len(ordered)
        words += [f"{TITLES[name]}: in {sum(ordered)} of {len(ordered)} pairs of sizes"] if ordered else []
    if not pairs:
        return nothing_yet(paper)
    return Finding(paper, "; ".join(words),
                   "agrees" if less > 0.75 * pairs else "agrees in part" if less > 0.5 * pairs else "differs")


def _best(values: dict[int, float]) -> list[int]:
    """The sizes with the least."""
    return [size for size, value in values.items() if value == min(values.values())]


def _joined(sizes: list[int]) -> str:
    return " and ".join(map(str, sizes))


def _shade(size: int, sizes: list[int]) -> Any:
    return library().colormaps["viridis"](0.9 * sizes.index(size) / max(1, len(sizes) - 1))
