"""Terminal output of tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def screen(width: int = 160) -> Console:
    """Return a console of the terminal's width, or of this width without a terminal; texts are not markup."""
    console = Console(markup=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, highlight=False, width=width)


def listing(title: str) -> Table:
    """Return an empty table of names and values, without a header."""
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    return table
