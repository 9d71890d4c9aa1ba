"""Learning under servers that do not wait: each job from the version that it started with, through cuts and kills."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from levels import extended

from netsim import load_scenario, simulate
from netsim.learning.local_training import open_trainer
from netsim.learning.torch_backend import TorchBackend, cosine

SCENARIO = """
[cell]
radius = "200 m"
bandwidth = "20 MHz"
shadowing = "4 dB"
[[population]]
name = "phone"
count = 6
cpu = { min = "0.2 GHz", max = "2 GHz", cycles_per_sample = { dist = "uniform", low = 1e5, high = 8e5 } }
radio = { power = "23 dBm" }
budget = "60 mJ"
battery = "300 mJ"
samples = 20
[learning]
dataset = "digits"
model = "fashion-cnn"
bits = "400 kbit"
optimiser = { kind = "momentum", momentum = 0.5 }
[selection]
method = "fedavg"
cohort = 4
[end]
rounds = 6
"""
SERVERS = {
    "fedbuff": '[server]\nkind = "fedbuff"\nbuffer = 2\n', "fedasync": '[server]\nkind = "fedasync"\n',
    "port": '[server]\nkind = "port"\nbuffer = 2\n', "window": '[server]\nkind = "window"\nperiod = "4 ms"\n',
    "first-k": '[server]\nkind = "first-k"\nbuffer = 3\n',
}


@pytest.fixture
def write(tmp_path):
    def file(kind: str) -> Path:
        path = tmp_path / f"{kind}.toml"
        path.write_text(SCENARIO + SERVERS[kind])
        return path

    return file


def left_behind(folder: Path) -> dict[str, bytes]:
    """Everything that must be the same byte for byte: all tables, devices, scenario, summary, and the last model."""
    files = [path for path in folder.rglob("*") if path.suffix in (".parquet", ".toml") or path.name == "summary.json"]
    found = {str(path.relative_to(folder)): path.read_bytes().replace(str(folder).encode(), b"RUN") for path in files}
    with np.load(folder / "checkpoint.npz", allow_pickle=False) as stored:
        return {**found, **{name: stored[name].tobytes() for name in stored.files}}


@pytest.fixture
def learning(write, tmp_path):
    scenario = load_scenario(write("fedbuff"), ["learning.optimiser={kind='none'}"])
    with open_trainer(scenario, 1, workers=1) as learner:
        yield TorchBackend(scenario, learner, tmp_path, keeps_models=False), learner


def job(number, device=0):
    return SimpleNamespace(number=number, device=device)


def start(torch, version, number, device):
    """What happens when a device starts to compute a job that was dispatched."""
    torch.prepare({number: device}, version)
    torch.start([job(number, device)])


def trained(learner, number, weights, device):
    training = learner.prepare(number, weights, [device])
    training.start([device])
    return training.update(device).weights


def test_a_job_learns_from_the_version_that_it_started_with(learning):
    torch, learner = learning
    first = torch.snapshot()["weights"].copy()
    for number, device in ((0, 3), (1, 5)):
        start(torch, 0, number, device)
    torch.aggregate([0], np.array([0.5]), "start")
    second = torch.snapshot()["weights"].copy()
    alone = {job: trained(learner, job, first, device) for job, device in ((0, 3), (1, 5))}
    np.testing.assert_allclose(second, first + 0.5 * (alone[0] - first), rtol=0, atol=1e-7)
    np.testing.assert_array_equal(torch.update(1).weights, alone[1])      # as if nothing had come since
    step, way = (alone[1] - first).astype(float), (second - first).astype(float)
    assert torch.alignment([1])[0] == pytest.approx(step @ way / np.linalg.norm(step) / np.linalg.norm(way), rel=1e-6)
    torch.aggregate([1], np.array([0.25]), "now")
    np.testing.assert_allclose(torch.snapshot()["weights"], 0.75 * second + 0.25 * alone[1], rtol=0, atol=1e-7)


def test_two_jobs_of_one_device_on_one_version_see_their_samples_in_another_order(learning):
    torch, _ = learning
    start(torch, 0, 0, 3)
    start(torch, 0, 1, 3)
    assert not np.array_equal(torch.update(0).weights, torch.update(1).weights)


def test_only_versions_with_a_job_under_way_are_kept(learning):
    torch, _ = learning
    for version in range(3):
        torch.prepare({2 * version: 0}, version)
        start(torch, version, 2 * version + 1, 1)
    torch.drop([job(2)])
    assert torch.snapshot()["flying.versions"].tolist() == [0, 1, 2]
    torch.drop([job(3), job(0)])
    assert torch.snapshot()["flying.versions"].tolist() == [0, 2]
    torch.aggregate([1], np.array([1.0]), "start")
    assert torch.snapshot()["flying.versions"].tolist() == [2]
    torch.drop([job(4), job(5)])
    assert not [name for name in torch.snapshot() if name.startswith("flying")]


def test_a_step_that_goes_nowhere_points_nowhere_else():
    assert cosine(np.zeros(2), np.array([1.0, 0.0])) == 1.0
    assert cosine(np.array([0.0, 2.0]), np.array([3.0, 0.0])) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fedbuff", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*SERVERS][1:])])
def test_cut_off_after_an_aggregation_with_jobs_under_way_for_one_and_two_workers(kind, write, tmp_path):
    scenario = load_scenario(write(kind))
    whole = simulate(scenario, tmp_path / "whole", seed=3, workers=2)
    assert whole.summary["rounds"] == 6
    for cut in (1, 4):
        def stop(at, cut=cut):
            if at.round == cut:
                raise KeyboardInterrupt

        folder = tmp_path / f"cut{cut}"
        with pytest.raises(KeyboardInterrupt):
            simulate(scenario, folder, seed=3, workers=1, progress=stop)
        if kind != "first-k":
            with np.load(folder / "checkpoint.npz") as stored:
                assert len(stored["learning/flying.jobs"]) > 0
        simulate(scenario, folder, seed=3, workers=1, resume=True)
        assert left_behind(folder) == left_behind(whole.path), f"cut after {cut}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fedbuff", *extended(["fedasync"])])
def test_kill_9_at_any_moment_then_resume(kind, write, tmp_path):
    scenario, chance = load_scenario(str(write(kind))), random.Random(kind)
    whole = simulate(scenario, tmp_path / "whole", workers=1).path
    for trial in range(2):
        folder = tmp_path / f"killed{trial}"
        command = [sys.executable, "-c", "from netsim.cli import main; main()", "run", str(write(kind)),
                   "--out", str(folder), "--workers", str(2 - trial)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        wanted = chance.randrange(1, 6)                                  # aggregations before the kill
        while process.poll() is None and len(list(folder.glob("trace/*.parquet"))) < wanted:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        simulate(scenario, folder, workers=1 + trial, resume=True)
        assert left_behind(folder) == left_behind(whole)
