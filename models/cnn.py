"""The paper's three convolutional networks (Fig. 3 and its table of weights)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from netsim.errors import InputError


class CNN(nn.Module):
    """Two 5x5 convolutions, each with ReLU and 2x2 max pooling, then two linear layers with a ReLU between.

    Convolutions start Xavier-uniform with bias 0.1, linear layers from N(0, 0.01^2) with bias 0.
    """

    channels: tuple[int, int]
    hidden: int

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        depth, height, width = shape
        rows, columns = (_after_convolutions(side) for side in (height, width))
        if rows < 1 or columns < 1:
            raise InputError(f"images of {height}x{width} are too small for two 5x5 convolutions: 16x16 at least")
        first, second = self.channels
        self.conv1 = nn.Conv2d(depth, first, 5)
        self.conv2 = nn.Conv2d(first, second, 5)
        self.fc1 = nn.Linear(second * rows * columns, self.hidden)
        self.fc2 = nn.Linear(self.hidden, classes)
        for convolution in (self.conv1, self.conv2):
            nn.init.xavier_uniform_(convolution.weight)
            nn.init.constant_(convolution.bias, 0.1)  # type: ignore[arg-type]
        for linear in (self.fc1, self.fc2):
            nn.init.normal_(linear.weight, std=0.01)
            nn.init.zeros_(linear.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, channels, height, width) to logits (batch, classes)."""
        parameters = [parameter.unsqueeze(0) for parameter in self.parameters()]
        return self.forward_group(parameters, images).squeeze(0)

    @staticmethod
    def forward_group(parameters: Sequence[Tensor], images: Tensor) -> Tensor:
        """G models at once by grouped convolutions: (batch, G * channels, height, width) to (G, batch, classes).

        ``parameters`` are those of ``self.parameters()``, each with a leading dimension G.
        """
        w1, b1, w2, b2, w3, b3, w4, b4 = parameters
        group, batch = len(w1), len(images)
        # ReLU and maximum commute, so pooling first gives the same numbers with a quarter of the ReLUs.
        x = functional.conv2d(images, w1.flatten(0, 1), b1.flatten(), groups=group)
        x = functional.relu(functional.max_pool2d(x, 2))
        x = functional.conv2d(x, w2.flatten(0, 1), b2.flatten(), groups=group)
        x = functional.relu(functional.max_pool2d(x, 2))
        x = x.view(batch, group, -1, *x.shape[2:]).transpose(0, 1).reshape(group, batch, -1)
        x = functional.relu(torch.baddbmm(b3.unsqueeze(1), x, w3.transpose(1, 2)))
        return torch.baddbmm(b4.unsqueeze(1), x, w4.transpose(1, 2))


class MnistCNN(CNN):
    """15 and 28 channels, 224 hidden units: 113,744 parameters on 28x28 grey images of 10 classes."""

    channels = (15, 28)
    hidden = 224


class CifarCNN(CNN):
    """15 and 28 channels, 300 hidden units: 224,978 parameters on 32x32 colour images of 10 classes."""

    channels = (15, 28)
    hidden = 300


class FashionCNN(CNN):
    """10 and 12 channels, 80 hidden units: 19,522 parameters on 28x28 grey images of 10 classes."""

    channels = (10, 12)
    hidden = 80


def _after_convolutions(side: int) -> int:
    """What two 5x5 convolutions with 2x2 pooling leave of a side of the image."""
    return ((side - 4) // 2 - 4) // 2
