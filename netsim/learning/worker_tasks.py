"""Tasks of a worker: train the devices of a group, or compute the losses of samples."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

from netsim.base.errors import InputError
from netsim.base.types import Floats, Ints, Weights
from netsim.executors.cluster import provided
from netsim.learning.batched_network import Network, as_shipped
from netsim.learning.compute_device import device_of
from netsim.learning.dataset_files import Dataset
from netsim.learning.datasets import ROOT, load_dataset
from netsim.learning.sgd import Hyperparameters, Task, Update, columns_of, sample_losses, train_group, updates_of
from netsim.learning.training_cache import key_of_test, key_of_training, once
from netsim.models import MODELS, build_model


@dataclass(frozen=True)
class WorkerTask:
    """Settings that a worker needs besides a task's arrays; small, since they are sent with every task."""

    dataset: str
    root: str
    model: str
    options: Mapping[str, Any]
    settings: Hyperparameters
    device: str | None = None
    seed: int = field(default=0, repr=False)      # of parameters that are not trained, and so never sent
    data_sha256: str | None = field(default=None, repr=False)      # on a cluster: the data that every worker must have

    @classmethod
    def of(cls, settings: Any, seed: int = 0) -> WorkerTask:
        """Take the settings from a scenario's [learning] table."""
        model = settings.model
        name, options = (model, {}) if isinstance(model, str) else (model.name, model.options)
        how = {each.name: getattr(settings, each.name) for each in fields(Hyperparameters)}
        return cls(settings.dataset, settings.root or ROOT, name, options, Hyperparameters(**how),
                   getattr(settings, "device", None), seed)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def data(self) -> Dataset:
        if self.data_sha256 is None:
            return load_dataset(self.dataset, self.root)
        return _data_on_worker(self.dataset, self.root, self.data_sha256)

    @property
    def network(self) -> Network:
        found = MODELS.find(self.model)
        return _network(self, self.data, (found, getattr(found, "forward", None)))


@lru_cache(maxsize=2)
def _data_on_worker(dataset: str, root: str, sha256: str) -> Dataset:
    """Return the dataset of this machine if it is that of the run, else the one that the run provides."""
    with suppress(InputError):
        data = load_dataset(dataset, root)
        if data.sha256 == sha256:
            return data
    found: Dataset = provided(sha256)
    return found


@lru_cache(maxsize=4)
def _network(work: WorkerTask, data: Dataset, behind: Any) -> Network:
    """Build the model once; ``behind``, the objects that its name refers to, may change in a notebook.

    Batched methods of built-in models are checked by the tests, not by every worker.
    """
    module = build_model(work.model, data.shape, data.classes, work.seed, work.options, tokens=data.tokens)
    checked = work.model in MODELS and as_shipped(type(module))
    return Network(module, None if checked else data.shape, device_of(work.device))


@cache
def keep_memory() -> None:
    """Make glibc keep freed memory instead of returning it to the system.

    Every step frees and allocates megabytes, and touching new pages takes a quarter of a step on CIFAR-10.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        trim_threshold, mmap_threshold = -1, -3
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_threshold, 2**30)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread inside the block.

    The workers use all cores; several threads would sum in another order; and a forked worker cannot use the threads
    of its parent.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def train_devices(
    work: WorkerTask, weights: Weights, tasks: list[Task], gradient: Weights | None, folder: Path | None
) -> list[Update]:
    """Train the devices of a group from ``weights``; with ``folder``, in the cache of several runs."""
    keep_memory()

    def train() -> list[Update]:
        return train_group(work.network, work.data, weights, tasks, work.settings, gradient)

    if folder is None:
        return train()
    key = key_of_training((work, work.seed), work.data, weights, tasks, gradient)
    return updates_of(once(folder, key, lambda: columns_of(train())))


@one_thread()
def evaluate_samples(
    work: WorkerTask, weights: Weights, chosen: Ints, buffers: Floats | None, folder: Path | None = None, *,
    train: bool = False,
) -> tuple[Floats, Ints]:
    """Return losses and predicted classes on the chosen test or training samples."""
    data = work.data
    images, labels = (data.train_images, data.train_labels) if train else (data.test_images, data.test_labels)
    images, labels = images[chosen], labels[chosen]

    def test() -> tuple[Floats, Ints]:
        return sample_losses(work.network, data, weights, images, labels, buffers)

    if folder is None:
        return test()
    key = key_of_test((work, work.seed), data, weights, images, labels, buffers)
    kept = once(folder, key, lambda: dict(zip(("losses", "guesses"), test(), strict=True)))
    return kept["losses"], kept["guesses"]
