"""A study: 50 users, with a channel, an allocation method, a ResNet and a dataset of one's own, 5 seeds, a PDF figure.

    python study.py FOLDER

compares the own allocation with `sao` and `equal`, resumes after an interruption, and writes ``FOLDER/study.pdf``.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

from netsim import run_sweep
from netsim.allocation import Plan, Problem, allocate, plan_for

SCENARIO = {
    "cell": {"radius": "400 m", "bandwidth": "1 MHz"},
    "population": [{
        "name": "user", "count": 50, "samples": 24, "budget": "none", "radio": {"power": "20 dBm"},
        "cpu": {"min": "0.5 GHz", "max": {"dist": "uniform", "low": "1 GHz", "high": "2.5 GHz"},
                "cycles_per_sample": 2e6}}],
    "learning": {"dataset": "digits", "model": "mnist-cnn", "bits": "auto", "learning_rate": 0.1, "batch_size": 12,
                 "local_epochs": 2, "partition": {"kind": "dirichlet", "alpha": 0.5}},
    "selection": {"method": "fedavg", "cohort": 10}, "rounds": {"first": "cohort"}, "end": {"rounds": 20},
}


class Digits(Dataset):
    """Digits as torch's datasets give images: float tensors (channels, height, width)."""

    def __init__(self) -> None:
        pixels, self.labels = load_digits(return_X_y=True)
        self.images = torch.from_numpy(pixels / 16.0).float().view(-1, 1, 8, 8)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, at: int) -> tuple[Tensor, int]:
        return self.images[at], int(self.labels[at])


def digits(root: Path) -> tuple[Dataset, Dataset]:
    """The training and the test set."""
    whole = Digits()
    order = np.random.default_rng(0).permutation(len(whole)).tolist()
    return Subset(whole, order[:1500]), Subset(whole, order[1500:])


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(4, channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(4, channels))

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(images + self.body(images))


class ResNet(nn.Module):
    """A residual network for small images."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(shape[0], 16, 3, stride=2, padding=1), Block(16), Block(16), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(16, classes))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


class Corridor:
    """Gains that swing by 6 dB around their mean, with a phase of each user's own, in steps of 1/8 s."""

    changes = True
    step_s = 0.125           # a binary fraction: multiples of it are exact

    def __init__(self, scenario, population, seed) -> None:
        self._gain = population.gain
        self._phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, len(population))

    def gain(self, devices, t: float, round: int) -> np.ndarray:
        swing_db = 3.0 * np.sin(2 * np.pi * math.floor(t / self.step_s) * self.step_s / 20.0 + self._phase[devices])
        return self._gain[devices] * 10 ** (swing_db / 10)

    def mean(self, devices, t: float, round: int) -> np.ndarray:
        return self._gain[devices]

    def next_change(self, t: float) -> float:
        return (math.floor(t / self.step_s) + 1) * self.step_s


def by_need(problem: Problem) -> Plan:
    """Bandwidth in proportion to the time that an equal share would take, every CPU at its maximum."""
    equal = allocate(problem, "equal")
    share = equal.upload_s / equal.upload_s.sum()
    return plan_for(problem, problem.bandwidth_hz * share * (1 - 1e-9), problem.cpu_max_hz)


def main(folder: Path) -> None:
    """Run the study and write its figures."""
    found = run_sweep(
        SCENARIO, [{"label": "proportional to need", "allocation": by_need}, {"label": "optimal", "allocation": "sao"},
                   {"label": "equal shares", "allocation": "equal"}],
        seeds=5, out=folder / "sweep", workers=2, channel=Corridor, dataset=digits, model=ResNet)
    print(found)
    print(found.differences("equal shares").select("case", "seeds", "round_s", "round_s_low", "round_s_high"))
    found.figure("accuracy-time").savefig(folder / "study.pdf")
    found.figure("time-to-target").savefig(folder / "to-target.pdf")
    found.summary.write_csv(folder / "summary.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
