"""The command line: parses, calls, prints. Heavy modules are imported inside the commands that use them."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netsim.errors import InputError, WorkerError, one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INPUT_AT_FAULT = 2
INTERRUPTED = 130
SOME_FAILED = 1


class Table(StrEnum):
    """The tables of a breakdown."""

    rounds = "rounds"
    devices = "devices"
    shares = "shares"


SIMULATE, LOOK, DESCRIBE, EXPERIMENT, TEACH = (
    "Simulate", "Look into a run", "Scenarios and data", "Experiments", "Teaching")

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
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of every random draw: the same seed, the same run.", min=0)]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder that a run left.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite FILE if it is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output and nothing else there.")]


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
        again = shlex.join(arg for arg in sys.argv[1:] if arg != "--resume")
        add_out = "" if out else f" --out {folder}"
        print(f"\ninterrupted; go on with:  netsim {again}{add_out} --resume", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print(json.dumps(result.summary))
    else:
        print_summary(result)


@app.command(rich_help_panel=SIMULATE)
def allocate(
    scenario: ScenarioName,
    methods: Annotated[list[str], typer.Option(
        "--method", metavar="M", help="Allocation method; may be repeated to compare. Options of a method follow it, "
        "e.g. fedl:lambda=2 or fedl:lambda=tuned.", show_default="the scenario's")] = [],  # noqa: B006
    overrides: Overrides = [],  # noqa: B006
    seed: Seed = 0,
    figure: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Also draw each device's compute and upload time (PNG, SVG or PDF).")] = None,
    force: Force = False,
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
        if not any(result.feasible for result in results):
            raise InputError("no plan for this cohort: raise the budgets or the bandwidth, or shrink selection.cohort")


@app.command(rich_help_panel=LOOK)
def breakdown(
    run: RunFolder,
    round_: Annotated[int | None, typer.Option(
        "--round", metavar="K", help="Only this round, device by device.")] = None,
    device: Annotated[int | None, typer.Option(metavar="N", help="Only this device, round by round.")] = None,
    by: Annotated[Table, typer.Option(help="Which table --csv prints.")] = Table.rounds,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one table as CSV on standard output.")] = False,
    figure: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Also draw it (PNG, SVG or PDF); with --round as a Gantt chart.")] = None,
    force: Force = False,
) -> None:
    """Show where the time, the energy and the band of a run went."""
    from netsim.console_analysis import print_breakdown, print_shares
    from netsim.run import load_run

    if as_json and as_csv:
        raise InputError("--json and --csv exclude each other")
    opened = load_run(run)
    found = opened.breakdown()
    shares = None if round_ is None and device is None else found.only(round_, device)
    if figure:
        save_figure(opened.figure("breakdown" if round_ is None else "gantt", round_), writable(figure, force=force))
    if as_json:
        print(json.dumps(found.as_json() if shares is None else shares.to_dicts()))
    elif as_csv:
        print((getattr(found, by.value) if shares is None else shares).write_csv(), end="")
    elif shares is None:
        print_breakdown(opened, found)
    else:
        print_shares(shares, f"{opened.info['scenario']}, seed {opened.info['seed']}")


@app.command("critical-path", rich_help_panel=LOOK)
def critical_path(
    run: RunFolder,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the path's steps as CSV on standard output.")] = False,
) -> None:
    """Show the chain of causes that set a run's length, and what would shorten it."""
    from netsim.console_analysis import print_critical_path
    from netsim.run import load_run

    if as_json and as_csv:
        raise InputError("--json and --csv exclude each other")
    opened = load_run(run)
    path = opened.critical_path()
    if as_json:
        print(json.dumps(path.as_json()))
    elif as_csv:
        print(path.steps.write_csv(), end="")
    else:
        print_critical_path(opened, path)


@app.command(rich_help_panel=LOOK)
def export(
    run: RunFolder,
    format_: Annotated[str, typer.Option(
        "--format", metavar="FORMAT", help="perfetto (for ui.perfetto.dev and chrome://tracing), csv or parquet.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.")],
    force: Force = False,
) -> None:
    """Write a run's trace for other tools."""
    from netsim.analysis.export import export as write
    from netsim.run import load_run

    write(load_run(run), format_, writable(out, force=force))
    print(f"{format_}: {out}")


@app.command(rich_help_panel=LOOK)
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One run, or several to compare.")],
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="FILE", help="File to write.",
        show_default="report.html in the run's folder; of several runs, comparison.html in the first one's")] = None,
    force: Force = False,
) -> None:
    """Write one HTML page about a run, or about several side by side; it needs no network."""
    from netsim.report.page import write_report
    from netsim.run import load_run

    opened = [load_run(run) for run in runs]
    file = writable(out or runs[0] / ("report.html" if len(runs) == 1 else "comparison.html"), force=force)
    write_report(opened, file)
    print(f"report: {file}")


@app.command(rich_help_panel=DESCRIBE)
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


@app.command(rich_help_panel=DESCRIBE)
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors that complete and check them."""
    from netsim.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))


@app.command(rich_help_panel=DESCRIBE)
def scenarios() -> None:
    """List the built-in scenarios."""
    from netsim.console import print_builtin_scenarios

    print_builtin_scenarios()


@app.command(rich_help_panel=DESCRIBE)
def data(
    name: Annotated[str, typer.Argument(
        metavar="NAME", help="digits (always there), mnist, fashion-mnist, cifar10, or image-folder.")],
    root: Annotated[Path, typer.Option(metavar="DIR", help="Where the data lie, or are put.")] = Path("data"),
    partition: Annotated[str | None, typer.Option(
        metavar="KIND", help="Split the training data over devices, e.g. majority:sigma=0.8, two-class, iid, "
        "dirichlet:alpha=0.5, shards:per_device=2 or file:path=split.json.")] = None,
    devices: Annotated[int, typer.Option(min=1, metavar="N", help="Number of devices of the split.")] = 100,
    samples: Annotated[int | None, typer.Option(
        min=1, metavar="D", help="Samples that each device holds.", show_default="as the split gives")] = None,
    seed: Seed = 0,
    figure: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Draw the split, classes by devices (PNG, SVG or PDF).")] = None,
    force: Force = False,
) -> None:
    """Fetch and check a dataset; say in one line what is there, or what to do without a network."""
    from netsim.learning.datasets import describe, fetch

    if figure and not partition:
        raise InputError("--figure draws a split: give --partition too, e.g. --partition majority:sigma=0.8")
    fetch(name, root)
    print(describe(name, root))
    if partition:
        from netsim.learning.splits import describe_split, draw_split, split_dataset

        split = split_dataset(name, root, partition, devices, samples, seed)
        print(describe_split(split))
        if figure:
            draw_split(split, writable(figure, force=force))
            print(f"figure: {figure}")


@app.command(rich_help_panel=EXPERIMENT)
def favor_train(
    scenario: ScenarioName,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the trained policy goes.")],
    overrides: Overrides = [],  # noqa: B006
    episodes: Annotated[int, typer.Option(min=1, metavar="N", help="Training runs to learn from.")] = 50,
    seed: Seed = 0,
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes that train devices.")] = None,
    force: Force = False,
) -> None:
    """Train an agent for `selection.method = "favor"` on a scenario's devices and data."""
    from netsim.console import episode_bar
    from netsim.learning.favor import policy_for, save_policy
    from netsim.scenario import load_scenario

    loaded = load_scenario(scenario, overrides)
    file = writable(out, force=force)
    with episode_bar(episodes) as progress:
        save_policy(file, policy_for(loaded, episodes, seed, workers, progress))
    print(f"policy: {file}; use it with --set selection.method=favor --set selection.policy={file}")


@app.command(rich_help_panel=EXPERIMENT)
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file (TOML): a scenario, keys to vary, seeds.")],
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Cells to run at a time on this machine.", show_default="one a core")] = None,
    cluster: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Run the cells on a Dask cluster instead, e.g. tcp://host:8786.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Only show how far the sweep is.")] = False,
) -> None:
    """Run many scenarios, each cell once: a sweep that was stopped, or that has grown, goes on where it was.

    Start with a file such as this one:

      scenario = "paper"
      seeds = 10
      learning = false
      set.selection.method = "fedavg"
      grid.allocation.method = ["sao", "equal", "fedl"]
      grid.cell.bandwidth = ["10 MHz", "20 MHz"]
    """
    from netsim.experiments import console
    from netsim.experiments.executor import place_for
    from netsim.experiments.sweep import run_sweep, table
    from netsim.experiments.sweep_file import load_sweep

    loaded = load_sweep(file)
    if status:
        console.print_status(loaded.name, loaded.cells)
        return
    try:
        with console.cell_bar(loaded.name) as progress:
            results = run_sweep(loaded, place_for(workers, cluster), progress)
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with:  netsim {shlex.join(sys.argv[1:])}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    found = table(loaded)
    if found.height:
        console.print_results(found, list(dict.fromkeys(key for case in loaded.varied for key in case)))
    print(f"results: {results}")
    if console.print_failures(loaded.cells):
        raise typer.Exit(SOME_FAILED)


@app.command(rich_help_panel=TEACH)
def lab(
    port: Annotated[int, typer.Option(
        min=1, max=65535, metavar="N", help="Port of the page; where it is taken, the next free one.")] = 2718,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open the teaching page: one round under two methods, with sliders, and the lessons. For this machine only."""
    from netsim.lab.serve import serve

    serve(port, open_browser=not no_browser)


@app.command(rich_help_panel=EXPERIMENT)
def reproduce(
    targets: Annotated[list[str], typer.Argument(
        metavar="[TARGET]...", help="fig4 to fig14, table1 to table3, choices; or all.", show_default="all")] = [],  # noqa: B006
    quick: Annotated[bool, typer.Option("--quick", help="A small version of each, on the digits data.")] = False,
    trials: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Trials of learning, or layouts of an allocation target.", show_default="its own",
    )] = None,
    data: Annotated[Path, typer.Option(
        metavar="DIR", help="Folder with the datasets, and the published splits in DIR/partitions.")] = Path("data"),
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="DIR", help="Where results go.",
        show_default="results/paper; with --quick, results/quick")] = None,
    workers: Annotated[int | None, typer.Option(
        min=1, metavar="N", help="Processes.", show_default="one a core")] = None,
    cluster: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Run the trials of fig10 to fig13 and table3 on a Dask cluster, e.g. "
        "tcp://host:8786.")] = None,
    datasets: Annotated[list[str], typer.Option(
        "--dataset", metavar="NAME", help="Train on this dataset alone, and draw the others from what is stored: "
        "mnist, fashion-mnist or cifar10. May be repeated.", show_default="all")] = [],  # noqa: B006
    stored: Annotated[bool, typer.Option(
        "--stored", help="Start no training: draw from the trials that are stored already.")] = False,
) -> None:
    """Measure the paper's tables and figures again; finished trials are kept, and an interrupted call goes on.

    Start with:  netsim reproduce --quick all

    Seconds, without data: table2, fig5, fig6, fig7, fig14.
    Minutes of training: fig4, table1, fig8, fig9, choices.
    Hours of training: fig10, fig11, table3 (from the same trials), fig12, fig13.
    """
    from netsim.experiments.reproduce import Context
    from netsim.experiments.reproduce import reproduce as make

    folder = out or Path("results") / ("quick" if quick else "paper")
    context = Context(folder, quick, trials, str(data), workers, stored, tuple(datasets), cluster)
    began = time.time()
    try:
        make(targets, context, print)
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with:  netsim {shlex.join(sys.argv[1:])}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if (folder / "README.md").exists():
        print(f"table: {folder / 'README.md'}")
    if any(error.stat().st_mtime >= began for error in context.cells.rglob("*.error")):
        raise typer.Exit(SOME_FAILED)


def writable(path: Path, *, force: bool) -> Path:
    """A path that may be written: an existing file is not overwritten unless forced."""
    if path.exists() and not force:
        raise InputError(f"{path}: already there; give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: no folder {path.parent}")
    return path


def save_figure(figure: Figure, path: Path) -> None:
    """Save a figure in the format that the file's name asks for."""
    allowed = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in allowed:
        raise InputError(f'{path}: no picture format "{path.suffix}"; {one_of(path.suffix[1:], allowed)}')
    figure.savefig(path, dpi=150)
    print(f"figure: {path}", file=sys.stderr)


def main() -> None:
    """Run the command line; the user's mistakes end in one message and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)
    except WorkerError as error:
        print(f"error: {error}; what was complete is kept, and an interrupted run goes on with --resume",
              file=sys.stderr)
        sys.exit(SOME_FAILED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())   # the reader, e.g. `head`, has gone
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}; nothing that was complete is lost, and an interrupted run "
              "goes on with --resume", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)
