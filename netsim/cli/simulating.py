"""`netsim run` and `netsim allocate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from netsim.base.errors import InputError
from netsim.cli import completion
from netsim.cli.app import (
    SIMULATE,
    AllowImport,
    AsJson,
    Every,
    Force,
    Overrides,
    ScenarioName,
    Seed,
    app,
    run_folder,
    writable,
)


@app.command(rich_help_panel=SIMULATE)
def run(
    scenario: ScenarioName,
    overrides: Overrides = [],  # noqa: B006  (typer reads the default, nobody changes it)
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="DIR", help="Folder for the run.",
        show_default="the next free results/SCENARIO-seedN")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in DIR after an interruption.")] = False,
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Processes that train devices. Changes the speed only.",
        show_default="one a core")] = None,
    no_learning: Annotated[bool, typer.Option("--no-learning", help="Play the rounds without training.")] = False,
    allow_import: AllowImport = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a scenario; leaves a run directory and prints where the time went."""
    from netsim.cli.show_runs import ended_early, print_summary, progress_bar
    from netsim.prepare import refuse_untrained
    from netsim.scenario import load_scenario
    from netsim.simulation import simulate

    loaded = load_scenario(scenario, overrides)
    if no_learning:
        refuse_untrained(loaded)
    with run_folder(out, f"{loaded.name}-seed{seed}", resume=resume) as folder, progress_bar(loaded.name) as progress:
        if resume and not (folder / "run.json").exists():
            print(f"{folder}: no run to go on with, so a new one begins", file=sys.stderr)
        result = simulate(
            loaded, folder, seed, learning=not no_learning, workers=workers, resume=resume, progress=progress,
            allow_import=allow_import)
    if as_json:
        print(json.dumps(result.summary))
        early = ended_early(result)
        if early:
            print(f"ended after round {result.last_round}: {early}", file=sys.stderr)
    else:
        print_summary(result)


@app.command(rich_help_panel=SIMULATE)
def allocate(
    scenario: ScenarioName,
    methods: Annotated[list[str], typer.Option(
        "--method", metavar="M", help="Allocation method; may be repeated to compare. Options of a method follow it, "
        "e.g. fedl:lambda=2 or fedl:lambda=tuned.", show_default="the scenario's",
        autocompletion=completion.allocation_methods)] = [],  # noqa: B006
    overrides: Overrides = [],  # noqa: B006
    seed: Seed = 0,
    every: Every = False,
    figure: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Also draw each device's compute and upload time (PNG, SVG or PDF).")] = None,
    force: Force = False,
    allow_import: AllowImport = False,
    as_json: AsJson = False,
) -> None:
    """One round's plan for one random cohort: bandwidth, CPU frequency, times and energies, methods side by side."""
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
                             "the bandwidth, or shrink selection.cohort")
