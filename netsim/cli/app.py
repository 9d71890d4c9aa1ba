"""The typer application, and the options, exit codes and output folders that commands share."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netsim.base.errors import InputError, unknown
from netsim.base.files import refuse_link
from netsim.cli.help_pages import HelpPage, HelpPages

if TYPE_CHECKING:
    from netsim.sweep.results import SweepResults

INPUT_AT_FAULT = 2
INTERRUPTED = 130
TERMINATED = 143
SOME_FAILED = 1
RESULTS = Path("results")

app = typer.Typer(
    cls=HelpPages, no_args_is_help=True, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# decorators of commands, by their panel on the help page
simulating, look, describing, experimenting, teaching = (
    partial(app.command, cls=HelpPage, rich_help_panel=panel) for panel in (
        "Simulate", "Look into a run", "Scenarios and data", "Experiments", "Teaching"))


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"netsim {version('netsim')}")
        raise typer.Exit


@app.callback()
def program(
    show_version: Annotated[bool, typer.Option(
        "--version", callback=_say_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Simulate federated learning in one wireless cell.

    Start with:  netsim run quickstart
    """


def names_at(place: str) -> Callable[[str], list[str]]:
    """Return a shell completion: the names in the table, or returned by the function, at "package.module:Name"."""
    def complete(incomplete: str) -> list[str]:
        from netsim.base.registry import load  # loads pydantic

        known = load(place)
        return [name for name in (known() if callable(known) else known) if name.startswith(incomplete)]

    return complete


ScenarioName = Annotated[str, typer.Argument(
    metavar="SCENARIO", help="A scenario file (TOML), or the name of a built-in one: see `netsim scenarios`.",
    autocompletion=names_at("netsim.scenario:builtin_scenarios"))]
Overrides = Annotated[list[str], typer.Option(
    "--set", metavar="KEY=VALUE", help="Change one key, e.g. --set cell.bandwidth=10MHz or "
    "--set population.phone.budget=30mJ; a table such as 'cell.link={efficiency=0.7}' replaces, null unsets. May be "
    "repeated.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of every random draw: the same seed, the same run.", min=0)]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite FILE if it exists.")]
AllowImport = Annotated[bool, typer.Option(
    "--allow-import", help="Import, and so run, named code even if its package is not made for netsim.")]
Against = Annotated[str | None, typer.Option(
    metavar="CASE", help="Baseline case of a sweep, by its name in the table; the other cases are compared with it.",
    show_default="the first")]
Every = Annotated[bool, typer.Option("--all", help="Show all rows of long tables.")]
PROGRESS = ("auto", "json", "none")


def _known_progress(kind: str) -> str:
    if kind not in PROGRESS:
        raise unknown("--progress", kind, PROGRESS)
    return kind


Progress = Annotated[str, typer.Option(
    metavar="KIND", callback=_known_progress, autocompletion=lambda: PROGRESS,
    help="auto, json (a line of JSON per round on standard error) or none.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value to standard output and nothing else.")]


def writable(path: Path, *, force: bool) -> Path:
    """Return the path if it may be written; raise InputError for an existing file, unless forced."""
    if path.is_dir():
        raise InputError("unwritable", str(path), "a folder", "the name of a file")
    if path.exists() and not path.is_file():
        raise InputError("unwritable", str(path), "no plain file", "another name")
    if path.exists() and not force:
        raise InputError("exists", str(path), hint="Give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise InputError("no-such-file", str(path.parent), expected="a folder to write into")
    return path


def print_report(results: SweepResults, file: Path, against: str | None) -> None:
    page = results.report(file, against)
    print(f"report: {page}; with the folders tables and figures beside it")


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C but with its own message and exit code."""


@contextmanager
def resumable(again: str) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, stop and print the command that resumes, ``again``."""
    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)      # a second SIGTERM ends the process at once
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt as stopped:
        word, code = ("terminated", TERMINATED) if isinstance(stopped, Terminated) else ("interrupted", INTERRUPTED)
        print(f"\n{word}; resume with:  netsim {again}", file=sys.stderr)
        raise typer.Exit(code) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def run_folder(out: Path | None, name: str, *, resume: bool) -> Iterator[Path]:
    """Yield the folder of a run: ``out``, or the next free one in ``results``; an interruption prints how to resume."""
    from netsim.trace.run_directory import next_free

    with (nullcontext(out) if out else next_free(results_folder(), name, resume=resume)) as folder:
        again = [arg for arg in sys.argv[1:] if arg != "--resume"] + ([] if out else ["--out", str(folder)])
        with resumable(shlex.join([*again, "--resume"])):
            yield folder


def results_folder(*names: str) -> Path:
    """Return ``results`` in the current folder, or a folder below it; raise InputError for a link."""
    folder = RESULTS.joinpath(*names)
    for place in (RESULTS, folder):
        refuse_link(place)
    return folder
