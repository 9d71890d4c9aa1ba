"""How fast traces are written, opened, broken down and exported: python benchmarks/trace.py [SPANS]."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from netsim import load_run, load_scenario
from netsim.analysis.export import export
from netsim.base.checksummed import write_object
from netsim.devices.population import device_table, draw_population
from netsim.trace.journal import ROWS_A_PART
from netsim.trace.recorder import Recorder
from netsim.trace.schema import CELL, SERVER, TABLES
from netsim.trace.store import add_checksums, part_files, read_checksums, verify, write_file, write_part

COHORT = 10
ROWS_A_ROUND = 7 * COHORT + 4


def main(spans: int) -> None:
    """Write a run of so many spans, then do with it what a user would."""
    with TemporaryDirectory(prefix="netsim-bench-") as folder:
        path = Path(folder) / "run"
        rows, write_s = write_run(path, spans)
        size_mb = sum(file.stat().st_size for file in path.rglob("*")) / 1e6
        print(f"{spans:,} spans, {rows:,} rows, {size_mb:.0f} MB on disk")
        report("write (record, compress, fsync)", write_s, spans)
        run = load_run(path)
        for name, work in (
            ("verify checksums (part of opening)", lambda: verify_all(path)),
            ("open, rounds", lambda: run.rounds),
            ("breakdown", run.breakdown),
            ("critical path", run.critical_path),
            ("export perfetto", lambda: export(run, "perfetto", path / "trace.json")),
            ("export parquet", lambda: export(run, "parquet", path / "trace.parquet")),
            ("export csv", lambda: export(run, "csv", path / "trace.csv")),
        ):
            report(name, timed(work), spans)
        assert run.critical_path().length_s == run.breakdown().totals["makespan_s"]


def verify_all(path: Path) -> None:
    """What opening the trace spends on its checksums."""
    checksums = read_checksums(path)
    for file in part_files(path, "trace", 10**9):
        verify(path, f"trace/{file.name}", checksums)


def timed(work: Callable[[], object]) -> float:
    """Wall-clock seconds of a call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def report(name: str, seconds: float, spans: int) -> None:
    """One line of the result."""
    print(f"{name:34s} {seconds:7.2f} s {spans / seconds:12,.0f} spans/s")


def write_run(path: Path, spans: int) -> tuple[int, float]:
    """A run as the simulator would leave it, with random times; returns its rows and the seconds spent on writing."""
    scenario = load_scenario("paper")
    population = draw_population(scenario, 0)
    for name in TABLES:
        (path / name).mkdir(parents=True)
    devices = device_table(scenario, population, {})
    files = (("scenario.toml", scenario.to_toml().encode()), ("devices.parquet", devices))
    add_checksums(path, [(name, write_file(path / name, content)) for name, content in files])
    rounds = -(-spans // (3 * COHORT + 1))                   # compute, upload, wait of each device, and the round
    rng = np.random.default_rng(0)
    cohorts = rng.random((rounds, len(population))).argsort(axis=1)[:, :COHORT].tolist()
    times = rng.uniform(0.02, 0.08, (rounds, COHORT, 2)).tolist()
    seconds = timed(lambda: record(path, cohorts, times))
    write_object(path / "run.json", {
        "format": 2, "scenario": "paper", "seed": 0, "status": "finished", "round": rounds})
    return rounds * ROWS_A_ROUND, seconds


def record(path: Path, cohorts: list[list[int]], times: list[list[list[float]]]) -> None:
    """Record round after round, and store parts as they fill."""
    recorder, began, now, last = Recorder(), 1, 0.0, []
    for played, (cohort, spent) in enumerate(zip(cohorts, times, strict=True), 1):
        now, last = play(recorder, now, last, cohort, spent)
        if len(recorder) >= ROWS_A_PART or played == len(cohorts):
            write_part(path, began, recorder.take())
            began = played + 1


def play(
    recorder: Recorder, now: float, last: list[int], cohort: list[int], times: list[list[float]],
) -> tuple[float, list[int]]:
    """One round: when it ends, and the row that the next one follows."""
    selected = recorder.instant("select", SERVER, now, value=COHORT, after=last)
    allocated = recorder.instant("allocate", SERVER, now, value=COHORT, after=[selected])
    ends = []
    for device, (compute_s, upload_s) in zip(cohort, times, strict=True):
        computed = now + compute_s
        row = recorder.span("compute", device, now, computed, energy_j=0.01, after=[allocated])
        recorder.counter("battery", device, computed, 1.0)
        recorder.counter("bandwidth", CELL, computed, 1e6)
        sent = computed + upload_s
        row = recorder.span("upload", device, computed, sent, energy_j=0.01, after=[row])
        recorder.counter("battery", device, sent, 1.0)
        recorder.counter("bandwidth", CELL, sent, 0.0)
        ends.append((sent, row))
    end = max(ends)[0]
    for device, (sent, _) in zip(cohort, ends, strict=True):
        recorder.span("wait", device, sent, end)
    done = recorder.span("aggregate", SERVER, end, end, value=COHORT, after=[row for _, row in ends])
    recorder.span("round", SERVER, now, end, value=COHORT)
    return end, [done]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
