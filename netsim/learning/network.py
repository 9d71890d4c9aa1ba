"""A model as the rest of netsim sees it: a flat vector of weights, and a way to run several such vectors at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from netsim.base.arrays import Weights
from netsim.base.errors import InputError
from netsim.learning.buffers import Buffers
from netsim.learning.grouping import ForwardGroup, Gradients, Shape, group_ways
from netsim.learning.sources import Images


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
        logits = self.logits(stacked, images)
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
