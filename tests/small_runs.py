"""Small runs whose breakdown and critical path one can work out by hand."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from netsim.base.checksummed import read_object, write_object
from netsim.run import Run, load_run
from netsim.trace.recorder import Part, Recorder
from netsim.trace.schema import CELL, SERVER, TABLES
from netsim.trace.store import CHECKSUMS, add_checksums, write_part

SCENARIO = """
description = "two devices"

[cell]
radius = "100 m"
bandwidth = "1 MHz"

[[population]]
name = "phone"
count = 3
cpu = { min = "1 GHz", max = "2 GHz", cycles_per_sample = 1e4 }
radio = { power = "100 mW" }
budget = "4 J"
battery = "10 J"

[learning]
bits = "1 Mbit"

[selection]
method = "fedavg"
cohort = 2
"""


def store(path: Path, *parts: tuple[int, Part], rounds: int, scenario: str = "two") -> Run:
    """A run directory with these parts, each with its first round."""
    for folder in TABLES:
        (path / folder).mkdir(parents=True)
    (path / "scenario.toml").write_text(SCENARIO)
    pl.DataFrame({
        "device": [0, 1, 2], "name": [None, None, "Ada"], "kind": ["phone"] * 3, "x_m": [10.0, 0.0, 50.0],
        "y_m": [0.0, 20.0, 50.0], "gain": [1e-9, 1e-10, 1e-11], "budget_j": [4.0] * 3,
        "battery_j": [10.0, 10.0, float("inf")], "samples": [500] * 3, "cycles_per_sample": [1e4] * 3,
    }, schema_overrides={"name": pl.String}).write_parquet(path / "devices.parquet")
    for first_round, part in parts:
        write_part(path, first_round, part)
    sign(path)
    info = {"format": 2, "scenario": scenario, "seed": 7, "status": "finished", "round": rounds}
    write_object(path / "run.json", info)
    return load_run(path)


def say(path: Path, **changes: Any) -> None:
    """Let run.json say something else, as if netsim had written it."""
    write_object(path / "run.json", {**read_object(path / "run.json", "a run's own word"), **changes})


def sign(path: Path) -> None:
    """Write the checksums of all files as they are now: what was changed passes for what netsim wrote."""
    (path / CHECKSUMS).unlink(missing_ok=True)
    files = [file for file in path.rglob("*") if file.suffix in (".parquet", ".toml")]
    add_checksums(path, [(str(file.relative_to(path)), sha256(file.read_bytes()).hexdigest()) for file in files])


def two_rounds() -> list[tuple[int, Part]]:
    """Two rounds in two parts.

    Round 1, 0 to 6 s: device 0 computes 2 s (2 J) and uploads 4 s (1 J) on 0.5 MHz; device 1 computes 1 s (1 J),
    uploads 2 s (0.5 J) on 0.25 MHz and waits 3 s.
    Round 2, 6 to 11 s: device 0 computes 1 s and uploads 1 s; device 1 computes 2 s and uploads 3 s; device 2 has no
    plan.
    """
    recorder = Recorder()
    select = recorder.instant("select", SERVER, 0.0, value=2)
    allocate = recorder.instant("allocate", SERVER, 0.0, value=2, after=[select])
    c1 = recorder.span("compute", 1, 0.0, 1.0, energy_j=1.0, after=[allocate])
    recorder.counter("battery", 1, 1.0, 9.0)
    recorder.counter("bandwidth", CELL, 1.0, 0.25e6)
    c0 = recorder.span("compute", 0, 0.0, 2.0, energy_j=2.0, after=[allocate])
    recorder.counter("battery", 0, 2.0, 8.0)
    recorder.counter("bandwidth", CELL, 2.0, 0.75e6)
    u1 = recorder.span("upload", 1, 1.0, 3.0, energy_j=0.5, after=[c1])
    recorder.counter("battery", 1, 3.0, 8.5)
    recorder.counter("bandwidth", CELL, 3.0, 0.5e6)
    u0 = recorder.span("upload", 0, 2.0, 6.0, energy_j=1.0, after=[c0])
    recorder.counter("battery", 0, 6.0, 7.0)
    recorder.counter("bandwidth", CELL, 6.0, 0.0)
    recorder.span("wait", 1, 3.0, 6.0)
    first = recorder.span("aggregate", SERVER, 6.0, 6.0, value=2, after=[u0, u1])
    recorder.counter("accuracy", SERVER, 6.0, 0.5)
    recorder.counter("loss", SERVER, 6.0, 1.0)
    recorder.span("round", SERVER, 0.0, 6.0, value=2)
    part_1 = recorder.take()

    select = recorder.instant("select", SERVER, 6.0, value=3, after=[first])
    recorder.instant("infeasible", 2, 6.0, after=[select])
    allocate = recorder.instant("allocate", SERVER, 6.0, value=2, after=[select])
    c0 = recorder.span("compute", 0, 6.0, 7.0, energy_j=1.0, after=[allocate])
    u0 = recorder.span("upload", 0, 7.0, 8.0, energy_j=0.25, after=[c0])
    recorder.counter("battery", 0, 8.0, 5.75)
    c1 = recorder.span("compute", 1, 6.0, 8.0, energy_j=2.0, after=[allocate])
    u1 = recorder.span("upload", 1, 8.0, 11.0, energy_j=0.75, after=[c1])
    recorder.counter("battery", 1, 11.0, 5.75)
    recorder.span("wait", 0, 8.0, 11.0)
    recorder.span("aggregate", SERVER, 11.0, 11.0, value=2, after=[u0, u1])
    recorder.span("round", SERVER, 6.0, 11.0, value=2)
    return [(1, part_1), (2, recorder.take())]
