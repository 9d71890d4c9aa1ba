"""Torch modules as flat weight vectors, and forward and backward passes of several such vectors at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from netsim.base.errors import InputError
from netsim.base.types import Weights
from netsim.learning.compute_device import CPU, to_array, to_device
from netsim.learning.dataset_files import Images
from netsim.learning.model_buffers import Buffers

Shape = tuple[int, ...]      # of one input: (channels, height, width), (features,) or (length,)
ForwardGroup = Callable[[Sequence[Tensor], Tensor], Tensor]
Gradients = Callable[[Sequence[Tensor], Tensor, Tensor, Tensor], tuple[Tensor, list[Tensor]]]

# Attributes that a subclass may define without changing what its parent computes.
_HARMLESS = {"__init__", "__repr__", "extra_repr", "__dict__", "__weakref__", "__annotate__", "__annotate_func__",
             "gradients_group"}
_CLOSE = 1e-3      # relative tolerance: far above rounding, far below the difference of another computation


class Network:
    """Torch module with a flat vector of ``size`` weights; ``layers`` maps parameter names to slices of it.

    Parameters that are not trained (``requires_grad`` is off) are not part of the vector: all devices have them.
    With the ``shape`` of an image, batched methods of the module are checked before they are used. A module may have:

    ``forward_group(stacked, images)``
        Logits (G, batch, classes) of G models: ``stacked`` has a tensor (G, *shape) per parameter, ``images`` is
        (batch, G * channels, height, width).
    ``gradients_group(stacked, images, labels, share)``
        Losses (G,) and gradients, shaped as ``stacked``; ``share`` (G, batch) weighs the samples.
    """

    def __init__(self, module: nn.Module, shape: Shape | None = None, device: torch.device = CPU) -> None:
        self.buffers = Buffers(module)
        self._initial = np.concatenate([to_array(part).ravel() for part in module.parameters() if part.requires_grad])
        self.module = module.to(device)
        self.device = device
        trained = {name: part for name, part in module.named_parameters() if part.requires_grad}
        self.shapes = {name: tuple(part.shape) for name, part in trained.items()}
        ends = np.cumsum([part.numel() for part in trained.values()])
        starts = [0, *ends[:-1]]
        self.layers = {name: slice(int(a), int(b)) for name, a, b in zip(self.shapes, starts, ends, strict=True)}
        self.size = int(ends[-1])
        self._shape = shape
        self._parts = list(trained.values())
        self._bound: Sequence[Tensor] | None = None      # the stack whose memory the module's parameters share

    @cached_property
    def _ways(self) -> tuple[ForwardGroup | None, Gradients | None]:
        return group_ways(self.module, self._shape)      # takes a second, so only when a pass is computed

    @property
    def grouped(self) -> bool:
        """True if one pass can serve several devices."""
        return self._ways[0] is not None

    def weights(self) -> Weights:
        """Return the initial values of the trained parameters, flat."""
        return self._initial.astype(np.float32)

    def stack(self, *models: Weights) -> list[Tensor]:
        """Return copies of flat models as one tensor (count, *shape) per parameter.

        Convolution kernels are channels-last in memory, as the images are: fastest on a CPU.
        """
        stacked = []
        for name, shape in self.shapes.items():
            values = to_device(np.stack([model[self.layers[name]] for model in models]), self.device)
            values = values.view(len(models), *shape)
            if len(shape) == 4:
                values = values.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
            stacked.append(values)
        return stacked

    def rows(self, stacked: Sequence[Tensor]) -> Weights:
        """Return the models of a stack as rows of a new array (count, P)."""
        parts = [part.detach().reshape(len(part), part[0].numel()) for part in stacked]      # some have 0 dimensions
        return to_array(torch.cat(parts, dim=1))

    def logits(self, stacked: Sequence[Tensor], images: Tensor) -> Tensor:
        """Map images (batch, G * channels, height, width) to logits (G * batch, classes)."""
        forward_group, _ = self._ways
        if forward_group:
            return forward_group(stacked, images).flatten(0, 1)
        self._bind(stacked)
        try:
            single: Tensor = self.module(images)
        except MemoryError:
            raise
        except Exception as error:      # users' code may raise anything
            raise InputError("your-code", f"model {type(self.module).__name__}", f"on {len(images)} images: {error}"
                             ) from error
        return single

    def _bind(self, stacked: Sequence[Tensor]) -> None:
        """Make the module's parameters views of a stack of one model."""
        if self._bound is not stacked:
            for part, values in zip(self._parts, stacked, strict=True):
                part.data = values[0].detach()
            self._bound = stacked

    def gradients(
        self, stacked: Sequence[Tensor], images: Tensor, labels: Tensor, share: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Return losses (G,) and gradients, which broadcast to ``stacked``; ``share`` (G, batch) weighs the samples."""
        _, gradients_group = self._ways
        if gradients_group:
            with torch.no_grad():
                return gradients_group(stacked, images, labels, share)
        losses = functional.cross_entropy(self.logits(stacked, images), labels, reduction="none")
        return weighted(losses.detach(), share), self.slopes(losses, stacked, share)

    def slopes(self, losses: Tensor, stacked: Sequence[Tensor], share: Tensor | None = None) -> list[Tensor]:
        """Return the gradient of losses that were computed with :meth:`logits`; broadcasts to ``stacked``."""
        return slopes(losses, stacked if self.grouped else self._parts, share)


def weighted(losses: Tensor, share: Tensor) -> Tensor:
    """Return the loss of each model, (G,), from those of its samples."""
    return (losses.view(share.shape) * share).sum(dim=1)


def slopes(losses: Tensor, leaves: Sequence[Tensor], share: Tensor | None = None) -> list[Tensor]:
    """Return the gradient of the sum weighted by ``share``; 0 for unused parameters, as of layers skipped at random."""
    if not losses.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    weights = None if share is None else share.flatten().to(losses.dtype)
    return list(torch.autograd.grad(losses, leaves, weights, allow_unused=True, materialize_grads=True))


class Standardise:
    """Standardisation of inputs to mean 0 and deviation 1 over the training set, by channel or feature."""

    def __init__(self, mean: np.ndarray, deviation: np.ndarray, device: torch.device = CPU) -> None:
        self.mean = torch.tensor(mean, dtype=torch.float32, device=device)
        self.scale = torch.tensor(1 / deviation, dtype=torch.float32, device=device)

    def __call__(self, images: Images) -> Tensor:
        """Map images (batch, height, width, channels) to inputs (batch, channels, height, width), channels-last.

        Features (batch, features) keep their shape; tokens remain as they are.
        """
        return self.batches(images, 1, 1)[0]

    def batches(self, images: Images, steps: int, group: int) -> Tensor:
        """Map images (steps * G * batch, height, width, channels) to (steps, batch, G * channels, height, width)."""
        values = to_device(images, self.mean.device)
        if images.ndim == 2:
            values = values if not len(self.mean) else (values - self.mean).mul_(self.scale)
            return values.view(steps, -1, images.shape[1])
        _, height, width, channels = images.shape
        rows = values.view(-1, height, width * channels).to(torch.float32)
        rows.sub_(self.mean.repeat(width)).mul_(self.scale.repeat(width))    # a row at a time: fast in colour too
        apart = rows.view(steps, group, -1, height, width, channels)
        if group == 1:
            return apart.squeeze(1).permute(0, 1, 4, 2, 3)
        joined = rows.new_empty(steps, apart.shape[2], height, width, group, channels)
        for place in range(group):      # in colour twice as fast as one permuted copy
            joined[..., place, :] = apart[:, place]
        return joined.flatten(4).permute(0, 1, 4, 2, 3)


# Several models in one pass: only if the class has the methods and they compute the same as its ``forward``.

def group_ways(module: nn.Module, shape: Shape | None) -> tuple[ForwardGroup | None, Gradients | None]:
    """Return ``forward_group`` and ``gradients_group``; None for one that does not match the module's ``forward``.

    With the ``shape`` of an image both are compared on one example; without it the class definitions decide.
    """
    parts = dict(module.named_parameters())
    plain = not list(module.buffers()) and all(part.requires_grad for part in parts.values())
    forward: ForwardGroup | None = getattr(module, "forward_group", None)
    images_only = shape is None or len(shape) == 3
    if forward is None or not (plain and images_only) or not _speaks_for(module, "forward_group"):
        return None, None
    gradients: Gradients | None = getattr(module, "gradients_group", None)
    on_cpu = next(iter(parts.values())).device == CPU      # they are written for it
    if gradients is not None and not (on_cpu and _speaks_for(module, "gradients_group")):
        gradients = None
    if shape is None:
        return forward, gradients
    stacked, images = _trial(parts, shape)
    if not _tried(lambda: _same_answers(module, forward, list(parts), stacked, images)):
        return None, None
    right = gradients is not None and _tried(lambda: _same_gradients(forward, gradients, stacked, images))
    return forward, gradients if right else None


def as_shipped(kind: type) -> bool:
    """Return whether a built-in class still has the methods of its own module, none of them replaced."""
    functions = (getattr(kind, name, None) for name in ("forward", "forward_group", "gradients_group"))
    home = vars(sys.modules[kind.__module__])
    return all(getattr(function, "__globals__", None) is home for function in functions)


def _speaks_for(module: nn.Module, name: str) -> bool:
    """Return whether neither the object nor a subclass of the class that defines ``name`` overrides computation."""
    if any(callable(getattr(type(module), key, None)) for key in vars(module)):
        return False      # a forward, or a method that it uses, was assigned to the object
    for kind in type(module).__mro__:
        if name in vars(kind):
            return True
        if any(hasattr(value, "__get__") for key, value in vars(kind).items() if key not in _HARMLESS):
            return False
    return False


def _trial(parts: dict[str, nn.Parameter], shape: Shape) -> tuple[list[Tensor], Tensor]:
    """Return two different models and three images for each."""
    chance = torch.Generator().manual_seed(0)
    depth, height, width = shape

    def other(part: Tensor) -> Tensor:
        return part * 1.1 + 0.01 * torch.randn(part.shape, generator=chance).to(part.device)

    stacked = [torch.stack([part.detach(), other(part.detach())]) for part in parts.values()]
    return stacked, torch.randn(3, 2 * depth, height, width, generator=chance).to(stacked[0].device)


def _tried(trial: Callable[[], bool]) -> bool:
    """Return the result of a check; False if users' code raises."""
    try:
        with torch.random.fork_rng(devices=[]):
            return trial()
    except Exception:
        return False


@torch.no_grad()
def _same_answers(
    module: nn.Module, forward_group: ForwardGroup, names: list[str], stacked: list[Tensor], images: Tensor
) -> bool:
    """Return whether batched logits equal those of each model alone, in training and in evaluation mode."""
    was, each = module.training, images.chunk(2, dim=1)
    try:
        for training in (False, True):
            module.train(training)
            torch.manual_seed(0)
            together = forward_group(stacked, images)
            torch.manual_seed(0)
            alone = [functional_call(module, dict(zip(names, model, strict=True)), (own,))
                     for own, model in zip(each, zip(*stacked, strict=True), strict=True)]
            if not _close(together, torch.stack(alone)):
                return False
    finally:
        module.train(was)
    return True


def _same_gradients(
    forward_group: ForwardGroup, gradients_group: Gradients, stacked: list[Tensor], images: Tensor
) -> bool:
    """Return whether losses and gradients equal those of autograd."""
    with torch.no_grad():
        models, batch, classes = forward_group(stacked, images).shape
        labels, share = torch.arange(models * batch) % classes, torch.full((models, batch), 1 / batch)
        found_loss, found = gradients_group(stacked, images, labels, share)
    leaves = [part.clone().requires_grad_() for part in stacked]
    losses = functional.cross_entropy(forward_group(leaves, images).flatten(0, 1), labels, reduction="none")
    expected = [weighted(losses.detach(), share), *slopes(losses, leaves, share)]
    return all(_close(*pair) for pair in zip([found_loss, *found], expected, strict=True))


def _close(found: Tensor, expected: Tensor) -> bool:
    size = float(expected.abs().max()) if expected.numel() else 0.0
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=_CLOSE, atol=_CLOSE * size)
