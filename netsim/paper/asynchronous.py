"""Beyond the paper: synchronous and asynchronous servers. Simulated time, energy and updates to a target accuracy.

A trial is a seed: all servers of a trial have the same devices, partition and initial model. With random selection and
no dropouts, event times do not depend on learning, and synchronous learning does not depend on event times: one
training serves all synchronous methods, whose times are simulated without learning. ``replays`` does so, and checks
that the cohorts are equal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netsim.base.figures import Figure
from netsim.base.tolerances import REPLAYED
from netsim.base.types import Floats, Ints
from netsim.paper import trials
from netsim.paper.accuracy_common import computing, mean_and_range, needs_less, processors
from netsim.paper.plots import canvas, not_measured
from netsim.paper.report import Finding, Report, markdown
from netsim.paper.reproduce import Context
from netsim.paper.trials import LEARNING_RATE, LOCAL_EPOCHS, TITLES, Data
from netsim.scenario import Scenario
from netsim.sweep.points import Record, SweepPoint

DATASETS = ("fashion-mnist", "mnist")
SPLITS = {"iid": {"kind": "iid"}, "0.8": {"kind": "majority", "sigma": 0.8}}
COHORT = 10           # updates per model, and concurrent devices
MORE = 13             # devices that first-k starts; it aggregates the first COHORT
TRIALS = 3
TARGET, SAMPLES = "H", "0.8"      # sigma of the target accuracy, the paper's hardest, and of D_n
CAP = 100             # most models of COHORT updates each
RATIO = 30.0          # most over least cycles per sample with a wide spread; 3 in the paper's cell
SPREADS: Mapping[str, Mapping[str, Any]] = {       # C_n in cycles per sample, before scaling to the trial's L and D
    "paper": trials.CYCLES_A_SAMPLE,
    "wide": {"dist": "lognormal", "median": 2e4, "sigma": 1.0, "min": 2e4 / RATIO**0.5, "max": 2e4 * RATIO**0.5},
}
BY_ITSELF = {"allocation.method": "equal", "allocation.sharing": "equal"}    # each as fast as its budget allows
STALENESS = {"kind": "polynomial", "a": 0.5}
SERVERS: Mapping[str, Mapping[str, Any]] = {
    "synchronous": {"allocation.method": "sao"},
    "fedbuff": {**BY_ITSELF, "server": {"kind": "fedbuff", "buffer": COHORT, "rate": 1.0, "staleness": STALENESS}},
    "fedasync": {**BY_ITSELF, "server": {"kind": "fedasync", "mixing": 0.6, "staleness": STALENESS},
                 "learning.evaluation.every": COHORT},       # one model per update: evaluate every COHORT updates
    "first-k": {**BY_ITSELF, "server": {"kind": "first-k", "buffer": COHORT}, "selection.cohort": MORE},
}
SYNCHRONOUS = {"synchronous sao": "sao", "synchronous tdma": "tdma"}       # methods of the report, and allocations
METHODS = (*SYNCHRONOUS, "first-k", "fedbuff", "fedasync")
World = tuple[str, str, str]                        # dataset, split, spread of CPU speeds
Table = Mapping[World, Mapping[str, Mapping[int, "Course"]]]       # world -> method -> trial
GAUGES = {"simulated_s": "time (s)", "energy_j": "energy (J)", "updates": "updates"}
CELLS = {"paper": "the paper's cell", "wide": "the cell with widely spread CPU speeds"}
ABOUT_CELLS = (
    "**Cells**: the paper's, in which the most cycles a sample are 3 times the least (uniform, 1e4 to 3e4). In the "
    f"other one they are {RATIO:g} times the least, a spread ten times as large: log-normal around the same median, "
    f"2e4, with sigma 1, and draws beyond 2e4 / sqrt({RATIO:g}) and 2e4 sqrt({RATIO:g}) moved there. Budgets, places "
    "and channels are the same.")
COLOURS = {"synchronous sao": "#0072b2", "synchronous tdma": "#009e73", "first-k": "#cc79a7", "fedbuff": "#d55e00",
           "fedasync": "#e69f00"}
BASE = "synchronous sao"          # reference of the ratios in the tables


@dataclass(frozen=True)
class ServerTrial:
    """One run: a server with a dataset, partition and spread of CPU speeds."""

    dataset: str
    split: str
    spread: str        # of CPU speeds
    server: str
    number: int        # from 1; also the seed

    def point(self, context: Context) -> SweepPoint:
        data = trials.datasets(context)[self.dataset]
        name = f"{self.spread}-{self.server}-{self.number}"
        scenario = self.scenario(context)
        note = {
            "dataset": self.dataset, "partition": self.split, "cpu_spread": self.spread, "server": self.server,
            **trials.learned_as(data, SAMPLES, TARGET), "trial": self.number, "most_updates": most_updates(data),
            "settings": dict(SERVERS[self.server]),
        }
        folder = context.folder("asynchronous") / "cells" / self.dataset / self.split
        key = f"{self.dataset}-{self.split}-{name}-{scenario.digest[:12]}"
        return SweepPoint(scenario, self.number, folder / f"{name}.json", context.runs / key, note=note)

    def scenario(self, context: Context, changes: Mapping[str, Any] | None = None) -> Scenario:
        data = trials.datasets(context)[self.dataset]
        return trials.in_the_paper(self.dataset, context, data.samples[SAMPLES], SPREADS[self.spread], {
            "name": f"{self.server}-{self.dataset}-{self.split}", "learning.partition": SPLITS[self.split],
            "learning.target_accuracy": data.targets[TARGET], "population.phone.samples": data.samples[SAMPLES],
            "selection.method": "fedavg", "selection.cohort": COHORT, "rounds.first": "cohort",
            "end.rounds": most_updates(data) // (1 if self.server == "fedasync" else COHORT),
            **SERVERS[self.server], **(changes or {})})


Records = Mapping[ServerTrial, Record]


def datasets(context: Context) -> Sequence[str]:
    """Return the datasets: two of the paper's, or digits for a quick reproduction."""
    return list(trials.QUICK) if context.quick else DATASETS


def most_updates(data: Data) -> int:
    """Return the number of updates after which a run ends without the target."""
    return COHORT * min(CAP, data.cap)


def planned(context: Context) -> list[ServerTrial]:
    """Return all runs, ordered by trial, so that an interrupted reproduction has all servers of complete trials."""
    return [ServerTrial(dataset, split, spread, server, number)
            for number in range(1, 1 + context.count(TRIALS)) for split in SPLITS
            for dataset in datasets(context) for spread in SPREADS for server in SERVERS
            if server != "synchronous" or spread == "paper"]


@dataclass(frozen=True, eq=False)
class Course:
    """Accuracy at each evaluation of a run, with simulated time, energy and updates until then."""

    accuracy: Floats
    simulated_s: Floats
    energy_j: Floats
    updates: Ints
    reached: bool
    processor: str = ""


def courses(records: Records, context: Context) -> Table:
    """Return the course of each run by world, method and trial; a synchronous training serves several methods."""
    table: dict[World, dict[str, dict[int, Course]]] = defaultdict(lambda: defaultdict(dict))
    for training, record in records.items():
        played = (replays(training, record, context) if training.server == "synchronous"
                  else {(training.spread, training.server): record["by_round"]})
        for (spread, method), columns in played.items():
            table[training.dataset, training.split, spread][method][training.number] = _course(record, columns)
    return table


def _course(record: Record, columns: Mapping[str, Any]) -> Course:
    accuracy = np.array(record["by_round"]["accuracy"], dtype=float)
    tested = np.isfinite(accuracy)
    simulated_s, energy_j, updates = (
        np.cumsum(column)[tested]
        for column in (columns["round_s"], columns["energy_j"], record["by_round"]["arrived"]))
    return Course(accuracy[tested], simulated_s, energy_j, updates, bool(record["target_reached"]),
                  record.get("processor", ""))


def replays(training: ServerTrial, record: Record, context: Context) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return seconds and joules of a synchronous training's rounds in each cell, allocated by `sao` and by `tdma`."""
    from netsim.simulation import simulate

    found, cohorts = {}, set()
    for spread in SPREADS:
        for method, allocation in SYNCHRONOUS.items():
            scenario = replace(training, spread=spread).scenario(
                context, {"allocation.method": allocation, "end.rounds": int(record["rounds"])})
            run = simulate(scenario, seed=training.number, learning=False)
            found[spread, method] = {name: run.rounds[name].to_list() for name in ("round_s", "energy_j")}
            cohorts.add(tuple(run.jobs.select("round", "version", "device", "outcome").sort("round", "device").rows()))
    [jobs] = cohorts                                       # equal in all replays
    assert {outcome for *_, outcome in jobs} == {"arrived"}
    trained = found[training.spread, "synchronous sao"]    # one replay must equal the training run
    assert np.allclose(trained["round_s"], record["by_round"]["round_s"], rtol=REPLAYED)
    return found


def asynchronous(context: Context) -> Report | None:
    """Report the time, energy and updates to the target by server."""
    plan = planned(context)
    records = trials.run_trials(plan, context, "asynchronous")
    if not records:
        return None
    table = courses(records, context)
    return Report(
        findings=_findings(table), how=_how(table, records, plan, context), rows=list(_rows(table)),
        summary={spread: {f"{dataset}, {split}": {
            method: _numbers(methods[method]) for method in METHODS if methods.get(method)}
            for (dataset, split, where), methods in table.items() if where == spread} for spread in SPREADS},
        figure=_drawn(table, context), seconds=computing(records))


def needed(course: Course, gauge: str) -> float:
    """Return the time, energy or updates to the target; inf if it was not reached."""
    return float(getattr(course, gauge)[-1]) if course.reached else math.inf


def pairs(table: Table, spread: str, first: str, second: str, gauge: str) -> list[tuple[float, float]]:
    """Return the values of two methods in the trials that both have run in a cell, on one kind of processor."""
    both = [(course, methods[second][number]) for (_, _, where), methods in table.items() if where == spread
            for number, course in methods.get(first, {}).items() if number in methods.get(second, {})]
    return [(needed(one, gauge), needed(other, gauge)) for one, other in both if one.processor == other.processor]


def _findings(table: Table) -> list[Finding]:
    """Compare each asynchronous server with the better synchronous one; the tables have both."""
    best, found = "synchronous tdma", []
    for spread, cell in CELLS.items():
        for method in ("fedbuff", "fedasync", "first-k"):
            for gauge, what in (("simulated_s", "time"), ("energy_j", "energy")):
                found.append(needs_less(
                    f"in {cell} {method} gets to the target with less {what} than {best}",
                    pairs(table, spread, method, best, gauge), f"less {what}", f"times the {what}"))
    for spread, cell in CELLS.items():
        for method in ("fedbuff", "fedasync"):
            found.append(needs_less(
                f"in {cell} {method} needs more updates than rounds that wait",
                [(other, one) for one, other in pairs(table, spread, method, best, "updates")],
                "waiting needs fewer", "times as many"))
    return found


def _rows(table: Table) -> Iterator[dict[str, Any]]:
    for (dataset, split, spread), methods in table.items():
        for method in METHODS:
            for number, course in sorted(methods.get(method, {}).items()):
                yield {"dataset": dataset, "partition": split, "cpu_spread": spread, "method": method, "trial": number,
                       "target_reached": course.reached, "best_accuracy": float(course.accuracy.max()),
                       **{gauge: getattr(course, gauge)[-1].item() for gauge in GAUGES}}


def _numbers(courses: Mapping[int, Course]) -> dict[str, Any]:
    """Return the number of trials, those at the target, and means and intervals over these."""
    reached = [course for course in courses.values() if course.reached]
    numbers: dict[str, Any] = {"trials": len(courses), "reached": len(reached)}
    for gauge in GAUGES:
        values = [needed(course, gauge) for course in reached]
        mean, low, high = mean_and_range(values)
        numbers[gauge] = {"values": values, **({"mean": mean, "low": low, "high": high} if len(values) > 1 else {})}
    return numbers


def _how(table: Table, records: Records, planned: Sequence[ServerTrial], context: Context) -> str:
    lines = [f"**{len(records)} of {len(planned)} planned trainings are done.** " * (len(records) < len(planned))
             + "Means over trials, in brackets the 95 % confidence interval (Student's t; none for a single trial, and "
             "wide for few). The last two columns are over synchronous sao, trial by trial: geometric means."]
    for spread, cell in CELLS.items():
        lines += ["", f"**In {cell}:**", "", *markdown(
            ("data", "server", "trials", "time (s)", "energy (J)", "updates", "time, times", "energy, times"),
            [_line(f"{TITLES[dataset]} {split}", method, methods, planned)
             for (dataset, split, where), methods in sorted(table.items()) if where == spread
             for method in METHODS if methods.get(method)])]
    return "\n".join([*lines, "", _settings(records, context)])


def _line(data: str, method: str, methods: Mapping[str, Mapping[int, Course]], planned: Sequence[ServerTrial]
          ) -> list[str]:
    courses = methods[method]
    most = max(training.number for training in planned)
    count = f"{len(courses)}" if len(courses) == most else f"{len(courses)} of {most}"
    missed = sum(not course.reached for course in courses.values())
    cells = [_interval([needed(course, gauge) for course in courses.values() if course.reached]) for gauge in GAUGES]
    for gauge in ("simulated_s", "energy_j"):
        both = [(needed(course, gauge), needed(methods[BASE][number], gauge))
                for number, course in courses.items() if number in methods.get(BASE, {})]
        logs = [math.log(one / other) for one, other in both if max(one, other) < math.inf]
        cells.append("1" if method == BASE else _interval(logs, math.exp))
    return [data, method, f"{count}, {missed} missed the target" if missed else count, *cells]


def _interval(values: Sequence[float], scale: Any = float) -> str:
    """Format the mean and its interval, if known: ``4.41 (4.02 to 4.83)``."""
    if len(values) < 2:
        return f"{scale(values[0]):.3g}" if values else ""
    mean, low, high = (scale(value) for value in mean_and_range(values))
    return f"{mean:.3g} ({low:.3g} to {high:.3g})"


def _settings(records: Records, context: Context) -> str:
    data = trials.datasets(context)
    targets = ", ".join(f"{TITLES[name]} {data[name].targets[TARGET]:.1%}" for name in datasets(context))
    first = data[datasets(context)[0]]
    return (
        f"**Learning**: as in fig10 ({LOCAL_EPOCHS} local epochs, learning rate {LEARNING_RATE}, batches of "
        f"{first.batch}), from a first round of {COHORT} devices and not of all; targets are those of the paper's "
        f"hardest split: {targets}. The whole test set after every {COHORT} updates; a run ends when it meets the "
        f"target, or after {most_updates(first)} updates. Splits: iid, and 0.8 of a device's samples of one class. All "
        "servers of a trial share devices, split and first model, and choose at random who starts.\n\n"
        f"**Servers**: {COHORT} devices at work at a time. Synchronous: rounds of {COHORT}, allocated by `sao` or by "
        f"`tdma`. fedbuff: a model of every {COHORT} updates, rate 1, s(staleness) = (1 + staleness)^-0.5, divided by "
        f"their number. fedasync: mixing 0.6, the same s, no proximal term. first-k: the first {COHORT} of {MORE}. "
        "These three plan each device by itself: an equal part of the band, the CPU as fast as the budget allows; at "
        "each moment those who send share the band equally. Energy counts what was spent on work that came too late, "
        f"or that the end of the run cut off.\n\n{ABOUT_CELLS}\n\n"
        "One training stands for both allocations of synchronous rounds, in both cells: the same devices take part in "
        "the same rounds, and nobody drops out, which is checked; times and energies are played for each. "
        f"Processors (trainings): {processors(records)}; on another one, updates differ by some.")


def _drawn(table: Table, context: Context) -> Figure:
    """Draw accuracy against time and energy: a row per cell and quantity, a column per dataset and partition."""
    columns = [(dataset, split) for dataset in datasets(context) for split in SPLITS]
    rows = [(spread, gauge) for spread in SPREADS for gauge in ("simulated_s", "energy_j")]
    figure, panels = canvas(3.6 * len(columns) + 1, 2.9 * len(rows), len(rows), len(columns))
    for row, (spread, gauge) in enumerate(rows):
        for column, (dataset, split) in enumerate(columns):
            panel = panels[row, column]
            methods = table.get((dataset, split, spread), {})
            for method in METHODS:
                for course in methods.get(method, {}).values():
                    at = getattr(course, gauge)      # a thin line per trial, and a dot at the target
                    panel.plot(at, 100 * course.accuracy, color=COLOURS[method], linewidth=0.9, alpha=0.7)
                    if course.reached:
                        panel.plot(at[-1], 100 * course.accuracy[-1], "o", color=COLOURS[method], markersize=5)
            if not methods:
                not_measured(panel)
            goal = 100 * trials.datasets(context)[dataset].targets[TARGET]
            panel.axhline(goal, color="0.5", linewidth=0.8, linestyle="--")
            panel.set(xlabel=f"{GAUGES[gauge]}, {spread} cell", xscale="log",
                      ylim=(goal - 1.5 * (100 - goal), goal + 0.3 * (100 - goal)))     # the range near the target
            panel.xaxis.set_minor_formatter("")
            panel.xaxis.set_major_formatter("{x:g}")
            if row == 0:
                panel.set_title(f"{TITLES[dataset]}, {split}: target {goal:g} %", fontsize=10)
        panels[row, 0].set_ylabel("test accuracy (%)")
    for method, colour in COLOURS.items():
        panels[0, 0].plot([], [], color=colour, label=method)
    panels[0, 0].legend(fontsize=7, loc="lower right")
    return figure
