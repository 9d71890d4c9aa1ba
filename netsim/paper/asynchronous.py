"""Beyond the paper: waiting or not. Simulated time, energy and updates to a target accuracy, by server."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netsim.paper import trials, waiting
from netsim.paper.learned import computing, mean_and_range, needs_less, processors
from netsim.paper.plots import canvas
from netsim.paper.report import Finding, Report
from netsim.paper.reproduce import Context
from netsim.paper.trials import LEARNING_RATE, TITLES
from netsim.paper.waiting import METHODS, SPLITS, SPREADS, Course, Records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

World = tuple[str, str, str]                        # dataset, split, spread of CPU speeds
Table = Mapping[World, Mapping[str, Mapping[int, Course]]]       # world -> method -> trial
GAUGES = {"simulated_s": "time (s)", "energy_j": "energy (J)", "updates": "updates"}
CELLS = {"paper": "the paper's cell", "wide": "the cell with widely spread CPU speeds"}
COLOURS = {"synchronous sao": "#0072b2", "synchronous tdma": "#009e73", "first-k": "#cc79a7", "fedbuff": "#d55e00",
           "fedasync": "#e69f00"}
BASE = "synchronous sao"          # what the ratios of the tables are over


def asynchronous(context: Context) -> Report | None:
    """What waiting costs, and what not waiting does."""
    planned = waiting.planned(context)
    records = trials.run_trials(planned, context, "asynchronous")
    if not records:
        return None
    table = _table(waiting.courses(records, context))
    return Report(
        findings=_findings(table), how=_how(table, records, planned, context), rows=list(_rows(table)),
        summary={spread: _summary(table, spread) for spread in SPREADS}, figure=_drawn(table, context),
        seconds=computing(records))


def _table(courses: Mapping[tuple[waiting.ServerTrial, str], Course]) -> Table:
    table: dict[World, dict[str, dict[int, Course]]] = defaultdict(lambda: defaultdict(dict))
    for (training, method), course in courses.items():
        table[training.dataset, training.split, training.spread][method][training.number] = course
    return table


def needed(course: Course, gauge: str) -> float:
    """What it took to get to the target; inf where that was not reached."""
    return float(getattr(course, gauge)[-1]) if course.reached else math.inf


def pairs(table: Table, spread: str, first: str, second: str, gauge: str) -> list[tuple[float, float]]:
    """What two methods needed in the trials that both have played in a cell, on one kind of processor."""
    both = [(course, methods[second][number]) for (_, _, where), methods in table.items() if where == spread
            for number, course in methods.get(first, {}).items() if number in methods.get(second, {})]
    return [(needed(one, gauge), needed(other, gauge)) for one, other in both if one.processor == other.processor]


def _findings(table: Table) -> list[Finding]:
    """Each server that does not wait against the better of those that do; the other one is in the tables."""
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
    """A row a trial and method."""
    for (dataset, split, spread), methods in table.items():
        for method in METHODS:
            for number, course in sorted(methods.get(method, {}).items()):
                yield {"dataset": dataset, "partition": split, "cpu_spread": spread, "method": method, "trial": number,
                       "target_reached": course.reached, "best_accuracy": float(course.accuracy.max()),
                       **{gauge: getattr(course, gauge)[-1].item() for gauge in GAUGES}}


def _summary(table: Table, spread: str) -> dict[str, Any]:
    """By dataset, split and method: trials, how many of them got there, and means and intervals over those that did."""
    return {f"{dataset}, {split}": {method: _numbers(methods[method]) for method in METHODS if methods.get(method)}
            for (dataset, split, where), methods in table.items() if where == spread}


def _numbers(courses: Mapping[int, Course]) -> dict[str, Any]:
    reached = [course for course in courses.values() if course.reached]
    numbers: dict[str, Any] = {"trials": len(courses), "reached": len(reached)}
    for gauge in GAUGES:
        values = [needed(course, gauge) for course in reached]
        mean, low, high = mean_and_range(values)
        numbers[gauge] = {"values": values, **({"mean": mean, "low": low, "high": high} if len(values) > 1 else {})}
    return numbers


def _how(table: Table, records: Records, planned: Sequence[waiting.ServerTrial], context: Context) -> str:
    lines = [f"**{len(records)} of {len(planned)} planned trainings are done.** " * (len(records) < len(planned))
             + "Means over trials, in brackets the 95 % confidence interval (Student's t; none for a single trial, and "
             "wide for few). The last two columns are over synchronous sao, trial by trial: geometric means."]
    for spread, cell in CELLS.items():
        lines += ["", f"**In {cell}:**", "",
                  "| data | server | trials | time (s) | energy (J) | updates | time, times | energy, times |",
                  f"|{'---|' * 8}"]
        for (dataset, split, where), methods in sorted(table.items()):
            if where == spread:
                lines += [_line(f"{TITLES[dataset]} {split}", method, methods, planned)
                          for method in METHODS if methods.get(method)]
    return "\n".join([*lines, "", _settings(records, context)])


def _line(data: str, method: str, methods: Mapping[str, Mapping[int, Course]], planned: Sequence[waiting.ServerTrial]
          ) -> str:
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
    return f"| {data} | {method} | {count}{f', {missed} missed the target' if missed else ''} | {' | '.join(cells)} |"


def _interval(values: Sequence[float], scale: Any = float) -> str:
    """``4.41 (4.02 to 4.83)``: the mean and its interval, or what there is of them."""
    if len(values) < 2:
        return f"{scale(values[0]):.3g}" if values else ""
    mean, low, high = (scale(value) for value in mean_and_range(values))
    return f"{mean:.3g} ({low:.3g} to {high:.3g})"


def _settings(records: Records, context: Context) -> str:
    """How the trials were run."""
    data = trials.datasets(context)
    targets = ", ".join(f"{TITLES[name]} {waiting.target(data[name]):.1%}" for name in waiting.datasets(context))
    first = data[waiting.datasets(context)[0]]
    ten, more, ratio = waiting.COHORT, waiting.MORE, waiting.RATIO
    return (
        f"**Learning**: as in fig10 ({waiting.LOCAL_EPOCHS} local epochs, learning rate {LEARNING_RATE}, batches of "
        f"{first.batch}), from a first round of {ten} devices and not of all; targets are those of the paper's hardest "
        f"split: {targets}. The whole test set after every {ten} updates; a run ends when it meets the target, or "
        f"after {waiting.most_updates(first)} updates. Splits: iid, and 0.8 of a device's samples of one class. All "
        "servers of a trial share devices, split and first model, and choose at random who starts.\n\n"
        f"**Servers**: {ten} devices at work at a time. Synchronous: rounds of {ten}, allocated by `sao` or by `tdma`. "
        f"fedbuff: a model of every {ten} updates, rate 1, s(staleness) = (1 + staleness)^-0.5, divided by their "
        f"number. fedasync: mixing 0.6, the same s, no proximal term. first-k: the first {ten} of {more}. These three "
        "plan each device by itself: an equal part of the band, the CPU as fast as the budget allows; at each moment "
        "those who send share the band equally. Energy counts what was spent on work that came too late, or that the "
        "end of the run cut off.\n\n"
        "**Cells**: the paper's, in which the most cycles a sample are 3 times the least (uniform, 1e4 to 3e4). In the "
        f"other one they are {ratio:g} times the least, a spread ten times as large: log-normal around the same "
        f"median, 2e4, with sigma 1, and draws beyond 2e4 / sqrt({ratio:g}) and 2e4 sqrt({ratio:g}) moved there. "
        "Budgets, places and channels are the same.\n\n"
        "One training stands for both allocations of synchronous rounds, in both cells: the same devices take part in "
        "the same rounds, and nobody drops out, which is checked; times and energies are played for each. "
        f"Processors (trainings): {processors(records)}; on another one, updates differ by some.")


def _drawn(table: Table, context: Context) -> Figure:
    """Accuracy against time and against energy, a row a cell and gauge, a column a dataset and split."""
    columns = [(dataset, split) for dataset in waiting.datasets(context) for split in SPLITS]
    rows = [(spread, gauge) for spread in SPREADS for gauge in ("simulated_s", "energy_j")]
    figure, panels = canvas(3.6 * len(columns) + 1, 2.9 * len(rows), len(rows), len(columns))
    for row, (spread, gauge) in enumerate(rows):
        for column, (dataset, split) in enumerate(columns):
            panel = panels[row, column]
            _panel(panel, table.get((dataset, split, spread), {}), gauge)
            goal = 100 * waiting.target(trials.datasets(context)[dataset])
            panel.axhline(goal, color="0.5", linewidth=0.8, linestyle="--")
            panel.set(xlabel=f"{GAUGES[gauge]}, {spread} cell", xscale="log",
                      ylim=(goal - 1.5 * (100 - goal), goal + 0.3 * (100 - goal)))     # the last way to it
            panel.xaxis.set_minor_formatter("")
            panel.xaxis.set_major_formatter("{x:g}")
            if row == 0:
                panel.set_title(f"{TITLES[dataset]}, {split}: target {goal:g} %", fontsize=10)
        panels[row, 0].set_ylabel("test accuracy (%)")
    for method, colour in COLOURS.items():
        panels[0, 0].plot([], [], color=colour, label=method)
    panels[0, 0].legend(fontsize=7, loc="lower right")
    return figure


def _panel(panel: Axes, methods: Mapping[str, Mapping[int, Course]], gauge: str) -> None:
    """A thin line a trial, and a dot where it meets the target."""
    for method in METHODS:
        for course in methods.get(method, {}).values():
            at = getattr(course, gauge)
            panel.plot(at, 100 * course.accuracy, color=COLOURS[method], linewidth=0.9, alpha=0.7)
            if course.reached:
                panel.plot(at[-1], 100 * course.accuracy[-1], "o", color=COLOURS[method], markersize=5)
    if not methods:
        panel.text(0.5, 0.6, "not measured yet", transform=panel.transAxes, ha="center", color="0.5")
