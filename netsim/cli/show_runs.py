"""Terminal output of runs, scenarios and allocations: progress bars and tables."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from netsim.base import units
from netsim.base.console import listing, screen
from netsim.base.pluralize import pluralize, times
from netsim.base.tolerances import MEETS_BOUND, SHOWN_SAVING_S

if TYPE_CHECKING:
    from netsim.allocation.compare import Result
    from netsim.learning.favor_agent import EpisodeProgress as Episode
    from netsim.run import Run
    from netsim.scenario import Scenario
    from netsim.server.server import RunProgress

BARS = "▁▂▃▄▅▆▇█"
COMPUTE, UPLOAD = "█", "▒"
MOST_BARS = 30
SPARKS = 40
NUMBERS_WIDTH = 88   # of the columns beside the bars
LONGEST_NAME = 24    # of a device; the rest is cut
WIDE = 120           # where there is no terminal to fit
QUIET_S = 5.0        # without a terminal, an analysis of less time reports no progress
LINES = 20   # of progress where there is no terminal to redraw a bar on


@contextmanager
def progress_bar(name: str, kind: str = "auto") -> Iterator[Callable[[RunProgress], None]]:
    """Show a progress bar with round, simulated time, accuracy and energy; without a terminal, lines of text.

    With ``kind`` "json", write a JSON object per round to standard error, with "none" nothing.
    """
    if kind != "auto":
        yield _print_json if kind == "json" else (lambda at: None)
        return
    if not Console(stderr=True).is_terminal:
        printed = 0

        def line(at: RunProgress) -> None:
            nonlocal printed
            if at.round == 1 or at.share >= (printed + 1) / LINES:
                printed = int(at.share * LINES)
                print(f"round {at.round}/{at.rounds}  {describe(at)}", file=sys.stderr, flush=True)

        yield line
        return
    with _bar(name, TimeElapsedColumn()) as update:
        yield lambda at: update(total=at.rounds, completed=round(at.share * at.rounds), now=describe(at))


def _print_json(at: RunProgress) -> None:
    """Print the state of a run as one line of JSON; ``accuracy`` is null if the round was not evaluated."""
    state = {"round": at.round, "rounds": at.rounds, "accuracy": None, **at.metrics(), "target": at.target,
             "end_s": at.end_s}
    print(json.dumps(state), file=sys.stderr, flush=True)


@contextmanager
def episode_bar(episodes: int) -> Iterator[Callable[[Episode], None]]:
    """Show a progress bar of the episodes of an agent's training, with the last reward."""
    with _bar("episodes", TimeRemainingColumn(), episodes) as update:
        yield lambda at: update(
            completed=at.episode, now=f"{pluralize(at.steps, 'step')}, reward {at.total_reward:.2f}")


@contextmanager
def change_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar of replays; without a terminal, a line every few seconds of a long analysis."""
    if Console(stderr=True).is_terminal:
        with _bar("explain", TimeElapsedColumn()) as update:
            yield lambda what, done, total: update(completed=done, total=total, now=f"{what}, simulated with changes")
        return
    printed_at = time.monotonic()

    def line(what: str, done: int, total: int) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at > QUIET_S:
            printed_at = time.monotonic()
            print(f"explain: {what}, {done} of {total} simulated with changes", file=sys.stderr, flush=True)

    yield line


@contextmanager
def counting_bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    with _bar(name, TimeRemainingColumn(), total) as update:
        yield lambda done: update(completed=done, now="")


@contextmanager
def _bar(name: str, clock: ProgressColumn, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error; standard output is for the result."""
    with Bar(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
             TextColumn("{task.fields[now]}"), clock, console=Console(stderr=True)) as bar:
        yield partial(bar.update, bar.add_task(name, total=total, now="starting"))


def describe(at: RunProgress) -> str:
    until = "" if at.end_s is None else f" of {units.duration(at.end_s)}"
    parts = [f"{units.duration(at.time_s)}{until} simulated", units.format(at.energy_j, "energy")]
    if not math.isnan(at.accuracy):
        goal = f" of {at.target:.1%}" if at.target is not None else ""
        parts.append(f"accuracy {at.accuracy:.1%}{goal}")
    return "  ".join(parts)


LITTLE_OF_A_BATTERY = 1e-3


def of_a_battery(run: Run) -> str:
    """Return the largest share of a battery that jobs took, in words; nothing below 0.1 %, or on mains."""
    spent = dict(run.jobs.select("device", "energy_j").group_by("device").sum().iter_rows())
    charges = run.devices.select("device", "battery_j").iter_rows()
    most = max((spent.get(device, 0.0) / charge_j for device, charge_j in charges), default=0.0)
    return f" (at most {most:.1%} of a battery)" if most >= LITTLE_OF_A_BATTERY else ""


def print_summary(run: Run) -> None:
    summary = run.summary
    table = listing(run.title)
    _add_time_rows(table, run)
    table.add_row("energy", f"{units.format(summary['energy_j'], 'energy')}{of_a_battery(run)}")
    if summary["accuracy"] is not None:
        _add_accuracy_rows(table, run)
    if summary["dropped"]:
        table.add_row("dropped out", times(summary["dropped"]))
    if "app" in summary:
        _add_app_rows(table, run)
    whole = sum(summary["breakdown"].values()) or 1.0
    table.add_row("where the time went", ", ".join(
        f"{part} {seconds / whole:.1%}" for part, seconds in summary["breakdown"].items()))
    table.add_row("run directory", str(run.path))
    _print_with_warnings(table, run.scenario)


def _add_time_rows(table: Table, run: Run) -> None:
    from netsim.analysis.breakdown import long_first_round

    rounds, simulated_s = run.summary["rounds"], run.summary["simulated_s"]
    table.add_row("rounds", str(rounds))
    if early := ended_early(run):
        table.add_row("ended early", early)
    table.add_row("simulated time", units.duration(simulated_s))
    if rounds:
        table.add_row("  a round", f"{units.duration(simulated_s / rounds)} on average")
    if said := long_first_round(run):
        table.add_row("  the first round", said)


def _add_accuracy_rows(table: Table, run: Run) -> None:
    summary = run.summary
    accuracy = run.rounds["accuracy"].drop_nulls().to_list()
    reached = "" if not run.scenario.learning.target_accuracy else (
        "  target reached" if summary["target_reached"] else "  target not reached")
    origin = f"  ({summary['accuracy_of']})" if summary.get("accuracy_of") else ""
    table.add_row("accuracy", f"{summary['accuracy']:.2%}{reached}{origin}")
    table.add_row("  over the rounds", f"{accuracy[0]:.1%} {sparkline(accuracy)} {accuracy[-1]:.1%}")


# by the outcome of most jobs of a Flower app: what to change
REMEDIES = {
    "infeasible": "raise population.NAME.budget or cell.bandwidth, or use the scenario phones",
    "over budget": "raise population.NAME.budget", "battery empty": "raise population.NAME.battery",
    "deadline": "raise rounds.deadline, or the timeout of the app", "went off": "change population.NAME.availability",
    "crashed": "change population.NAME.crash", "lost": "raise loss.max_attempts of the population",
    "app failed": "see the error of the ClientApp",
}


def _add_app_rows(table: Table, run: Run) -> None:
    """Add how computing was modelled, and the reason if it explains most jobs that failed."""
    table.add_row("computing", run.summary["compute"])
    outcomes = Counter(str(outcome).partition(":")[0] for outcome in run.jobs["outcome"].to_list())
    reason, count = next(iter(outcomes.most_common(1)), ("arrived", 0))
    if reason in REMEDIES and 2 * count > outcomes.total():
        table.add_row("most jobs failed", f"{count} of {outcomes.total()}: {reason}; {REMEDIES[reason]}")


def _print_with_warnings(table: Table, scenario: Scenario) -> None:
    from netsim.validation import warnings_of

    console = Console(markup=False)
    console.print(table)
    for warning in warnings_of(scenario):
        console.print(f"warning: {warning}", highlight=False, soft_wrap=True)


def ended_early(run: Run) -> str | None:
    """Return the reason if a run ended before its rounds, time or target; else None."""
    summary, end = run.summary, run.scenario.end
    if "app" in summary:                    # how many rounds there are was the app's to say
        return str(summary["ended"]) if summary["ended"] else None
    early = (summary["rounds"] < end.rounds and not summary["target_reached"]
             and (end.time is None or summary["simulated_s"] < end.time))
    return "no device can take part any more" if early else None


def untrained(summary: Mapping[str, Any]) -> str | None:
    """Return the reason if no client of a Flower app has trained, or answered where the app never trains."""
    messages, failures = summary["messages"], summary["failures"]
    counts = {kind: count for kind, count in messages.items() if kind == "train" or "train" not in messages}
    if any(count["answered"] for count in counts.values()) or not counts:
        return None
    sent = sum(count["sent"] for count in counts.values())
    why = next((f": {reason}" for reason in failures), "")
    return f"no client has {'trained' if 'train' in counts else 'answered'} ({pluralize(sent, 'message')}){why}"


def sparkline(values: list[float]) -> str:
    """Return a row of at most 40 bars, scaled from the smallest value to the largest."""
    if len(values) > SPARKS:
        values = [values[round(i * (len(values) - 1) / (SPARKS - 1))] for i in range(SPARKS)]
    low, high = min(values), max(values)
    return "".join(BARS[round((value - low) / ((high - low) or 1.0) * (len(BARS) - 1))] for value in values)


def print_names(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    Console(markup=False).print(table)


def print_scenario(scenario: Scenario) -> None:
    from netsim.scenario.devices import IN_TIME

    table = listing(f"{scenario.name}: valid")
    for kind in scenario.population:
        listed = Counter((kind.devices and kind.devices.kind) or ())
        of = f": {', '.join(f'{count} {name}' for name, count in listed.items())}" if listed else ""
        table.add_row(kind.name, f"{pluralize(kind.size, 'device')}{of}")
    table.add_row("cell", f"{units.format(scenario.cell.bandwidth, 'frequency')} within "
                          f"{units.format(scenario.cell.radius, 'length')}")
    for kind in scenario.population:
        changing = [name for name in IN_TIME if getattr(kind, name) is not None]
        if changing:
            table.add_row(f"{kind.name} in time", ", ".join(changing))
    if (downlink := scenario.cell.downlink) is not None or scenario.downlink_measured:
        table.add_row("downlink", "with measured rates" if downlink is None or scenario.downlink_measured else
                      f"{downlink.mode}, with {units.format(downlink.power or 0.0, 'power')}")
    table.add_row("selection", f"{scenario.selection.method}, cohort of {scenario.selection.cohort}")
    table.add_row("allocation", scenario.allocation.method)
    if scenario.trains:
        table.add_row("learning", f"{scenario.learning.model_name} on {scenario.learning.dataset}")
    _print_with_warnings(table, scenario)


def print_comparison(results: list[Result], *, every: bool) -> None:
    """Print allocation methods side by side, the times of each device, and the savings of small changes."""
    console = screen(WIDE)
    table = Table("method", "round time", "total energy", "over budget", "band used", "solved in")
    for result in results:
        table.add_row(*_compared(result))
    console.print(table)
    for result in results:
        if result.reason:
            console.print(f"{result.method} has no plan: {result.reason}", soft_wrap=True)
    planned = [(result, result.plan) for result in results if result.plan]
    for result, plan in planned:
        if result.bound_s:
            above = max(0.0, plan.round_s / result.bound_s - 1.0)
            said = "so short is this one" if above < MEETS_BOUND else f"this one is {100 * above:.2g} % longer"
            console.print(f"{result.method}: no schedule that keeps the budgets takes less than "
                          f"{units.format(result.bound_s, 'time')}; {said}")
    for result, _ in planned:
        print_device_bars(result, max(plan.round_s for _, plan in planned), console, every=every)
    for result, _ in planned:
        if result.savings:
            print_savings(result, console)


def _compared(result: Result) -> list[str | Text]:
    plan, solved = result.plan, units.format(result.solve_s, "time", 3)
    if plan is None:
        return [result.method, "no plan", "", "", "", solved]
    over = int(plan.over_budget.sum())
    return [result.method, units.format(plan.round_s, "time"), units.format(plan.energy_j, "energy"),
            Text(f"{over} of {len(plan)}", style="red" if over else ""),
            units.format(plan.bandwidth_used_hz, "frequency"), solved]


def print_device_bars(result: Result, longest_s: float, console: Console, *, every: bool) -> None:
    """Print a bar per device, compute then upload, on the same scale for all methods."""
    plan = result.plan
    assert plan is not None
    width = max(10, min(40, console.width - NUMBERS_WIDTH))
    table = Table(title=f"{result.method}: {COMPUTE} compute, {UPLOAD} upload", title_justify="left", box=None,
                  pad_edge=False)
    table.add_column("device", justify="right", max_width=LONGEST_NAME, no_wrap=True)
    table.add_column("", min_width=width)
    for column in ("compute", "upload", "band", "CPU", "energy", "budget"):
        table.add_column(column, justify="right")
    shown = result.names if every else result.names[:MOST_BARS]
    for i, name in enumerate(shown):
        computing = round(plan.compute_s[i] / longest_s * width)
        start, total = round(plan.start_s[i] / longest_s * width), round(plan.end_s[i] / longest_s * width)
        table.add_row(
            name, COMPUTE * computing + " " * (start - computing) + UPLOAD * (total - start),
            units.format(plan.compute_s[i], "time"), units.format(plan.upload_s[i], "time"),
            units.format(plan.bandwidth_hz[i], "frequency"), units.format(plan.cpu_hz[i], "frequency", 3),
            units.format(plan.device_energy_j[i], "energy"),
            "none" if math.isinf(result.problem.budget_j[i]) else units.format(result.problem.budget_j[i], "energy"))
    console.print(table)
    if len(shown) < len(result.devices):
        more = pluralize(len(result.devices) - len(shown), "more device")
        console.print(f"and {more}; all with --all")


def print_savings(result: Result, console: Console) -> None:
    said = "; ".join(f"{saving.change} saves {units.format(saving.seconds, 'time')}" for saving in result.savings
                     if saving.seconds > SHOWN_SAVING_S)
    console.print(f"{result.method}: {said or 'a little more of anything would not help'}")
