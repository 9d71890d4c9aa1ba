"""Rows, links and parts of a trace."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from refused import refused
from small_runs import sign

from netsim.trace.recorder import Recorder
from netsim.trace.schema import ROWS, SERVER, TABLES
from netsim.trace.store import part_files, read_checksums, write_part
from netsim.trace.store import scan as scan_parts


def scan(folder, table, last_round):
    return scan_parts(folder, table, last_round, read_checksums(folder))


def recorded() -> Recorder:
    recorder = Recorder()
    recorder.restore({"counts": np.array([5, 2])})
    start = recorder.instant("select", SERVER, 1.0, value=2)
    span = recorder.span("compute", 7, 1.0, 2.5, energy_j=0.25, after=[start])
    recorder.counter("battery", 7, 2.5, 9.75)
    recorder.span("upload", 7, 2.5, 3.0, energy_j=0.125, after=[start, span])
    return recorder


def test_a_part_holds_rows_and_links_in_the_order_of_recording():
    part = recorded().take()
    assert tuple(part.rows) == tuple(ROWS)
    assert part.rows["seq"] == [5, 6, 7, 8]
    assert part.rows["round"] == [3, 3, 3, 3]
    assert part.rows["kind"] == ["instant", "span", "counter", "span"]
    assert part.rows["t1"] == [1.0, 2.5, 2.5, 3.0]
    assert list(zip(part.links["src"], part.links["dst"], strict=True)) == [(5, 6), (5, 8), (6, 8)]


def test_taking_a_part_leaves_the_recorder_empty_and_the_numbers_go_on():
    recorder = recorded()
    recorder.take()
    assert len(recorder) == 0
    assert recorder.span("compute", 1, 0.0, 1.0) == 9
    assert recorder.take().links == {"src": [], "dst": []}


def test_the_fingerprint_depends_on_every_value_and_on_what_came_before():
    one = recorded().take()
    assert one.sha256("") == recorded().take().sha256("")
    assert one.sha256("") != one.sha256("something else before")
    for change in ("device", "t1", "energy_j", "name"):
        other = recorded().take()
        rows = {**other.tables["trace"]}
        rows[change] = rows[change] + np.eye(1, len(rows[change]), 1, dtype=rows[change].dtype)[0]
        assert one.sha256("") != replace(other, tables={**other.tables, "trace": rows}).sha256("")
    assert one.sha256("") != replace(one, texts=(*one.texts[:-1], "wait")).sha256("")


@pytest.fixture
def folder(tmp_path):
    for name in TABLES:
        (tmp_path / name).mkdir()
    return tmp_path


def test_parts_come_back_as_they_were_written(folder):
    part = recorded().take()
    write_part(folder, 3, part)
    assert (folder / "trace" / "part-00003.parquet").exists()
    assert scan(folder, "trace", 3).collect().to_dict(as_series=False) == part.rows
    assert scan(folder, "links", 3).collect().to_dict(as_series=False) == part.links


def test_the_same_part_is_the_same_bytes(folder):
    write_part(folder, 3, recorded().take())
    first = (folder / "trace" / "part-00003.parquet").read_bytes()
    write_part(folder, 3, recorded().take())
    assert (folder / "trace" / "part-00003.parquet").read_bytes() == first


def test_parts_are_read_in_the_order_of_their_rounds_and_only_the_complete_ones(folder):
    for first_round in (100000, 3, 99999):
        write_part(folder, first_round, recorded().take())
    assert [path.name for path in part_files(folder, "trace", 99999)] == ["part-00003.parquet", "part-99999.parquet"]


def test_no_parts_make_an_empty_trace(folder):
    assert scan_parts(folder, "trace", 9, {}).collect().columns == list(ROWS)


def test_a_truncated_part_is_named(folder):
    write_part(folder, 3, recorded().take())
    file = folder / "trace" / "part-00003.parquet"
    file.write_bytes(file.read_bytes()[:40])
    with refused("damaged", "part-00003.parquet"):
        scan(folder, "trace", 3)


def test_a_foreign_part_is_named(folder):
    pl.DataFrame({"a": [1]}).write_parquet(folder / "trace" / "part-00001.parquet")
    sign(folder)
    with refused("damaged", ".parquet"):
        scan(folder, "trace", 3)
    (folder / "trace" / "part-one.parquet").write_bytes(b"")
    with refused("damaged", "part-one.parquet"):
        part_files(folder, "trace", 3)


def test_which_round_a_row_is_of_is_read_off_the_rounds_before_it():
    recorder = Recorder()
    for k in range(3):
        recorder.instant("select", SERVER, float(k))
        recorder.span("round", SERVER, float(k), k + 1.0)
        if k == 1:
            assert recorder.take().rows["round"] == [1, 1, 2, 2]
    assert recorder.take().rows["round"] == [3, 3]


def test_many_rows_at_once_are_the_same_as_one_at_a_time():
    one, many = Recorder(), Recorder()
    for device in range(3):
        one.span("compute", device, 0.0, 1.0 + device, energy_j=0.5)
        one.link(0, device)
    name = many.text("compute")
    kind = value = t0 = np.zeros(3)
    device, job = np.arange(3), np.full(3, -1)
    many.add_rows(np.array([kind, np.full(3, name), device, job, t0, 1.0 + device, value, np.full(3, 0.5)]))
    many.add_links(np.zeros(3), np.arange(3))
    assert one.take().sha256("") == many.take().sha256("")


def test_checksums_are_what_sha256sum_reads(folder):
    import shutil
    import subprocess

    if shutil.which("sha256sum") is None:
        pytest.skip("no sha256sum here")
    write_part(folder, 1, recorded().take())
    done = subprocess.run(["sha256sum", "--check", "--strict", "checksums.sha256"], cwd=folder, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == 3
