"""Computing time of an app: from the scenario's cycles per sample, or from what the app computes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from refused import refused
from small_apps import CLIENT, PYPROJECT, play, tiny, write_app
from test_flower_resume import Interrupted, interrupt_after

from netsim import load_scenario
from netsim.flower import run_app
from netsim.flower.compute import FILE, Compute, Measured

from flwr.app import MetricRecord, RecordDict  # isort: skip

pytestmark = pytest.mark.slow      # apps in worker processes

FOUND = Measured(samples=10, flop=1e9, cpu_s=0.5, flops_per_s=1e10, clock_hz=2e9)


class Two(SimpleNamespace):
    def __len__(self) -> int:
        return 2


def phones(count: int, *changes: str):
    return load_scenario("phones", [f"population.phone.count={count}", "selection.cohort=1", *changes])


def sent(device: int, samples: int | None, kind: str = "train"):
    content = RecordDict({"metrics": MetricRecord({} if samples is None else {"num-examples": samples})})
    message = SimpleNamespace(metadata=SimpleNamespace(message_type=kind))
    return SimpleNamespace(device=device, kind=kind, stage="", message=message,
                           answered=SimpleNamespace(reply=SimpleNamespace(content=content)))


def compute(folder: Path, *changes: str, measure=lambda sent: FOUND) -> Compute:
    return Compute(phones(2, *changes), Two(      # 0.5 and 0.25 FLOP per cycle
        cycles_per_sample=np.array([2.0, 4.0]), samples=np.array([7, 7]), cpu_max_hz=np.array([1e9, 2e9])),
        folder, measure)


def test_cycles_are_flop_on_the_device_and_the_rest_as_here(tmp_path):
    # of 0.5 s, 0.1 s are the FLOP and 0.4 s are 0.8e9 cycles; 10 samples
    there = compute(tmp_path)
    assert there.cycles(sent(0, 20)) == pytest.approx((1e9 * 2 + 0.8e9) / 10 * 20)
    assert there.cycles(sent(1, 20)) == pytest.approx((1e9 * 4 + 0.8e9) / 10 * 20)
    assert there.cycles(sent(0, None)) == pytest.approx((1e9 * 2 + 0.8e9) / 10)
    assert "100 MFLOP per sample counted by torch and 50 ms of CPU per sample measured here" in there.describe()


def test_by_flop_only(tmp_path):
    assert compute(tmp_path, "flower.compute=flops").cycles(sent(0, 20)) == pytest.approx(1e9 * 2 / 10 * 20)


def test_without_torch_all_cycles_are_those_of_this_machine(tmp_path):
    there = compute(tmp_path, measure=lambda sent: Measured(10, 0.0, 0.5, 0.0, 2e9))
    assert there.cycles(sent(1, 10)) == pytest.approx(1e9)
    only = compute(tmp_path, "flower.compute=flops")
    with refused("conflict", "flower.compute"):
        only.cycles(sent(1, 10))


def test_what_was_measured_is_used_again(tmp_path):
    first = compute(tmp_path).cycles(sent(0, 20))

    def never(sent):
        raise AssertionError

    assert compute(tmp_path, measure=never).cycles(sent(0, 20)) == first
    with pytest.raises(AssertionError):
        compute(tmp_path, measure=never).cycles(sent(0, 20, "train.other"))


@pytest.mark.parametrize("text", ["{", "[]", '{"train": {"samples": 1}}', '{"train": {"samples": 0, "flop": 1, '
                         '"cpu_s": 1, "flops_per_s": 1, "clock_hz": 1}}'])
def test_a_damaged_measurement_is_refused(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with refused("damaged", FILE):
        compute(tmp_path)


def test_a_scenario_that_sets_cycles_per_sample_measures_nothing(tmp_path):
    run, _ = play(write_app(tmp_path / "app"), tiny(), "num-server-rounds=1", out=tmp_path / "run")
    assert not (tmp_path / "run" / FILE).exists()
    assert run.summary["compute"] == "1e+04 cycles per sample, as the scenario says"


COUNTED = CLIENT.replace("    trained = fit", """    with open(__file__ + ".count", "a") as file:
        file.write("x")
    trained = fit""")


def test_a_resumed_run_does_not_measure_again(tmp_path):
    app, out = write_app(tmp_path / "app", client_app=COUNTED), tmp_path / "run"
    with pytest.raises(Interrupted):
        run_app(app, phones(5), out, workers=1, progress=interrupt_after(1))
    measured, calls = (out / FILE).read_bytes(), app / "quickstart" / "client_app.py.count"
    before = len(calls.read_text())
    run = run_app(app, phones(5), out, workers=1, resume=True)
    assert (out / FILE).read_bytes() == measured
    assert all(len(set(part["cycles"].to_list())) == 1 for part in run.jobs.partition_by("device"))
    found = json.loads(measured)["train"]
    assert run.jobs["cycles"].max() == pytest.approx(found["cpu_s"] * found["clock_hz"])      # 100 samples each
    assert before > 5                                          # 5 devices of round 1, and the measurement
    assert len(calls.read_text()) - before == 2 * 5            # rounds 2 and 3, and no measurement


TORCH = CLIENT.replace("import random\n", "import random\n\nimport torch\n").replace("    trained = fit", """\
    model = torch.nn.Linear(64, 64)
    for _ in range(context.run_config["local-epochs"]):
        for _ in range(10):
            model(torch.ones(10, 64)).sum().backward()
    trained = fit""")


def test_computing_grows_with_the_local_epochs(tmp_path):
    app = write_app(tmp_path, client_app=TORCH, pyproject=PYPROJECT.replace('"numpy"]', '"numpy", "torch"]').replace(
        "min-nodes = 2", "min-nodes = 2\nlocal-epochs = 1"))
    compute_s = []
    for epochs in (1, 2, 10):
        run = run_app(app, phones(5, "flower.compute=flops"), workers=2,
                      run_config=["num-server-rounds=1", f"local-epochs={epochs}"])
        compute_s.append(run.jobs["cycles"].sum())
        # forward and the gradient of the weights: 2 * 2 * 64 * 64 FLOP per sample
    assert compute_s == pytest.approx([compute_s[0] * factor for factor in (1, 2, 10)])
    slow = run.jobs.filter(run.jobs["device"] == 0)["cycles"].to_list()      # 0.42 FLOP per cycle
    assert slow == pytest.approx([10 * 100 * 4 * 64 * 64 / 0.42], rel=0.1)

