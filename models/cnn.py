"""The paper's three convolutional networks (Fig. 3 and its table of weights)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from netsim.base.errors import InputError

aten = torch.ops.aten    # backward functions of autograd, without its graph


class CNN(nn.Module):
    """Two 5x5 convolutions, each with ReLU and 2x2 max pooling, then two linear layers with a ReLU between.

    Convolutions start Xavier-uniform with bias 0.1, linear layers from N(0, 0.01^2) with bias 0. Subclasses set
    ``channels`` and ``hidden``, and may add parameters and extend ``forward``. ``forward_group`` and
    ``gradients_group`` compute the same for several models at once; a subclass that changes ``forward`` is trained by
    its ``forward``.

    Parameters
    ----------
    shape : tuple of int
        (channels, height, width) of one image; at least 16x16 pixels.
    classes : int
        Number of classes.

    Examples
    --------
    >>> MnistCNN((1, 28, 28), 10)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    channels: tuple[int, int]
    hidden: int

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        depth, height, width = shape
        rows, columns = (_after_convolutions(side) for side in (height, width))
        if rows < 1 or columns < 1:
            raise InputError("out-of-range", "learning.model", f"images of {height}x{width}",
                             "16x16 at least, for two 5x5 convolutions")
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
        """Return the logits of a batch.

        Parameters
        ----------
        images : tensor, shape (batch, channels, height, width)
            Images, float32.

        Returns
        -------
        tensor, shape (batch, classes)
            Logits.
        """
        features = functional.max_pool2d(functional.relu(self.conv1(images)), 2)
        features = functional.max_pool2d(functional.relu(self.conv2(features)), 2)
        logits: Tensor = self.fc2(functional.relu(self.fc1(features.flatten(1))))
        return logits

    @staticmethod
    def forward_group(parameters: Sequence[Tensor], images: Tensor) -> Tensor:
        """Return the logits of G models at once, by grouped convolutions.

        Parameters
        ----------
        parameters : sequence of tensor
            Those of ``self.parameters()``, each with a leading dimension G.
        images : tensor, shape (batch, G * channels, height, width)
            Images of the G models side by side.

        Returns
        -------
        tensor, shape (G, batch, classes)
            Logits.
        """
        return _forward(parameters, images).logits

    @staticmethod
    def gradients_group(
        parameters: Sequence[Tensor], images: Tensor, labels: Tensor, share: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Return loss and gradient of G models: the result of autograd, in less time.

        Parameters
        ----------
        parameters : sequence of tensor
            Those of ``self.parameters()``, each with a leading dimension G.
        images : tensor, shape (batch, G * channels, height, width)
            Images of the G models side by side.
        labels : tensor of int, shape (G, batch)
            Classes.
        share : tensor, shape (G, batch)
            Weight of each sample in the cross-entropy loss.

        Returns
        -------
        loss : tensor, shape (G,)
            Loss of each model.
        gradients : list of tensor
            Gradients, shaped like `parameters`.
        """
        w1, w2, w3, w4 = parameters[::2]
        at = _forward(parameters, images)
        group, batch, _ = at.logits.shape
        likelihood = functional.log_softmax(at.logits, dim=2)
        truth = labels.view(group, batch, 1)
        loss = (-likelihood.gather(2, truth).squeeze(2) * share).sum(dim=1)

        # From the loss back to the images, layer by layer.
        d_likelihood = torch.zeros_like(likelihood).scatter_(2, truth, -share.unsqueeze(2))
        d_logits = aten._log_softmax_backward_data(d_likelihood, likelihood, 2, likelihood.dtype)
        d_hidden = aten.threshold_backward(torch.bmm(d_logits, w4), at.hidden, 0)
        d_features = torch.bmm(d_hidden, w3).view(group, batch, -1, *at.pool2.shape[2:]).permute(1, 3, 4, 0, 2)
        d_pool2 = aten.threshold_backward(d_features.flatten(3).permute(0, 3, 1, 2), at.pool2, 0)
        d_conv2 = _unpool(d_pool2, at.conv2, at.places2)
        d_pool1, d_w2, d_b2 = _through_convolution(d_conv2, at.pool1, w2, images_too=True)
        d_conv1 = _unpool(aten.threshold_backward(d_pool1, at.pool1, 0), at.conv1, at.places1)
        _, d_w1, d_b1 = _through_convolution(d_conv1, images, w1, images_too=False)
        d_w3, d_w4 = torch.bmm(d_hidden.transpose(1, 2), at.features), torch.bmm(d_logits.transpose(1, 2), at.hidden)
        return loss, [d_w1, d_b1, d_w2, d_b2, d_w3, d_hidden.sum(dim=1), d_w4, d_logits.sum(dim=1)]


class _Forward(NamedTuple):
    """Outputs of every layer of G models."""

    conv1: Tensor       # before pooling
    pool1: Tensor       # after pooling and ReLU
    places1: Tensor     # where each maximum was
    conv2: Tensor
    pool2: Tensor
    places2: Tensor
    features: Tensor    # (G, batch, inputs of the first linear layer)
    hidden: Tensor      # after ReLU
    logits: Tensor


def _forward(parameters: Sequence[Tensor], images: Tensor) -> _Forward:
    w1, b1, w2, b2, w3, b3, w4, b4 = parameters
    group, batch = len(w1), len(images)
    # ReLU and maximum commute, so pooling first gives the same numbers with a quarter of the ReLUs.
    conv1 = functional.conv2d(images, w1.flatten(0, 1), b1.flatten(), groups=group)
    pool1, places1 = functional.max_pool2d(conv1, 2, return_indices=True)
    pool1 = pool1.relu_()
    conv2 = functional.conv2d(pool1, w2.flatten(0, 1), b2.flatten(), groups=group)
    pool2, places2 = functional.max_pool2d(conv2, 2, return_indices=True)
    pool2 = pool2.relu_()
    features = pool2.view(batch, group, -1, *pool2.shape[2:]).transpose(0, 1).reshape(group, batch, -1)
    hidden = torch.baddbmm(b3.unsqueeze(1), features, w3.transpose(1, 2)).relu_()
    logits = torch.baddbmm(b4.unsqueeze(1), hidden, w4.transpose(1, 2))
    return _Forward(conv1, pool1, places1, conv2, pool2, places2, features, hidden, logits)


def _unpool(gradient: Tensor, convolved: Tensor, places: Tensor) -> Tensor:
    """Propagate a gradient back through 2x2 max pooling."""
    two, none, one = [2, 2], [0, 0], [1, 1]
    result: Tensor = aten.max_pool2d_with_indices_backward(gradient, convolved, two, two, none, one, False, places)
    return result


def _through_convolution(
    gradient: Tensor, images: Tensor, weights: Tensor, *, images_too: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Propagate a gradient back through a grouped convolution, to its images (optional), weights and biases."""
    group, kernels = weights.shape[:2]
    to_images, to_weights, to_biases = aten.convolution_backward(
        gradient, images, weights.flatten(0, 1), [group * kernels], [1, 1], [0, 0], [1, 1], False, [0, 0], group,
        [images_too, True, True])
    return to_images, to_weights.unflatten(0, (group, kernels)), to_biases.view(group, kernels)


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
    """Return the side of the image after two 5x5 convolutions with 2x2 pooling."""
    return ((side - 4) // 2 - 4) // 2
