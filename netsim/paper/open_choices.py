"""Effect of the choices that the paper leaves open: upload size, L, first round, norm, stale models."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from netsim.allocation import Problem, allocate
from netsim.allocation.infeasibility import budget_scaling, largest_feasible
from netsim.allocation.planner import Planner
from netsim.base.pluralize import pluralize
from netsim.base.types import Floats
from netsim.executors.factory import place_for
from netsim.paper.accuracy_common import computing
from netsim.paper.plots import canvas, quartiles, spread
from netsim.paper.random_layouts import everybody, layouts, round_times, with_budget
from netsim.paper.report import Finding, Report, nothing_yet
from netsim.paper.reproduce import Context
from netsim.paper.trials import run_trials
from netsim.run import Run
from netsim.scenario import load_scenario
from netsim.sweep.points import Record, SweepPoint, write_record

BUDGETS = {"15 to 30 mJ": None, "30 mJ": 30.0, "40 mJ": 40.0}
LEARNING = {     # variants of one small learning scenario, all on the digits data
    "as the paper says (Euclidean norm)": {},
    "sum of absolute values (L1) instead": {"selection.norm": "l1"},
    "first round of a cohort only": {"rounds.first": "cohort"},
    "control: each cluster's devices in turn": {"selection.method": "cluster-round-robin"},
}


@dataclass(frozen=True)
class Variant:
    """A run on the digits data, with one variant of LEARNING."""

    place: int
    number: int      # of the trial; also the seed
    dataset: str = "digits"

    @property
    def name(self) -> str:
        return list(LEARNING)[self.place]

    def point(self, context: Context) -> SweepPoint:
        rounds = 12 if context.quick else 40
        scenario = load_scenario("paper", {
            "learning.dataset": self.dataset, "learning.model": "fashion-cnn", "learning.local_epochs": 5,
            "learning.batch_size": 10, "learning.aggregation": "mean", "learning.target_accuracy": 1.0,
            "population.phone.samples": 14, "rounds.infeasible_policy": "waves", "end.rounds": rounds,
            **LEARNING[self.name]})
        key = f"{self.place}-{self.number}"
        return SweepPoint(scenario, self.number, context.cells / "choices" / f"{key}.json",
                     context.runs / f"choices-{key}-{scenario.digest[:12]}",
                     note={"variant": self.name, "trial": self.number, "most_rounds": rounds})


def choices(context: Context) -> Report:
    """Report every open choice that netsim can vary, on the same layouts and seeds."""
    records = _learning(context)
    start = time.monotonic()
    problems = layouts(context)
    rows: list[dict[str, Any]] = []
    sizes = [_note(rows, "upload size", f"{name}, budgets {budget}", round_times(
        [with_budget(replace(problem, bits=np.full(len(problem), bits)), mj) for problem in problems], "sao"))
        for name, bits in (("448 kbit", 448e3), ("448 KB", 8 * 448e3)) for budget, mj in BUDGETS.items()]
    passes = [_note(rows, "passes", f"L = {count}, budgets 15 to 30 mJ", round_times(
        [replace(problem, cycles=problem.cycles * count / 10) for problem in problems], "sao"))
        for count in (5, 10, 20)]
    first = _vary_first_round(everybody(min(len(problems), 20)), rows)
    learned = _describe_learning(records, rows)
    return Report(
        findings=[
            Finding("z = 448 KB", "; ".join(sizes), "differs",
                    "with kilobytes the budgets allow no round; with kilobits the delays fit"),
            Finding("L is not printed", "; ".join(passes), "open",
                    "L C D counts, not L alone; 10 passes over 500 samples fit the delays"),
            Finding("all devices take part in the first round", "; ".join(first), "differs",
                    "the budgets do not allow it at once, so here they go in waves of ten"),
            learned,
        ],
        how=f"Upload size and L: {pluralize(len(problems), 'layout')} of the `paper` scenario. First round: the same "
            "cells with all hundred devices. Norm, stale models, first round of a cohort: 100 devices learn the digits "
            "data at sigma 0.8.",
        rows=rows, summary={"rows": rows}, figure=_draw(rows),
        seconds=time.monotonic() - start + computing(records))


def _note(rows: list[dict[str, Any]], choice: str, variant: str, seconds: Floats) -> str:
    there = seconds[np.isfinite(seconds)]
    rows.append({"choice": choice, "variant": variant, "layouts": len(seconds), "feasible": len(there),
                 "median_round_s": quartiles(seconds).get("median")})
    time = spread(seconds, "ms", 1e3, 0) if len(there) else "no round"
    return f"{variant}: feasible in {len(there)} of {len(seconds)}, {time}"


def _vary_first_round(problems: list[Problem], rows: list[dict[str, Any]]) -> list[str]:
    """Compare a first round of all devices at once, which may be infeasible, in waves, and with raised budgets."""
    words = [_note(rows, "first round", f"all hundred at once, {budget}",
                   round_times([with_budget(problem, mj) for problem in problems], "sao"))
             for budget, mj in BUDGETS.items()]
    planners = [(Planner(problem.subset, allocate, largest_feasible), np.arange(len(problem))) for problem in problems]
    waves = np.array([sum(wave.plan.round_s for wave in planner.in_waves(devices, 10).waves)
                      for planner, devices in planners])
    factors = np.array([budget_scaling(problem) for problem in problems])
    relaxed = np.array([planner.relaxed(devices, 10).waves[0].plan.round_s for planner, devices in planners])
    return [*words, _note(rows, "first round", "waves of ten, 15 to 30 mJ", waves),
            _note(rows, "first round", "raised budgets, from 15 to 30 mJ", relaxed)
            + f" (budgets times {spread(factors, digits=2)})"]


def _learning(context: Context) -> dict[Variant, Record]:
    """Return the records of all variants and seeds, with values from their traces; run missing ones first."""
    variants = [Variant(place, seed) for place in range(len(LEARNING)) for seed in range(1, 2 if context.quick else 6)]
    records = run_trials(variants, context, "choices", place_for(context.workers))      # their traces are read here
    for variant, record in records.items():
        if "waited_longest" not in record:
            point = variant.point(context)
            record["waited_longest"] = waited_longest(point)
            write_record(point.record, record)
    return records


def _describe_learning(records: dict[Variant, Record], rows: list[dict[str, Any]]) -> Finding:
    paper = "divergence is the Euclidean distance, over models of which most are stale"
    words = []
    for name in LEARNING:
        mine = [record for variant, record in records.items() if variant.name == name]
        if not mine:
            continue
        means = [float(np.mean(record["by_round"]["accuracy"])) for record in mine]
        longest = [record["waited_longest"] for record in mine]
        rows.append({"choice": "selection", "variant": name, "trials": len(mine),
                     "mean_accuracy": float(np.mean(means)), "lowest": min(means), "highest": max(means),
                     "waited_longest": float(np.mean(longest))})
        words.append(f"{name}: mean accuracy {np.mean(means):.1%} ({min(means):.1%} to {max(means):.1%}, {len(means)} "
                     f"trials), the pick had waited longest of its cluster in {np.mean(longest):.0%}")
    if not words:
        return nothing_yet(paper)
    return Finding(paper, "; ".join(words), "open", "a public implementation takes L1")


def waited_longest(point: SweepPoint) -> float:
    """Return the share of selected devices that had waited longest in their cluster.

    Rounds count from the third on, after every device has taken part once: before, there are no clusters.
    """
    run = Run(point.run)
    labels = np.full(len(run.devices), -1)
    for device, cluster in run.events.filter(pl.col("name") == "cluster").select("device", "value").iter_rows():
        labels[device] = int(cluster)
    last = np.zeros(len(labels), dtype=np.int64)
    right = total = 0
    uploads = run.spans.filter((pl.col("name") == "upload") & (pl.col("device") >= 0))
    for (k,), chosen in uploads.group_by("round", maintain_order=True):
        devices = chosen["device"].to_numpy()
        if int(k) > 2 and last.min() > 0:
            right += sum(last[device] == last[labels == labels[device]].min() for device in devices)
            total += len(devices)
        last[devices] = int(k)
    return right / total


def _draw(rows: list[dict[str, Any]]) -> Any:
    figure, panels = canvas(12, 5, 1, 2)
    left, right = panels[0]
    timed = [row for row in rows if "feasible" in row]
    left.barh(range(len(timed)), [1e3 * (row["median_round_s"] or 0) for row in timed], color="#0072b2")
    for place, row in enumerate(timed):
        end = 1e3 * (row["median_round_s"] or 0)
        left.annotate(f" feasible in {row['feasible']} of {row['layouts']}", (end, place), va="center", fontsize=8)
    left.set_yticks(range(len(timed)), [row["variant"] for row in timed], fontsize=8)
    left.invert_yaxis()
    left.set(xlabel="median delay of the round (ms)", title="Allocation")
    left.margins(x=0.45)
    learned = [row for row in rows if "trials" in row]
    middle = np.array([100 * row["mean_accuracy"] for row in learned])
    reach = [middle - [100 * row["lowest"] for row in learned], [100 * row["highest"] for row in learned] - middle]
    right.barh(range(len(learned)), middle, xerr=reach, color="#e69f00")
    right.set_yticks(range(len(learned)), [row["variant"].replace(" (", "\n(") for row in learned], fontsize=8)
    right.invert_yaxis()
    right.set(xlabel="mean accuracy over the rounds (%)", title="Learning, digits data")
    return figure
