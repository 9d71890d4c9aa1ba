"""A disk that is full, a folder that is read-only: a clear error, and a run that goes on where it was."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import commands

from netsim import load_scenario, simulate
from netsim.run import Run

Mount = Callable[[str], Path]
LEARNING = [
    "run", "quickstart", "--set", "population.phone.count=8", "--set", "end.rounds=2",
    "--set", "learning.local_iterations=1", "--seed", "5", "--workers", "1", "--json",
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Mount]:
    """A disk of its own, mounted with options such as "size=100k"; call again to change them."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk: full and read-only disks are not tried here")
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options: str) -> Path:
        again = "remount," if place.is_mount() else ""
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(place)], check=False,
                              capture_output=True, text=True)
        if done.returncode and not again:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        return place

    yield mount
    if place.is_mount():
        subprocess.run(["umount", str(place)], check=True)


def netsim(*words: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    done = commands().run(Path.cwd(), *map(str, words))
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of 200 rounds that met no trouble."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netsim.trace.journal.ROWS_A_PART", 200)
        return simulate(load_scenario("tiny", ["end.rounds=200"]), tmp_path_factory.mktemp("whole") / "run", seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["4k", "20k", "80k", "240k", "400k"])
def test_a_run_that_met_a_full_disk_goes_on_to_the_same_trace(
    small_disk: Mount, whole: Run, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setattr("netsim.trace.journal.ROWS_A_PART", 200)
    scenario = load_scenario("tiny", ["end.rounds=200"])
    disk = small_disk(f"size={size}")
    with pytest.raises(OSError, match="No space left on device") as error:
        simulate(scenario, disk / "run", seed=1)
    assert str(error.value.filename).startswith(str(disk / "run"))
    if (disk / "run" / "run.json").exists() and (complete := Run(disk / "run").last_round):
        assert Run(disk / "run").breakdown().rounds.height == complete       # what is there can be looked at
    small_disk("size=10m")
    again = simulate(scenario, disk / "run", seed=1, resume=True)
    assert again.summary["trace_sha256"] == whole.summary["trace_sha256"]
    assert again.events.equals(whole.events)


@pytest.mark.slow
def test_training_on_a_full_disk_ends_in_a_message_and_can_be_resumed(small_disk: Mount, tmp_path: Path) -> None:
    disk = small_disk("size=2m")
    ended = netsim(*LEARNING, "--out", disk / "run")
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert "No space left on device" in ended.stderr
    assert "--resume" in ended.stderr
    assert "Traceback" not in ended.stderr
    small_disk("size=200m")
    resumed = netsim(*LEARNING, "--out", disk / "run", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    whole = netsim(*LEARNING, "--out", tmp_path / "whole")
    assert json.loads(resumed.stdout)["trace_sha256"] == json.loads(whole.stdout)["trace_sha256"]
    assert (disk / "run" / "checkpoint.npz").read_bytes() == (tmp_path / "whole" / "checkpoint.npz").read_bytes()


def test_a_read_only_folder_is_named(small_disk: Mount) -> None:
    disk = small_disk("size=10m")
    small_disk("ro")
    ended = netsim("run", "tiny", "--out", disk / "run", "--json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: {disk / 'run'}")
    assert "Read-only file system" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_run_whose_folder_became_read_only_can_be_read_and_later_resumed(
    small_disk: Mount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("netsim.trace.journal.ROWS_A_PART", 200)
    scenario = load_scenario("tiny", ["end.rounds=40"])
    disk = small_disk("size=100k")
    with pytest.raises(OSError, match="No space left on device"):
        simulate(scenario, disk / "run", seed=1)
    small_disk("size=10m,ro")
    complete = Run(disk / "run").last_round
    assert 0 < complete < 40
    for words in (("breakdown", disk / "run"), ("critical-path", disk / "run"),
                  ("report", disk / "run", "-o", tmp_path / "page.html")):
        assert netsim(*words).returncode == 0
    refused = netsim("report", disk / "run")
    assert (refused.returncode, "Read-only file system" in refused.stderr) == (2, True)
    with pytest.raises(OSError, match="Read-only file system"):
        simulate(scenario, disk / "run", seed=1, resume=True)
    small_disk("size=10m,rw")
    again = simulate(scenario, disk / "run", seed=1, resume=True)
    assert again.summary["trace_sha256"] == simulate(scenario, tmp_path / "whole", seed=1).summary["trace_sha256"]
