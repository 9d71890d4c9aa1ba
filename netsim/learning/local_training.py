"""Learning of a run: devices' data, local training in workers, evaluation.

Groups of a cohort depend on its devices alone, and blocks of the test set have a fixed size, so the bits of a run do
not depend on the number of workers.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from netsim.base.errors import InputError, quoted
from netsim.base.pluralize import pluralize
from netsim.base.rng import stream
from netsim.base.types import Floats, Ints, Weights
from netsim.devices.population import draw_samples
from netsim.executors.cluster import ClusterExecutor, processors_of
from netsim.executors.workers import InProcess, cores, open_pool, result_of
from netsim.learning.backend import Evaluation
from netsim.learning.batched_network import Network
from netsim.learning.compute_device import CPU, description, device_of
from netsim.learning.dataset_files import Dataset
from netsim.learning.partition import class_counts, partition
from netsim.learning.registries import permit_learning
from netsim.learning.sgd import Task, Update
from netsim.learning.training_cache import TrainingCache
from netsim.learning.worker_tasks import WorkerTask, evaluate_samples, train_devices
from netsim.scenario import Scenario

T = TypeVar("T")
PAIR = 12      # most devices of two groups: stacking more than six does not make training faster
BLOCK = 1000   # test samples per evaluation task
FARTHEST = 1_000      # search range of the batch size that an error suggests


class Training:
    """Local training of a cohort in groups; a group starts when the first of its devices starts to compute."""

    def __init__(self, groups: Sequence[Sequence[int]], train: Callable[[Sequence[int]], Future[list[Update]]]) -> None:
        self._groups = groups
        self._train = train
        self._started: dict[int, Future[list[Update]]] = {}      # by device

    def start(self, devices: Iterable[int]) -> None:
        """Start the groups of these devices, in the order of the groups."""
        wanted = set(devices).difference(self._started)
        for group in self._groups if wanted else ():
            if not wanted.isdisjoint(group):
                self._started.update(dict.fromkeys(group, self._train(group)))

    def update(self, device: int) -> Update:
        """Return the update of a device; blocks until its group is trained."""
        return next(update for update in _result(self._started[device]) if update.device == device)


class LocalTrainer:
    """Local training and evaluation of one run; with ``executor`` None they run in this process."""

    def __init__(
        self, settings: Any, parts: Sequence[Ints], seed: int, executor: Executor | None = None,
        shared: TrainingCache | None = None,
    ) -> None:
        self._work = WorkerTask.of(settings, int(stream(seed, "initial weights").integers(2**63)))
        self._wanted = settings.evaluation.samples
        self._parts = list(parts)
        self._seed = seed
        self._executor = executor or InProcess()
        # results of users' own code are not shared: the code may change between runs
        self._shared = None if ":" in self._work.model + self._work.dataset else shared
        data, network = self._work.data, self._work.network
        if isinstance(self._executor, ClusterExecutor):
            sha256 = data.sha256
            self._executor.provide(sha256, data.in_memory())
            self._work = replace(self._work, data_sha256=sha256)
        self.layers: Mapping[str, slice] = network.layers
        self.parameters = network.size
        self.buffers = network.buffers.start
        self.classes = data.classes
        self.samples: Ints = np.array([len(part) for part in parts], dtype=np.int64)
        _check_batches(network, data, self.samples, self._work.settings.batch_size)
        self.label_counts = class_counts(data.train_labels, self._parts, data.classes)
        self.majority: Ints = self.label_counts.argmax(axis=1)      # the lowest class on a tie

    @property
    def processor(self) -> str | None:
        """Processors that have computed the results, if they need not be this machine's."""
        known = [description(self._work.network.device), processors_of(self._executor)]
        return "; ".join(filter(None, known)) or None

    def initial_weights(self) -> Weights:
        """Return the initial model, (P,), the same for every method under a seed."""
        return self._work.network.weights()

    def prepare(
        self, round: int, weights: Weights, devices: Sequence[int], gradient: Weights | None = None,
        buffers: Floats | None = None,
    ) -> Training:
        """Prepare local training of these devices from ``weights``; see :meth:`Training.start`.

        ``gradient`` is FEDL's global gradient, if its local term is enabled; ``buffers`` has a row per device.
        """
        shared = self._folder(round)
        cut = self._groups(devices)
        if shared:      # concurrent processes with the same work each begin with a different group
            random.Random(os.getpid()).shuffle(cut)
        own_buffers = {} if buffers is None else dict(zip(devices, buffers, strict=True))

        def train(group: Sequence[int]) -> Future[list[Update]]:
            tasks = [Task(d, self._parts[d], stream(self._seed, "training", round, d), own_buffers.get(d))
                     for d in group]
            return self._executor.submit(train_devices, self._work, weights, tasks, gradient, shared)

        return Training(cut, train)

    def train(
        self, round: int, weights: Weights, devices: Sequence[int], gradient: Weights | None = None,
        buffers: Floats | None = None,
    ) -> Training:
        """Prepare local training and start all groups."""
        training = self.prepare(round, weights, devices, gradient, buffers)
        training.start(devices)
        return training

    def _folder(self, round: int | None = None) -> Path | None:
        """Return the folder of shared results if this round uses it."""
        return self._shared.folder if self._shared and (self._shared.every_round or round in (0, 1)) else None

    def _groups(self, devices: Sequence[int]) -> list[list[int]]:
        """Split a cohort into an even number of groups of about equal work, independent of the number of workers."""
        by_size = sorted((int(device) for device in devices), key=lambda device: (-self.samples[device], device))
        count = len(by_size)
        if self._work.network.grouped:
            count = min(count, 2 * -(-count // PAIR))
        return [by_size[first::count] for first in range(count)]

    def evaluate(self, weights: Weights, buffers: Floats | None = None) -> Evaluation:
        """Return accuracy and loss on the test samples (``learning.evaluation.samples``)."""
        chosen = self._evaluate_samples
        futures = [self._executor.submit(
            evaluate_samples, self._work, weights, chosen[start : start + BLOCK], buffers, self._folder())
            for start in range(0, len(chosen), BLOCK)]
        answers = [_result(future) for future in futures]
        losses, guesses = (np.concatenate(column) for column in zip(*answers, strict=True))
        labels = self._work.data.test_labels[chosen]
        right = guesses == labels
        hits, counts = (np.bincount(who, minlength=self.classes) for who in (labels[right], labels))
        shares = tuple(float(hit / count) if count else float("nan") for hit, count in zip(hits, counts, strict=True))
        return Evaluation(float(right.mean()), float(losses.mean()), shares)

    @cached_property
    def _evaluate_samples(self) -> Ints:
        """Indices of all test samples, or of the configured number, drawn once per run."""
        there = len(self._work.data.test_labels)
        if self._wanted == "all" or self._wanted >= there:
            return np.arange(there)
        return np.sort(stream(self._seed, "evaluation").choice(there, self._wanted, replace=False))

    def local_loss(self, weights: Weights, devices: Sequence[int], buffers: Floats | None = None) -> Floats:
        """Return the mean loss of the model on each device's samples; ``buffers`` has a row per device."""
        return np.array([losses.mean() for losses, _ in self._on_own_samples(weights, devices, buffers)])

    def local_accuracy(self, weights: Weights, devices: Sequence[int]) -> Floats:
        answers = self._on_own_samples(weights, devices)
        return np.array([(guesses == self._work.data.train_labels[self._parts[device]]).mean()
                         for device, (_, guesses) in zip(devices, answers, strict=True)])

    def _on_own_samples(
        self, weights: Weights, devices: Sequence[int], buffers: Floats | None = None,
    ) -> list[tuple[Floats, Ints]]:
        rows = [None] * len(devices) if buffers is None else buffers
        futures = [self._executor.submit(evaluate_samples, self._work, weights, self._parts[device], row, train=True)
                   for device, row in zip(devices, rows, strict=True)]
        return [_result(future) for future in futures]


@contextmanager
def open_trainer(
    scenario: Scenario, seed: int, workers: int | None = None, shared: TrainingCache | None = None, *,
    cluster: str | None = None, allow_import: bool = False,
) -> Iterator[LocalTrainer]:
    """Yield local training and evaluation of a scenario in worker processes, by default one per core.

    On a ``cluster`` (address of a Dask scheduler) its workers train instead. Results are ``shared`` with other runs.
    ``allow_import`` permits code of packages that were not made for netsim.
    """
    permit_learning(scenario, allow_import=allow_import)
    parts = split(scenario, seed)
    count_parameters(scenario)    # a model that does not fit the images fails before any worker starts
    on_cpu = device_of(scenario.learning.device) == CPU
    count = workers or (cores() if on_cpu else 1)      # processes share a GPU, and its memory
    with ClusterExecutor(cluster) if cluster else open_pool(count, fork=on_cpu) as pool:
        yield LocalTrainer(scenario.learning, parts, seed, pool, shared)


def split(scenario: Scenario, seed: int) -> list[Ints]:
    """Return the indices of the training samples of each device."""
    labels, samples = WorkerTask.of(scenario.learning).data.train_labels, draw_samples(scenario, seed)
    return partition(labels, scenario.learning.partition, samples, scenario.size, stream(seed, "partition"))


def count_parameters(scenario: Scenario) -> int:
    """Return how many numbers a device uploads: the parameters, and the buffers unless they stay local."""
    network = WorkerTask.of(scenario.learning).network
    check_buffers(scenario.learning, network)
    return network.size + (0 if scenario.learning.buffers == "local" else network.buffers.sent)


def check_buffers(settings: Any, network: Network) -> None:
    """Raise InputError if ``learning.buffers`` is set for a model without buffers."""
    if settings.buffers is not None and not network.buffers.size:
        raise InputError("no-effect", "learning.buffers", quoted(settings.buffers),
                         hint=f"Model {settings.model_name} keeps no buffers: remove this key")


def _check_batches(network: Network, data: Dataset, samples: Ints, batch: int) -> None:
    """Raise InputError if a batch has one sample and the model needs two, as with batch normalisation."""
    def leaves_one(size: int) -> Ints:
        devices: Ints = samples[(samples % size == 1) | (size == 1)]
        return devices

    if not leaves_one(batch).size or _learns_from_one(network, data):
        return
    wider = next((size for size in range(batch + 1, batch + FARTHEST) if not leaves_one(size).size), samples.max())
    raise InputError(
        "conflict", "learning.batch_size", f"{batch}, which leaves a batch of one image to a device of "
        f"{pluralize(int(leaves_one(batch)[0]), 'sample')}",
        f"batches of at least 2, as model {type(network.module).__name__} needs",
        "Give every device at least 2 samples, or use GroupNorm or LayerNorm" if samples.min() == 1 else
        f"Use learning.batch_size = {wider}")


def _learns_from_one(network: Network, data: Dataset) -> bool:
    network.module.train()
    one = torch.zeros(1, *data.shape, dtype=torch.int64 if data.tokens else torch.float32)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            network.logits(network.stack(network.weights()), one)
    except InputError:
        return False
    finally:
        network.buffers.begin()
    return True


def _result(future: Future[T]) -> T:
    return result_of(future, "a training worker ended unexpectedly, most often because memory ran out; "
                     "use fewer workers or a smaller batch")
