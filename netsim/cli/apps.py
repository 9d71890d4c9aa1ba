"""`netsim flower`: another framework's app in the cell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from netsim.cli import completion
from netsim.cli.app import SIMULATE, AllowImport, AsJson, Overrides, Seed, app, run_folder


@app.command(rich_help_panel=SIMULATE)
def flower(
    folder: Annotated[Path, typer.Argument(
        metavar="APP", help="A Flower app: the folder with its pyproject.toml. Its code is run.")],
    scenario: Annotated[str, typer.Option(
        "--scenario", "-s", metavar="SCENARIO",
        help="The cell: a scenario file (TOML), or the name of a built-in one.",
        autocompletion=completion.scenarios)],
    overrides: Overrides = [],  # noqa: B006
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="DIR", help="Folder for the run.",
        show_default="the next free results/APP-SCENARIO-seedN")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in DIR after an interruption: the app "
                                         "begins anew, and hears the replies that are kept there.")] = False,
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Processes that run ClientApps. Changes the speed only.",
        show_default="one a core")] = None,
    run_config: Annotated[list[str], typer.Option(
        "--run-config", metavar="KEY=VALUE", help="Change one key of the app's own configuration. May be "
        "repeated.")] = [],  # noqa: B006
    allow_import: AllowImport = False,
    as_json: AsJson = False,
) -> None:
    """Run a Flower app, as it is, in a scenario's cell: it learns, netsim says how long that takes and who drops out.

    What the scenario says of selection, learning, server and number of rounds is the app's business here.
    """
    from netsim.cli.show_runs import ended_early, print_summary, progress_bar
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
    if as_json:
        print(json.dumps(result.summary))
        early = ended_early(result)
        if early:
            print(f"ended after round {result.last_round}: {early}", file=sys.stderr)
    else:
        print_summary(result)
