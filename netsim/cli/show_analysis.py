"""What the analysis commands show in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
from rich.table import Table

from netsim.base import units
from netsim.base.screen import screen
from netsim.trace.stored_run import ALL_PARTS

if TYPE_CHECKING:
    from netsim.analysis.breakdown import Breakdown
    from netsim.analysis.critical_path import CriticalPath
    from netsim.run import Run

MOST_LINES = 20     # of a table in a terminal; --json and --csv show all


def print_breakdown(run: Run, breakdown: Breakdown) -> None:
    """A run in three tables: as a whole, its rounds, its devices."""
    totals = breakdown.totals
    whole = totals["makespan_s"] or 1.0
    table = Table(title=run.title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    table.add_row("simulated time", f"{seconds(totals['makespan_s'])} in {totals['rounds']:,} rounds")
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
        table.add_row("dropped out", times(totals["dropped"]))
    screen().print(table)
    print_rounds(breakdown.rounds, breakdown.parts)
    if len(breakdown.kinds) > 1:
        print_kinds(breakdown.kinds, breakdown.parts)
    print_devices(breakdown.devices, breakdown.parts)


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


def print_rounds(rounds: pl.DataFrame, parts: Sequence[str]) -> None:
    """A line a round: evenly picked ones of a long run."""
    from netsim.report.figures import sample

    shown = sample(rounds, MOST_LINES)
    picked = "" if shown.height == rounds.height else f" ({shown.height} of {rounds.height:,}; all with --csv)"
    table = numbers(f"rounds{picked}", "round", "devices", "time", *parts, "band in use", "energy")
    table.add_column("straggler")
    for row in shown.iter_rows(named=True):
        last = row["straggler_name"] or (f"{row['last_together']} together" if row["last_together"] else "")
        ahead = f" by {seconds(row['margin_s'])}" if row["straggler_name"] and row["margin_s"] else ""
        table.add_row(
            str(row["round"]), f"{row['arrived']} of {row['cohort']}" if row["dropped"] else str(row["cohort"]),
            seconds(row["round_s"]), *(seconds(row[f"{part}_s"]) for part in parts), f"{row['band_used']:.1%}",
            joules(row["energy_j"]), last + ahead)
    screen().print(table)


def print_devices(devices: pl.DataFrame, parts: Sequence[str]) -> None:
    """A line a device, those that held up most rounds first, then those that worked longest."""
    took_part = devices.filter((pl.col("rounds") > 0) | (pl.col("dropped") > 0)).with_columns(
        worked=pl.col("compute_s") + pl.col("upload_s"))
    shown = took_part.sort(["straggler_rounds", "worked"], descending=True).head(MOST_LINES)
    picked = "" if shown.height == took_part.height else f" ({shown.height} of {took_part.height:,}; all with --csv)"
    table = numbers(f"devices{picked}", "name", "rounds", "was last", "dropped", *parts, "compute J", "upload J",
                    "budget used")
    for row in shown.iter_rows(named=True):
        table.add_row(
            row["name"], str(row["rounds"]), f"{row['straggler_rounds']} ({row['straggler_share']:.0%})",
            str(row["dropped"]), *(seconds(row[f"{part}_s"]) for part in parts), joules(row["compute_j"]),
            joules(row["upload_j"]), budget_used(row["most_j"], row["budget_j"]))
    screen().print(table)


def print_shares(shares: pl.DataFrame, title: str) -> None:
    """The devices of a round, or the rounds of a device."""
    shown = shares.head(5 * MOST_LINES)
    picked = "" if shown.height == shares.height else f" ({shown.height} of {shares.height:,}; all with --csv)"
    parts = [part for part in ALL_PARTS if f"{part}_s" in shares.columns]
    table = numbers(f"{title}{picked}", "round", "device", *parts, "round time", "compute J", "upload J", "budget used")
    table.add_column("outcome")
    for row in shown.iter_rows(named=True):
        table.add_row(
            str(row["round"]), row["name"], *(seconds(row[f"{part}_s"]) for part in parts), seconds(row["round_s"]),
            joules(row["compute_j"]), joules(row["upload_j"]), budget_used(row["energy_j"], row["budget_j"]),
            row["outcome"])
    screen().print(table)


def print_critical_path(run: Run, path: CriticalPath) -> None:
    """What set a run's length, and what would shorten it."""
    console = screen()
    number, rounds = path.steps["round"][0], path.steps["round"].n_unique()
    part = f"all of round {number}" if run.in_rounds else f"what round {number} waited for"
    whole = "the whole simulated time" if path.length_s == run.rounds["t1"][-1] - run.rounds["t0"][0] else part
    console.print(f"critical path: {seconds(path.length_s)}, {whole}, in {path.steps.height:,} steps")
    for sentence in path.advice():
        console.print(sentence)
    table = numbers("on the path", "device", "part", "rounds", "time", "of the run", "saves, same plan")
    for row in path.causes.head(MOST_LINES).iter_rows(named=True):
        table.add_row(
            row["device_name"], row["part"], f"{row['rounds']} ({row['share_of_rounds']:.0%})", seconds(row["seconds"]),
            f"{row['share_of_time']:.1%}", seconds(row["gain_s"]))
    console.print(table)
    table = numbers("slack: how much slower a device could be", "device", "rounds", "on the path", "least", "mean")
    for row in path.slack.head(MOST_LINES).iter_rows(named=True):
        table.add_row(row["name"], str(row["rounds"]), str(row["critical_rounds"]), seconds(row["least_s"]),
                      seconds(row["mean_s"]))
    if path.slack.height > MOST_LINES:
        table.caption = f"{MOST_LINES} of {path.slack.height:,} devices in {rounds:,} rounds; all with --json"
    console.print(table)


def times(count: float) -> str:
    """How often, in words."""
    return "once" if count == 1 else f"{count:,} times"


def numbers(title: str, *columns: str) -> Table:
    """A table whose columns are numbers but for the names."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("name", "device", "part") else "right", no_wrap=True)
    return table


def seconds(value: float) -> str:
    """A time for people; what is only rounding shows as 0."""
    return units.format(value if value > 1e-12 else 0.0, "time", 3)


def joules(value: float) -> str:
    """An energy for people."""
    return units.format(value, "energy", 3)


def budget_used(spent_j: float, budget_j: float | None) -> str:
    """A round's energy as a share of the budget."""
    return f"{spent_j / budget_j:.1%}" if budget_j else ""
