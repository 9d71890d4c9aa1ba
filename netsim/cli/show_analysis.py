"""Terminal output of the analysis commands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console
from rich.table import Table

from netsim.analysis.breakdown import Breakdown, long_first_round
from netsim.analysis.device_names import device_names
from netsim.base import units
from netsim.base.console import listing, screen
from netsim.base.pluralize import pluralize, times
from netsim.base.tolerances import SHOWN_S
from netsim.run import ALL_PARTS, Run

if TYPE_CHECKING:
    from netsim.analysis.critical_path import CriticalPath
    from netsim.analysis.explain import Explanation

MOST_LINES = 20      # of a table in a terminal; --all shows the rest
MOST_CHANGES = 10    # what-ifs that are shown
FEW = 3              # further devices of a change that are named
MOST_LOST = 8        # drop-outs that are named
WORDS = {"cpu_max": "CPU", "budget": "budget", "battery": "battery", "power": "power", "bandwidth": "band"}
# A table's columns: the heading, and the name of a frame's column or a function from a row to text.
Columns = Mapping[str, str | Callable[[Mapping[str, Any]], str]]
NAMES = ("name", "device", "part")
SENTENCES = ("straggler", "outcome")


def print_breakdown(run: Run, breakdown: Breakdown, *, every: bool) -> None:
    """Print a run in three tables: totals, rounds, devices."""
    totals = breakdown.totals
    whole = totals["makespan_s"] or 1.0
    table = listing(run.title)
    table.add_row("simulated time", f"{seconds(totals['makespan_s'])} in {pluralize(int(totals['rounds']), 'round')}")
    for part in breakdown.parts:
        table.add_row(f"  {part}", f"{totals[f'{part}_s'] / whole:6.1%}  of a device's time, on average")
    table.add_row("band in use", f"{totals['band_used']:6.1%}  of {units.format(breakdown.bandwidth_hz, 'frequency')}; "
                  f"no device transmits {totals['silent_s'] / whole:.1%} of the time")
    spent = ", ".join(f"{part} {joules(totals[f'{part}_j'])}" for part in breakdown.parts if part != "wait")
    table.add_row("energy", f"{joules(totals['energy_j'])}: {spent}")
    if "idle_j" in totals:
        table.add_row("idle", f"{joules(totals['idle_j'])} drawn from batteries; {joules(totals['harvest_j'])} "
                      f"charged, of which {joules(totals['spilt_j'])} were lost to full batteries")
    powered = breakdown.devices.drop_nulls("battery_j").filter(pl.col("battery_j") > 0.0)
    if powered.height:
        left = powered.select("name", left=pl.col("left_j") / pl.col("battery_j")).sort("left")
        mean = math.fsum(left["left"]) / left.height
        table.add_row("batteries", f"{mean:6.1%}  left on average; least {left['left'][0]:.1%} ({left['name'][0]})")
    if totals["dropped"]:
        table.add_row("dropped out", times(int(totals["dropped"])))
    if said := long_first_round(run):
        table.add_row("first round", said)
    screen().print(table)
    parts = {part: f"{part}_s" for part in breakdown.parts}
    print_rounds(breakdown.rounds, parts, every=every)
    if len(breakdown.kinds) > 1:
        print_kinds(breakdown.kinds, parts)
    print_devices(breakdown.devices, parts, every=every)


def print_rounds(rounds: pl.DataFrame, parts: Mapping[str, str], *, every: bool) -> None:
    """Print a line per round; for a long run, a sample of evenly spread rounds."""
    from netsim.report.figures import sample

    def straggler(row: Mapping[str, Any]) -> str:
        if not row["straggler_name"]:
            return f"{row['last_together']} together" if row["last_together"] else ""
        return str(row["straggler_name"]) + (f" by {seconds(row['margin_s'])}" if row["margin_s"] else "")

    print_table("rounds", rounds, {
        "round": "round",
        "devices": lambda row: f"{row['arrived']} of {row['cohort']}" if row["dropped"] else str(row["cohort"]),
        "time": "round_s", **parts, "band in use": "band_used", "energy": "energy_j", "straggler": straggler,
    }, shown=rounds if every else sample(rounds, MOST_LINES))


def print_kinds(kinds: pl.DataFrame, parts: Mapping[str, str]) -> None:
    """Print a line per kind of devices, with means over its devices and rounds."""
    means = kinds.with_columns(pl.col(*parts.values(), "energy_j") / pl.max_horizontal("rounds", 1))
    print_table("kinds: means over the devices in a round", means, {
        "name": "kind", "devices": lambda row: f"{row['devices']:,}", "jobs": lambda row: f"{row['rounds']:,}",
        "was last": "straggler_rounds", "dropped": "dropped", **parts, "energy": "energy_j"})


def print_devices(devices: pl.DataFrame, parts: Mapping[str, str], *, every: bool) -> None:
    """Print a line per device: stragglers first, then by working time."""
    took_part = devices.filter((pl.col("rounds") > 0) | (pl.col("dropped") > 0))
    worked = pl.col("compute_s") + pl.col("upload_s")
    rows = took_part.sort(["straggler_rounds", worked], descending=True)
    print_table("devices", rows, {
        "name": "name", "rounds": "rounds",
        "was last": lambda row: f"{row['straggler_rounds']} ({row['straggler_share']:.0%})", "dropped": "dropped",
        **parts, "compute J": "compute_j", "upload J": "upload_j",
        "budget used": lambda row: budget_used(row["most_j"], row["budget_j"]),
        **({"battery left": lambda row: f"{row['left_j'] / row['battery_j']:.1%}" if row["battery_j"] else "mains"}
           if devices["battery_j"].drop_nulls().len() else {}),
    }, shown=rows if every else rows.head(MOST_LINES))


def print_shares(shares: pl.DataFrame, title: str, *, every: bool) -> None:
    """Print the devices of a round, or the rounds of a device."""
    parts = {part: f"{part}_s" for part in ALL_PARTS if f"{part}_s" in shares.columns}
    print_table(title, shares, {
        "round": "round", "device": "name", **parts,
        "round time": "round_s", "compute J": "compute_j", "upload J": "upload_j",
        "budget used": lambda row: budget_used(row["energy_j"], row["budget_j"]), "outcome": "outcome",
    }, shown=shares if every else shares.head(5 * MOST_LINES))


def print_critical_path(run: Run, path: CriticalPath, *, every: bool) -> None:
    console = screen()
    number = path.steps["round"][0]
    part = f"all of round {number}" if run.in_rounds else f"what round {number} waited for"
    whole = "the whole simulated time" if path.length_s == run.rounds["t1"][-1] - run.rounds["t0"][0] else part
    console.print(f"critical path: {seconds(path.length_s)}, {whole}, in {pluralize(path.steps.height, 'step')}")
    for sentence in path.advice():
        console.print(sentence)
    print_table("on the path", path.causes, {
        "device": "device_name", "part": "part",
        "rounds": lambda row: f"{row['rounds']} ({row['share_of_rounds']:.0%})",
        "time": lambda row: seconds(row["seconds"]), "of the run": "share_of_time", "saves, same plan": "gain_s",
    }, shown=path.causes if every else path.causes.head(MOST_LINES))
    print_table("slack: how much slower a device could be", path.slack, {
        "device": "name", "rounds": "rounds", "on the path": "critical_rounds", "least": "least_s", "mean": "mean_s",
    }, shown=path.slack if every else path.slack.head(MOST_LINES))


def print_explanation(run: Run, found: Explanation, *, every: bool) -> None:
    console = screen()
    first, *rest = found.answer
    for sentence in (f"{run.title}: {first}", *rest, ""):
        console.print(sentence)
    print_bindings(found, console)
    if found.relaxed != 1.0:
        console.print(f"All budgets had to be raised to {found.relaxed:.4g} times what they are.")
    print_drop_outs(found, console, every=every)
    for sentence in found.differs if found.aggregations is None else ():
        console.print(sentence)
    names = dict(device_names(run.devices).iter_rows())
    print_what_ifs(f"{found.subject} with one change", found, names, console, every=every)
    if found.whole:
        sampled = found.whole.rounds
        which = pluralize(run.last_round, "round") if sampled is None else f"{len(sampled)} of its rounds"
        whole = f"{which}, {seconds(found.whole.round_s, 4)}"
        print_what_ifs(f"the whole run, {whole}, with one change", found.whole, names, console, every=every)


def print_bindings(found: Explanation, console: Console) -> None:
    """Print the limits that bind, with the saving of one per cent more."""
    named = [("the" if each.device is None else f"{each.name}'s")
             + f" {WORDS[each.limit]} (1 % more saves {units.format(each.next_s, 'time', 3)})"
             for each in found.binding if each.next_s is not None]
    deadline = next((each for each in found.binding if each.limit == "deadline"), None)
    more = len(found.binding) - len(named) - (deadline is not None)
    if named:
        console.print(f"Limiting factors: {'; '.join(named)}{f'; and {more} more' if more else ''}.")
    if deadline is not None:
        console.print("The deadline binds: " + ("the round ends at the deadline." if deadline.price_s_per_unit else
                                                "devices that cannot meet it are left out."))


def print_drop_outs(found: Explanation, console: Console, *, every: bool) -> None:
    """Print the devices that did not arrive, with reasons and remedies."""
    named = found.dropped if every else found.dropped[:MOST_LOST]
    for lost in named:
        kept = f" Remedies: {'; '.join(lost.kept_by)}." if lost.kept_by else ""
        console.print(f"{lost.name} did not arrive: {lost.reason}.{kept}")
    if len(named) < len(found.dropped):
        console.print(f"{len(found.dropped) - len(named)} more did not arrive; all with --all.")


def print_what_ifs(
    title: str, found: Explanation, names: Mapping[int, str], console: Console, *, every: bool,
) -> None:
    """Print a line per change, the largest saving first; the same change of several devices is one line."""
    grouped = found.grouped
    shown = grouped if every else [each for each in grouped if each[0].saves_s > SHOWN_S][:MOST_CHANGES]
    table = Table("change", title=title, title_justify="left")
    for column in ("takes", "saves", "of it"):
        table.add_column(column, justify="right", no_wrap=True)
    for each, *alike in shown:
        share = each.saves_s / found.round_s if found.round_s else 0.0
        others = [names[other.device] for other in alike if other.device is not None]
        more = f" and {len(others) - FEW} more" if len(others) > FEW else ""
        same = f"; the same for {', '.join(others[:FEW])}{more}, each alone" if others else ""
        table.add_row(each.change + same, seconds(each.round_s, 4), signed(each.saves_s), f"{share:.1%}")
    if len(shown) < len(grouped):
        table.caption = f"{sum(map(len, shown))} of {len(found.what_if)} changes; all with --all"
    console.print(table)


def print_table(title: str, rows: pl.DataFrame, columns: Columns, shown: pl.DataFrame | None = None) -> None:
    """Print a table of the shown rows, numbers aligned to the right."""
    shown = rows if shown is None else shown
    left_out = "" if shown.height == rows.height else f" ({shown.height} of {rows.height:,}; all with --all)"
    table = Table(title=f"{title}{left_out}", title_justify="left")
    for heading in columns:
        table.add_column(heading, justify="left" if heading in NAMES + SENTENCES else "right",
                         no_wrap=heading not in SENTENCES)
    for row in shown.iter_rows(named=True):
        table.add_row(*(cell(name, row[name]) if isinstance(name, str) else name(row) for name in columns.values()))
    screen().print(table)


def cell(name: str, value: Any) -> str:
    """Format a value by the ending of its column's name; other floats are shares."""
    if name.endswith("_s"):
        return seconds(value)
    if name.endswith("_j"):
        return joules(value)
    return f"{value:.1%}" if isinstance(value, float) else "" if value is None else str(value)


def seconds(value: float, digits: int = 3) -> str:
    """Format a time; rounding errors show as 0."""
    return units.duration(value if value > SHOWN_S else 0.0, digits)


def joules(value: float) -> str:
    return units.format(value, "energy", 3)


def budget_used(spent_j: float, budget_j: float | None) -> str:
    return f"{spent_j / budget_j:.1%}" if budget_j and budget_j < math.inf else ""


def signed(value: float) -> str:
    """Format a saving; a change that lengthens the round has a minus."""
    return seconds(value, 4) if value > -SHOWN_S else f"-{seconds(-value, 4)}"
