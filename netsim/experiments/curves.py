"""Fig. 10, 11 and 12 and Table III: how fast federated learning gets to its target, by selection method."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netsim.arrays import Floats
from netsim.experiments import trials
from netsim.experiments.cells import Record
from netsim.experiments.plots import COLOURS, NAMES, canvas
from netsim.experiments.report import Finding, Report
from netsim.experiments.reproduce import Context
from netsim.experiments.trials import METHODS, SIGMAS, TITLES, Trial, rounds_to_target

Records = Mapping[Trial, Record]
PANELS = "a row a dataset, a column a sigma"
PRINTED_SCORES = {       # Table III: the proposed method, and Favor as cited there
    "mnist": {"0.5": (0.228, 0.150), "0.8": (0.157, 0.955), "H": (0.388, 0.0)},
    "fashion-mnist": {"0.5": (0.810, 0.181), "0.8": (0.232, 0.209), "H": (1.204, 0.187)},
    "cifar10": {"0.5": (1.133, 0.736), "0.8": (0.486, 0.426), "H": (0.641, 0.340)},
}
FAVOR_ROUNDS = {         # Favor's own table: rounds to the target of FedAvg and of Favor
    "mnist": {"0.5": (59, 59), "0.8": (221, 113), "H": (313, 272)},
    "fashion-mnist": {"0.5": (19, 16), "0.8": (52, 43), "H": (1340, 1134)},
    "cifar10": {"0.5": (67, 50), "0.8": (87, 61), "H": (198, 114)},
}


def settings(context: Context, records: Records) -> str:
    """How the trials were run, and how many there are."""
    splits = sum(record["split"] == "published" for record in records.values())
    caps = sorted({data.cap for data in trials.datasets(context).values()})
    batches = ", ".join(f"{TITLES[name]} {data.batch}" for name, data in trials.datasets(context).items())
    return (f"{len(records)} runs ({splits} with the published split, the others with splits of their own). {trials.LOCAL_EPOCHS} "
            f"local epochs, learning rate {trials.LEARNING_RATE} without momentum, batches of {batches}, plain mean of models, "
            f"whole test set after every round; a run ends at its target accuracy or after {caps[0]} rounds. All methods of a "
            "trial share devices, split and first model. `cluster-round-robin` is a control: from each cluster the device "
            "that waited longest, without looking at weights.")


def by_panel(records: Records) -> dict[tuple[str, str], dict[str, list[Record]]]:
    """(dataset, sigma) -> method -> the records of its trials."""
    found: dict[tuple[str, str], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for trial, record in sorted(records.items(), key=lambda item: item[0].number):
        found[trial.dataset, trial.sigma][trial.method].append(record)
    return found


def accuracy_table(records: Sequence[Record]) -> Floats:
    """Accuracy by trial and round; a run that has ended keeps its last value."""
    curves = [record["by_round"]["accuracy"] for record in records]
    longest = max(map(len, curves))
    return np.array([curve + curve[-1:] * (longest - len(curve)) for curve in curves], dtype=float)


def draw_accuracy(panel: Any, records: Sequence[Record], method: str, label: str = "") -> None:
    """Mean as a line; the range from the worst trial to the best as a shade."""
    table = accuracy_table(records) * 100
    rounds = np.arange(1, table.shape[1] + 1)
    panel.plot(rounds, table.mean(axis=0), color=COLOURS[method], linewidth=1.4,
               label=f"{label or NAMES[method]} ({len(records)})")
    if len(records) > 1:
        panel.fill_between(rounds, table.min(axis=0), table.max(axis=0), color=COLOURS[method], alpha=0.15, linewidth=0)


def curve_rows(records: Records) -> list[dict[str, Any]]:
    return [{"dataset": trial.dataset, "sigma": trial.sigma, "method": trial.method, "cohort": trial.cohort,
             "trial": trial.number, "round": round_, "accuracy": accuracy}
            for trial, record in records.items()
            for round_, accuracy in enumerate(record["by_round"]["accuracy"], start=1)]


def round_rows(records: Records) -> list[dict[str, Any]]:
    return [{"dataset": trial.dataset, "sigma": trial.sigma, "method": trial.method, "cohort": trial.cohort,
             "trial": trial.number, "split": record["split"], "rounds": record["rounds"],
             "target_reached": record["target_reached"], "best_accuracy": max(record["by_round"]["accuracy"]),
             "simulated_s": record["simulated_s"], "energy_j": record["energy_j"]}
            for trial, record in records.items()]


def computing(records: Records) -> float:
    """Seconds of computing behind the records."""
    return float(sum(record["seconds"] for record in records.values()))


def nothing_yet(paper: str) -> Finding:
    return Finding(paper, "no finished run yet", "not measured")


def tally(pairs: Sequence[tuple[float, float]]) -> str:
    """How often the first is below the second: ``5 of 8 (1 equal)``."""
    equal = sum(a == b for a, b in pairs)
    return f"{sum(a < b for a, b in pairs)} of {len(pairs)}" + (f" ({equal} equal)" if equal else "")


def paired_rounds(records: Records, first: str, second: str) -> list[tuple[float, float]]:
    """Rounds to the target of two methods in each trial in which at least one got there; inf where one did not."""
    rounds = {trial: rounds_to_target(record) or math.inf for trial, record in records.items()}
    pairs = []
    for trial, mine in rounds.items():
        other = rounds.get(Trial(trial.dataset, trial.sigma, second, trial.cohort, trial.number))
        if trial.method == first and other is not None and min(mine, other) < math.inf:
            pairs.append((mine, other))
    return pairs


def mean_accuracy(record: Record, rounds: int) -> float:
    """Mean accuracy over the first rounds: the area under the curve, so more is faster."""
    return float(accuracy_table([record])[0, :rounds].mean())


def paired_areas(records: Records, first: str, second: str) -> list[tuple[float, float]]:
    """The same for the mean accuracy over the rounds that both played; negated, so that smaller is faster."""
    pairs = []
    for trial, record in records.items():
        other = records.get(Trial(trial.dataset, trial.sigma, second, trial.cohort, trial.number))
        if trial.method == first and other:
            rounds = min(record["rounds"], other["rounds"])
            pairs.append((-mean_accuracy(record, rounds), -mean_accuracy(other, rounds)))
    return pairs


def mostly(pairs: Sequence[tuple[float, float]]) -> bool:
    """Whether the first is ahead in more than chance would easily give: one-sided sign test at 5 %."""
    from scipy.stats import binomtest

    decided = [a < b for a, b in pairs if a != b]
    return bool(decided) and binomtest(sum(decided), len(decided), alternative="greater").pvalue < 0.05


def ahead(paper: str, records: Records, first: str, second: str, pairs: Sequence[tuple[float, float]], what: str) -> Finding:
    """A claim that one method is ahead of another, by trials that both played."""
    if not pairs:
        return nothing_yet(paper)
    behind = [(b, a) for a, b in pairs]
    measured = f"{first} {what} {second} in {tally(pairs)} paired runs"
    if mostly(pairs):
        return Finding(paper, measured, "agrees")
    if mostly(behind):
        return Finding(paper, measured, "differs")
    return Finding(paper, measured, "open", "chance could give this (sign test at 5 %)")


def fig10(context: Context) -> Report:
    """Accuracy over rounds."""
    records = trials.run_trials(trials.compared(context), context, "fig10")
    grid = by_panel(records)
    rows = len(trials.datasets(context))
    figure, panels = canvas(13, 1.2 + 3.2 * rows, rows, 3)
    for row, column, dataset, sigma in trials.panels(context):
        panel = panels[row, column]
        target = 100 * trials.datasets(context)[dataset].targets[sigma]
        panel.axhline(target, color="0.5", linewidth=0.8, linestyle="--")
        for method in METHODS:
            if grid[dataset, sigma][method]:
                draw_accuracy(panel, grid[dataset, sigma][method], method)
        panel.set(title=f"{TITLES[dataset]}, sigma {sigma}: target {target:g} %", xlabel="round")
        if grid[dataset, sigma]:
            panel.legend(fontsize=7, loc="lower right")
            panel.set_ylim(bottom=max(0, panel.get_ylim()[1] - 30) if not context.quick else 0)
        else:
            panel.text(0.5, 0.5, "not measured yet", transform=panel.transAxes, ha="center", color="0.5")
    for panel in panels[:, 0]:
        panel.set_ylabel("test accuracy (%)")
    return Report(
        findings=[
            ahead("K-means selection is mostly above FedAvg", records, "kmeans", "fedavg",
                  paired_areas(records, "kmeans", "fedavg"), "has the higher mean accuracy than"),
            ahead("divergence selection rises fastest of all: faster than FedAvg", records, "divergence", "fedavg",
                  paired_areas(records, "divergence", "fedavg"), "has the higher mean accuracy than"),
            ahead("and faster than K-means selection", records, "divergence", "kmeans",
                  paired_areas(records, "divergence", "kmeans"), "has the higher mean accuracy than"),
            ahead("(control) divergence knows more than who waited longest", records, "divergence", "cluster-round-robin",
                  paired_areas(records, "divergence", "cluster-round-robin"), "has the higher mean accuracy than"),
            ahead("divergence selection rises faster than ICAS", records, "divergence", "icas",
                  paired_areas(records, "divergence", "icas"), "has the higher mean accuracy than"),
        ],
        how=f"Lines are means over trials, shades from the lowest to the highest, the number of trials in brackets; {PANELS}. "
            f"Mean accuracy is over the rounds that both runs played. {settings(context, records)}",
        rows=curve_rows(records), summary=_counts(grid), figure=figure, seconds=computing(records))


def _counts(grid: Mapping[tuple[str, str], Mapping[str, list[Record]]]) -> dict[str, Any]:
    """Trials, and the median of rounds to the target, by dataset, sigma and method."""
    return {f"{dataset}, {sigma}": {method: _rounds(found) for method, found in methods.items()}
            for (dataset, sigma), methods in sorted(grid.items())}


def _rounds(records: Sequence[Record]) -> dict[str, Any]:
    reached = [rounds_to_target(record) for record in records]
    there = [rounds for rounds in reached if rounds is not None]
    middle = float(np.median([math.inf if rounds is None else rounds for rounds in reached]))
    return {"trials": len(records), "reached": len(there), "median_rounds": middle if middle < math.inf else None,
            "rounds": reached}


def fig11(context: Context) -> Report:
    """Rounds to the target accuracy, as box plots."""
    records = trials.run_trials(trials.compared(context), context, "fig11")
    grid = by_panel(records)
    rows = len(trials.datasets(context))
    figure, panels = canvas(13, 1.2 + 3.0 * rows, rows, 3)
    for row, column, dataset, sigma in trials.panels(context):
        panel, found = panels[row, column], grid[dataset, sigma]
        cap = trials.datasets(context)[dataset].cap
        for place, method in enumerate(METHODS):
            reached = [rounds_to_target(record) for record in found[method]]
            there = [rounds for rounds in reached if rounds is not None]
            if len(there) > 2:
                box = panel.boxplot([there], positions=[place], widths=0.6, patch_artist=True, showfliers=False,
                                    medianprops={"color": "black"})
                box["boxes"][0].set(facecolor=COLOURS[method], alpha=0.4)
            panel.scatter([place] * len(there), there, color=COLOURS[method], s=18, zorder=3)
            missed = len(reached) - len(there)
            if missed:
                panel.annotate(f"{missed} not\nreached", (place, cap), ha="center", va="top", fontsize=7, color="0.3")
        panel.set_xticks(range(len(METHODS)), ["divergence", "FedAvg", "K-means", "round\nrobin", "ICAS"], fontsize=8)
        panel.set(title=f"{TITLES[dataset]}, sigma {sigma}", ylim=(0, cap * 1.05), xlim=(-0.6, len(METHODS) - 0.4))
        if not found:
            panel.text(0.5, 0.5, "not measured yet", transform=panel.transAxes, ha="center", color="0.5")
    for panel in panels[:, 0]:
        panel.set_ylabel("rounds to the target")
    icas = [rounds_to_target(record) for record in grid["cifar10", "0.8"]["icas"]]
    icas_best = [max(record["by_round"]["accuracy"]) for record in grid["cifar10", "0.8"]["icas"]]
    findings = [
        ahead("divergence selection needs fewer rounds (medians) than FedAvg", records, "divergence", "fedavg",
              paired_rounds(records, "divergence", "fedavg"), "needs fewer rounds than"),
        ahead("and than K-means selection", records, "divergence", "kmeans",
              paired_rounds(records, "divergence", "kmeans"), "needs fewer rounds than"),
        ahead("(control) and than each cluster's devices in turn", records, "divergence", "cluster-round-robin",
              paired_rounds(records, "divergence", "cluster-round-robin"), "needs fewer rounds than"),
        ahead("and than ICAS", records, "divergence", "icas", paired_rounds(records, "divergence", "icas"),
              "needs fewer rounds than"),
    ]
    if icas:
        findings.append(Finding(
            "ICAS never gets to 55 % on CIFAR-10 at sigma 0.8: it ends at about 53 %",
            f"reached in {sum(rounds is not None for rounds in icas)} of {len(icas)} runs; best accuracy "
            f"{min(icas_best):.1%} to {max(icas_best):.1%}",
            "agrees" if not any(icas) else "differs"))
    return Report(
        findings=findings,
        how=f"Points are trials, boxes where there are three or more; {PANELS}. Where a run did not reach its target, the "
            f"other of a pair counts as faster; pairs that both did not are left out. {settings(context, records)}",
        rows=round_rows(records), summary=_counts(grid), figure=figure, seconds=computing(records))


def score(grid: Mapping[tuple[str, str], Mapping[str, list[Record]]], dataset: str, sigma: str, method: str) -> float | None:
    """Median rounds of FedAvg over the method's, less 1; None where one of the medians was not reached."""
    medians = [_rounds(grid[dataset, sigma][name])["median_rounds"] if grid[dataset, sigma][name] else None
               for name in ("fedavg", method)]
    return None if None in medians else float(medians[0] / medians[1] - 1)


def table3(context: Context) -> Report:
    """Improvement over FedAvg."""
    records = trials.run_trials(trials.compared(context), context, "table3")
    grid = by_panel(records)
    others = [method for method in METHODS if method != "fedavg"]
    rows: list[dict[str, Any]] = []
    for dataset in trials.datasets(context):
        for sigma in sorted(SIGMAS):
            printed, cited = PRINTED_SCORES.get(dataset, {}).get(sigma, (None, None))
            base, own = FAVOR_ROUNDS.get(dataset, {}).get(sigma, (None, None))
            found = grid[dataset, sigma]
            rows.append({
                "dataset": dataset, "sigma": sigma, "trials": min(len(found[m]) for m in ("fedavg", "divergence")),
                "printed": printed, "favor_as_cited": cited,
                "favor_by_its_own_table": None if base is None or own is None else base / own - 1,
                **{method: score(grid, dataset, sigma, method) for method in others}})
    measured = [row for row in rows if row["divergence"] is not None]
    figure, panels = canvas(11, 4.2)
    panel = panels[0, 0]
    for place, method in enumerate(others):
        panel.bar(np.arange(len(rows)) + 0.2 * (place - 1.5), [row[method] or 0 for row in rows], width=0.19,
                  color=COLOURS[method], label=NAMES[method])
    panel.scatter(range(len(rows)), [row["printed"] if row["printed"] is not None else math.nan for row in rows], marker="_",
                  s=600, color="black", label="proposed, as printed")
    panel.set_xticks(range(len(rows)), [f"{TITLES[row['dataset']]}\n{row['sigma']}" for row in rows], fontsize=8)
    panel.axhline(0, color="0.4", linewidth=0.8)
    panel.set(ylabel="rounds of FedAvg over the method's, less 1", title="Improvement over FedAvg (no bar: not measured)")
    panel.legend(fontsize=8)
    words = "; ".join(f"{TITLES[row['dataset']]} {row['sigma']} {row['divergence']:+.2f} ({row['trials']} trials)" for row in measured)
    paper = "divergence selection improves on FedAvg by 0.16 (MNIST, 0.8) to 1.20 (FashionMNIST, H)"
    better = [row["divergence"] > 0 for row in measured]
    finding = Finding(paper, words, "agrees" if all(better) and np.mean([row["divergence"] for row in measured]) > 0.15
                      else "agrees in part" if np.mean(better) > 0.5 else "differs",
                      "medians over few trials") if measured else nothing_yet(paper)
    swapped = [sigma for sigma in ("0.5", "H") if not context.quick
               and abs(PRINTED_SCORES["mnist"][sigma][1] - (FAVOR_ROUNDS["mnist"][sigma][0] / FAVOR_ROUNDS["mnist"][sigma][1] - 1)) > 0.01]
    return Report(
        findings=[
            finding,
            Finding("Favor's improvements, cited for sigma 0.5 and H",
                    "by Favor's own table MNIST 0.5 is 0.00 and H 0.15: the two rows are exchanged in the citation"
                    if swapped else "as in Favor's own table", "differs" if swapped else "agrees",
                    "Favor itself was not run: its agents need training of many runs each"),
            Finding("the score is the method's rounds over FedAvg's, less 1", "with that, fewer rounds would score below 0; the "
                    "printed values are FedAvg's rounds over the method's, less 1, and so are these", "differs",
                    "the printed formula is inverted"),
        ],
        how=f"Medians of rounds to the target over the trials. {settings(context, records)}",
        rows=rows, summary=_counts(grid), figure=figure, seconds=computing(records))


def fig12(context: Context) -> Report:
    """Divergence selection with thirty devices against RRA."""
    records = trials.run_trials(trials.with_rra(context), context, "fig12")
    columns = len(trials.datasets(context))
    figure, panels = canvas(4.4 * columns, 4, 1, columns)
    pairs = []
    for panel, dataset in zip(panels.flat, trials.datasets(context), strict=True):
        for method in ("divergence", "rra-as-run"):
            found = [record for trial, record in records.items() if (trial.dataset, trial.method) == (dataset, method)]
            if found:
                size = np.mean([np.mean(record["by_round"]["arrived"][1:]) for record in found])
                draw_accuracy(panel, found, method, f"{NAMES[method]}, {size:.0f} devices a round")
        panel.set(title=f"{TITLES[dataset]}, sigma 0.8", xlabel="round")
        panel.legend(fontsize=8, loc="lower right")
    panels[0, 0].set_ylabel("test accuracy (%)")
    for trial, record in records.items():
        size = 12 if context.quick else 30
        rival = records.get(Trial(trial.dataset, trial.sigma, "divergence", size, trial.number))
        if trial.method == "rra-as-run" and rival:
            mine, other = rounds_to_target(rival) or math.inf, rounds_to_target(record) or math.inf
            if min(mine, other) < math.inf:
                pairs.append((trial.dataset, mine, other))
    sizes = [np.mean(record["by_round"]["arrived"][1:]) for trial, record in records.items() if trial.method == "rra-as-run"]
    paper = "divergence selection with 30 devices gets to the target in fewer rounds than RRA with 45 on average"
    words = "; ".join(f"{TITLES[dataset]} {mine:g} against {other:g} rounds" for dataset, mine, other in pairs)
    fewer = [mine < other for _, mine, other in pairs]
    return Report(
        findings=[
            Finding(paper, words, "agrees" if all(fewer) else "agrees in part" if any(fewer) else "differs",
                    f"{len(pairs)} paired runs") if pairs else nothing_yet(paper),
            Finding("RRA chooses 45 devices on average", f"{np.mean(sizes):.0f} of {next(iter(trials.datasets(context).values())).devices} "
                    f"({len(sizes)} runs)", "agrees" if context.quick or 35 < np.mean(sizes) < 55 else "differs",
                    "RRA as the comparison seems to have run it: two turns of its iteration from a random start")
            if sizes else nothing_yet("RRA chooses 45 devices on average"),
        ],
        how=f"Lines are means over trials. {settings(context, records)}",
        rows=curve_rows(records), summary={"rounds": [list(pair) for pair in pairs if pair[1] < math.inf > pair[2]]},
        figure=figure, seconds=computing(records))
