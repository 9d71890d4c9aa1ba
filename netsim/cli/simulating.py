"""`netsim run`, `netsim allocate` and `netsim flower`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netsim.base.errors import InputError
from netsim.cli.app import (
    AllowImport,
    AsJson,
    Every,
    Force,
    Overrides,
    ScenarioName,
    Seed,
    names_at,
    run_folder,
    simulating,
    writable,
)

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
    resume: Annotated[bool, typer.Option("--resume", help="Resume the interrupted run in DIR.")] = False,
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Processes that train devices. Changes only the speed.",
        show_default="one per core")] = None,
    no_learning: Annotated[bool, typer.Option("--no-learning", help="Simulate the rounds without training.")] = False,
    allow_import: AllowImport = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a scenario, write a run directory and print a summary."""
    from netsim.cli.show_runs import progress_bar
    from netsim.prepare import refuse_untrained
    from netsim.scenario import load_scenario
    from netsim.simulation import simulate

    loaded = load_scenario(scenario, overrides)
    if no_learning:
        refuse_untrained(loaded)
    with run_folder(out, f"{loaded.name}-seed{seed}", resume=resume) as folder, progress_bar(loaded.name) as progress:
        if resume and not (folder / "run.json").exists():
            print(f"nothing to resume in {folder}; starting a new run", file=sys.stderr)
        result = simulate(
            loaded, folder, seed, learning=not no_learning, workers=workers, resume=resume, progress=progress,
            allow_import=allow_import)
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
    from netsim.cli.show_runs import print_comparison
    from netsim.random_cohort import compare_methods
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
    scenario: Annotated[str, typer.Option(
        "--scenario", "-s", metavar="SCENARIO",
        help="The cell: a scenario file (TOML), or the name of a built-in one.",
        autocompletion=names_at("netsim.scenario:builtin_scenarios"))],
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
    run_config: Annotated[list[str], typer.Option(
        "--run-config", metavar="KEY=VALUE", help="Change one key of the app's own configuration. May be "
        "repeated.")] = [],  # noqa: B006
    allow_import: AllowImport = False,
    as_json: AsJson = False,
) -> None:
    """Run an unmodified Flower app in a scenario's cell: simulated time, energy, and devices that drop out.

    The app decides on selection, learning, server and number of rounds, instead of the scenario.
    """
    from netsim.cli.show_runs import progress_bar
    from netsim.flower.cell_alone import refuse_without_effect
    from netsim.flower.library import require_flower
    from netsim.scenario import load_scenario

    require_flower()
    refuse_without_effect(overrides)
    from netsim.flower.running import run_app

    loaded = load_scenario(scenario, overrides)
    name = folder.resolve().name
    with run_folder(out, f"{name}-{loaded.name}-seed{seed}", resume=resume) as path, progress_bar(name) as progress:
        result = run_app(folder, loaded, path, seed, workers=workers, run_config=run_config, resume=resume,
                         progress=progress, allow_import=allow_import)
    _print_result(result, as_json=as_json)


def _print_result(result: Run, *, as_json: bool) -> None:
    from netsim.cli.show_runs import ended_early, print_summary

    if as_json:
        print(json.dumps(result.summary))
        early = ended_early(result)
        if early:
            print(f"ended after round {result.last_round}: {early}", file=sys.stderr)
    else:
        print_summary(result)
