"""What `netsim explain` shows in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from netsim.base import units
from netsim.base.counts import counted
from netsim.base.screen import screen
from netsim.base.tolerances import SHOWN_S

if TYPE_CHECKING:
    from rich.console import Console

    from netsim.analysis.explain import Binding, Explanation
    from netsim.run import Run

MOST_LINES = 10      # of a table; --all shows the rest
MOST_LOST = 8        # drop-outs that are named
WORDS = {"cpu_max": "CPU", "budget": "budget", "battery": "battery", "power": "power",
         "bandwidth": "band"}


def print_explanation(run: Run, found: Explanation, *, every: bool) -> None:
    """A round, and the run where it was asked for as a whole: what held it up, and what would help."""
    console = screen()
    slowest = ", the slowest," if found.whole else ""
    console.print(f"{run.title}: round {found.round}{slowest} took "
                  f"{seconds(found.round_s)}.")
    print_best(found, console)
    print_bindings(found, console)
    if found.relaxed != 1.0:
        console.print(f"All budgets had to be raised to {found.relaxed:.4g} times what they are.")
    print_drop_outs(found, console, every=every)
    for sentence in found.differs:
        console.print(sentence)
    print_what_ifs(f"round {found.round} with one thing changed", found, console, every=every)
    if found.whole:
        whole = f"{counted(run.last_round, 'round')}, {seconds(found.whole.round_s)}"
        print_what_ifs(f"the whole run, {whole}, with one thing changed", found.whole, console, every=every)


def print_best(found: Explanation, console: Console) -> None:
    """The change that helps most, in a sentence."""
    best = found.best
    if best is None:
        console.print("None of the changes that were tried would make it shorter.")
    else:
        console.print(f"What would help most: {best.change}. It saves {seconds(best.saves_s)} "
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
    shown = found.what_if if every else found.what_if[:MOST_LINES]
    table = Table(title=title, title_justify="left")
    table.add_column("change")
    for column in ("takes", "saves", "of it"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in shown:
        share = each.saves_s / found.round_s if found.round_s else 0.0
        table.add_row(each.change, seconds(each.round_s), signed(each.saves_s), f"{share:.1%}")
    if len(shown) < len(found.what_if):
        table.caption = f"{len(shown)} of {len(found.what_if)} changes; all with --all"
    console.print(table)


def seconds(value: float) -> str:
    """A time for people; what is only rounding shows as 0."""
    return units.format(value if abs(value) > SHOWN_S else 0.0, "time")


def signed(value: float) -> str:
    """A saving; a change that makes it longer has a minus."""
    return seconds(value) if value > -SHOWN_S else f"-{seconds(-value)}"
