"""Shards of a sweep in one folder: joined, they are the sweep."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from refused import refused

from netsim.executors.factory import ExecutorFactory
from netsim.executors.workers import InProcess
from netsim.sweep.points import SweepProgress, sole_user
from netsim.sweep.sweep import Shard, merge, run_all, run_shard
from netsim.sweep.sweep_file import Sweep, load_sweep

HERE = ExecutorFactory(InProcess, at_once=1)
FILE = ('scenario = "tiny"\nseeds = 10\nlearning = false\n'
        '[set]\nend.rounds = 2\n[grid]\ncell.bandwidth = ["5 MHz", "9 MHz"]\n')


def sweep_in(folder: Path, text: str = FILE) -> Sweep:
    folder.mkdir(exist_ok=True)
    (folder / "few.toml").write_text(text)
    return load_sweep(folder / "few.toml", folder / "results")


def nothing(at: SweepProgress) -> None:
    pass


def contents(sweep: Sweep) -> dict[str, bytes]:
    """Every file of a sweep, without the wall-clock seconds of its records and the path of its runs."""
    found = {}
    for path in sorted(sweep.folder.rglob("*")):
        if path.is_file() and not path.name.startswith("lock"):
            content = path.read_bytes()
            if path.suffix == ".json":
                content = re.sub(rb'"(seconds|sealed|sha256|summary_sha256|run_dir)": ("[^"]*"|[0-9.]+)', b"", content)
            found[str(path.relative_to(sweep.folder))] = content
    return found


@pytest.mark.slow
def test_sixteen_shards_joined_are_the_sweep_byte_for_byte(tmp_path: Path) -> None:
    whole, parts = sweep_in(tmp_path / "whole"), sweep_in(tmp_path / "parts")
    run_all(whole, HERE)
    done = [len(run_shard(parts, Shard(number, 16), HERE, nothing)) for number in range(16, 0, -1)]
    assert sorted(done) == [1] * 12 + [2] * 4
    assert not (parts.folder / "table.parquet").exists()
    assert merge(parts).read_bytes() == (whole.folder / "table.parquet").read_bytes()
    assert contents(parts).keys() == contents(whole).keys()
    different = [name for name, content in contents(parts).items() if content != contents(whole)[name]]
    assert all("checksums" in name for name in different), different      # of summaries, which name their folder


def test_a_shard_that_was_stopped_runs_again_and_only_what_is_missing(tmp_path: Path) -> None:
    class StopsAtTheThird(InProcess):
        points = 0

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            self.points += 1
            if self.points == 3:
                raise KeyboardInterrupt
            return super().submit(*args, **kwargs)

    parts = sweep_in(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_shard(parts, Shard(1, 4), ExecutorFactory(StopsAtTheThird, at_once=1), nothing)
    kept = {point.record: point.record.stat().st_mtime_ns for point in parts.points if point.finished}
    assert len(kept) == 2
    assert len(run_shard(parts, Shard(1, 4), HERE, nothing)) == 5
    assert {record: record.stat().st_mtime_ns for record in kept} == kept


def test_shards_run_side_by_side_but_not_twice_and_not_beside_the_whole_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("netsim.base.files.LET_GO_S", 0)
    parts = sweep_in(tmp_path)
    with sole_user(parts.folder, shared=True):
        run_shard(parts, Shard(1, 8), HERE, nothing)
        with refused("busy", str(parts.folder)):
            run_all(parts, HERE)
        with refused("busy", str(parts.folder)):
            merge(parts)
    with sole_user(parts.folder), refused("busy", str(parts.folder)):
        run_shard(parts, Shard(2, 8), HERE, nothing)


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "1/0", "-1/4", "1/99999999"])
def test_what_is_no_shard_is_refused(netsim: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "few.toml").write_text(FILE)
    code, _, said = netsim("sweep", "few.toml", f"--shard={text}")
    assert code == 2
    assert "--shard" in said
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_a_merge_names_what_is_missing(netsim: Any, tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text(FILE.replace("seeds = 10", "seeds = 2"))
    code, out, _ = netsim("sweep", "few.toml", "--shard", "1/4", "--workers", "1")
    assert (code, "1 point" in out) == (0, True)
    code, out, said = netsim("sweep", "few.toml", "--merge")
    assert code == 1
    assert "missing: 3 points" in said
    assert "table.parquet" in out


@pytest.mark.extended
def test_a_killed_shard_runs_again_to_the_same_table(tmp_path: Path) -> None:
    text = FILE.replace("end.rounds = 2", "end.rounds = 300").replace("seeds = 10", "seeds = 3")
    whole, parts = sweep_in(tmp_path / "whole", text), sweep_in(tmp_path / "parts", text)
    run_all(whole, HERE)
    command = [sys.executable, "-m", "netsim", "sweep", "few.toml", "--workers", "1", "--shard"]
    killed = subprocess.Popen([*command, "1/2"], cwd=tmp_path / "parts", stderr=subprocess.DEVNULL)
    while not any(point.rounds_played for point in parts.points) and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    for shard in ("2/2", "1/2"):
        subprocess.run([*command, shard], cwd=tmp_path / "parts", check=True, capture_output=True)
    assert merge(parts).read_bytes() == (whole.folder / "table.parquet").read_bytes()
    assert json.loads((parts.folder / "sweep.json").read_text()) == json.loads(
        (whole.folder / "sweep.json").read_text())
