"""Training in workers on the built-in digits: the same bits for any number of them."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from netsim.base.errors import WorkerError
from netsim.base.rng import stream
from netsim.base.types import Ints, Weights
from netsim.executors.workers import open_pool
from netsim.learning.datasets import load_dataset
from netsim.learning.local_training import LocalTrainer
from netsim.learning.partition import partition
from netsim.scenario.learning import OwnPartition


@dataclass(frozen=True)
class Settings:
    dataset: str = "digits"
    root: str | None = None
    model: str = "fashion-cnn"
    local_epochs: int | None = 1
    local_steps: int | None = None
    batch_size: int = 10
    learning_rate: float = 0.05
    momentum: float = 0.5
    weight_decay: float = 0.0
    proximal: float = 0.0
    fedl: float | None = None
    evaluation: Any = field(default_factory=lambda: SimpleNamespace(every=1, samples="all"))


def parts(sizes: list[int]) -> list[Ints]:
    data = load_dataset("digits")
    kind = OwnPartition.model_construct(kind="majority", sigma=0.8)
    return partition(data.train_labels, kind, np.array(sizes), len(sizes), stream(1, "partition"))


SIZES = [30, 25, 40, 30, 12, 30, 25, 7]


def two_rounds(learner: LocalTrainer) -> tuple[Weights, list[Any]]:
    """All devices, then two of them from one of the new models."""
    start = learner.initial_weights()
    keep = start.copy()
    training = learner.train(1, start, range(len(SIZES)))
    updates = [training.update(device) for device in range(len(SIZES))]
    again = learner.train(2, updates[3].weights, [6, 1])
    updates += [again.update(6), again.update(1)]
    assert (start == keep).all(), "local training has changed the global weights"
    evaluation = learner.evaluate(updates[-1].weights)
    losses = learner.local_loss(start, [2, 4])
    facts = [(u.device, u.loss, u.gradient_norm, u.samples) for u in updates] + [evaluation, *losses]
    return np.stack([u.weights for u in updates]), facts


@pytest.mark.slow
def test_the_bits_do_not_depend_on_the_number_of_workers() -> None:
    results = []
    for workers in (1, 2, 3):
        with open_pool(workers) as pool:
            results.append(two_rounds(LocalTrainer(Settings(), parts(SIZES), 1, pool)))
    (alone, facts), *others = results
    for weights, other_facts in others:
        assert weights.tobytes() == alone.tobytes()
        assert other_facts == facts


class Dropping(nn.Module):
    """A user's own model, with randomness of its own."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        pixels = shape[0] * shape[1] * shape[2]
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 20), nn.Dropout(0.5), nn.Linear(20, classes))

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.layers(images)
        return answer


def test_a_users_own_model_gives_the_same_bits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("users_models")
    module.Dropping = Dropping    # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "users_models", module)
    settings = Settings(model="users_models:Dropping", learning_rate=0.01)
    results = []
    for workers in (1, 2):
        with open_pool(workers) as pool:
            results.append(two_rounds(LocalTrainer(settings, parts(SIZES), 1, pool)))
    assert results[0][0].tobytes() == results[1][0].tobytes()
    assert results[0][1] == results[1][1]


def test_training_leaves_the_number_of_threads_and_the_random_state_alone() -> None:
    learner = LocalTrainer(Settings(), parts(SIZES), 1)
    torch.manual_seed(3)
    expected, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(3)
    two_rounds(learner)
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads


def test_devices_learn_apart_from_each_other() -> None:
    learner = LocalTrainer(Settings(), parts(SIZES), 1)
    weights, _ = two_rounds(learner)
    assert len({row.tobytes() for row in weights}) == len(weights)


def test_a_learner_knows_its_model_and_its_devices() -> None:
    learner = LocalTrainer(Settings(), parts(SIZES), 1)
    assert learner.parameters == 19522
    assert learner.layers["fc2.weight"] == slice(19522 - 810, 19522 - 10)
    assert learner.samples.tolist() == SIZES
    assert learner.classes == 10
    labels = load_dataset("digits").train_labels
    assert learner.majority.tolist() == [np.bincount(labels[part]).argmax() for part in parts(SIZES)]
    assert (learner.initial_weights() == learner.initial_weights()).all()
    assert learner.initial_weights().dtype == np.float32


def test_training_follows_the_seed_the_round_and_the_device() -> None:
    one, other_seed = (LocalTrainer(Settings(), parts(SIZES), seed) for seed in (1, 2))
    start = one.initial_weights()

    def weights(learner: LocalTrainer, round: int) -> bytes:
        return learner.train(round, start, [0]).update(0).weights.tobytes()

    assert weights(one, 1) == weights(one, 1)
    assert len({weights(one, 1), weights(one, 2), weights(other_seed, 1)}) == 3


def test_groups_depend_on_the_cohort_only_and_share_the_work_evenly() -> None:
    learner = LocalTrainer(Settings(), parts([10, 50, 20, 40, 30, 60, 15]), 1)
    assert learner._groups([6, 5, 4, 3, 2, 1, 0]) == learner._groups(range(7)) == [[5, 3, 2, 0], [1, 4, 6]]
    assert learner._groups([4]) == [[4]]
    assert learner._groups([]) == []


def test_accuracy_by_class_adds_up_and_a_sample_of_the_test_set_will_do() -> None:
    learner = LocalTrainer(Settings(), parts(SIZES), 1)
    start = learner.initial_weights()
    whole = learner.evaluate(start)
    counts = np.bincount(load_dataset("digits").test_labels)
    assert np.dot(whole.class_accuracy, counts) / counts.sum() == pytest.approx(whole.accuracy)
    some = LocalTrainer(Settings(evaluation=SimpleNamespace(samples=40)), parts(SIZES), 1).evaluate(start)
    assert some.loss == pytest.approx(whole.loss, rel=0.1)
    assert some.loss != whole.loss


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_is_an_error_and_not_a_wait() -> None:
    with open_pool(2) as pool:
        learner = LocalTrainer(Settings(), parts(SIZES), 1, pool)
        start = learner.initial_weights()
        pool.submit(_die)
        with pytest.raises(WorkerError, match="memory"):
            _train_on(learner, start)


def _train_on(learner: LocalTrainer, start: Weights) -> None:
    for round in range(50):
        learner.train(round, start, [0]).update(0)


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    with open_pool(2) as pool:
        learner = LocalTrainer(Settings(), parts(SIZES), 1, pool)
        too_short = learner.initial_weights()[:100]
        with pytest.raises(RuntimeError):
            learner.train(1, too_short, [0]).update(0)
