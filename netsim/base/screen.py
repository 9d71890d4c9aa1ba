"""The terminal that tables go to."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def screen(width: int = 160) -> Console:
    """The terminal, or a page of this width where there is none; names of devices are no markup."""
    console = Console(markup=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, highlight=False, width=width)


def listing(title: str) -> Table:
    """A table of names and values, without a header."""
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    return table
