"""The model, the data and the training."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

HELD_BACK = 297          # of the 1,797 images, for the server's test


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


@cache
def data() -> tuple[torch.Tensor, torch.Tensor]:
    """All images in a fixed random order, their pixels between 0 and 1."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return torch.tensor(images[order] / 16.0, dtype=torch.float32), torch.tensor(labels[order])


def part(partition: int, partitions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of one device: every so many, from its own number on."""
    images, labels = data()
    return images[HELD_BACK + partition::partitions], labels[HELD_BACK + partition::partitions]


def test_part() -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = data()
    return images[:HELD_BACK], labels[:HELD_BACK]


def train(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor, *, epochs: int, rate: float, batch: int,
) -> float:
    """Plain gradient steps on shuffled batches; returns the loss of the last epoch."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    loss_of = nn.CrossEntropyLoss()
    mean = 0.0
    for _ in range(epochs):
        losses = []
        for rows in torch.randperm(len(labels)).split(batch):
            optimiser.zero_grad()
            loss = loss_of(model(images[rows]), labels[rows])
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        mean = sum(losses) / len(losses)
    return mean


@torch.no_grad()
def test(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Loss and accuracy."""
    scores = model(images)
    return nn.functional.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).float().mean().item()
