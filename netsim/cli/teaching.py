"""`netsim lab`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from netsim.cli.app import TEACH, app


@app.command(rich_help_panel=TEACH)
def lab(
    port: Annotated[int, typer.Option(
        min=1, max=65535, metavar="N", help="Port of the page; where it is taken, the next free one.")] = 2718,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    link: Annotated[str | None, typer.Option(
        metavar="LINK", help="Open a page with its settings: 'bandwidth=10&left=sao', as the page shows it.")] = None,
) -> None:
    """Open the teaching page: one round under two methods, with sliders, and the lessons. For this machine only."""
    from netsim.lab.serve import serve

    serve(port, open_browser=not no_browser, link=link)
    sys.stdout.flush()
    os._exit(0)      # a page may still be computing in a thread of its own, and nobody waits for it any more
