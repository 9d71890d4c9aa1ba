"""A damaged run never passes for a whole one: every command says so, or answers as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from levels import extended

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))
from fuzzing.commands import netsim  # noqa: E402
from fuzzing.folders import RUNS, folder_case, make_runs, readers  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    argv = sys.argv
    make_runs(folder)
    sys.argv = argv
    return folder


def test_the_runs_to_damage_hold_every_kind_of_file(home: Path) -> None:
    files = {path.name for path in (home / "whole").rglob("*") if path.is_file()}
    assert {"uploads.f32", "uploads-journal.npz", "checkpoint.npz", "run.json", "summary.json", "scenario.toml",
            "devices.parquet", "checksums.sha256", "part-00001.parquet"} <= files
    for name in ("rounds", "learned", "cut"):
        assert json.loads((home / f"{name}.json").read_text()).keys() == {"breakdown", "path", "export", "resume",
                                                                         "again"}


@pytest.mark.parametrize("cases", [15, *extended([40])])
def test_damage_is_told_or_changes_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: int
) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    here, ends = os.getcwd(), Counter[str]()
    for number in range(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        ends[folder_case(random.Random(f"suite-{number}"), folder, home)] += 1
    os.chdir(here)
    assert ends["refused"] > cases / 2


@pytest.mark.parametrize("name", ["uploads.f32", "uploads-journal.npz", "checkpoint.npz", "run.json"])
def test_one_bit_of_what_an_unfinished_run_needs(
    home: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    run = tmp_path / "run"
    shutil.copytree(home / "whole" / "cut", run)
    content = bytearray((run / name).read_bytes())
    for row in range(6 if name == "uploads.f32" else 1):      # the journal mends those of the last round
        content[(2 * row + 1) * len(content) // 12] ^= 4
    (run / name).write_bytes(content)
    answer = netsim(*RUNS["cut"], "--out", run, "--resume")
    assert answer.refused, answer.err
    assert name in answer.err


@pytest.mark.parametrize("change", [{"round": 1}, {"seed": 7}, {"status": "running"}, {"trace_sha256": "0"}])
def test_run_json_that_says_something_else(home: Path, tmp_path: Path, change: dict[str, object],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    run = tmp_path / "run"
    shutil.copytree(home / "whole" / "rounds", run)
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, **change}))
    for _, answer in readers("rounds", run):
        assert answer.refused
        assert "run.json" in answer.err
