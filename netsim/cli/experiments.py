"""The commands that run many scenarios: `favor-train`, `sweep`, `reproduce`."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netsim.base.errors import InputError
from netsim.base.pluralize import pluralize
from netsim.cli.app import (
    SOME_FAILED,
    Against,
    AllowImport,
    Every,
    Force,
    Overrides,
    ScenarioName,
    Seed,
    experimenting,
    names_at,
    print_report,
    results_folder,
    resumable,
    writable,
)
from netsim.cli.show_runs import episode_bar

if TYPE_CHECKING:
    from netsim.sweep.sweep_file import Sweep


@experimenting()
def favor_train(
    scenario: ScenarioName,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the trained policy.")],
    overrides: Overrides = [],  # noqa: B006
    episodes: Annotated[int, typer.Option(min=1, metavar="N", help="Number of training episodes, each a run.")] = 50,
    seed: Seed = 0,
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes that train devices.")] = None,
    allow_import: AllowImport = False,
    force: Force = False,
) -> None:
    """Train an agent for `selection.method = "favor"` on a scenario's devices and data."""
    from netsim.learning.favor_agent import policy_for, save_policy
    from netsim.scenario import load_scenario

    loaded = load_scenario(scenario, overrides)
    file = writable(out, force=force)
    with episode_bar(episodes) as progress:
        save_policy(file, policy_for(loaded, episodes, seed, workers, progress, allow_import=allow_import))
    print(f"policy: {file}; use it with --set selection.method=favor --set selection.policy={file}")


@experimenting()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file (TOML): a scenario, keys to vary, seeds.")],
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Points to run at a time on this machine.", show_default="one per core")] = None,
    cluster: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Run the points on a Dask cluster instead, e.g. tcp://host:8786.")] = None,
    shard: Annotated[str | None, typer.Option(
        metavar="K/N", help="Run only part K of N of the points, e.g. 3/16, beside other parts in the same folder "
        "(job arrays of Slurm and others).")] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Only join the results of the shards.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only show the progress of the sweep.")] = False,
    every: Every = False,
    report: Annotated[bool, typer.Option(
        "--report", help="At the end, write an HTML report with tables and figures.")] = False,
    against: Against = None,
    allow_import: AllowImport = False,
) -> None:
    """Run many scenarios. A sweep that was stopped or extended runs only its missing points.

    Start with a file such as this one:

      scenario = "paper"
      seeds = 10
      learning = false
      set.selection.method = "fedavg"
      grid.allocation.method = ["sao", "equal", "fedl"]
      grid.cell.bandwidth = ["10 MHz", "20 MHz"]
    """
    from netsim.executors.factory import place_for
    from netsim.sweep import progress as console
    from netsim.sweep import sweep as sweeps
    from netsim.sweep.results import load_sweep_results
    from netsim.sweep.sweep_file import load_sweep

    if against is not None and not report:
        raise InputError("needs", "--against", expected="--report too")
    for option, given in (("--merge", merge), ("--report", report)):
        if shard is not None and given:
            raise InputError("conflict", "--shard", option, hint="Run all shards first, then once with --merge")
    if merge and (workers is not None or cluster is not None):
        raise InputError("no-effect", "--merge", "--workers or --cluster", hint="It runs no points")
    part = None if shard is None else sweeps.Shard.parse(shard)
    loaded = load_sweep(file, results_folder(), allow_import=allow_import)
    if status:
        console.print_status(loaded.name, sweeps.status(loaded), every=every)
        return
    points, again = list(loaded.points), shlex.join(sys.argv[1:])
    if part is not None:
        with resumable(again), console.progress_bar(f"{loaded.name} {shard}") as watch:
            points = sweeps.run_shard(loaded, part, place_for(workers, cluster), watch, allow_import=allow_import)
        print(f"shard {shard}: {pluralize(len(points), 'point')} in {loaded.folder}; join all shards with --merge")
    elif merge:
        _print_table(loaded, sweeps.merge(loaded), every=every)
    else:
        with resumable(again), console.progress_bar(loaded.name) as watch:
            results = sweeps.run_all(loaded, place_for(workers, cluster), watch, allow_import=allow_import)
        _print_table(loaded, results, every=every)
    if report:
        print_report(load_sweep_results(loaded.folder), loaded.folder / "report.html", against)
    missing = [point for point in points if not (point.finished or point.failure.exists())] if merge else []
    if missing:
        print(f"missing: {pluralize(len(missing), 'point')}, the first {missing[0].name}; run their shards again",
              file=sys.stderr)
    if console.print_failures(points, every=every) or missing:
        raise typer.Exit(SOME_FAILED)


def _print_table(sweep: Sweep, results: Path, *, every: bool) -> None:
    """Print the finished cases of a sweep, and the path of its table."""
    from netsim.sweep.progress import print_results
    from netsim.sweep.sweep import table

    found = table(sweep)
    if found.height:
        print_results(found, list(dict.fromkeys(key for case in sweep.cases for key in case.settings)), every=every)
    print(f"results: {results}")


@experimenting()
def reproduce(
    targets: Annotated[list[str] | None, typer.Argument(       # an empty list is no default to the oldest typer
        metavar="[TARGET]...",
        help="fig4 to fig14, table1 to table3, theorem1, choices, or all of these; sharing, asynchronous.",
        show_default="all", autocompletion=names_at("netsim.paper.reproduce:NAMES"))] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a small version of each, on the digits data.")] = False,
    trials: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Trials of learning, or layouts of an allocation target.", show_default="its own",
    )] = None,
    data: Annotated[Path, typer.Option(
        metavar="DIR", help="Folder with the datasets, and the published splits in DIR/partitions.")] = Path("data"),
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="DIR", help="Folder for the results.",
        show_default="results/paper, of sharing and asynchronous results/beyond; with --quick, results/quick")] = None,
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Processes.", show_default="one per core")] = None,
    cluster: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Run the trials of fig10 to fig13, table3 and asynchronous on a Dask cluster, "
        "e.g. tcp://host:8786.")] = None,
    datasets: Annotated[list[str], typer.Option(
        "--dataset", metavar="NAME", help="Train on this dataset only, and use stored trials of the others: "
        "mnist, fashion-mnist or cifar10. May be repeated.", show_default="all")] = [],  # noqa: B006
    stored: Annotated[bool, typer.Option(
        "--stored", help="Start no training: use only stored trials.")] = False,
) -> None:
    """Reproduce the paper's tables and figures. Finished trials are kept, so an interrupted call can be resumed.

    Start with:  netsim reproduce --quick all

    Seconds, without data: table2, fig5, fig6, fig7, fig14, theorem1.
    Minutes of training: fig4, table1, fig8, fig9, choices.
    Hours of training: fig10, fig11, table3 (from the same trials), fig12, fig13.
    Beyond the paper, some minutes without data: sharing. Hours of training: asynchronous.
    """
    from netsim.paper.reproduce import Context
    from netsim.paper.reproduce import reproduce as make

    folder = out or results_folder("quick" if quick else "paper")
    beyond = None if out or quick else results_folder("beyond")
    context = Context(folder, quick, trials, str(data), workers, stored, tuple(datasets), cluster, beyond)
    began = time.time()
    with resumable(shlex.join(sys.argv[1:])):
        make(targets or [], context, print)
    for place in (folder, beyond):
        if place and (place / "README.md").exists():
            print(f"table: {place / 'README.md'}")
    errors = [error for place in (folder, beyond) if place for error in (place / "cells").rglob("*.error")]
    if any(error.stat().st_mtime >= began for error in errors):
        raise typer.Exit(SOME_FAILED)
