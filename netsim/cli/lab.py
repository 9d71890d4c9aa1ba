"""`netsim lab`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from netsim.base.errors import InputError
from netsim.base.files import TemporaryFolder, make_folder
from netsim.cli.app import teaching, writable


@teaching()
def lab(
    port: Annotated[int, typer.Option(
        min=1, max=65535, metavar="N", help="Port of the page; if it is in use, the next free one.")] = 2718,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    link: Annotated[str | None, typer.Option(
        metavar="LINK", help="Open a page with settings, such as 'bandwidth=10&left=sao'; pages show it.")] = None,
    host: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Class mode: other machines may open the lab at this address of this machine, such as "
        "192.168.1.20, or 0.0.0.0 for all its addresses.", show_default="this machine only")] = None,
    seats: Annotated[int, typer.Option(
        min=1, max=500, metavar="N", help="Pages that may be open at a time, with --host.")] = 40,
    sheets: Annotated[Path | None, typer.Option(
        metavar="DIR", help="Write printable sheets instead: DIR/teacher.html with figures, answers and solutions, "
        "DIR/students.html with space for answers.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing sheets.")] = False,
) -> None:
    """Open the teaching lab: one round under two methods, with sliders, and lessons.

    Only this machine has access, unless --host opens it to a class. The address contains a token that is new each time.
    """
    from netsim.lab.web_server import needs_marimo, serve

    if force and sheets is None:
        raise InputError("needs", "--force", expected="--sheets DIR too")
    needs_marimo()
    if sheets is not None:
        _write(sheets, force=force)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)      # handled like Ctrl-C
    serve(port, open_browser=not no_browser, link=link, host=host, seats=seats)
    sys.stdout.flush()
    TemporaryFolder.remove_all()
    os._exit(0)      # without waiting for the threads of pages that still compute


def _write(folder: Path, *, force: bool) -> None:
    from netsim.lab.web_server import no_configuration

    if folder.exists() and not folder.is_dir():
        raise InputError("exists", str(folder), "a file", "a folder, or a new name")
    make_folder(folder)
    place = folder.absolute()
    with no_configuration():      # marimo reads it when it is imported
        from netsim.lab.worksheets import NAMES, write_sheets

        for name in NAMES:
            writable(place / name, force=force)
        write_sheets(place, lambda text: print(text, file=sys.stderr, flush=True))
    for name in NAMES:
        print(f"sheet: {folder / name}")
