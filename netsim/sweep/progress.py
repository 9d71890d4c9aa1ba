"""Terminal output of sweeps and reproductions: progress bar with the time left, status, results."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from netsim.base import units
from netsim.base.console import screen
from netsim.base.errors import MOST_LISTED, InputError, readable
from netsim.base.files import read_text
from netsim.base.pluralize import pluralize
from netsim.sweep.points import SweepPoint, SweepProgress

if TYPE_CHECKING:
    import polars as pl

    from netsim.sweep.sweep import SweepStatus

MOST_ROWS = 40         # rows shown without --all
LINE_EVERY_S = 60      # without a terminal


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[SweepProgress], None]]:
    """Show a live progress bar on standard error; without a terminal, print a line per minute and at the end."""
    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        last = -math.inf

        def print_line(at: SweepProgress) -> None:
            nonlocal last
            if at.finished + at.failed == at.total or time.monotonic() - last > LINE_EVERY_S:
                last = time.monotonic()
                console.print(f"{name}: {describe(at)}", highlight=False, soft_wrap=True)

        yield print_line
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(),
               TextColumn("{task.fields[now]}"), TimeElapsedColumn())
    with Bar(*columns, console=console) as bar:
        task = bar.add_task(name, total=1.0, now="starting")
        yield lambda at: bar.update(task, completed=at.part_done, now=describe(at))


def describe(at: SweepProgress) -> str:
    """Return the progress in words: ``12 of 40 points, 1 failed, about 3 min left``."""
    parts = [f"{at.finished:,} of {pluralize(at.total, 'point')}"]
    if at.failed:
        parts.append(f"{at.failed} failed")
    if at.seconds_left is not None and at.finished + at.failed < at.total:
        parts.append(f"{'at most' if at.at_most else 'about'} {units.computing(at.seconds_left)} left")
    return ", ".join(parts)


def print_status(name: str, status: SweepStatus, *, every: bool = False) -> None:
    """Print the numbers of finished, begun, failed and waiting points, and the errors of failed ones."""
    table = Table(title=f"sweep {name}", show_header=False, title_justify="left")
    for what, count in (("points", status.total), ("finished", status.finished), ("begun", len(status.begun)),
                        ("failed", len(status.failed)), ("waiting", status.waiting)):
        table.add_row(what, str(count))
    console = Console(markup=False)
    console.print(table)
    shown = status.begun if every else status.begun[:MOST_ROWS]
    for point in shown:
        rounds = point.scenario.end.rounds
        console.print(f"begun: {point.name}, round {point.rounds_played} of {rounds}", highlight=False)
    if len(shown) < len(status.begun):
        console.print(f"... and {len(status.begun) - len(shown):,} more begun; all with --all", highlight=False)
    print_failures(status.failed, every=every)


def print_results(found: pl.DataFrame, varied: Sequence[str], *, every: bool = False) -> None:
    """Print a row per case: varied keys, and mean, minimum and maximum over its seeds."""
    columns = _columns(found.partition_by(*varied, maintain_order=True) if varied else [found], varied)
    shown = {name: values for name, values in columns.items() if name in varied or any(values)}
    table = Table(title="mean over seeds, least to most", title_justify="left", box=SIMPLE_HEAD,
                  padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in shown:      # keys may wrap at their dots, numbers may not
        heading = name.replace(".", ".\n") if name in varied else name
        table.add_column(heading, justify="left" if name in varied else "right", no_wrap=True)
    rows = list(zip(*shown.values(), strict=True))
    for row in rows if every else rows[:MOST_ROWS]:
        table.add_row(*row)
    console = screen()
    console.print(table)
    if table.row_count < len(rows):
        console.print(f"... and {pluralize(len(rows) - table.row_count, 'more case')}; all with --all", highlight=False)


def _columns(cases: Sequence[pl.DataFrame], varied: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of the table of cases: varied keys, and values over seeds as text."""
    seconds, joules = (partial(units.format, dimension=name) for name in ("time", "energy"))
    rounds = [case["rounds"].replace(0, None) for case in cases]
    return {
        **{key: ["" if case[key][0] is None else str(case[key][0]) for case in cases] for key in varied},
        "seeds": [str(case.height) for case in cases],
        "rounds": [spread(case["rounds"], _count) for case in cases],
        "a round": [spread(case["simulated_s"] / count, seconds) for case, count in zip(cases, rounds, strict=True)],
        "energy": [spread(case["energy_j"], joules) for case in cases],
        "accuracy": [spread(case["accuracy"], "{:.2%}".format) for case in cases],
        "at target": [str(sum(bool(reached) for reached in case["target_reached"]) or "") for case in cases],
        "dropped": [spread(case["dropped"], _count) if any(case["dropped"]) else "" for case in cases],
    }


def spread(values: pl.Series, say: Callable[[float], str]) -> str:
    """Format the mean, and below it the range if values differ; empty without values.

    >>> import polars as pl
    >>> print(spread(pl.Series([0.2161, 0.2441]), "{:.3f} s".format))
    0.230 s
    0.216 … 0.244 s
    """
    known = [float(value) for value in values if value is not None]
    if not known:
        return ""
    low, high = say(min(known)), say(max(known))
    unit = high.lstrip("-.0123456789")
    return say(statistics.fmean(known)) + (f"\n{low.removesuffix(unit)} … {high}" if low != high else "")


def _count(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0")


def _first_line(failure: Path) -> str:
    try:
        return readable(read_text(failure, "the error of a point").partition("\n")[0])
    except (OSError, InputError) as error:
        return str(error)


def print_failures(points: Sequence[SweepPoint], *, every: bool = False) -> int:
    """Print the first line and the file of each error; return the number of failed points."""
    console = Console(stderr=True, markup=False)
    failed = [point for point in {point.record: point for point in points}.values() if point.failure.exists()]
    for point in failed if every else failed[:MOST_LISTED]:
        reason = _first_line(point.failure)
        console.print(f"failed: {point.name}: {reason} ({point.failure})", highlight=False, soft_wrap=True)
    if len(failed) > MOST_LISTED and not every:
        console.print(f"... and {len(failed) - MOST_LISTED:,} more", highlight=False)
    return len(failed)
