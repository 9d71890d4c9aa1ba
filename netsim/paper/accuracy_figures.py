"""Fig. 10 to 13 and Table III: accuracy by selection method and cohort size, in paired trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np

from netsim.base.figures import Figure, library
from netsim.base.pluralize import pluralize
from netsim.paper import accuracy_common as common
from netsim.paper import trials
from netsim.paper.accuracy_common import Records, fewer_rounds, of, or_word, paired, rises_faster, rounds_to_target
from netsim.paper.plots import COLOURS, NAMES, canvas
from netsim.paper.report import Finding, Report, all_or_some, nothing_yet
from netsim.paper.reproduce import Context
from netsim.paper.trials import METHODS, SIGMAS, TITLES
from netsim.sweep.points import Record

CONTROL = "cluster-round-robin"
PANELS = "a row a dataset, a column a sigma"
INTERVAL = "in brackets the 95 % confidence interval over pairs"
WITH_RRA = ("divergence", "rra-as-run")
GAUGES = {"rounds": "rounds K", "simulated_s": "delay T (s)", "energy_j": "energy E (J)"}
OTHERS = tuple(method for method in METHODS if method != "fedavg")
PRINTED = {              # Table III: the proposed method
    "mnist": {"0.5": 0.228, "0.8": 0.157, "H": 0.388},
    "fashion-mnist": {"0.5": 0.810, "0.8": 0.232, "H": 1.204},
    "cifar10": {"0.5": 1.133, "0.8": 0.486, "H": 0.641},
}
CITED = {                # Table III: Favor
    "mnist": {"0.5": 0.150, "0.8": 0.955, "H": 0.0},
    "fashion-mnist": {"0.5": 0.181, "0.8": 0.209, "H": 0.187},
    "cifar10": {"0.5": 0.736, "0.8": 0.426, "H": 0.340},
}
FAVOR_ROUNDS = {         # Favor's own table: rounds of FedAvg, rounds of Favor
    "mnist": {"0.5": (59, 59), "0.8": (221, 113), "H": (313, 272)},
    "fashion-mnist": {"0.5": (19, 16), "0.8": (52, 43), "H": (1340, 1134)},
    "cifar10": {"0.5": (67, 50), "0.8": (87, 61), "H": (198, 114)},
}
FAVOR = {name: {sigma: base / own - 1 for sigma, (base, own) in by_sigma.items()}
         for name, by_sigma in FAVOR_ROUNDS.items()}
Measured = dict[str, dict[int, dict[str, float]]]      # dataset -> S -> gauge; inf where a trial missed the target


def _panels(context: Context, grid: common.Grid, height: float, label: str, draw: Callable[..., None]) -> Figure:
    """Draw a row per dataset and a column per sigma; ``draw`` gets panel, title, records by method, data, sigma."""
    data = trials.datasets(context)
    figure, panels = canvas(13, 1.2 + height * len(data), len(data), 3)
    for row, dataset in enumerate(data):
        for column, sigma in enumerate(sorted(SIGMAS)):
            draw(panels[row, column], f"{TITLES[dataset]}, sigma {sigma}", grid[dataset, sigma], data[dataset], sigma)
        panels[row, 0].set_ylabel(label)
    return figure


@common.from_trials(trials.compared)
def fig10(context: Context, records: Records, settings: str) -> Report:
    """Report the accuracy over rounds by selection method."""
    def draw(panel: Any, title: str, found: dict[str, list[Record]], data: trials.Data, sigma: str) -> None:
        common.draw_accuracy(panel, title, data.targets[sigma], [
            (NAMES[method], COLOURS[method], found[method]) for method in METHODS])

    grid = common.by_panel(records)
    return Report(
        findings=[
            rises_faster("K-means selection is mostly above FedAvg", records, "kmeans", "fedavg"),
            rises_faster("divergence selection rises fastest: faster than FedAvg", records, "divergence", "fedavg"),
            rises_faster("and faster than K-means selection", records, "divergence", "kmeans"),
            rises_faster("and faster than ICAS", records, "divergence", "icas"),
            rises_faster("(control) and faster than each cluster's devices in turn", records, "divergence", CONTROL),
            common.smallest_shades("the shaded regions of divergence selection are the smallest", grid, "divergence",
                                   ("fedavg", "kmeans", "icas")),
        ],
        how="Lines are means over trials, shades go from the lowest to the highest, the number of trials is in "
            f"brackets; {PANELS}. {common.ENDED} Mean accuracy is over the rounds that both runs played; "
            f"{INTERVAL}. {settings}",
        rows=common.curve_rows(records), summary=common.rounds_summary(grid),
        figure=_panels(context, grid, 3.2, "test accuracy (%)", draw))


@common.from_trials(trials.compared)
def fig11(context: Context, records: Records, settings: str) -> Report:
    """Report the rounds to the target accuracy."""
    def draw(panel: Any, title: str, found: dict[str, list[Record]], data: trials.Data, sigma: str) -> None:
        for place, method in enumerate(METHODS):
            _draw_rounds(panel, place, found[method], method, data.cap)
        panel.set_xticks(range(len(METHODS)), ["divergence", "FedAvg", "K-means", "round\nrobin", "ICAS"], fontsize=8)
        panel.set(title=title, xlim=(-0.6, len(METHODS) - 0.4), ylim=(0, data.cap * 1.2))

    grid = common.by_panel(records)
    return Report(
        findings=[
            fewer_rounds("divergence selection needs fewer rounds than FedAvg", records, "divergence", "fedavg"),
            fewer_rounds("and than K-means selection", records, "divergence", "kmeans"),
            fewer_rounds("and than ICAS", records, "divergence", "icas"),
            fewer_rounds("(control) and than each cluster's devices in turn", records, "divergence", CONTROL),
            fewer_rounds("(control) each cluster's devices in turn need fewer rounds than FedAvg", records, CONTROL,
                         "fedavg"),
            common.smaller_spread("divergence selection's rounds spread less than FedAvg's", grid, "divergence",
                                  "fedavg"),
            common.smaller_spread("so do those of K-means selection", grid, "kmeans", "fedavg"),
            *_icas_on_cifar10(grid["cifar10", "0.8"]["icas"]),
        ],
        how=f"Points are trials, with boxes where there are three or more; {PANELS}. Where one run of a pair did not "
            "reach its target the other counts as faster; pairs in which neither did are left out. How many times as "
            f"many is a geometric mean over the pairs in which both did; {INTERVAL}. {settings}",
        rows=common.round_rows(records), summary=common.rounds_summary(grid),
        figure=_panels(context, grid, 3.0, "rounds to the target", draw))


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
    """Return the finding on ICAS, which fails in the paper; empty if it was not measured."""
    if not records:
        return []
    best = [max(record["by_round"]["accuracy"]) for record in records]
    reached = sum(record["target_reached"] for record in records)
    return [Finding(
        "on CIFAR-10 at sigma 0.8 ICAS ends at about 53 % and never gets to 55 %",
        f"reached in {reached} of {pluralize(len(records), 'run')}; best accuracy {min(best):.1%} to {max(best):.1%}",
        "differs" if reached else "agrees", "" if reached else f"within {records[0]['most_rounds']} rounds")]


@common.from_trials(trials.with_rra)
def fig12(context: Context, records: Records, settings: str) -> Report:
    """Report the accuracy over rounds at sigma 0.8: divergence selection with thirty devices against RRA."""
    data = trials.datasets(context)
    figure, panels = canvas(4.4 * len(data), 4, 1, len(data))
    pairs: dict[str, list[tuple[float, float]]] = {}
    rounds: dict[str, dict[str, list[float | None]]] = {name: {} for name in data}
    sizes: dict[str, float] = {}       # mean cohort size of RRA, by dataset
    for panel, dataset in zip(panels.flat, data, strict=True):
        here = of(records, dataset=dataset)
        pairs[dataset] = [(rounds_to_target(one), rounds_to_target(other)) for one, other in paired(here, *WITH_RRA)]
        curves = []
        for method in WITH_RRA:
            if found := list(of(here, method=method).values()):
                size = float(np.mean([np.mean(record["by_round"]["arrived"][1:] or [math.nan]) for record in found]))
                if method == "rra-as-run":      # without the first round of all devices
                    sizes[dataset] = size
                rounds[dataset][method] = [float(each["rounds"]) if each["target_reached"] else None for each in found]
                curves.append((f"{NAMES[method]}, {size:.0f} devices a round", COLOURS[method], found))
        common.draw_accuracy(panel, f"{TITLES[dataset]}, sigma 0.8", data[dataset].targets["0.8"], curves)
    panels[0, 0].set_ylabel("test accuracy (%)")
    first = next(iter(data.values()))
    return Report(
        findings=[_fewer_than_rra(pairs, first.cap), _cohort_of_rra(sizes, first.devices)],
        how="Lines are means over trials, shades go from the lowest to the highest. "
            f"{common.ENDED} {settings}",
        rows=common.curve_rows(records), summary=rounds, figure=figure)


def _fewer_than_rra(pairs: Mapping[str, Sequence[tuple[float, float]]], cap: int) -> Finding:
    """Return the finding on rounds to the target; ``pairs`` has those of both methods by dataset and trial."""
    paper = "divergence selection with 30 devices reaches the target in fewer rounds than RRA with 45"
    decided = {dataset: [pair for pair in found if min(pair) < math.inf] for dataset, found in pairs.items()}
    words = [f"{TITLES[dataset]} " + ", ".join(" against ".join(or_word(count, f"more than {cap}") for count in pair)
                                               for pair in found) + " rounds"
             for dataset, found in decided.items() if found]
    fewer = [mine < other for mine, other in chain(*decided.values())]
    return Finding(paper, "; ".join(words), all_or_some(fewer)) if fewer else nothing_yet(paper)


def _cohort_of_rra(sizes: dict[str, float], devices: int) -> Finding:
    paper = "RRA chooses 45 of 100 devices on average"
    if not sizes:
        return nothing_yet(paper)
    shares = {dataset: 100 * size / devices for dataset, size in sizes.items()}
    each = ", ".join(f"{TITLES[dataset]} {share:.0f}" for dataset, share in shares.items())
    near = [35 < share < 55 for share in shares.values()]
    return Finding(paper, f"{np.mean(list(shares.values())):.0f} in a hundred on average ({each})", all_or_some(near),
                   f"near 45 on {sum(near)} of {len(near)} datasets: the smaller the model, the more devices are worth "
                   "their sending energy; RRA as the comparison seems to have run it: two turns of its iteration from "
                   "a random start")


@common.from_trials(trials.cohort_sizes)
def fig13(context: Context, records: Records, settings: str) -> Report:
    """Report accuracy curves, K, T and E by cohort size, with divergence selection and SAO."""
    data = trials.datasets(context)
    sizes = sorted({trial.cohort for trial in trials.cohort_sizes(context)})
    figure, panels = canvas(4.4 * len(data), 9.5, 4, len(data), height_ratios=[2, 1, 1, 1])
    shades = {size: library().colormaps["viridis"](0.9 * place / max(1, len(sizes) - 1))
              for place, size in enumerate(sizes)}
    measured: Measured = {}
    for (top, *below), dataset in zip(panels.T, data, strict=True):
        by_size = _by_size(records, dataset, sizes)
        measured[dataset] = {size: _gauges(found) for size, found in by_size.items()}
        common.draw_accuracy(top, f"{TITLES[dataset]}, sigma 0.8", data[dataset].targets["0.8"], [
            (f"S = {size}", shades[size], found) for size, found in by_size.items()])
        for panel, gauge in zip(below, GAUGES, strict=True):
            _draw_bars(panel, shades, {size: values[gauge] for size, values in measured[dataset].items()})
            panel.set_ylabel(GAUGES[gauge])
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
        rows=common.round_rows(records), figure=figure,
        summary={name: {str(size): {gauge: value if value < math.inf else None for gauge, value in values.items()}
                        for size, values in by_size.items()} for name, by_size in measured.items()})


def _by_size(records: Records, dataset: str, sizes: Sequence[int]) -> dict[int, list[Record]]:
    """Return records by cohort size, of the trials that all sizes with any trial have run."""
    played = {size: found for size in sizes if (found := of(records, dataset=dataset, cohort=size))}
    return {size: group for size, group in zip(played, common.comparable(list(played.values())), strict=True) if group}


def _gauges(found: list[Record]) -> dict[str, float]:
    reached = all(record["target_reached"] for record in found)
    return {name: float(np.mean([record[name] for record in found])) if reached else math.inf for name in GAUGES}


def _draw_bars(panel: Any, shades: Mapping[int, Any], values: Mapping[int, float]) -> None:
    """Draw a bar per cohort size, or a word if it has no value."""
    for place, (size, shade) in enumerate(shades.items()):
        value = values.get(size)
        word = "not\nmeasured" if value is None else or_word(value, "not\nreached", ".3g")
        height = value if value is not None and value < math.inf else 0.0
        panel.bar(place, height, color=shade)
        panel.annotate(word, (place, height), ha="center", va="bottom", fontsize=8)
    panel.set_xticks(range(len(shades)), [f"S = {size}" for size in shades], fontsize=8)
    panel.set(xlim=(-0.6, len(shades) - 0.4))
    panel.margins(y=0.15)


def _least(paper: str, measured: Measured, gauge: str, size: int) -> Finding:
    """Return the finding that one cohort size has the least ``gauge``, on datasets where sizes can be compared."""
    words, right = [], []
    for name, by_size in measured.items():
        values = {s: found[gauge] for s, found in sorted(by_size.items())}
        least = min(values.values(), default=math.inf)
        if len(values) > 1 and size in values and least < math.inf:
            best = [s for s, value in values.items() if value == least]
            listed = ", ".join(f"{s}: {or_word(value, 'not reached', '.3g')}" for s, value in values.items())
            words.append(f"{TITLES[name]}: least at S = {' and '.join(map(str, best))} ({listed})")
            right.append(best == [size])
    return Finding(paper, "; ".join(words), all_or_some(right)) if words else nothing_yet(paper)


def _usually_less(paper: str, measured: Measured, gauge: str) -> Finding:
    """Return the finding that smaller cohorts mostly have less ``gauge``, over all pairs of sizes of a dataset."""
    words, less = [], []
    for name, by_size in measured.items():
        values = [by_size[size][gauge] for size in sorted(by_size)]
        here = [small < large for small, large in combinations([value for value in values if value < math.inf], 2)]
        less += here
        words += [f"{TITLES[name]}: in {sum(here)} of {len(here)} pairs of sizes"] if here else []
    if not less:
        return nothing_yet(paper)
    share = np.mean(less)
    return Finding(paper, "; ".join(words),
                   "agrees" if share > 0.75 else "agrees in part" if share > 0.5 else "differs")


def score(panel: Records, method: str) -> float | None:
    """Return FedAvg's median rounds over the method's, minus 1, over the trials of both; None without medians."""
    pairs = paired(panel, "fedavg", method)
    base, own = map(common.median_rounds, zip(*pairs, strict=True)) if pairs else (math.inf, math.inf)
    return base / own - 1 if max(base, own) < math.inf else None


@common.from_trials(trials.compared)
def table3(context: Context, records: Records, settings: str) -> Report:
    """Report the scores of all methods, beside those printed for the proposed one and for Favor."""
    rows = [{
        "dataset": dataset, "sigma": sigma, "trials": len(paired(panel, "fedavg", "divergence")),
        **{method: score(panel, method) for method in OTHERS},
        **{name: table.get(dataset, {}).get(sigma) for name, table in (
            ("proposed_as_printed", PRINTED), ("favor_as_cited", CITED), ("favor_by_its_own_table", FAVOR))}}
        for dataset in trials.datasets(context) for sigma in sorted(SIGMAS)
        for panel in [of(records, dataset=dataset, sigma=sigma)]]
    return Report(
        findings=[
            _proposed([row for row in rows if row["divergence"] is not None]),
            Finding(f"Favor improves by {_listed(CITED)}", f"from the rounds in Favor's own table: {_listed(FAVOR)}",
                    "differs", "the rows for 0.5 and H are exchanged; Favor itself was not run: each agent takes many "
                               "runs"),
            Finding("the score is the method's rounds over FedAvg's, less 1",
                    "so fewer rounds would score below 0; the printed values, and those here, are FedAvg's rounds over "
                    "the method's, less 1", "differs", "the formula is printed upside down"),
        ],
        how=f"Medians of rounds to the target over the trials that FedAvg and the method both played. {settings}",
        rows=rows, summary=common.rounds_summary(common.by_panel(records)), figure=_draw_scores(rows))


def _proposed(measured: list[dict[str, Any]]) -> Finding:
    paper = "divergence selection improves on FedAvg by 0.16 (MNIST, 0.8) to 1.20 (FashionMNIST, H)"
    if not measured:
        return nothing_yet(paper)
    scores = [row["divergence"] for row in measured]
    words = "; ".join(f"{TITLES[row['dataset']]} {row['sigma']} {row['divergence']:+.2f} (trials: {row['trials']})"
                      for row in measured)
    mean, why = float(np.mean(scores)), "medians over few trials"
    printed = [row["proposed_as_printed"] for row in measured if row["proposed_as_printed"] is not None]
    if printed:
        words += f"; mean {mean:+.2f} where {np.mean(printed):+.2f} is printed"
    if min(scores) > 0 and (not printed or mean > 0.75 * np.mean(printed)):
        return Finding(paper, words, "agrees", why)
    fewer = np.mean([value > 0 for value in scores]) > 0.5
    return Finding(paper, words, "agrees in part" if fewer else "differs",
                   f"fewer rounds in most cases, but not by as much; {why}" if fewer else why)


def _listed(scores: Mapping[str, Mapping[str, float]]) -> str:
    return "; ".join(f"{TITLES[name]} " + ", ".join(f"{value:.3f} ({sigma})" for sigma, value in by_sigma.items())
                     for name, by_sigma in scores.items())


def _draw_scores(rows: list[dict[str, Any]]) -> Figure:
    figure, panels = canvas(11, 4.2)
    panel = panels[0, 0]
    for place, method in enumerate(OTHERS):
        at = np.arange(len(rows)) + 0.2 * (place - 1.5)
        panel.bar(at, [row[method] or 0 for row in rows], width=0.19, color=COLOURS[method], label=NAMES[method])
        for middle, row in zip(at, rows, strict=True):
            if not row[method]:      # an invisible bar
                word = "no score" if row[method] is None else "0"
                panel.text(middle, 0.02, word, rotation=90, ha="center", va="bottom", fontsize=7, color=COLOURS[method])
    printed = [(place, row["proposed_as_printed"]) for place, row in enumerate(rows) if row["proposed_as_printed"]]
    if printed:
        panel.scatter(*zip(*printed, strict=True), marker="_", s=600, color="black", label="proposed, as printed")
    panel.set_xticks(range(len(rows)), [f"{TITLES[row['dataset']]}\n{row['sigma']}" for row in rows], fontsize=8)
    panel.axhline(0, color="0.4", linewidth=0.8)
    panel.set(ylabel="rounds of FedAvg over the method's, less 1",
              title="Improvement over FedAvg (no score: half of the trials or more missed the target)")
    panel.legend(fontsize=8)
    return figure
