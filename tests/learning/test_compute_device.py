"""The device that computes: here a CPU, and the "meta" device, which has shapes and no numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refused import refused

from netsim import load_scenario, simulate
from netsim.base.rng import stream
from netsim.learning.batched_network import Network
from netsim.learning.compute_device import description, device_of, to_array, to_device
from netsim.learning.datasets import load_dataset
from netsim.learning.sgd import Hyperparameters, Task, _Group, schedule
from netsim.models import build_model

META = torch.device("meta")
WITHOUT_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@WITHOUT_CUDA
def test_a_device_that_is_not_there_ends_in_one_message(netsim: Any) -> None:
    with refused("needs", "learning.device"):
        device_of("cuda")
    code, _, said = netsim("run", "quickstart", "--set", "learning.device=cuda")
    assert code == 2
    assert "learning.device" in said
    assert "Traceback" not in said
    assert netsim("run", "quickstart", "--set", "learning.device=gpu")[0] == 2
    assert netsim("run", "tiny", "--set", "learning.device=auto")[0] == 2      # nothing is trained


def test_a_cpu_needs_no_name_and_keeps_the_digest() -> None:
    plain = load_scenario("quickstart")
    assert load_scenario("quickstart", ["learning.device=cpu"]).digest == plain.digest
    assert load_scenario("quickstart", ["learning.device=cuda"]).digest != plain.digest
    assert description(device_of(None)) is None


@WITHOUT_CUDA
@pytest.mark.slow
def test_auto_without_a_gpu_is_the_cpu_bit_for_bit(tmp_path: Path) -> None:
    runs = [simulate(load_scenario("quickstart", ["end.rounds=1", *more]), tmp_path / str(len(more)), workers=1)
            for more in ([], ["learning.device=auto"])]
    assert runs[0].summary["trace_sha256"] == runs[1].summary["trace_sha256"]
    assert runs[0].info["processor"] == runs[1].info["processor"]


@pytest.mark.parametrize("model", ["mnist-cnn", "own_models:Groups", "own_models:Batches"])
def test_all_tensors_of_a_step_are_on_the_device(model: str) -> None:
    """A tensor of another device would raise an error."""
    data = load_dataset("digits")
    built_in = ":" not in model      # a trial of others compares numbers
    network = Network(build_model(model, data.shape, data.classes), None if built_in else data.shape, META)
    assert network.grouped == built_in
    settings = Hyperparameters(batch_size=4, learning_rate=0.1, momentum=0.5, weight_decay=0.1, proximal=0.1)
    devices = 3 if network.grouped else 1
    plans = [schedule(Task(device, np.arange(10), stream(0, "training", 1, device)), settings)
             for device in range(devices)]
    group = _Group(network, data, np.zeros(network.size, np.float32), plans, settings, None)
    network.module.train()
    group.descend()
    assert all(tensor.device == META for tensor in (*group.models, *group.velocities, group.losses))
    assert all(tensor.device == META for tensor in (*network.module.parameters(), *network.module.buffers()))


def test_arrays_share_their_memory_with_tensors_of_the_cpu() -> None:
    array = np.zeros(3)
    to_device(array, device_of("cpu"))[1] = 5.0
    assert to_array(torch.from_numpy(array))[1] == 5.0
