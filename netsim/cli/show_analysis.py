"""What the analysis commands show in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
from rich.table import Table

from netsim.base import units
from netsim.base.counts import counted, times
from netsim.base.screen import listing, screen
from netsim.base.tolerances import SHOWN_S
from netsim.run import ALL_PARTS

if TYPE_CHECKING:
    from rich.console import Console

    from netsim.analysis.breakdown import Breakdown
    from netsim.analysis.critical_path import CriticalPath
    from netsim.analysis.explain import Binding, Explanation
    from netsim.run import Run

MOST_LINES = 20      # of a table in a terminal; --all shows the rest
MOST_CHANGES = 10    # of those that were tried
MOST_LOST = 8        # drop-outs that are named
WORDS = {"cpu_max": "CPU", "budget": "budget", "battery": "battery", "power": "power",
         "bandwidth": "band"}


def print_breakdown(run: Run, breakdown: Breakdown, *, every: bool) -> None:
    """A run in three tables: as a whole, its rounds, its devices."""
    totals = breakdown.totals
    whole = totals["makespan_s"] or 1.0
    table = listing(run.title)
    table.add_row("simulated time", f"{seconds(totals['makespan_s'])} in {counted(int(totals['rounds']), 'round')}")
    for part in breakdown.parts:
        table.add_row(f"  {part}", f"{totals[f'{part}_s'] / whole:6.1%}  of a device's time, on average")
    table.add_row("band in use", f"{totals['band_used']:6.1%}  of {units.format(breakdown.bandwidth_hz, 'frequency')}; "
                  f"nobody on the air {totals['silent_s'] / whole:.1%} of the time")
    spent = ", ".join(f"{part} {joules(totals[f'{part}_j'])}" for part in breakdown.parts if part != "wait")
    table.add_row("energy", f"{joules(totals['energy_j'])}: {spent}")
    if "idle_j" in totals:
        table.add_row("at rest", f"{joules(totals['idle_j'])} drawn from batteries; {joules(totals['harvest_j'])} came "
                      f"in, of which {joules(totals['spilt_j'])} were lost when they were full")
    if totals["dropped"]:
        table.add_row("dropped out", times(int(totals["dropped"])))
    screen().print(table)
    print_rounds(breakdown.rounds, breakdown.parts, every=every)
    if len(breakdown.kinds) > 1:
        print_kinds(breakdown.kinds, breakdown.parts)
    print_devices(breakdown.devices, breakdown.parts, every=every)


def print_kinds(kinds: pl.DataFrame, parts: Sequence[str]) -> None:
    """A line a kind of devices, with what a device of it did in a round on average."""
    table = numbers("kinds: means over the devices in a round", "name", "devices", "jobs", "was last", "dropped",
                    *parts, "energy")
    for row in kinds.iter_rows(named=True):
        jobs = row["rounds"] or 1
        table.add_row(
            row["kind"], f"{row['devices']:,}", f"{row['rounds']:,}", str(row["straggler_rounds"]), str(row["dropped"]),
            *(seconds(row[f"{part}_s"] / jobs) for part in parts), joules(row["energy_j"] / jobs))
    screen().print(table)


def print_rounds(rounds: pl.DataFrame, parts: Sequence[str], *, every: bool) -> None:
    """A line a round: evenly picked ones of a long run."""
    from netsim.report.figures import sample

    shown = rounds if every else sample(rounds, MOST_LINES)
    table = numbers(f"rounds{picked(shown, rounds)}", "round", "devices", "time", *parts, "band in use", "energy")
    table.add_column("straggler")
    for row in shown.iter_rows(named=True):
        last = row["straggler_name"] or (f"{row['last_together']} together" if row["last_together"] else "")
        ahead = f" by {seconds(row['margin_s'])}" if row["straggler_name"] and row["margin_s"] else ""
        table.add_row(
            str(row["round"]), f"{row['arrived']} of {row['cohort']}" if row["dropped"] else str(row["cohort"]),
            seconds(row["round_s"]), *(seconds(row[f"{part}_s"]) for part in parts), f"{row['band_used']:.1%}",
            joules(row["energy_j"]), last + ahead)
    screen().print(table)


def print_devices(devices: pl.DataFrame, parts: Sequence[str], *, every: bool) -> None:
    """A line a device, those that held up most rounds first, then those that worked longest."""
    took_part = devices.filter((pl.col("rounds") > 0) | (pl.col("dropped") > 0)).with_columns(
        worked=pl.col("compute_s") + pl.col("upload_s"))
    shown = first(took_part.sort(["straggler_rounds", "worked"], descending=True), MOST_LINES, every=every)
    table = numbers(f"devices{picked(shown, took_part)}", "name", "rounds", "was last", "dropped", *parts, "compute J",
                    "upload J", "budget used")
    for row in shown.iter_rows(named=True):
        table.add_row(
            row["name"], str(row["rounds"]), f"{row['straggler_rounds']} ({row['straggler_share']:.0%})",
            str(row["dropped"]), *(seconds(row[f"{part}_s"]) for part in parts), joules(row["compute_j"]),
            joules(row["upload_j"]), budget_used(row["most_j"], row["budget_j"]))
    screen().print(table)


def print_shares(shares: pl.DataFrame, title: str, *, every: bool) -> None:
    """The devices of a round, or the rounds of a device."""
    shown = first(shares, 5 * MOST_LINES, every=every)
    parts = [part for part in ALL_PARTS if f"{part}_s" in shares.columns]
    table = numbers(f"{title}{picked(shown, shares)}", "round", "device", *parts, "round time", "compute J", "upload J",
                    "budget used")
    table.add_column("outcome")
    for row in shown.iter_rows(named=True):
        table.add_row(
            str(row["round"]), row["name"], *(seconds(row[f"{part}_s"]) for part in parts), seconds(row["round_s"]),
            joules(row["compute_j"]), joules(row["upload_j"]), budget_used(row["energy_j"], row["budget_j"]),
            row["outcome"])
    screen().print(table)


def print_critical_path(run: Run, path: CriticalPath, *, every: bool) -> None:
    """What set a run's length, and what would shorten it."""
    console = screen()
    number = path.steps["round"][0]
    part = f"all of round {number}" if run.in_rounds else f"what round {number} waited for"
    whole = "the whole simulated time" if path.length_s == run.rounds["t1"][-1] - run.rounds["t0"][0] else part
    console.print(f"critical path: {seconds(path.length_s)}, {whole}, in {counted(path.steps.height, 'step')}")
    for sentence in path.advice():
        console.print(sentence)
    shown = first(path.causes, MOST_LINES, every=every)
    table = numbers(f"on the path{picked(shown, path.causes)}", "device", "part", "rounds", "time", "of the run",
                    "saves, same plan")
    for row in shown.iter_rows(named=True):
        table.add_row(
            row["device_name"], row["part"], f"{row['rounds']} ({row['share_of_rounds']:.0%})", seconds(row["seconds"]),
            f"{row['share_of_time']:.1%}", seconds(row["gain_s"]))
    console.print(table)
    shown = first(path.slack, MOST_LINES, every=every)
    table = numbers(f"slack: how much slower a device could be{picked(shown, path.slack)}", "device", "rounds",
                    "on the path", "least", "mean")
    for row in shown.iter_rows(named=True):
        table.add_row(row["name"], str(row["rounds"]), str(row["critical_rounds"]), seconds(row["least_s"]),
                      seconds(row["mean_s"]))
    console.print(table)


def print_explanation(run: Run, found: Explanation, *, every: bool) -> None:
    """A round, and the run where it was asked for as a whole: what held it up, and what would help."""
    console = screen()
    slowest = ", the slowest," if found.whole else ""
    console.print(f"{run.title}: round {found.round}{slowest} took {seconds(found.round_s, 4)}.")
    print_best(found, console)
    print_bindings(found, console)
    if found.relaxed != 1.0:
        console.print(f"All budgets had to be raised to {found.relaxed:.4g} times what they are.")
    print_drop_outs(found, console, every=every)
    for sentence in found.differs:
        console.print(sentence)
    print_what_ifs(f"round {found.round} with one thing changed", found, console, every=every)
    if found.whole:
        whole = f"{counted(run.last_round, 'round')}, {seconds(found.whole.round_s, 4)}"
        print_what_ifs(f"the whole run, {whole}, with one thing changed", found.whole, console, every=every)


def print_best(found: Explanation, console: Console) -> None:
    """The change that helps most, in a sentence."""
    best = found.best
    if best is None:
        console.print("None of the changes that were tried would make it shorter.")
    else:
        console.print(f"What would help most: {best.change}. It saves {seconds(best.saves_s, 4)} "
                      f"({best.saves_s / found.round_s:.1%}).")


def print_bindings(found: Explanation, console: Console) -> None:
    """The limits that hold the round up, with what the next per cent of each saves."""
    named = [held(each) for each in found.binding if each.next_s is not None]
    deadline = next((each for each in found.binding if each.limit == "deadline"), None)
    more = len(found.binding) - len(named) - (deadline is not None)
    if named:
        console.print(f"What holds it up: {'; '.join(named)}{f'; and {more} more' if more else ''}.")
    if deadline is not None:
        console.print("The deadline binds: " + ("the round ends on it." if deadline.price_s_per_unit else
                                                "who would make it longer is left out."))


def held(binding: Binding) -> str:
    """``laptop 12's CPU (1 % more saves 1.9 ms)``."""
    whose = "the " if binding.device is None else f"{binding.name}'s "
    return f"{whose}{WORDS[binding.limit]} (1 % more saves {units.format(binding.next_s or 0.0, 'time', 3)})"


def print_drop_outs(found: Explanation, console: Console, *, every: bool) -> None:
    """Who did not arrive, and what would have kept them."""
    named = found.dropped if every else found.dropped[:MOST_LOST]
    for lost in named:
        kept = f"; it would have arrived with {', or '.join(lost.kept_by)}" if lost.kept_by else ""
        console.print(f"{lost.name} did not arrive: {lost.reason}{kept}.")
    if len(named) < len(found.dropped):
        console.print(f"{len(found.dropped) - len(named)} more did not arrive; all with --all.")


def print_what_ifs(title: str, found: Explanation, console: Console, *, every: bool) -> None:
    """A line a change, the largest saving first."""
    shown = found.what_if if every else found.what_if[:MOST_CHANGES]
    table = Table("change", title=title, title_justify="left")
    for column in ("takes", "saves", "of it"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in shown:
        share = each.saves_s / found.round_s if found.round_s else 0.0
        table.add_row(each.change, seconds(each.round_s, 4), signed(each.saves_s), f"{share:.1%}")
    if len(shown) < len(found.what_if):
        table.caption = f"{len(shown)} of {len(found.what_if)} changes; all with --all"
    console.print(table)


def first(rows: pl.DataFrame, most: int, *, every: bool) -> pl.DataFrame:
    """The rows that are shown."""
    return rows if every else rows.head(most)


def picked(shown: pl.DataFrame, there: pl.DataFrame) -> str:
    """What a table's title says of rows that are left out."""
    return "" if shown.height == there.height else f" ({shown.height} of {there.height:,}; all with --all)"


def numbers(title: str, *columns: str) -> Table:
    """A table whose columns are numbers but for the names."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("name", "device", "part") else "right", no_wrap=True)
    return table


def seconds(value: float, digits: int = 3) -> str:
    """A time for people; what is only rounding shows as 0."""
    return units.format(value if value > SHOWN_S else 0.0, "time", digits)


def joules(value: float) -> str:
    """An energy for people."""
    return units.format(value, "energy", 3)


def budget_used(spent_j: float, budget_j: float | None) -> str:
    """A round's energy as a share of the budget."""
    return f"{spent_j / budget_j:.1%}" if budget_j else ""


def signed(value: float) -> str:
    """A saving; a change that makes it longer has a minus."""
    return seconds(value, 4) if value > -SHOWN_S else f"-{seconds(-value, 4)}"
