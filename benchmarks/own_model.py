"""Training speed of a user's own networks, which netsim only knows as torch modules: python benchmarks/own_model.py.

A residual network with group normalisation (seven convolutions, 32x32 colour images) and a multilayer perceptron (28x28
grey images), against the same contenders as benchmarks/training.py, whose rounds, options and clocks are used.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from torch import Tensor, nn
from training import CASES, Case, main

from netsim.models import MODELS


class Block(nn.Module):
    """Two 3x3 convolutions with group normalisation, beside a shortcut."""

    def __init__(self, channels: int, wider: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, wider, 3, stride, 1), nn.Conv2d(wider, wider, 3, 1, 1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, wider), nn.GroupNorm(4, wider)])
        self.shortcut = nn.Conv2d(channels, wider, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        inner = self.norms[0](self.first(images)).relu()
        found: Tensor = (self.norms[1](self.second(inner)) + self.shortcut(images)).relu()
        return found


class Residual(nn.Module):
    """Residual network with 16, 32 and 64 channels."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(shape[0], 16, 3, 1, 1)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.head = nn.Linear(64, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.blocks(self.stem(images).relu()).mean(dim=(2, 3)))
        return logits


class Perceptron(nn.Module):
    """Two hidden layers of 200 units."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 200), nn.ReLU(),
                                  nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, classes))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.body(images)
        return logits


OWN = (Case("residual network", "", Residual, (3, 32, 32)), Case("perceptron", "", Perceptron, (1, 28, 28)))

if __name__ == "__main__":
    with ExitStack() as stack:
        main((*(replace(case, model=stack.enter_context(MODELS.lend(case.kind))) for case in OWN), *CASES))
