"""Traces that were cut, mixed up, or are none."""

from __future__ import annotations

import fcntl
from pathlib import Path

import polars as pl
import pytest
from refused import refused
from small_runs import say, sign

from netsim.analysis.export import export
from netsim.base.errors import InputError
from netsim.run import Run, load_run


def open_all(path: Path) -> None:
    """Everything that a user would do with a run."""
    run = load_run(path)
    run.breakdown()
    run.critical_path()
    assert run.jobs is not None
    export(run, "perfetto", path / "trace.json")


@pytest.mark.parametrize("kind", ["trace", "links", "jobs"])
@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_a_truncated_part_is_named(two: Run, kind: str, keep: int) -> None:
    file = two.path / kind / "part-00002.parquet"
    file.write_bytes(file.read_bytes()[:keep])
    with refused("damaged", "part-00002.parquet"):
        open_all(two.path)


def test_damage_inside_a_part_is_an_input_error(two: Run) -> None:
    file = two.path / "trace" / "part-00001.parquet"
    content = bytearray(file.read_bytes())
    content[4:300] = b"\0" * 296
    file.write_bytes(content)
    with pytest.raises(InputError, match="trace"):
        open_all(two.path)


def test_a_foreign_part_is_named(two: Run) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(two.path / "trace" / "part-00002.parquet")
    sign(two.path)
    with refused("damaged", "part-00002.parquet"):
        open_all(two.path)


def test_a_part_of_another_run_does_not_fit(two: Run) -> None:
    file = two.path / "trace" / "part-00002.parquet"
    pl.read_parquet(file).with_columns(pl.col("seq") + 5).write_parquet(file)
    sign(two.path)
    with refused("damaged", "trace"):
        open_all(two.path)


def test_a_missing_part_is_noticed(two: Run) -> None:
    (two.path / "trace" / "part-00002.parquet").unlink()
    with refused("missing", "trace/part-00002.parquet"):
        open_all(two.path)


def test_a_run_being_written_is_not_opened(two: Run) -> None:
    with (two.path / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with refused("busy", str(two.path)):
            load_run(two.path)


def test_a_run_without_a_complete_round_has_nothing_to_show(two: Run) -> None:
    say(two.path, round=0, status="running")
    run = load_run(two.path)
    for look in (run.breakdown, run.critical_path):
        with refused("empty", str(two.path)):
            look()


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": 99, "round": 1}', '{"format": 2, "round": 2}'])
def test_a_foreign_run_json_is_refused(two: Run, content: str) -> None:
    (two.path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json"):
        load_run(two.path)


def test_a_damaged_table_of_devices_is_named(two: Run) -> None:
    (two.path / "devices.parquet").write_bytes(b"PAR1")
    with refused("damaged", "devices.parquet"):
        open_all(two.path)


def test_a_missing_part_of_links_is_noticed(two: Run) -> None:
    (two.path / "links" / "part-00002.parquet").unlink()
    with refused("missing", "links"):
        export(load_run(two.path), "perfetto", two.path / "trace.json")


@pytest.mark.parametrize("column", ["t0", "t1", "energy_j", "value"])
@pytest.mark.parametrize("damage", [float("nan"), float("-inf"), 1e300, None])
def test_what_is_no_number_is_noticed(two: Run, column: str, damage: float | None) -> None:
    file = two.path / "trace" / "part-00002.parquet"
    pl.read_parquet(file).with_columns(pl.lit(damage, pl.Float64).alias(column)).write_parquet(file)
    sign(two.path)
    for look in (lambda run: export(run, "perfetto", two.path / "trace.json"), Run.breakdown, Run.critical_path):
        with refused("damaged", "trace"):
            look(load_run(two.path))


def test_a_counter_may_be_infinite(two: Run) -> None:
    file = two.path / "trace" / "part-00002.parquet"
    counter = pl.col("kind") == "counter"
    endless = pl.when(counter).then(float("inf")).otherwise("value")
    pl.read_parquet(file).with_columns(value=endless).write_parquet(file)
    sign(two.path)
    export(load_run(two.path), "perfetto", two.path / "trace.json")


def test_a_trace_without_ends_of_rounds_is_noticed(two: Run) -> None:
    for file in (two.path / "trace").iterdir():
        pl.read_parquet(file).with_columns(pl.col("name").replace("aggregate", "something")).write_parquet(file)
    sign(two.path)
    with refused("damaged", "trace"):
        load_run(two.path).critical_path()


def test_a_table_of_something_else_is_noticed(two: Run) -> None:
    pl.DataFrame({"device": [0]}).write_parquet(two.path / "devices.parquet")
    sign(two.path)
    with refused("damaged", "devices.parquet"):
        load_run(two.path).breakdown()


def test_a_run_of_format_1_is_refused_in_one_sentence(two: Run) -> None:
    say(two.path, format=1)
    with refused("other-version", str(two.path)):
        load_run(two.path)


@pytest.mark.parametrize("name", ["trace/part-00001.parquet", "links/part-00002.parquet", "jobs/part-00001.parquet",
                                  "devices.parquet", "scenario.toml"])
@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_one_changed_byte_anywhere_is_noticed(two: Run, name: str, place: float) -> None:
    file = two.path / name
    content = bytearray(file.read_bytes())
    content[int(place * len(content))] ^= 1
    file.write_bytes(content)
    with refused("damaged", file.name):
        open_all(two.path)


def test_a_run_without_its_checksums_is_damaged(two: Run) -> None:
    (two.path / "checksums.sha256").unlink()
    with refused("unreadable", "checksums.sha256"):
        open_all(two.path)
