"""`netsim calibrate` and `netsim predict`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from netsim.base import units
from netsim.base.console import listing, screen
from netsim.base.errors import readable
from netsim.base.pluralize import pluralize
from netsim.cli.app import AsJson, Every, Force, Overrides, Seed, experimenting, names_at, writable
from netsim.cli.show_runs import counting_bar

if TYPE_CHECKING:
    from netsim.calibration import Calibration, Prediction

ROWS = 20      # devices of a table


@experimenting()
def calibrate(
    log: Annotated[Path, typer.Argument(
        metavar="LOG", help="Log of a deployment (CSV). Needs the columns device, samples, batch (size) and compute_s; "
        "reads round, batches, model, flops (per sample), bits, upload_s, download_bits, download_s, energy_j and t "
        "(start in s). A row without durations is a job that failed.")],
    base: Annotated[str | None, typer.Option(
        metavar="SCENARIO", help="Scenario whose learning, selection, server and end the result has.",
        autocompletion=names_at("netsim.scenario:builtin_scenarios"))] = None,
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="FILE", help="Scenario file to write, such as fleet.toml. Beside it: the uncertainty "
        "for `netsim predict` (fleet.calibration.json), predicted against measured rounds (fleet.png, fleet.html).",
    )] = None,
    holdout: Annotated[float | None, typer.Option(
        metavar="SHARE", help="Predict this share of the rounds, the last ones, from the earlier rounds.",
        show_default="each fifth of the rounds from the others")] = None,
    seed: Seed = 0,
    every: Every = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a fleet to a log: compute times, link rates and power with 95 % intervals, and the error on held-out rounds.

    Start with:  netsim calibrate log.csv -o fleet.toml
    """
    from netsim.calibration import calibrate as fit

    if out is not None and out.suffix == ".toml":
        for ending in (".toml", ".calibration.json", ".png", ".html"):
            writable(out.with_name(out.stem + ending), force=force)
    found = fit(log, base, holdout=holdout, seed=seed)
    written = found.save(out) if out is not None else []
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        _print_calibration(found, every=every)
        for file in written:
            print(f"wrote: {file}")
    for note in found.notes:
        print(f"note: {readable(note)}.", file=sys.stderr)


@experimenting()
def predict(
    fleet: Annotated[Path, typer.Argument(metavar="FLEET", help="Scenario file that `netsim calibrate -o` wrote.")],
    overrides: Overrides = [],  # noqa: B006
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Rounds to predict.")] = 50,
    seeds: Annotated[int, typer.Option(min=2, metavar="N", help="Runs, each with other parameters.")] = 20,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """Predict time, energy, drop-outs and the limiting devices of a calibrated fleet.

    The intervals contain the uncertainty of the fitted parameters, which each run draws from their distribution, and
    chance: which devices are selected, and how long their jobs take.
    """
    from netsim.calibration import predict as simulate

    with counting_bar("runs", seeds) as progress:
        found = simulate(fleet, rounds, seeds, overrides, progress=progress)
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        _print_prediction(found, every=every)


def _print_calibration(found: Calibration, *, every: bool) -> None:
    from netsim.calibration.page import held_out_numbers, parameter_table

    console = screen()
    heads, rows = parameter_table(found.as_json()["devices"])
    table = Table(*heads, title=f"{found.log.path}: {pluralize(len(found.log), 'row')}, "
                  f"{pluralize(len(rows), 'device')}", title_justify="left")
    for row in rows if every else rows[:ROWS]:
        table.add_row(*row)
    console.print(table)
    if table.row_count < len(rows):
        console.print(f"... and {len(rows) - ROWS:,} more devices; --all shows them")
    for name, value in held_out_numbers(found):
        console.print(f"{name}: {value}")


def _print_prediction(found: Prediction, *, every: bool) -> None:
    result = found.as_json()
    table = listing(f"{result['rounds']} rounds, {result['seeds']} runs; medians and 95 % intervals")
    for name, key, dimension in (("time", "time_s", "time"), ("  a round", "round_s", "time"),
                                 ("energy", "energy_j", "energy")):
        one = result[key]
        table.add_row(name, "not in the log" if one is None else "{} ({} to {})".format(
            *(units.format(one[end], dimension) for end in ("value", "low", "high"))))
    dropped = result["dropped"]
    table.add_row("failed jobs", f"{dropped['value']:g} ({dropped['low']:.3g} to {dropped['high']:.3g})")
    limits = result["limits"] if every else result["limits"][:5]
    table.add_row("arrives last", ", ".join(f"{one['device']} {one['share']:.0%}" for one in limits))
    table.add_row("  its time", ", ".join(f"{part} {share:.0%}" for part, share in result["limited_by"].items()))
    screen().print(table)
