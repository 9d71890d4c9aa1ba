"""The terminal that tables go to."""

from __future__ import annotations

from rich.console import Console


def screen() -> Console:
    """The terminal, or a wide page where there is none; names of devices are no markup."""
    console = Console(markup=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, highlight=False, width=160)
