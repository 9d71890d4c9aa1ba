"""The commands that analyse a run: `explain`, `breakdown`, `critical-path`, `export`, `report`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from netsim.base.errors import InputError
from netsim.base.figures import save_figure
from netsim.base.files import safe_table
from netsim.cli.app import Against, AllowImport, AsJson, Every, Force, RunFolder, look, names_at, print_report, writable
from netsim.cli.show_runs import change_bar

Table = StrEnum("Table", ["rounds", "devices", "kinds", "shares"])      # of a breakdown


@look()
def explain(
    run: RunFolder,
    round_: Annotated[int | None, typer.Option(
        "--round", metavar="K", help="The round to explain.",
        show_default="the slowest one, and the run as a whole")] = None,
    every: Every = False,
    allow_import: AllowImport = False,
    as_json: AsJson = False,
) -> None:
    """Explain which limit determines a round, and what would shorten it. Each change is planned and simulated again."""
    from netsim.cli.show_analysis import print_explanation
    from netsim.run import load_run

    opened = load_run(run)
    with change_bar() as progress:
        found = opened.explain(round_, allow_import=allow_import, progress=progress)
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        print_explanation(opened, found, every=every)


@look()
def breakdown(
    run: RunFolder,
    round_: Annotated[int | None, typer.Option(
        "--round", metavar="K", help="Only this round, device by device.")] = None,
    device: Annotated[str | None, typer.Option(
        metavar="N", help="Only this device, by its number or its name, round by round.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only devices of this kind.")] = None,
    every: Every = False,
    by: Annotated[Table, typer.Option(
        metavar="TABLE", help="Which table --csv prints: rounds, devices, kinds or shares.")] = Table.rounds,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one table as CSV on standard output.")] = False,
    figure: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Also draw it (PNG, SVG or PDF); with --round as a Gantt chart.")] = None,
    force: Force = False,
) -> None:
    """Show the time, energy and bandwidth of a run by round, device and part."""
    from netsim.cli.show_analysis import print_breakdown, print_shares
    from netsim.run import load_run

    if as_json and as_csv:
        raise InputError("conflict", "--json", expected="no --csv beside it")
    opened = load_run(run)
    found = opened.breakdown()
    shares = None if (round_, device, kind) == (None, None, None) else found.only(round_, device, kind)
    if figure:
        save_figure(opened.figure("breakdown" if round_ is None else "gantt", round_), writable(figure, force=force))
        print(f"figure: {figure}", file=sys.stderr)
    if as_json:
        print(json.dumps(found.as_json() if shares is None else shares.to_dicts()))
    elif as_csv:
        print(safe_table(getattr(found, by.value) if shares is None else shares).write_csv(), end="")
    elif shares is None:
        print_breakdown(opened, found, every=every)
    else:
        print_shares(shares, opened.title, every=every)


@look("critical-path")
def critical_path(
    run: RunFolder,
    round_: Annotated[int | None, typer.Option("--round", metavar="K", help="Only this round.")] = None,
    every: Every = False,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the path's steps as CSV on standard output.")] = False,
) -> None:
    """Show the chain of causes that determines the length of a run, and what would shorten it."""
    from netsim.cli.show_analysis import print_critical_path
    from netsim.run import load_run

    if as_json and as_csv:
        raise InputError("conflict", "--json", expected="no --csv beside it")
    opened = load_run(run)
    path = opened.critical_path(round_)
    if as_json:
        print(json.dumps(path.as_json()))
    elif as_csv:
        print(safe_table(path.steps).write_csv(), end="")
    else:
        print_critical_path(opened, path, every=every)


@look()
def export(
    run: RunFolder,
    format_: Annotated[str, typer.Option(
        "--format", metavar="FORMAT", help="perfetto (for ui.perfetto.dev and chrome://tracing), csv, parquet "
        "or tensorboard.",
        autocompletion=names_at("netsim.analysis.export:FORMATS"))],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.")],
    allow_import: AllowImport = False,
    force: Force = False,
) -> None:
    """Write a run's trace, or for TensorBoard its rounds, for other tools."""
    from netsim.analysis.export import FORMATS
    from netsim.analysis.export import export as write
    from netsim.run import load_run

    FORMATS.permit(format_, allow_import=allow_import)
    write(load_run(run), format_, writable(out, force=force))
    print(f"{format_}: {out}")


@look()
def report(
    runs: Annotated[list[Path], typer.Argument(
        metavar="RUN...", help="One run, several to compare, or the folder of a sweep.")],
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="FILE", help="File to write.",
        show_default="report.html in the run's or sweep's folder; of several runs, comparison.html in the first one's",
    )] = None,
    against: Against = None,
    force: Force = False,
) -> None:
    """Write one self-contained HTML page about a run, several runs side by side, or a sweep.

    For a sweep, tables (CSV, JSON, LaTeX) and figures (PNG, SVG, PDF) are written beside it.
    """
    from netsim.report.page import write_report
    from netsim.run import load_run
    from netsim.sweep.results import is_sweep, load_sweep_results

    sweeps = [run for run in runs if is_sweep(run)]
    if sweeps and len(runs) > 1:
        raise InputError("conflict", str(sweeps[0]), "the folder of a sweep", "one sweep, or runs alone")
    if against is not None and not sweeps:
        raise InputError("needs", "--against", expected="the folder of a sweep")
    if sweeps:
        file = out if out is None else writable(out, force=force)
        print_report(load_sweep_results(runs[0]), file or runs[0] / "report.html", against)
        return
    opened = [load_run(run) for run in runs]
    file = writable(out or runs[0] / ("report.html" if len(runs) == 1 else "comparison.html"), force=force)
    write_report(opened, file)
    print(f"report: {file}")
