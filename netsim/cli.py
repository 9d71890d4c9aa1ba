"""The command line: parses, calls, prints. Heavy modules are imported inside the commands that use them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from netsim.errors import InputError

INPUT_AT_FAULT = 2
INTERRUPTED = 130

app = typer.Typer(
    help="Federated learning in one wireless cell, simulated event by event.\n\n"
         "Start with:  netsim run quickstart",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ScenarioName = Annotated[str, typer.Argument(
    metavar="SCENARIO", help="A scenario file (TOML), or the name of a built-in one: see `netsim scenarios`.")]
Overrides = Annotated[list[str], typer.Option(
    "--set", metavar="KEY=VALUE", help="Change one key, e.g. --set cell.bandwidth=10MHz or "
    "--set population.phone.budget=30mJ. May be repeated.")]
Seed = Annotated[int, typer.Option(help="Seed of every random draw: the same seed, the same run.", min=0)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output and nothing else there.")]


@app.command()
def run(
    scenario: ScenarioName,
    overrides: Overrides = [],  # noqa: B006  (typer reads the default, nobody changes it)
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(
        metavar="DIR", help="Folder for the run [default: the next free results/SCENARIO-seedN].")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in DIR where it was interrupted.")] = False,
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Processes that train devices [default: one a core]. Changes the speed only.")] = None,
    no_learning: Annotated[bool, typer.Option("--no-learning", help="Play the rounds without training.")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a scenario; leaves a run directory and prints where the time went."""
    from netsim.console import print_summary, progress_bar
    from netsim.run_directory import next_free
    from netsim.scenario import load_scenario
    from netsim.simulation import simulate

    loaded = load_scenario(scenario, overrides)
    folder = out or next_free(Path("results"), f"{loaded.name}-seed{seed}", resume=resume)
    try:
        with progress_bar(loaded.name, to_stderr=as_json) as progress:
            result = simulate(
                loaded, folder, seed, learning=not no_learning, workers=workers, resume=resume, progress=progress)
    except KeyboardInterrupt:
        again = " ".join(arg for arg in sys.argv[1:] if arg != "--resume")
        add_out = "" if out else f" --out {folder}"
        print(f"\ninterrupted; go on with:  netsim {again}{add_out} --resume", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print(json.dumps(result.summary))
    else:
        print_summary(result)


@app.command()
def allocate(
    scenario: ScenarioName,
    methods: Annotated[list[str], typer.Option(
        "--method", metavar="M", help="Allocation method; may be repeated to compare [default: the scenario's]. "
        "Options of a method follow it, e.g. fedl:lambda=2 or fedl:lambda=tuned.")] = [],  # noqa: B006
    overrides: Overrides = [],  # noqa: B006
    seed: Seed = 0,
    figure: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Also draw each device's compute and upload time (PNG, SVG or PDF).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """One round's plan for one random cohort: bandwidth, CPU frequency, times and energies, methods side by side."""
    from netsim.console import print_comparison
    from netsim.one_round import compare_methods
    from netsim.scenario import load_scenario

    results = compare_methods(load_scenario(scenario, overrides), methods, seed)
    if figure:
        from netsim.allocation.compare import figure as draw

        draw(results, writable(figure, force=force))
    if as_json:
        print(json.dumps([result.as_json() for result in results]))
    else:
        print_comparison(results)
        if figure:
            print(f"figure: {figure}")


@app.command()
def check(
    scenario: ScenarioName,
    overrides: Overrides = [],  # noqa: B006
    as_toml: Annotated[bool, typer.Option("--toml", help="Print the scenario with all defaults filled in.")] = False,
) -> None:
    """Validate a scenario without running it."""
    from netsim.console import print_scenario
    from netsim.scenario import load_scenario
    from netsim.simulation import prepare

    loaded = load_scenario(scenario, overrides)
    prepare(loaded, learning=loaded.trains)
    if as_toml:
        print(loaded.to_toml(), end="")
    else:
        print_scenario(loaded)


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors that complete and check them."""
    from netsim.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))


@app.command()
def scenarios() -> None:
    """List the built-in scenarios."""
    from netsim.console import print_builtin_scenarios

    print_builtin_scenarios()


def writable(path: Path, *, force: bool) -> Path:
    """A path that may be written: an existing file is not overwritten unless forced."""
    if path.exists() and not force:
        raise InputError(f"{path}: already there; give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: no folder {path.parent}")
    return path


def main() -> None:
    """Run the command line; the user's mistakes end in one message and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())   # the reader, e.g. `head`, has gone
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}; nothing that was complete is lost, and an interrupted run "
              "goes on with --resume", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)
