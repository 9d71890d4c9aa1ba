"""How well K-means on fc2 weights finds the devices' majority classes, on given splits of real data.

    python benchmarks/clustering.py ROOT SPLITS [DATASET ...]

ROOT holds the datasets of ``netsim dataset fetch``, SPLITS the files ``mnist-0.8.json`` and so on: device to sample
numbers. As in the first round, all devices train five epochs from one model; their models are then clustered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from netsim.executors.workers import Workers
from netsim.learning.clustering import ari, cluster_devices
from netsim.learning.datasets import load_dataset
from netsim.learning.local_training import LocalTrainer
from netsim.learning.partition import partition
from netsim.scenario.learning import PartitionFile

SEED = 1
WORKERS = 2
CASES = {    # dataset: model, batch size, and the name of its split files
    "mnist": ("mnist-cnn", 10, "mnist"),
    "fashion-mnist": ("fashion-cnn", 10, "fashion-mnist"),
    "cifar10": ("cifar-cnn", 20, "cifar10-images"),
}


def main(root: str, splits: Path, datasets: list[str]) -> None:
    """One line for each dataset and split."""
    print("dataset        sigma momentum  ARI fc2   K-means  ARI all   K-means")
    for name in datasets:
        model, batch, prefix = CASES[name]
        for sigma in ("0.5", "0.8", "H"):
            for momentum in (0.0, 0.5):
                file = splits / f"{prefix}-{sigma}.json"
                measured = cluster(root, name, model, batch, file, momentum)
                print(f"{name:14s} {sigma:>5s} {momentum:8.1f} {measured}", flush=True)


def cluster(root: str, name: str, model: str, batch: int, file: Path, momentum: float) -> str:
    """Adjusted Rand index and seconds of K-means, on the weights of fc2 and on all weights."""
    settings = SimpleNamespace(
        dataset=name, root=root, model=model, local_epochs=5, local_steps=None, batch_size=batch,
        learning_rate=0.05, momentum=momentum, weight_decay=0.0, proximal=0.0, fedl=None,
        evaluation=SimpleNamespace(samples="all"),
    )
    devices = len(json.loads(file.read_text()))
    labels = load_dataset(name, root).train_labels
    split = PartitionFile(kind="file", path=str(file))
    parts = partition(labels, split, None, devices, np.random.default_rng(SEED))
    with Workers(WORKERS) as pool:
        learner = LocalTrainer(settings, parts, SEED, pool)
        training = learner.train(1, learner.initial_weights(), range(devices))
        models = np.stack([training.update(device).weights for device in range(devices)])
    columns = []
    for layer in ("fc2.weight", "all"):
        found = cluster_devices(models, learner.layers, layer, clusters=learner.classes, seed=SEED)
        columns.append(f"{ari(found.labels, learner.majority):8.3f} {found.seconds:7.2f} s")
    return " ".join(columns)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or list(CASES))
