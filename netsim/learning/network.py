"""A model as the rest of netsim sees it: a flat vector of weights, and a way to run several such vectors at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from netsim.base.arrays import Weights
from netsim.base.errors import InputError
from netsim.learning.buffers import Buffers
from netsim.learning.sources import Images

Shape = tuple[int, int, int]
ForwardGroup = Callable[[Sequence[Tensor], Tensor], Tensor]
Gradients = Callable[[Sequence[Tensor], Tensor, Tensor, Tensor], tuple[Tensor, list[Tensor]]]

# What a class may define without computing anything else than its parent.
_HARMLESS = {"__init__", "__repr__", "extra_repr", "__dict__", "__weakref__", "__annotate__", "__annotate_func__",
             "gradients_group"}
_CLOSE = 1e-3      # of the largest number: far above rounding, far below any other computation


class Network:
    """Wraps a torch module; ``layers`` says where each parameter lies in the flat vector of ``size`` weights.

    Parameters that are not to be trained (``requires_grad`` is off) are no part of the vector: everybody has them.
    ``shape`` of an image lets what the module offers for groups be tried before it is used.
    """

    def __init__(self, module: nn.Module, shape: Shape | None = None) -> None:
        self.module = module
        trained = {name: part for name, part in module.named_parameters() if part.requires_grad}
        self.shapes = {name: tuple(part.shape) for name, part in trained.items()}
        ends = np.cumsum([part.numel() for part in trained.values()])
        starts = [0, *ends[:-1]]
        self.layers = {name: slice(int(a), int(b)) for name, a, b in zip(self.shapes, starts, ends, strict=True)}
        self.size = int(ends[-1])
        self.buffers = Buffers(module)
        self._shape = shape

    @cached_property
    def _ways(self) -> tuple[ForwardGroup | None, Gradients | None]:
        return group_ways(self.module, self._shape)      # a second of work, which the layers alone do not take

    @property
    def grouped(self) -> bool:
        """Whether several devices can be served in one pass."""
        return self._ways[0] is not None

    def weights(self) -> Weights:
        """The module's own parameters, flat."""
        parts = [part.detach().numpy().ravel() for _, part in self.module.named_parameters() if part.requires_grad]
        return np.concatenate(parts).astype(np.float32)

    def stack(self, weights: Weights, count: int = 1) -> list[Tensor]:
        """``count`` copies of a flat model: a tensor (count, *shape) for each parameter, in memory of their own."""
        return self.stack_rows([weights] * count)

    def stack_rows(self, models: Sequence[Weights]) -> list[Tensor]:
        """The same for different models.

        Convolution kernels lie channels-last in memory, as the images do: that is fastest on a CPU.
        """
        stacked = []
        for name, shape in self.shapes.items():
            values = torch.from_numpy(np.stack([model[self.layers[name]] for model in models]))
            values = values.view(len(models), *shape)
            if len(shape) == 4:
                values = values.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
            stacked.append(values)
        return stacked

    def rows(self, stacked: Sequence[Tensor]) -> Weights:
        """Back from a stack to flat models, one a row, in memory of their own."""
        parts = [part.detach().reshape(len(part), part[0].numel()) for part in stacked]      # some have 0 dimensions
        flat: Weights = torch.cat(parts, dim=1).numpy()
        return flat

    def logits(self, stacked: Sequence[Tensor], images: Tensor) -> Tensor:
        """(batch, G * channels, height, width) to (G, batch, classes)."""
        forward_group, _ = self._ways
        if forward_group:
            return forward_group(stacked, images)
        alone = {name: parameter[0] for name, parameter in zip(self.shapes, stacked, strict=True)}
        try:
            single: Tensor = functional_call(self.module, alone, (images,))
        except MemoryError:
            raise
        except Exception as error:      # users' code fails in all sorts of ways
            raise InputError("your-code", f"model {type(self.module).__name__}", f"on {len(images)} images: {error}"
                             ) from error
        return single.unsqueeze(0)

    def gradients(
        self, stacked: Sequence[Tensor], images: Tensor, labels: Tensor, share: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Each model's loss (G,) and its gradient; ``share`` (G, batch) is how much each sample counts in the loss."""
        _, gradients_group = self._ways
        if gradients_group:
            with torch.no_grad():
                return gradients_group(stacked, images, labels, share)
        return _autograd(self.logits, stacked, images, labels, share)


def _autograd(
    forward: ForwardGroup, stacked: Sequence[Tensor], images: Tensor, labels: Tensor, share: Tensor
) -> tuple[Tensor, list[Tensor]]:
    logits = forward(stacked, images)
    sample_loss = functional.cross_entropy(logits.flatten(0, 1), labels, reduction="none")
    loss = (sample_loss.view(share.shape) * share).sum(dim=1)
    return loss.detach(), slopes(loss.sum(), stacked)


def slopes(loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """The gradient; 0 for what played no part this time, as where a model leaves out layers by chance."""
    if not loss.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    return list(torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True))


class Standardise:
    """Turns grey levels into inputs of mean 0 and deviation 1 over the training set, channel by channel."""

    def __init__(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        self.mean = torch.tensor(mean, dtype=torch.float32)
        self.scale = torch.tensor(1 / deviation, dtype=torch.float32)

    def __call__(self, images: Images, group: int = 1) -> Tensor:
        """Bytes (G * batch, height, width, channels) to inputs (batch, G * channels, height, width), channels last."""
        count, height, width, channels = images.shape
        rows = torch.from_numpy(images).view(count, height, width * channels).to(torch.float32)
        rows.sub_(self.mean.repeat(width)).mul_(self.scale.repeat(width))    # a row at a time: fast in colour too
        inputs = rows.view(group, -1, height, width, channels).permute(1, 2, 3, 0, 4).contiguous()
        return inputs.flatten(3).permute(0, 3, 1, 2)


# Several models in one pass: used where a class offers that, and means what its ``forward`` computes.

def group_ways(module: nn.Module, shape: Shape | None) -> tuple[ForwardGroup | None, Gradients | None]:
    """The module's ``forward_group`` and ``gradients_group``, each None unless it stands for the module's ``forward``.

    ``shape`` of an image lets both be tried once; without it the classes alone decide.
    """
    parts = dict(module.named_parameters())
    plain = not list(module.buffers()) and all(part.requires_grad for part in parts.values())
    forward: ForwardGroup | None = getattr(module, "forward_group", None)
    if forward is None or not plain or not _speaks_for(module, "forward_group"):
        return None, None
    gradients: Gradients | None = getattr(module, "gradients_group", None)
    if gradients is not None and not _speaks_for(module, "gradients_group"):
        gradients = None
    if shape is None:
        return forward, gradients
    stacked, images = _trial(parts, shape)
    if not _tried(lambda: _same_answers(module, forward, list(parts), stacked, images)):
        return None, None
    right = gradients is not None and _tried(lambda: _same_gradients(forward, gradients, stacked, images))
    return forward, gradients if right else None


def as_shipped(kind: type) -> bool:
    """Whether a class of ours computes with the functions of its own file, and none that were put there later."""
    functions = (getattr(kind, name, None) for name in ("forward", "forward_group", "gradients_group"))
    home = vars(sys.modules[kind.__module__])
    return all(getattr(function, "__globals__", None) is home for function in functions)


def _speaks_for(module: nn.Module, name: str) -> bool:
    """Whether no class below the one that defines a method, nor the object itself, computes in a way of its own."""
    if any(callable(getattr(type(module), key, None)) for key in vars(module)):
        return False      # a forward that was put on the object, or what that leans on
    for kind in type(module).__mro__:
        if name in vars(kind):
            return True
        if any(hasattr(value, "__get__") for key, value in vars(kind).items() if key not in _HARMLESS):
            return False
    return False


def _trial(parts: dict[str, nn.Parameter], shape: Shape) -> tuple[list[Tensor], Tensor]:
    """Two unlike models, and three images for each."""
    chance = torch.Generator().manual_seed(0)
    depth, height, width = shape

    def other(part: Tensor) -> Tensor:
        return part * 1.1 + 0.01 * torch.randn(part.shape, generator=chance)

    stacked = [torch.stack([part.detach(), other(part.detach())]) for part in parts.values()]
    return stacked, torch.randn(3, 2 * depth, height, width, generator=chance)


def _tried(trial: Callable[[], bool]) -> bool:
    """Whether it comes out right; users' code that fails on a group is not asked for groups."""
    try:
        with torch.random.fork_rng(devices=[]):
            return trial()
    except Exception:
        return False


@torch.no_grad()
def _same_answers(
    module: nn.Module, forward_group: ForwardGroup, names: list[str], stacked: list[Tensor], images: Tensor
) -> bool:
    """Whether a group answers as each model alone, both when learning and when not."""
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
    """Whether losses and gradients are those that autograd finds."""
    with torch.no_grad():
        models, batch, classes = forward_group(stacked, images).shape
        labels, share = torch.arange(models * batch) % classes, torch.full((models, batch), 1 / batch)
        found_loss, found = gradients_group(stacked, images, labels, share)
    leaves = [part.clone().requires_grad_() for part in stacked]
    loss, expected = _autograd(forward_group, leaves, images, labels, share)
    return all(_close(*pair) for pair in zip([found_loss, *found], [loss, *expected], strict=True))


def _close(found: Tensor, expected: Tensor) -> bool:
    size = float(expected.abs().max()) if expected.numel() else 0.0
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=_CLOSE, atol=_CLOSE * size)
