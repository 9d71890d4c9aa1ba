"""`netsim run`, `netsim allocate` and `netsim flower`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netsim.base.errors import InputError
from netsim.cli.app import (
    SOME_FAILED,
    AllowImport,
    AsJson,
    Every,
    Force,
    Overrides,
    Progress,
    ScenarioName,
    Seed,
    names_at,
    run_folder,
    simulating,
    writable,
)
from netsim.cli.show_runs import ended_early, print_comparison, print_summary, progress_bar, untrained

if TYPE_CHECKING:
    from netsim.run import Run


@simulating()
def run(
    scenario: ScenarioName,
    overrides: Overrides = [],  # noqa: B006  (typer only reads the default)
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="DIR", help="Folder for the run.",
        show_default="the next free results/SCENARIO-seedN")] = None,
    resume: Annotated[bool, typer.Option(
        "--resume", help="Resume the interrupted run in DIR, or extend a finished one to a later [end].")] = False,
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Processes that train devices. Changes only the speed.",
        show_default="one per core")] = None,
    cluster: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Train and evaluate on a Dask cluster instead, e.g. tcp://host:8786.")] = None,
    no_learning: Annotated[bool, typer.Option("--no-learning", help="Simulate the rounds without training.")] = False,
    allow_import: AllowImport = False,
    progress: Progress = "auto",
    as_json: AsJson = False,
) -> None:
    """Simulate a scenario, write a run directory and print a summary."""
    from netsim.scenario import load_scenario
    from netsim.simulation import simulate
    from netsim.validation import refuse_untrained

    loaded = load_scenario(scenario, overrides)
    if no_learning:
        refuse_untrained(loaded)
    if cluster is not None and (no_learning or workers is not None or not loaded.trains):
        raise InputError("conflict", "--cluster", "--workers" if workers is not None else "a run without learning",
                         hint="Training and evaluation use a cluster, instead of worker processes: remove one of both")
    with run_folder(out, f"{loaded.name}-seed{seed}", resume=resume) as folder, progress_bar(
            loaded.name, progress) as watch:
        if resume and not (folder / "run.json").exists():
            print(f"nothing to resume in {folder}; starting a new run", file=sys.stderr)
        result = simulate(
            loaded, folder, seed, learning=not no_learning, workers=workers, cluster=cluster, resume=resume,
            progress=watch, allow_import=allow_import)
    _print_result(result, as_json=as_json)


@simulating()
def allocate(
    scenario: ScenarioName,
    methods: Annotated[list[str], typer.Option(
        "--method", metavar="M", help="Allocation method; may be repeated to compare. Options of a method follow it, "
        "e.g. fedl:lambda=2 or fedl:lambda=tuned.", show_default="the scenario's",
        autocompletion=names_at("netsim.allocation.methods:METHODS"))] = [],  # noqa: B006
    overrides: Overrides = [],  # noqa: B006
    seed: Seed = 0,
    every: Every = False,
    figure: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Also draw each device's compute and upload time (PNG, SVG or PDF).")] = None,
    force: Force = False,
    allow_import: AllowImport = False,
    as_json: AsJson = False,
) -> None:
    """Plan one round of a random cohort: bandwidth, CPU frequency, times and energies, methods side by side."""
    from netsim.sample_problem import compare_methods
    from netsim.scenario import load_scenario

    results = compare_methods(load_scenario(scenario, overrides), methods, seed, allow_import=allow_import)
    if figure:
        from netsim.allocation.compare import figure as draw

        draw(results, writable(figure, force=force))
    if as_json:
        print(json.dumps([result.as_json() for result in results]))
    else:
        print_comparison(results, every=every)
        if figure:
            print(f"figure: {figure}")
        if not any(result.feasible for result in results):
            raise InputError("infeasible", "allocation.method", "no plan for this cohort", hint="Raise the budgets or "
                             "the bandwidth, or lower selection.cohort")


@simulating()
def flower(
    folder: Annotated[Path, typer.Argument(
        metavar="APP", help="A Flower app: the folder with its pyproject.toml. Its code is run.")],
    scenario: Annotated[str | None, typer.Option(
        "--scenario", "-s", metavar="SCENARIO", show_default="phones, with as many devices as the app has nodes",
        help="The cell: a scenario file (TOML), or the name of a built-in one.",
        autocompletion=names_at("netsim.scenario:builtin_scenarios"))] = None,
    overrides: Overrides = [],  # noqa: B006
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="DIR", help="Folder for the run.",
        show_default="the next free results/APP-SCENARIO-seedN")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the interrupted run in DIR: the app starts again "
                                         "and receives the stored replies.")] = False,
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Processes that run ClientApps. Changes only the speed.",
        show_default="one per core")] = None,
    cluster: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Run ClientApps on a Dask cluster instead, e.g. tcp://host:8786.")] = None,
    run_config: Annotated[list[str], typer.Option(
        "--run-config", "-c", metavar="KEY=VALUE", help='Change keys of the app\'s own configuration: "a=1 b=2", or a '
        "TOML file. May be repeated.")] = [],  # noqa: B006
    federation_config: Annotated[str | None, typer.Option(
        "--federation-config", metavar="num-supernodes=N", help="Number of devices, as for `flwr run`.",
        show_default="the scenario's; without one the app's, or 10")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print Flower's log while the app runs.")] = False,
    allow_import: AllowImport = False,
    progress: Progress = "auto",
    as_json: AsJson = False,
) -> None:
    """Run an unmodified Flower app in a scenario's cell: simulated time, energy, and devices that drop out.

    The app decides on selection, learning, server and number of rounds, instead of the scenario.
    """
    from netsim.flower import run_app
    from netsim.flower.scenario_subset import load_for_app

    loaded = load_for_app(folder, scenario, overrides, federation_config)
    name = folder.resolve().name
    with run_folder(out, f"{name}-{loaded.name}-seed{seed}", resume=resume) as path, progress_bar(
            name, progress) as watch:
        result = run_app(folder, loaded, path, seed, workers=workers, cluster=cluster, run_config=run_config,
                         resume=resume, progress=watch, allow_import=allow_import, verbose=verbose)
    _print_result(result, as_json=as_json)
    if reason := untrained(result.summary):
        print(f"error: {reason}", file=sys.stderr if as_json else sys.stdout)
        raise typer.Exit(SOME_FAILED)


def _print_result(result: Run, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result.summary))
        if early := ended_early(result):
            print(f"ended after round {result.last_round}: {early}", file=sys.stderr)
    else:
        print_summary(result)
