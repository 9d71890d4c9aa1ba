"""What a stranger may send along: links in a sweep's folder, endless and huge files."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import commands

from netsim import InputError, load_scenario, simulate
from netsim.devices.population import draw_population, table_numbers
from netsim.environment.channel import round_gain
from netsim.executors.factory import ExecutorFactory
from netsim.executors.workers import InProcess
from netsim.learning import dataset_files, npz_datasets
from netsim.learning.datasets import cached
from netsim.learning.training_cache import once
from netsim.scenario import Scenario
from netsim.sweep.points import kept_record
from netsim.sweep.sweep import run_all, status
from netsim.sweep.sweep_file import Sweep, load_sweep

pytestmark = pytest.mark.slow

HERE = ExecutorFactory(InProcess, at_once=1)
LIMIT_S = 20


def netsim(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and standard error of a command; it may take neither long nor much memory."""
    done = commands().run(folder, *words, cpu_s=LIMIT_S, most_bytes=6 << 30)
    return done.returncode, done.stderr.decode()


def refused(folder: Path, *words: str) -> str:
    """The one sentence that a command ends in."""
    code, said = netsim(folder, *words)
    assert code == 2, said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert len(said) < 2000
    return said


# Links.

@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    (tmp_path / "pair.toml").write_text('scenario = "tiny"\nseeds = 2\nlearning = false\n', encoding="utf-8")
    return load_sweep(tmp_path / "pair.toml", tmp_path / "results")


def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    (place / "precious.npz").write_bytes(b"precious")
    return place


@pytest.mark.parametrize("name", [".", "..", "cells", "runs", "shared", "runs/CELL"])
def test_a_sweep_stays_in_its_folder(tmp_path: Path, sweep: Sweep, name: str) -> None:
    elsewhere = outside(tmp_path)
    link = {".": sweep.folder, "..": sweep.folder.parent}.get(
        name, sweep.folder / name.replace("CELL", sweep.points[0].run.name))
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(InputError, match="found a link"):
        run_all(sweep, HERE)
    assert [file.name for file in elsewhere.iterdir()] == ["precious.npz"]


@pytest.mark.parametrize("name", [
    "lock", "table.parquet", "table.parquet.tmp", "cells/CELL.json", "cells/CELL.json.tmp", "cells/CELL.error"])
def test_no_file_of_a_sweep_is_written_through_a_link(tmp_path: Path, sweep: Sweep, name: str) -> None:
    precious = outside(tmp_path) / "precious.npz"
    link = sweep.folder / name.replace("CELL", sweep.points[0].run.name)
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    if name == "lock":
        with pytest.raises(InputError, match="lock: .*found a link"):
            run_all(sweep, HERE)
    else:
        (link.parent / "before").symlink_to(precious)
        if not name.endswith(".json"):      # a record that is there, even by a link, is not made again
            run_all(sweep, HERE)
    assert precious.read_bytes() == b"precious"


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_record_is_not_kept_behind_a_link(tmp_path: Path, levels: int) -> None:
    folder = tmp_path / "cells" / "data" / "sigma"
    link = (folder, *folder.parents)[levels - 1]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside(tmp_path))
    with pytest.raises(InputError, match="found a link"):
        kept_record(folder / "record.json", {"a": 1}, lambda: {"b": 2})


def test_what_is_shared_and_caches_stay_in_their_folders(tmp_path: Path) -> None:
    elsewhere = outside(tmp_path)
    (tmp_path / "shared").symlink_to(elsewhere)
    with pytest.raises(InputError, match="found a link"):
        once(tmp_path / "shared", "key", dict)
    (tmp_path / ".netsim-cache").symlink_to(elsewhere)
    images = dataset_files.decoded(np.zeros((2, 1, 1, 1), np.uint8), np.zeros(2, np.int64), 1, ["a"])
    cached("test", tmp_path, [], lambda files: images)
    assert [file.name for file in elsewhere.iterdir()] == ["precious.npz"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(load_scenario("tiny"), tmp_path_factory.mktemp("strangers") / "run").path


@pytest.mark.parametrize(("words", "name"), [
    (["export", "run", "--format", "csv", "-o"], "x.csv"), (["export", "run", "--format", "perfetto", "-o"], "x.json"),
    (["export", "run", "--format", "parquet", "-o"], "x.parquet"), (["report", "run", "-o"], "x.html"),
    (["breakdown", "run", "--figure"], "x.png"), (["allocate", "tiny", "--figure"], "x.svg"),
    (["data", "digits", "--partition", "iid", "--figure"], "x.pdf"),
], ids=lambda value: value if isinstance(value, str) else value[0])
def test_no_export_writes_through_a_link(tmp_path: Path, run: Path, words: list[str], name: str) -> None:
    precious = outside(tmp_path) / "precious.npz"
    shutil.copytree(run, tmp_path / "run")
    for link in (name, f"{name}.tmp"):
        (tmp_path / link).symlink_to(precious)
    code, said = netsim(tmp_path, *words, name, "--force")
    assert code == 0, said
    assert precious.read_bytes() == b"precious"
    assert not (tmp_path / name).is_symlink()


@pytest.mark.parametrize("words", [
    ["run", "tiny"], ["sweep", "pair.toml"], ["reproduce", "--quick", "table2"]], ids=lambda words: words[0])
@pytest.mark.parametrize("dangling", [False, True])
def test_results_that_are_a_link_lead_nowhere(tmp_path: Path, sweep: Sweep, words: list[str], dangling: bool) -> None:
    elsewhere = tmp_path / "missing" if dangling else outside(tmp_path)
    (tmp_path / "results").symlink_to(elsewhere)
    assert "results: " in refused(tmp_path, *words)
    assert dangling != elsewhere.exists()
    assert dangling or [file.name for file in elsewhere.iterdir()] == ["precious.npz"]


@pytest.mark.parametrize("name", ["quick", "paper", "beyond"])
def test_a_folder_of_results_that_is_a_link_leads_nowhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / name).symlink_to(outside(tmp_path))
    refused(tmp_path, "reproduce", "table2", *(["--quick"] if name == "quick" else []))
    assert [file.name for file in (tmp_path / "outside").iterdir()] == ["precious.npz"]


# Endless and huge files.

KINDS: dict[str, Callable[[Path], object]] = {
    "device": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "deep": lambda path: path.write_text("[" * 200_000, encoding="utf-8"),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe\x00" * 1000),
}
WHERE = {
    "scenario": ["check", "file.toml"],
    "base": ["check", "based.toml"],
    "sweep": ["sweep", "file.toml"],
    "fleet": ["check", "tiny", "--set", "population.node.devices=file.toml"],
    "gains": ["check", "tiny", "--set", "cell.gain_trace=file.toml"],
    "split": ["data", "digits", "--partition", "file:path=file.toml", "--devices", "2"],
    "split of a run": ["run", "quickstart", "--set", 'learning.partition={kind="file",path="file.toml"}'],
    "policy": ["check", "quickstart", "--set", "selection.method=favor", "--set", "selection.policy=file.toml"],
}


@pytest.mark.parametrize(("where", "kind"), [
    pytest.param(where, kind, marks=() if where == "scenario" or kind == "device" else pytest.mark.extended)
    for where in WHERE for kind in KINDS])
def test_no_file_is_read_without_end(tmp_path: Path, where: str, kind: str) -> None:
    KINDS[kind](tmp_path / "file.toml")
    (tmp_path / "based.toml").write_text('base = "file.toml"\n', encoding="utf-8")
    assert "file.toml" in refused(tmp_path, *WHERE[where])


@pytest.mark.parametrize("where", ["scenario", "sweep", "fleet", "gains", "split"])
def test_no_huge_file_is_read(tmp_path: Path, where: str) -> None:
    with (tmp_path / "file.toml").open("wb") as file:
        file.truncate(1 << 40)
    assert "found a larger file" in refused(tmp_path, *WHERE[where])


@pytest.mark.parametrize("kind", ["device", "pipe", "deep", "bytes"])
def test_records_of_a_sweep_too(sweep: Sweep, kind: str) -> None:
    cell = sweep.points[0]
    cell.record.parent.mkdir(parents=True)
    KINDS[kind](cell.record)
    (cell.run).mkdir(parents=True)
    KINDS[kind](cell.run / "run.json")
    assert cell.rounds_played == 0
    assert status(sweep).finished == 1
    with pytest.raises(InputError, match="is damaged"):
        run_all(sweep, HERE)


def test_a_long_chain_of_base_files(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f"s{number}.toml").write_text(f'base = "s{number + 1}.toml"\n', encoding="utf-8")
    (tmp_path / "s1500.toml").write_text('base = "tiny"\n', encoding="utf-8")
    assert "base: is too large" in refused(tmp_path, "check", "s0.toml")
    load_scenario(tmp_path / "s1485.toml")


def png(width: int, height: int, rows: int) -> bytes:
    """A grey picture that says it is so large, with so many rows of data."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(bytes(1 + width)) for _ in range(rows)) + packer.flush()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", data) + chunk(b"IEND", b""))


@pytest.mark.parametrize(("content", "said"), [
    (png(30_000, 30_000, 1000), "decompression bomb"), (png(13_000, 13_000, 10), "decompression bomb"),
    (png(9_000, 9_000, 10), "9000x9000 pixels; expected at most 16 million"),
    (png(5_000, 5_000, 5_000), "at most 16 million"),
    (b"", "x.png: cannot be read"), (png(8, 8, 8)[:40], "x.png: cannot be read"),
], ids=["beyond PIL's bound", "near it", "beyond ours", "whole", "empty", "cut"])
def test_a_picture_that_unpacks_to_too_much(tmp_path: Path, content: bytes, said: str) -> None:
    for part in ("train", "test"):
        (tmp_path / part / "a").mkdir(parents=True)
        (tmp_path / part / "a" / "x.png").write_bytes(content)
    assert said in refused(tmp_path, "data", "image-folder", "--root", ".")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_picture_that_never_ends(tmp_path: Path, kind: str) -> None:
    for part in ("train", "test"):
        (tmp_path / part / "a").mkdir(parents=True)
        KINDS[kind](tmp_path / part / "a" / "x.png")
    assert "no plain file" in refused(tmp_path, "data", "image-folder", "--root", ".")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_arrays_that_never_end(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "x.npz")
    assert "no plain file" in refused(tmp_path, "data", "arrays", "--root", ".")


@pytest.mark.parametrize("label", [10**12, 2**63 - 1, 2**64 - 1])
def test_a_label_beyond_all_classes(tmp_path: Path, label: int) -> None:
    """A name for each class up to it would fill the memory."""
    images, labels = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 2, label], np.uint64)
    np.savez(tmp_path / "x.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    with pytest.raises(InputError, match=f"train_labels: is out of range .found label {label};"):
        npz_datasets.read_arrays([tmp_path / "x.npz"])


def test_packed_data_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    monkeypatch.setattr(dataset_files, "MOST_BYTES", 1_000_000)
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(2_000_000)))
    with pytest.raises(InputError, match="more than 1 MB unpacked"):
        dataset_files._idx(tmp_path / "x.gz")


# Many complaints.

def test_a_wrong_column_is_told_in_short(tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text("power,budget\n" + "23 dBm,20 Hz\n" * 16_000, encoding="utf-8")
    (tmp_path / "own.toml").write_text('base = "tiny"\n[[population]]\nname = "node"\ndevices = "fleet.csv"\n',
                                       encoding="utf-8")
    with pytest.raises(InputError) as told:
        load_scenario(tmp_path / "own.toml")
    lines = str(told.value).splitlines()
    assert 5 < len(lines) <= 11
    assert lines[-1] == f"... and {16_000 - len(lines) + 1:,} more"
    assert (told.value.code, told.value.key, told.value.found) == ("wrong-unit", 'column "budget"', '"20 Hz"')
    assert told.value.source.endswith("fleet.csv, line 2")


def test_a_key_of_any_length_is_told_in_short(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(f'base = "tiny"\n{"x" * 100_000} = 1\n', encoding="utf-8")
    assert len(refused(tmp_path, "check", "long.toml")) < 2000


def test_a_million_cells_are_looked_over(tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text(
        'scenario = "tiny"\nseeds = 100000\nlearning = false\n[grid]\nend.rounds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n',
        encoding="utf-8")
    sweep = load_sweep(tmp_path / "many.toml", tmp_path)
    (sweep.folder / "cells").mkdir(parents=True)
    for seed in range(1000):
        key = sweep.key(sweep.cases[0].digest, seed)
        (sweep.folder / "cells" / f"{key}.{'error' if seed % 2 else 'json'}").write_bytes(b"{}")
    found = status(load_sweep(tmp_path / "many.toml", tmp_path))
    assert (found.total, found.finished, len(found.failed), found.waiting) == (1_000_000, 500, 500, 999_000)


# Names with the same checksum.

def test_populations_whose_names_collide_are_different_devices(tmp_path: Path) -> None:
    def world(*names: str) -> Scenario:
        whole = load_scenario("tiny", ["cell.fading=rayleigh", "population.node.count=5"]).to_toml()
        begin = whole.index("[[population]]")
        end = whole.index("\n[", begin) + 1
        tables = [whole[begin:end].replace('name = "node"', f'name = "{name}"') for name in names]
        (tmp_path / "world.toml").write_text(whole[:begin] + "".join(tables) + whole[end:], encoding="utf-8")
        return load_scenario(tmp_path / "world.toml")

    both, first, second = world("plumless", "buckeroo"), world("plumless", "other"), world("buckeroo")
    assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
    assert len(set(table_numbers(both))) == 2
    assert table_numbers(first) == [zlib.crc32(b"plumless"), zlib.crc32(b"other")]
    assert table_numbers(second) == [zlib.crc32(b"buckeroo")]
    size = first.population[0].size
    drawn = draw_population(both, 1)
    assert not np.intersect1d(drawn.x_m[:size], drawn.x_m[size:]).size
    assert np.array_equal(drawn.x_m[:size], draw_population(first, 1).x_m[:size])      # the earlier keeps its draws
    gain = round_gain(both, drawn, 1, 1) / drawn.gain
    assert not np.intersect1d(gain[:size], gain[size:]).size


# Files that a scenario names, and that are no tables: nothing of them is quoted.

SECRET = "s3cret-t0ken"


@pytest.mark.parametrize("content", [
    f"{SECRET}\n", f"name,{SECRET}\na,b\n", f"ssh-rsa {SECRET}\nmore\n", f'"{SECRET}\n', f"1\n{SECRET}\n",
    f"t,1\n0,{SECRET}\n", f"a,{SECRET},c\n1,2\n", f"device,{SECRET}\n0,1\n", f"{SECRET},{SECRET}\n1,2\n"])
@pytest.mark.parametrize("key", [
    'devices = "key.txt"', 'mobility = { model = "recorded", tracks = "key.txt" }',
    'availability = { model = "recorded", intervals = "key.txt" }', None])
def test_an_error_quotes_nothing_of_a_file_that_is_no_table(tmp_path: Path, content: str, key: str | None) -> None:
    (tmp_path / "key.txt").write_text(content, encoding="utf-8")
    own = f'[[population]]\nname = "node"\n{key}\n' if key else '[cell]\ngain_trace = "key.txt"\n'
    (tmp_path / "own.toml").write_text(f'base = "tiny"\n{own}', encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_scenario(tmp_path / "own.toml")
    assert SECRET not in str(refused.value)
    assert "key.txt" in str(refused.value) or "gain_trace" in str(refused.value)
