"""Seconds a training round takes, against the same loop by hand and against Flower: python benchmarks/training.py.

100 devices with 600 images each, 10 of them selected, batch 10, one epoch, two workers; the MNIST network on 28x28 grey
images and the CIFAR network on 32x32 colour ones. All contenders train the same devices from the same model and average
what comes back; none evaluates. The images are noise: speed does not depend on what they show. The hand-written loop
and netsim take turns, so both meet the same load. With --cpu both run in this process, Flower is left out, and CPU
seconds are compared: for a machine with other work. benchmarks/own_model.py measures networks of a user's own.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.nn import functional

from netsim import load_scenario, simulate
from netsim.executors.workers import open_pool
from netsim.learning import aggregation
from netsim.learning.aggregation import plain_mean
from netsim.learning.batched_network import Network
from netsim.learning.datasets import load_dataset
from netsim.learning.local_training import LocalTrainer, Training
from netsim.models import CifarCNN, MnistCNN

DEVICES, COHORT, SAMPLES, BATCH, RATE = 100, 10, 600, 10, 0.05
WORKERS, ROUNDS, WARM_UP = 2, 10, 2

Weights = Any
Round = Callable[[int, Weights], Weights]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Case:
    """A network, how netsim names it, and the shape of an image."""

    name: str
    model: str
    kind: Callable[..., torch.nn.Module]
    shape: tuple[int, int, int]

    def start_weights(self) -> Weights:
        torch.manual_seed(0)
        return Network(self.kind(self.shape, 10)).weights()


CASES = (Case("MNIST network", "mnist-cnn", MnistCNN, (1, 28, 28)),
         Case("CIFAR network", "cifar-cnn", CifarCNN, (3, 32, 32)))


def main(cases: tuple[Case, ...] = CASES) -> None:
    """Measure every network and print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--cpu", action="store_true", help="compare CPU seconds of one process, without Flower")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measured rounds, after two to warm up")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for case in cases:
        with TemporaryDirectory(prefix="netsim-bench-") as folder:
            root = write_images(Path(folder), case.shape)
            compare(case, root, given.rounds, cpu=given.cpu)
            if case.model == "mnist-cnn" and not given.cpu:
                share = simulator_share(root)
                print(f"{share:.1%} of a simulated round is SimPy, trace, selection and allocation (goal: 5 % at most)")


def compare(case: Case, root: str, rounds: int, *, cpu: bool) -> None:
    """Print how many times as fast as the other contenders netsim trains a network."""
    clock = time.process_time if cpu else time.perf_counter
    with by_netsim(case, root, 1 if cpu else WORKERS) as ours:
        with by_hand(case, root, 1 if cpu else WORKERS) as hand:
            report(f"{case.name}: hand-written loop", race(hand, ours, case, rounds, clock))
        flower = None if cpu else race_flower(case, root, rounds, ours)
    if flower is not None:
        report(f"{case.name}: Flower's simulation engine", flower)
    elif not cpu:
        print("Flower is not installed: pip install 'flwr[simulation]' (extra: bench)")


def report(rival: str, seconds: list[tuple[float, float]]) -> None:
    """Medians over the rounds, without the first ones, in which everything warms up."""
    theirs, ours = (statistics.median(column) for column in zip(*seconds[WARM_UP:], strict=True))
    print(f"{rival} {theirs:.3f} s a round, netsim {ours:.3f} s: {theirs / ours:.2f} x its speed", flush=True)


def write_images(folder: Path, shape: tuple[int, int, int]) -> str:
    """Noise in a file of arrays, as many images as the devices need."""
    rng, (channels, height, width) = np.random.default_rng(0), shape
    parts = {"train": DEVICES * SAMPLES, "test": 10_000}
    images = {f"{part}_images": rng.integers(0, 256, (count, height, width, channels), np.uint8)
              for part, count in parts.items()}
    labels = {f"{part}_labels": np.arange(count) % 10 for part, count in parts.items()}
    np.savez(folder / "noise.npz", **images, **labels)
    return str(folder / "noise.npz")


def cohort(round: int) -> list[int]:
    return sorted(np.random.default_rng(round).choice(DEVICES, COHORT, replace=False).tolist())


def timed(play: Round, round: int, case: Case, clock: Clock = time.perf_counter) -> float:
    weights = case.start_weights()
    began = clock()
    play(round, weights)
    return clock() - began


def race(rival: Round, ours: Round, case: Case, rounds: int, clock: Clock) -> list[tuple[float, float]]:
    """Seconds of every round of both, taking turns."""
    return [(timed(rival, round, case, clock), timed(ours, round, case, clock)) for round in range(WARM_UP + rounds)]


@contextmanager
def by_netsim(case: Case, root: str, workers: int) -> Iterator[Round]:
    """The learner as the simulator uses it."""
    settings = SimpleNamespace(
        dataset="arrays", root=root, model=case.model, local_epochs=1, local_steps=None, batch_size=BATCH,
        learning_rate=RATE, momentum=0.0, weight_decay=0.0, proximal=0.0, fedl=None,
        evaluation=SimpleNamespace(samples="all"),
    )
    parts = [np.arange(device * SAMPLES, (device + 1) * SAMPLES) for device in range(DEVICES)]
    with open_pool(workers) as pool:
        learner = LocalTrainer(settings, parts, 0, pool)

        def play(round: int, weights: Weights) -> Weights:
            training = learner.train(round, weights, cohort(round))
            return plain_mean([training.update(device).weights for device in cohort(round)])

        yield play


@contextmanager
def by_hand(case: Case, root: str, workers: int) -> Iterator[Round]:
    """What one writes without netsim: forked workers with one thread, channels-last, a plain loop for each device."""
    load_dataset("arrays", root)
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, torch.set_num_threads, (1,)) if workers > 1 else nullcontext() as pool:

        def play(round: int, weights: Weights) -> Weights:
            jobs = [(case, root, device, round, weights) for device in cohort(round)]
            return plain_mean(pool.starmap(train_device, jobs, chunksize=1) if pool else
                              [train_device(*job) for job in jobs])

        yield play


def train_device(case: Case, root: str, device: int, round: int, weights: Weights) -> Weights:
    """One device's epoch in plain torch."""
    images, labels = device_data(root, device)
    model = case.kind(case.shape, 10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
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
    data = load_dataset("arrays", root)
    rows = slice(device * SAMPLES, (device + 1) * SAMPLES)
    levels = torch.from_numpy(data.train_images[rows].astype(np.float32))
    images = (levels - torch.from_numpy(data.mean).float()) / torch.from_numpy(data.deviation).float()
    return images.permute(0, 3, 1, 2), torch.from_numpy(data.train_labels[rows])


def load(parameters: list[torch.nn.Parameter], weights: Weights) -> None:
    """A flat vector into a model's parameters."""
    parts = torch.from_numpy(weights.copy()).split([parameter.numel() for parameter in parameters])
    with torch.no_grad():
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.copy_(part.view(parameter.shape))


def race_flower(case: Case, root: str, number: int, ours: Round) -> list[tuple[float, float]] | None:
    """The same against Flower with the hand-written device loop; None where it is not installed."""
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    try:
        import ray  # noqa: F401  (of flwr[simulation])
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
        trained = train_device(case, root, int(context.node_config["partition-id"]), 0, weights)
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
                seconds.append((theirs, timed(ours, round, case)))
            began = time.perf_counter()

        before = case.start_weights()
        strategy = FedAvg(fraction_train=COHORT / DEVICES, fraction_evaluate=0.0, min_available_nodes=DEVICES)
        strategy.start(grid, ArrayRecord([before]), WARM_UP + number, evaluate_fn=take_turns)

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
        "learning.dataset=arrays", f"learning.root={root}", "learning.model=mnist-cnn", "learning.local_epochs=1",
        f"learning.batch_size={BATCH}", "selection.method=divergence", f"selection.cohort={COHORT}",
        f"population.phone.samples={SAMPLES}", f"end.rounds={WARM_UP + ROUNDS}",
    ])
    with (
        patch.object(LocalTrainer, "train", clocked(LocalTrainer.train)),
        patch.object(LocalTrainer, "evaluate", clocked(LocalTrainer.evaluate)),
        patch.object(Training, "update", clocked(Training.update)),
        patch.object(aggregation, "aggregate", clocked(aggregation.aggregate)),
    ):
        simulate(scenario, workers=WORKERS, progress=lambda _: marks.append((time.perf_counter(), learning_s)))
    total, learning = np.diff(np.array(marks), axis=0)[WARM_UP - 1 :].T
    return float(np.median((total - learning) / total))


if __name__ == "__main__":
    main()
