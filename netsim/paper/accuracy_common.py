"""Common parts of the learning figures: trials by panel, curves, rounds to the target, paired comparisons."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
from scipy.stats import binomtest, t

from netsim.base.pluralize import pluralize
from netsim.base.types import Floats
from netsim.paper import trials
from netsim.paper.plots import not_measured
from netsim.paper.report import Finding, Report, all_or_some, nothing_yet
from netsim.paper.reproduce import Context
from netsim.paper.trials import TITLES, Trial
from netsim.sweep.points import Record

Records = Mapping[Trial, Record]
Grid = Mapping[tuple[str, str], Mapping[str, list[Record]]]       # (dataset, sigma) -> method -> its trials
Pairs = Sequence[tuple[float, float]]
Draw = Callable[[Context, Records, str], Report]
ENDED = "A run ends at its target; its curve goes on there at its last value, so that means and shades keep all trials."
FEW = "two or three trials say little about a spread; the paper has ten"


def from_trials(plan: Callable[[Context], Sequence[Trial]]) -> Callable[[Draw], Callable[[Context], Report | None]]:
    """Decorate a report of (context, records, description): run missing trials first; return None without any."""
    def decorate(draw: Draw) -> Callable[[Context], Report | None]:
        @wraps(draw)
        def report(context: Context) -> Report | None:
            planned = plan(context)
            records = trials.run_trials(planned, context, draw.__name__)
            return replace(draw(context, records, settings(context, records, planned)),
                           seconds=computing(records)) if records else None

        return report

    return decorate


def settings(context: Context, records: Records, planned: Sequence[Trial]) -> str:
    """Return the description of the trials, with the numbers of finished and planned ones."""
    runs = (pluralize(len(records), "run") if len(records) == len(planned)
            else f"{len(records)} of {pluralize(len(planned), 'planned run')}")
    published = sum(record["split"] == "published" for record in records.values())
    cap = next(iter(trials.datasets(context).values())).cap
    batches = ", ".join(f"{TITLES[name]} {data.batch}" for name, data in trials.datasets(context).items())
    return (
        f"{runs}, {published} with a published split and the others with splits of their own. "
        f"{trials.LOCAL_EPOCHS} local epochs, learning rate {trials.LEARNING_RATE} without momentum, batch sizes: "
        f"{batches}; plain mean of models; the whole test set after every round; a run ends at its target accuracy or "
        f"after {cap} rounds. All methods of a trial share devices, split and first model. `cluster-round-robin` is a "
        "control: from each cluster the device that waited longest, without a look at weights. "
        f"Processors (runs): {processors(records)}; on another one, rounds differ by some.")


def processors(records: Mapping[Any, Record]) -> str:
    counts = Counter(record.get("processor") or "one not noted" for record in records.values())
    return "; ".join(f"{name} ({count})" for name, count in sorted(counts.items()))


def by_panel(records: Records) -> Grid:
    """Group the records by panel of a figure; empty without records."""
    found: dict[tuple[str, str], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for trial, record in sorted(records.items(), key=lambda item: item[0].number):
        found[trial.dataset, trial.sigma][trial.method].append(record)
    return found


def accuracy_table(records: Sequence[Record]) -> Floats:
    """Return accuracy by trial and round; a finished run keeps its last value."""
    curves = [record["by_round"]["accuracy"] for record in records]
    longest = max(map(len, curves))
    return np.array([curve + curve[-1:] * (longest - len(curve)) for curve in curves], dtype=float)


def shade_width(records: Sequence[Record], rounds: int) -> float:
    """Return the range from the worst to the best trial, averaged over the first ``rounds`` rounds.

    >>> short, long = ({"by_round": {"accuracy": curve}} for curve in ([0.1, 0.5], [0.2, 0.3, 0.9]))
    >>> round(shade_width([short, long], 2), 3)
    0.15
    """
    curves = [record["by_round"]["accuracy"][:rounds] for record in records]
    return float(np.mean(np.ptp(np.array(curves, dtype=float), axis=0)))


def draw_accuracy(panel: Any, title: str, target: float, curves: Iterable[tuple[str, Any, Sequence[Record]]]) -> None:
    """Draw test accuracy in percent by round, for each label, colour and trials: mean, and range as a shade."""
    drawn = []
    for label, colour, records in curves:
        if records:
            table = accuracy_table(records) * 100
            rounds = np.arange(1, table.shape[1] + 1)
            panel.plot(rounds, table.mean(axis=0), color=colour, linewidth=1.4, label=f"{label} ({len(records)})")
            if len(records) > 1:
                panel.fill_between(rounds, table.min(axis=0), table.max(axis=0), color=colour, alpha=0.15, linewidth=0)
            drawn += [record["by_round"]["accuracy"] for record in records]
    panel.axhline(100 * target, color="0.5", linewidth=0.8, linestyle="--")
    panel.set(title=f"{title}: target {100 * target:g} %", xlabel="round")
    if not drawn:
        not_measured(panel)
        return
    low = 100 * min(float(curve[len(curve) // 10]) for curve in drawn)      # until then the curves are alike, and steep
    high = 100 * max(target, *(float(max(curve)) for curve in drawn))
    panel.set_ylim(low, high + 0.05 * (high - low))
    panel.legend(fontsize=7, loc="lower right")


def curve_rows(records: Records) -> list[dict[str, Any]]:
    return [{**trial.names, "round": round_, "accuracy": accuracy} for trial, record in records.items()
            for round_, accuracy in enumerate(record["by_round"]["accuracy"], start=1)]


def round_rows(records: Records) -> list[dict[str, Any]]:
    return [{**trial.names, **{name: record[name] for name in ("split", "rounds", "target_reached")},
             "best_accuracy": max(record["by_round"]["accuracy"]),
             **{name: record[name] for name in ("simulated_s", "energy_j")}} for trial, record in records.items()]


def computing(records: Mapping[Any, Record]) -> float:
    """Return the computing time of the records, in seconds."""
    return float(sum(record["seconds"] for record in records.values()))


def rounds_to_target(record: Record) -> float:
    """Return K; inf if the target was not reached within the allowed rounds."""
    return float(record["rounds"]) if record["target_reached"] else math.inf


def or_word(value: float, missed: str, digits: str = "g") -> str:
    """Format a number, or return ``missed`` for inf."""
    return missed if math.isinf(value) else f"{value:{digits}}"


def median_rounds(records: Sequence[Record]) -> float:
    """Return the median over trials; inf if at least half of them did not reach the target."""
    return float(np.median([rounds_to_target(record) for record in records])) if records else math.inf


def rounds_summary(grid: Grid) -> dict[str, Any]:
    """Return rounds to the target by dataset, sigma and method; null if a trial did not reach it."""
    def summary(records: Sequence[Record]) -> dict[str, Any]:
        middle = median_rounds(records)
        rounds = [int(record["rounds"]) if record["target_reached"] else None for record in records]
        return {"trials": len(records), "rounds": rounds, "median": middle if middle < math.inf else None}

    return {f"{dataset}, {sigma}": {method: summary(records) for method, records in methods.items() if records}
            for (dataset, sigma), methods in sorted(grid.items()) if any(methods.values())}


def of(records: Records, **values: Any) -> dict[Trial, Record]:
    """Return the records of the trials with these values: ``of(records, dataset="mnist", method="fedavg")``."""
    return {trial: record for trial, record in records.items()
            if all(getattr(trial, name) == value for name, value in values.items())}


def paired(records: Records, first: str, second: str) -> list[tuple[Record, Record]]:
    """Return the records of two methods in comparable trials."""
    return list(zip(*comparable([of(records, method=method) for method in (first, second)]), strict=True))


def comparable(groups: Sequence[Records]) -> list[list[Record]]:
    """Return each group's records of the trials that all groups have run, in one order.

    Partition and kind of processor must be equal: others would compare partitions, or rounding of processors.
    """
    by_world = [{(trial.dataset, trial.sigma, trial.number, record.get("split"), record.get("processor")): record
                 for trial, record in group.items()} for group in groups]
    common = [world for world in next(iter(by_world), {}) if all(world in group for group in by_world)]
    return [[group[world] for world in common] for group in by_world]


def fewer_rounds(paper: str, records: Records, first: str, second: str) -> Finding:
    pairs = [(rounds_to_target(one), rounds_to_target(other)) for one, other in paired(records, first, second)]
    return needs_less(paper, pairs, f"{first} needs fewer rounds than {second}", "times as many")


def needs_less(paper: str, pairs: Pairs, measured: str, times: str) -> Finding:
    """Return the finding that the first of a pair needs less to reach the target; inf: not reached.

    Pairs in which neither reached it do not count; those in which one did are not part of the mean.
    """
    pairs = [pair for pair in pairs if min(pair) < math.inf]
    logs = [math.log(one / other) for one, other in pairs if max(one, other) < math.inf]
    middle, low, high = (math.exp(value) for value in mean_and_range(logs))
    both = f", over the {len(logs)} pairs in which both got there" if len(logs) < len(pairs) else ""
    return verdict(paper, pairs, measured,
                   f"{middle:.2f} {times} ({low:.2f} to {high:.2f}{both})" if len(logs) > 1 else "")


def rises_faster(paper: str, records: Records, first: str, second: str) -> Finding:
    """Return the finding that one curve is above another, by the mean accuracy over the rounds that both ran."""
    pairs = []
    for one, other in paired(records, first, second):
        rounds = min(one["rounds"], other["rounds"])
        means = [float(np.mean(record["by_round"]["accuracy"][:rounds])) for record in (one, other)]
        pairs.append((-means[0], -means[1]))
    middle, low, high = (100 * value for value in mean_and_range([other - one for one, other in pairs]))
    return verdict(paper, pairs, f"{first} has a higher mean accuracy than {second}",
                   f"by {middle:+.2f} points ({low:+.2f} to {high:+.2f})" if len(pairs) > 1 else "")


def smallest_shades(paper: str, grid: Grid, first: str, others: Sequence[str]) -> Finding:
    """Return the finding that one method's shade is smaller than those of others, by panel."""
    words, smallest = [], []
    for (dataset, sigma), methods in grid.items():
        found = {method: methods[method] for method in (first, *others) if len(methods[method]) > 1}
        if first not in found or len({len(records) for records in found.values()}) > 1 or len(found) == 1:
            continue
        rounds = min(record["rounds"] for records in found.values() for record in records)
        widths = {method: 100 * shade_width(records, rounds) for method, records in found.items()}
        smallest.append(widths[first] == min(widths.values()))
        each = ", ".join(f"{method} {width:.2f}" for method, width in widths.items())
        words.append(f"{TITLES[dataset]} {sigma}: {each}")
    if not words:
        return nothing_yet(paper)
    return Finding(paper, f"smallest in {sum(smallest)} of {len(smallest)} panels with two or more trials; mean width "
                   f"in points over the rounds that all runs of a panel played: {'; '.join(words)}",
                   all_or_some(smallest), FEW)


def smaller_spread(paper: str, grid: Grid, first: str, second: str) -> Finding:
    """Return the finding that one method's rounds to the target vary less between trials than another's."""
    words, smaller, missed = [], [], "one not reached"
    for (dataset, sigma), methods in grid.items():
        one, other = (range_of_rounds(methods[method]) for method in (first, second))
        if len(methods[first]) == len(methods[second]) > 2 and min(one, other) < math.inf:
            smaller.append(one < other)
            words.append(f"{TITLES[dataset]} {sigma} {or_word(one, missed)} against {or_word(other, missed)}")
    if not words:
        return nothing_yet(paper)
    return Finding(paper, f"{first} against {second}, most less least rounds: smaller in {sum(smaller)} of "
                   f"{len(smaller)} panels with three trials: {'; '.join(words)}", all_or_some(smaller), FEW)


def range_of_rounds(records: Sequence[Record]) -> float:
    rounds = [rounds_to_target(record) for record in records]
    return max(rounds) - min(rounds) if rounds and max(rounds) < math.inf else math.inf


def mean_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and the ends of its 95 % confidence interval by Student's t; NaN with too few values.

    >>> [round(value, 3) for value in mean_and_range([1.0, 2.0, 3.0])]     # t is 4.303 for two degrees of freedom
    [2.0, -0.484, 4.484]
    """
    if len(values) < 2:
        return math.nan, math.nan, math.nan
    mean = float(np.mean(values))
    half = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, mean - half, mean + half


def verdict(paper: str, pairs: Pairs, measured: str, effect: str = "") -> Finding:
    """Return the finding on whether the first of each pair is the smaller one, by a sign test at 5 %."""
    if not pairs:
        return nothing_yet(paper)
    smaller, equal = sum(a < b for a, b in pairs), sum(a == b for a, b in pairs)
    measured += f" in {smaller} of {pluralize(len(pairs), 'paired run')}" + f", {equal} equal" * (equal > 0)
    if effect:
        measured += f"; {effect}"
    if sign_test(pairs) < 0.05:
        return Finding(paper, measured, "agrees" if smaller > (len(pairs) - equal) / 2 else "differs")
    return Finding(paper, measured, "open", "chance could give this (two-sided sign test at 5 %)")


def sign_test(pairs: Pairs) -> float:
    """Return the two-sided p-value of the sign test that neither of a pair tends to be smaller.

    >>> sign_test([(1, 2)] * 5 + [(2, 2)]), sign_test([(2, 1)] * 6)        # 2 / 2**5 and 2 / 2**6
    (0.0625, 0.03125)
    """
    decided = [a < b for a, b in pairs if a != b]
    return float(binomtest(sum(decided), len(decided)).pvalue) if decided else 1.0
