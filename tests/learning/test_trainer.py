"""Local training, step by step, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from netsim.base.types import Weights
from netsim.learning import sgd
from netsim.learning.batched_network import Network
from netsim.learning.dataset_files import Dataset
from netsim.learning.sgd import Hyperparameters, Task, Update, full_gradient, sample_losses, schedule, train_group
from netsim.models import build_model


class Linear(nn.Module):
    """Two logits of a one-pixel image: w x, without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, 1))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.w.T


def world(levels: list[int], labels: list[int]) -> Dataset:
    """One-pixel images; a grey level is the input itself."""
    images = np.array(levels, dtype=np.uint8).reshape(-1, 1, 1, 1)
    truth = np.array(labels, dtype=np.int64)
    return Dataset(images, truth, images, truth, ("a", "b"), np.array([0.0]), np.array([1.0]))


def task(device: int, samples: list[int], seed: int = 0) -> Task:
    return Task(device, np.array(samples), np.random.default_rng(seed))


def train(data: Dataset, samples: list[int], start: Weights, gradient: Weights | None = None, **how: float) -> Update:
    settings = Hyperparameters(**{"batch_size": 10, "learning_rate": 1.0, **how})  # type: ignore[arg-type]
    (update,) = train_group(Network(Linear()), data, start, [task(0, samples)], settings, gradient)
    return update


ZERO = np.zeros(2, dtype=np.float32)


def test_one_step_of_descent_by_hand() -> None:
    # Both logits are 0, so the softmax is 1/2 each and the gradient of the logits (-1/2, 1/2), times the input 3.
    update = train(world([3], [0]), [0], ZERO, learning_rate=0.1)
    assert update.weights == pytest.approx([0.15, -0.15])
    assert update.loss == pytest.approx(np.log(2))
    assert update.gradient_norm == pytest.approx(1.5 * np.sqrt(2), rel=1e-6)
    assert update.samples == 1


def test_a_batch_takes_the_mean_over_its_samples() -> None:
    # Inputs 3 of class 0 and 1 of class 1: mean gradient (-1.5 + 0.5, 1.5 - 0.5) / 2.
    update = train(world([3, 1], [0, 1]), [0, 1], ZERO, learning_rate=0.1)
    assert update.weights == pytest.approx([0.05, -0.05])


def test_two_steps_with_momentum_decay_and_the_proximal_term() -> None:
    start = np.array([0.2, -0.2], dtype=np.float32)
    how = {"learning_rate": 0.1, "momentum": 0.5, "weight_decay": 0.3, "proximal": 0.7, "local_epochs": 2}
    update = train(world([2], [0]), [0], start, **how)
    w, v, gs = start.astype(float), np.zeros(2), []
    for _ in range(2):
        chance = np.exp(2 * w) / np.exp(2 * w).sum()
        g = 2 * (chance - [1, 0]) + 0.3 * w + 0.7 * (w - start)
        gs.append(g)
        v = 0.5 * v + g
        w = w - 0.1 * v
    assert update.weights == pytest.approx(w, rel=1e-5)
    assert update.gradient_norm == pytest.approx(np.linalg.norm(gs[1]), rel=1e-4)    # the last epoch is one step


def test_fedls_step_follows_the_global_gradient() -> None:
    # From the global model the first step is -lr (g + eta gbar - g) = -lr eta gbar, whatever the device's data.
    gbar = np.array([4.0, -8.0], dtype=np.float32)
    update = train(world([3], [0]), [0], ZERO, gbar, learning_rate=0.1, fedl=0.5)
    assert update.weights == pytest.approx([-0.2, 0.4])
    chance = np.exp(3 * update.weights) / np.exp(3 * update.weights).sum()
    assert update.gradient == pytest.approx(3 * (chance - [1, 0]), rel=1e-5)


def test_fedl_starts_without_a_global_gradient() -> None:
    assert train(world([3], [0]), [0], ZERO, learning_rate=0.1, fedl=0.5).weights == pytest.approx([0.15, -0.15])


def test_every_epoch_shows_each_sample_once_and_in_a_new_order() -> None:
    plan = schedule(task(0, list(range(50, 73))), Hyperparameters(batch_size=10, learning_rate=1, local_epochs=2))
    assert [len(batch) for batch in plan.batches] == [10, 10, 3, 10, 10, 3]
    first, second = np.concatenate(plan.batches[:3]), np.concatenate(plan.batches[3:])
    assert sorted(first) == sorted(second) == list(range(50, 73))
    assert first.tolist() != second.tolist()
    assert plan.last_epoch == 3


def test_local_steps_may_end_within_an_epoch_or_go_beyond() -> None:
    for steps, last in ((2, 0), (7, 4)):
        plan = schedule(task(0, list(range(23))), Hyperparameters(10, 1.0, None, local_steps=steps))
        assert (len(plan.batches), plan.last_epoch) == (steps, last)


def test_a_model_learns_in_its_own_memory_and_the_global_one_stays() -> None:
    start = np.zeros(2, dtype=np.float32)
    first = train(world([3], [0]), [0], start)
    second = train(world([3], [0]), [0], start)
    assert start.tolist() == [0, 0]
    assert first.weights.tolist() == second.weights.tolist() != [0, 0]
    assert first.weights.base is None
    assert not np.shares_memory(first.weights, second.weights)


@pytest.mark.slow
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_group_of_unlike_devices_trains_each_as_if_alone(momentum: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (60, 16, 16, 1), dtype=np.uint8)
    labels = rng.integers(0, 3, 60)
    data = Dataset(images, labels, images, labels, ("a", "b", "c"), np.array([128.0]), np.array([70.0]))
    network = Network(build_model("fashion-cnn", (1, 16, 16), 3, seed=1))
    start = network.weights()
    settings = Hyperparameters(batch_size=4, learning_rate=0.05, local_epochs=2, momentum=momentum)
    sizes = {7: 3, 2: 17, 5: 8, 1: 18}

    def tasks() -> list[Task]:
        return [task(device, list(range(size)), seed=device) for device, size in sizes.items()]

    together = {update.device: update for update in train_group(network, data, start, tasks(), settings)}
    assert set(together) == set(sizes)
    for one in tasks():
        (alone,) = train_group(network, data, start, [one], settings)
        assert together[one.device].weights == pytest.approx(alone.weights, abs=2e-6)
        assert together[one.device].loss == pytest.approx(alone.loss, rel=1e-4)
        assert together[one.device].gradient_norm == pytest.approx(alone.gradient_norm, rel=1e-3)
    assert (network.weights() == start).all()
    monkeypatch.setattr(sgd, "CHUNK", 1)      # the batches of one step at a time
    for update in train_group(network, data, start, tasks(), settings):
        assert update.weights.tobytes() == together[update.device].weights.tobytes()
        assert (update.loss, update.gradient_norm) == (
            together[update.device].loss, together[update.device].gradient_norm)


def test_gradient_norm_is_that_of_the_mean_over_the_last_epochs_steps() -> None:
    # A learning rate so small that the model stands still: the mean over two equal batches is the full gradient.
    data = world([3, 1, 2, 5], [0, 1, 1, 0])
    update = train(data, [0, 1, 2, 3], ZERO, learning_rate=1e-3, momentum=0.5, batch_size=2, local_epochs=3)
    full = full_gradient(Network(Linear()), data, ZERO, np.arange(4))
    assert full == pytest.approx([(-1.5 + 0.5 + 1.0 - 2.5) / 4, (1.5 - 0.5 - 1.0 + 2.5) / 4])
    assert update.gradient_norm == pytest.approx(np.linalg.norm(full), rel=0.05)


def test_losses_and_guesses_of_a_model() -> None:
    data = world([1, 2], [0, 1])
    losses, guesses = sample_losses(
        Network(Linear()), data, np.array([1, 0], dtype=np.float32), data.test_images, data.test_labels
    )
    assert losses == pytest.approx([np.log(1 + np.exp(-1)), np.log(1 + np.exp(2))])
    assert guesses.tolist() == [0, 0]
