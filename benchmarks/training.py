"""Seconds a training round takes, against the same loop by hand and against Flower: python benchmarks/training.py.

100 devices with 600 images of 28x28 each, 10 of them selected, batch 10, one epoch, the MNIST network, two workers. All
contenders train the same devices from the same model and average what comes back; none evaluates. The images are
noise: speed does not depend on what they show. The hand-written loop and netsim take turns, so both meet the same load.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.nn import functional

from netsim import load_scenario, simulate
from netsim.learning import aggregation
from netsim.learning.aggregation import plain_mean
from netsim.learning.datasets import load_dataset
from netsim.learning.learner import Learner, Training
from netsim.learning.network import Network
from netsim.learning.pool import Workers
from netsim.learning.sources import IDX_FILES
from netsim.models import MnistCNN

DEVICES, COHORT, SAMPLES, BATCH, RATE = 100, 10, 600, 10, 0.05
WORKERS, ROUNDS, WARM_UP = 2, 10, 2

Weights = Any
Round = Callable[[int, Weights], Weights]


def main() -> None:
    """Measure everything and print the ratios."""
    torch.set_num_threads(1)
    with TemporaryDirectory(prefix="netsim-bench-") as folder:
        write_images(Path(folder))
        load_dataset("mnist", folder)
        with by_netsim(folder) as ours:
            with by_hand(folder) as hand:
                report("hand-written loop", race(hand, ours), goal=0.95)
            flower = race_flower(folder, ours)
        if flower is None:
            print("Flower is not installed: pip install 'flwr[simulation]' (extra: bench)")
        else:
            report("Flower's simulation engine", flower, goal=2)
        share = simulator_share(folder)
        print(f"{share:.1%} of a simulated round is SimPy, trace, selection and allocation (goal: 5 % at most)")


def report(rival: str, seconds: list[tuple[float, float]], goal: float) -> None:
    """Medians over the rounds, without the first ones, in which everything warms up."""
    theirs, ours = (statistics.median(column) for column in zip(*seconds[WARM_UP:], strict=True))
    print(f"{rival} {theirs:.3f} s a round, netsim {ours:.3f} s: {theirs / ours:.2f} x its speed (goal: {goal:g})")


def write_images(root: Path) -> None:
    """Noise in MNIST's files, as many images as the devices need."""
    rng = np.random.default_rng(0)
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, count in zip(IDX_FILES, (DEVICES * SAMPLES,) * 2 + (10_000,) * 2, strict=True):
        array = rng.integers(0, 256, (count, 28, 28), np.uint8) if "images" in name else np.arange(count) % 10
        header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
        (raw / name).write_bytes(header + array.astype(np.uint8).tobytes())


def start_weights() -> Weights:
    torch.manual_seed(0)
    return Network(MnistCNN((1, 28, 28), 10)).weights()


def cohort(round: int) -> list[int]:
    return sorted(np.random.default_rng(round).choice(DEVICES, COHORT, replace=False).tolist())


def timed(play: Round, round: int) -> float:
    began = time.perf_counter()
    play(round, start_weights())
    return time.perf_counter() - began


def race(rival: Round, ours: Round) -> list[tuple[float, float]]:
    """Seconds of every round of both, taking turns."""
    return [(timed(rival, round), timed(ours, round)) for round in range(WARM_UP + ROUNDS)]


@contextmanager
def by_netsim(root: str) -> Iterator[Round]:
    """The learner as the simulator uses it."""
    settings = SimpleNamespace(
        dataset="mnist", root=root, model="mnist-cnn", local_iterations=1, local_steps=None, batch_size=BATCH,
        learning_rate=RATE, momentum=0.0, weight_decay=0.0, proximal=0.0, fedl=None,
        evaluation=SimpleNamespace(samples="all"),
    )
    parts = [np.arange(device * SAMPLES, (device + 1) * SAMPLES) for device in range(DEVICES)]
    with Workers(WORKERS) as pool:
        learner = Learner(settings, parts, 0, pool)

        def play(round: int, weights: Weights) -> Weights:
            training = learner.train(round, weights, cohort(round))
            return plain_mean([training.update(device).weights for device in cohort(round)])

        yield play


@contextmanager
def by_hand(root: str) -> Iterator[Round]:
    """What one writes without netsim: forked workers with one thread, channels-last, a plain loop for each device."""
    with multiprocessing.get_context("fork").Pool(WORKERS, initializer=torch.set_num_threads, initargs=(1,)) as pool:

        def play(round: int, weights: Weights) -> Weights:
            jobs = [(root, device, round, weights) for device in cohort(round)]
            return plain_mean(pool.starmap(train_device, jobs, chunksize=1))

        yield play


def train_device(root: str, device: int, round: int, weights: Weights) -> Weights:
    """One device's epoch in plain torch."""
    images, labels = device_data(root, device)
    model = MnistCNN((1, 28, 28), 10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parameters = list(model.parameters())
    load(parameters, weights)
    order = torch.from_numpy(np.random.default_rng([round, device]).permutation(SAMPLES))
    for batch in order.split(BATCH):
        inputs = images[batch].contiguous(memory_format=torch.channels_last)
        model.zero_grad()
        functional.cross_entropy(model(inputs), labels[batch]).backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter.add_(parameter.grad, alpha=-RATE)
    return np.concatenate([parameter.detach().numpy().ravel() for parameter in parameters])


def device_data(root: str, device: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A device's images as floats around 0, and its labels."""
    data = load_dataset("mnist", root)
    rows = slice(device * SAMPLES, (device + 1) * SAMPLES)
    levels = torch.from_numpy(data.train_images[rows].astype(np.float32))
    images = (levels - float(data.mean[0])) / float(data.deviation[0])
    return images.permute(0, 3, 1, 2), torch.from_numpy(data.train_labels[rows])


def load(parameters: list[torch.nn.Parameter], weights: Weights) -> None:
    """A flat vector into a model's parameters."""
    parts = torch.from_numpy(weights.copy()).split([parameter.numel() for parameter in parameters])
    with torch.no_grad():
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.copy_(part.view(parameter.shape))


def race_flower(root: str, ours: Round) -> list[tuple[float, float]] | None:
    """The same against Flower with the hand-written device loop; None where it is not installed."""
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    try:
        from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
        from flwr.clientapp import ClientApp
        from flwr.serverapp import Grid, ServerApp
        from flwr.serverapp.strategy import FedAvg
        from flwr.simulation import run_simulation
    except ImportError:
        return None
    logging.getLogger("flwr").setLevel(logging.ERROR)
    client, server = ClientApp(), ServerApp()
    seconds: list[tuple[float, float]] = []
    began = 0.0

    @client.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        (weights,) = message.content["arrays"].to_numpy_ndarrays()
        trained = train_device(root, int(context.node_config["partition-id"]), 0, weights)
        content = {"arrays": ArrayRecord([trained]), "metrics": MetricRecord({"num-examples": SAMPLES})}
        return Message(RecordDict(content), reply_to=message)

    @server.main()  # type: ignore[untyped-decorator]
    def rounds(grid: Grid, context: Context) -> None:
        def take_turns(round: int, arrays: ArrayRecord) -> None:
            """Flower calls this after every round, and once before the first."""
            nonlocal began
            theirs = time.perf_counter() - began
            if round:
                assert not np.array_equal(arrays.to_numpy_ndarrays()[0], before), "Flower's clients failed"
                seconds.append((theirs, timed(ours, round)))
            began = time.perf_counter()

        before = start_weights()
        strategy = FedAvg(fraction_train=COHORT / DEVICES, fraction_evaluate=0.0, min_available_nodes=DEVICES)
        strategy.start(grid, ArrayRecord([before]), WARM_UP + ROUNDS, evaluate_fn=take_turns)

    run_simulation(
        server, client, DEVICES,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": WORKERS}},
    )
    return seconds


def simulator_share(root: str) -> float:
    """What part of a simulated round the main process spends on anything but training, aggregation and evaluation."""
    learning_s = 0.0

    def clocked(work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            nonlocal learning_s
            began = time.perf_counter()
            try:
                return work(*args, **kwargs)
            finally:
                learning_s += time.perf_counter() - began

        return measured

    marks: list[tuple[float, float]] = []
    scenario = load_scenario("paper", [
        "learning.dataset=mnist", f"learning.root={root}", "learning.model=mnist-cnn", "learning.local_iterations=1",
        f"learning.batch_size={BATCH}", "selection.method=divergence", f"selection.cohort={COHORT}",
        f"population.phone.samples={SAMPLES}", f"end.rounds={WARM_UP + ROUNDS}",
    ])
    with (
        patch.object(Learner, "train", clocked(Learner.train)),
        patch.object(Learner, "evaluate", clocked(Learner.evaluate)),
        patch.object(Training, "update", clocked(Training.update)),
        patch.object(aggregation, "aggregate", clocked(aggregation.aggregate)),
    ):
        simulate(scenario, workers=WORKERS, progress=lambda _: marks.append((time.perf_counter(), learning_s)))
    total, learning = np.diff(np.array(marks), axis=0)[WARM_UP - 1 :].T
    return float(np.median((total - learning) / total))


if __name__ == "__main__":
    main()
