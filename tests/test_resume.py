"""A run that was cut off goes on to the same bytes that an unbroken run would have left."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from levels import extended
from refused import refused

from netsim import load_scenario, simulate

LEARNING = """
[cell]
radius = "200 m"
bandwidth = "20 MHz"
shadowing = "4 dB"
[[population]]
name = "phone"
count = 8
cpu = { min = "0.2 GHz", max = "2 GHz", cycles_per_sample = 1e5 }
radio = { power = "23 dBm" }
budget = "60 mJ"
battery = "90 mJ"
samples = 20
[learning]
dataset = "digits"
model = "fashion-cnn"
bits = "400 kbit"
batch_size = 10
server = { kind = "momentum" }
[selection]
method = "divergence"
cohort = 3
[end]
rounds = 4
"""


class PowerCutError(BaseException):
    """The machine stops here."""


@pytest.fixture
def scenario_file(tmp_path) -> Path:
    path = tmp_path / "learning.toml"
    path.write_text(LEARNING)
    return path


def left_behind(folder: Path) -> dict[str, bytes]:
    """Everything that must be the same byte for byte: trace, links, devices, scenario, summary."""
    files = [path for path in folder.rglob("*") if path.suffix in (".parquet", ".toml") or path.name == "summary.json"]
    return {str(path.relative_to(folder)): path.read_bytes().replace(str(folder).encode(), b"RUN") for path in files}


def final_weights(folder: Path) -> np.ndarray:
    with np.load(folder / "checkpoint.npz", allow_pickle=False) as stored:
        return stored["learning/weights"]


def cut_after(writes: int, monkeypatch) -> None:
    """Stop the program at its n-th flush to the disk: each is one side of a rename."""
    left = iter(range(writes))
    flush = os.fsync

    def fsync(descriptor: int) -> None:
        if next(left, None) is None:
            raise PowerCutError
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def every_cut(scenario, tmp_path, monkeypatch, step: int) -> int:
    """Cut a run at every ``step``-th flush and resume it; returns how many cuts there were."""
    whole = simulate(scenario, tmp_path / "whole", seed=3, workers=1).path
    for cut in range(0, 10_000, step):
        folder = tmp_path / f"cut{cut}"
        with monkeypatch.context() as patch:
            cut_after(cut, patch)
            try:
                simulate(scenario, folder, seed=3, workers=1)
            except PowerCutError:
                pass
            else:
                return cut // step
        simulate(scenario, folder, seed=3, workers=1, resume=True)
        assert left_behind(folder) == left_behind(whole), f"cut at flush {cut}"
        if scenario.trains:
            np.testing.assert_array_equal(final_weights(folder), final_weights(whole))
    raise AssertionError("the run never came to its end")


@pytest.mark.slow
def test_cut_at_every_write_without_learning(tmp_path, monkeypatch):
    monkeypatch.setattr("netsim.trace.journal.ROWS_A_PART", 40)         # several parts in a small run
    scenario = load_scenario("tiny", ["end.rounds=7", "population.node.battery=20mJ"])
    assert every_cut(scenario, tmp_path, monkeypatch, step=1) > 15


@pytest.mark.slow
@pytest.mark.parametrize(("step", "cuts"), [(8, 4), pytest.param(3, 11, marks=pytest.mark.extended)])
def test_cut_at_every_few_writes_with_learning(tmp_path, monkeypatch, scenario_file, step, cuts):
    assert every_cut(load_scenario(scenario_file), tmp_path, monkeypatch, step) >= cuts


def command(*words: object) -> list[str]:
    return [sys.executable, "-c", "from netsim.cli import main; main()", *map(str, words)]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, *extended([1])])
def test_kill_9_at_any_moment_then_resume(tmp_path, scenario_file, workers):
    scenario, chance = load_scenario(scenario_file), random.Random(workers)
    whole = simulate(scenario, tmp_path / "whole", workers=1).path
    folder = tmp_path / "killed"
    process = subprocess.Popen(command("run", scenario_file, "--out", folder, "--workers", workers),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    wanted = chance.randrange(1, 4)                                  # complete rounds before the kill
    while process.poll() is None and len(list(folder.glob("trace/*.parquet"))) < wanted:
        time.sleep(0.002)
    time.sleep(chance.random() * 0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    simulate(scenario, folder, workers=3 - workers, resume=True)
    assert left_behind(folder) == left_behind(whole)
    np.testing.assert_array_equal(final_weights(folder), final_weights(whole))


def test_one_and_two_workers_leave_the_same_bytes(tmp_path, scenario_file):
    scenario = load_scenario(scenario_file)
    one = simulate(scenario, tmp_path / "one", seed=1, workers=1)
    two = simulate(scenario, tmp_path / "two", seed=1, workers=2)
    assert left_behind(one.path) == left_behind(two.path)
    np.testing.assert_array_equal(final_weights(one.path), final_weights(two.path))


def test_a_finished_run_resumed_is_the_finished_run(tmp_path, scenario_file):
    scenario = load_scenario(scenario_file)
    run = simulate(scenario, tmp_path / "run", workers=1)
    before = left_behind(run.path)
    assert simulate(scenario, tmp_path / "run", workers=1, resume=True).summary == run.summary
    assert left_behind(run.path) == before


def test_another_scenario_is_refused_and_nothing_is_lost(tmp_path):
    run = simulate(load_scenario("tiny"), tmp_path / "run")
    before = left_behind(run.path)
    with refused("other-run", str(run.path)):
        simulate(load_scenario("tiny", ["cell.bandwidth=30MHz"]), run.path, resume=True)
    with refused("other-run", str(run.path)):
        simulate(load_scenario("tiny"), run.path, seed=1, resume=True)
    with refused("exists", str(run.path)):
        simulate(load_scenario("tiny"), run.path)
    assert left_behind(run.path) == before


@pytest.mark.parametrize("damage", ["short", "flipped", "empty", "array missing", "other devices"])
def test_a_damaged_checkpoint_is_named(tmp_path, damage):
    def stop(at):
        if at.round == 2:
            raise KeyboardInterrupt

    scenario = load_scenario("lab", ["selection.method=fedavg", "end.rounds=3"])
    monkey = pytest.MonkeyPatch()
    monkey.setattr("netsim.trace.journal.ROWS_A_PART", 1)
    with pytest.raises(KeyboardInterrupt):
        simulate(scenario, tmp_path / "run", learning=False, progress=stop)
    monkey.undo()
    file = tmp_path / "run" / "checkpoint.npz"
    content = file.read_bytes()
    with np.load(file) as stored:
        arrays = dict(stored)
    if damage == "short":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        middle = content.index(b"left_j.npy") + 200
        file.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "array missing":
        del arrays["cell/left_j"]
        np.savez(file, **arrays)
    else:
        np.savez(file, **{**arrays, "cell/left_j": np.ones(len(arrays["cell/left_j"]) + 1)})
    with refused("damaged", "checkpoint.npz"):
        simulate(scenario, tmp_path / "run", learning=False, resume=True)


# A finished run with a later end goes on, to the bytes of a run of that length.

@pytest.mark.slow
@pytest.mark.parametrize(("name", "learning", "more"), [
    ("tiny", False, {}), ("fedbuff", False, {}), ("learned", True, {}),
    ("learned", True, {"learning.evaluation.every": 3}), ("by-time", False, {})])
def test_a_finished_run_is_extended(tmp_path: Path, name: str, learning: bool, more: dict[str, object]) -> None:
    file = tmp_path / "learned.toml"
    file.write_text(LEARNING.replace('"divergence"', '"fedavg"').replace('battery = "90 mJ"\n', ""))
    base = load_scenario(str(file) if name == "learned" else {"by-time": "tiny"}.get(name, name)).with_(more)
    short, long = ({"end.time": "100 ms"}, {"end.time": "400 ms"}) if name == "by-time" else (
        {"end.rounds": 2}, {"end.rounds": 5})
    simulate(base.with_(short), tmp_path / "run", learning=learning)
    extended_run = simulate(base.with_(long), tmp_path / "run", learning=learning, resume=True)
    at_once = simulate(base.with_(long), tmp_path / "other", learning=learning)
    assert extended_run.rounds.height == at_once.rounds.height > 2 - (name == "by-time")
    assert left_behind(tmp_path / "run") == left_behind(tmp_path / "other")
    assert extended_run.info["trace_sha256"] == at_once.info["trace_sha256"]


def test_only_a_later_end_extends_a_run(tmp_path: Path) -> None:
    tiny = load_scenario("tiny")
    simulate(tiny, tmp_path / "run", learning=False)
    before = left_behind(tmp_path / "run")
    for changes in ({"end.rounds": 2}, {"end.rounds": 9, "cell.bandwidth": "3 MHz"}):
        with refused("other-run", "run"):
            simulate(tiny.with_(changes), tmp_path / "run", learning=False, resume=True)
    assert left_behind(tmp_path / "run") == before
