"""Models as users write them: those that netsim trains, and those that it refuses with one that helps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from netsim.models import CNN, MnistCNN


class Base(nn.Module):
    """Flat images through whatever the model's body is."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.make(shape[0] * shape[1] * shape[2], classes)

    def make(self, pixels: int, classes: int) -> None:
        self.body = nn.Sequential(nn.Linear(pixels, 12), nn.ReLU(), nn.Linear(12, classes))

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.body(images.flatten(1))
        return answer


class Scalar(Base):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) * self.scale


class PartlyFrozen(Base):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.body[0].requires_grad_(False)


class Batches(Base):
    def make(self, pixels: int, classes: int) -> None:
        self.body = nn.Sequential(nn.Linear(pixels, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, classes))


class Cumulative(Base):
    def make(self, pixels: int, classes: int) -> None:
        norm = nn.BatchNorm1d(12, momentum=None)      # counts its batches, and means over all of them
        self.body = nn.Sequential(nn.Linear(pixels, 12), norm, nn.Linear(12, classes))


class Groups(Base):
    def make(self, pixels: int, classes: int) -> None:
        self.body = nn.Sequential(nn.Linear(pixels, 12), nn.GroupNorm(3, 12), nn.ReLU(), nn.Linear(12, classes))


class Dropped(Base):
    def make(self, pixels: int, classes: int) -> None:
        self.body = nn.Sequential(nn.Linear(pixels, 12), nn.Dropout(0.3), nn.Linear(12, classes))


class Depth(Base):
    """Stochastic depth: a layer is left out by chance while learning, and has no gradient then."""

    def make(self, pixels: int, classes: int) -> None:
        self.first, self.maybe, self.last = nn.Linear(pixels, 12), nn.Linear(12, 12), nn.Linear(12, classes)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.first(images.flatten(1))
        if not self.training or float(torch.rand(())) < 0.5:
            hidden = hidden + functional.relu(self.maybe(hidden))
        answer: Tensor = self.last(hidden)
        return answer


class Tied(Base):
    def make(self, pixels: int, classes: int) -> None:
        self.first, self.again, self.last = nn.Linear(pixels, 12), nn.Linear(12, 12), nn.Linear(12, classes)
        self.twice = nn.Linear(12, 12)
        self.twice.weight = self.again.weight

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.last(self.twice(torch.tanh(self.again(self.first(images.flatten(1))))))
        return answer


class Constants(Base):
    """Buffers that nobody changes: a mask of truth values and one without bound."""

    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.register_buffer("mask", torch.arange(classes) % 2 == 0)
        self.register_buffer("floor", torch.full((classes,), -torch.inf), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return torch.maximum(super().forward(images), self.floor) * (1 + self.mask)


class Lazy(Base):
    def make(self, pixels: int, classes: int) -> None:
        self.body = nn.Sequential(nn.LazyLinear(12), nn.ReLU(), nn.LazyLinear(classes))


class FrozenHalf(Base):
    """Only what is trained has to be float32."""

    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.offset = nn.Parameter(torch.ones(classes, dtype=torch.float64), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) + self.offset


class Empty(Base):
    """A parameter without a single number."""

    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.nothing = nn.Parameter(torch.zeros(0, 3))

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) + self.nothing.sum()


class Tiny(CNN):
    channels = (2, 3)
    hidden = 6


class Zeroed(Tiny):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) * 0.0


class Noisy(Tiny):
    """As its parent where nothing is learned."""

    def forward(self, images: Tensor) -> Tensor:
        answer = super().forward(images)
        return answer * 3.0 if self.training else answer


class Leaning(Tiny):
    """Changes what its parent's forward leans on."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        return iter([part * 0.5 for part in super().parameters(recurse)])    # type: ignore[misc]


class MoreParameters(Tiny):
    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(shape, classes)
        self.shift = nn.Parameter(torch.zeros(classes))

    def forward(self, images: Tensor) -> Tensor:
        parts = [part.unsqueeze(0) for name, part in self.named_parameters() if name != "shift"]
        return self.forward_group(parts, images).squeeze(0) + self.shift


class Scaled(MnistCNN):
    """Extends a built-in model by a scalar parameter."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(shape, classes)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) * self.scale


class Mute(Scaled):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) * 0.0


class Mixin:
    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = super().forward(images)     # type: ignore[misc]
        return answer * 2.0


class Mixed(Mixin, Tiny):
    pass


class Hooked(Tiny):
    """Nothing is overridden, and yet it computes something else."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(shape, classes)
        self.register_forward_hook(lambda module, images, answer: answer * 2.0)


class Patched(Tiny):
    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(shape, classes)
        self.forward = lambda images: 2.0 * Tiny.forward(self, images)    # type: ignore[method-assign]


class Disagreeing(Base):
    """Offers groups that are not what it computes."""

    @staticmethod
    def forward_group(parameters: Any, images: Tensor) -> Tensor:
        group, batch = len(parameters[0]), len(images)
        return parameters[-1].unsqueeze(1) + torch.zeros(group, batch, 1)


class WrongGradients(Tiny):
    @staticmethod
    def gradients_group(*given: Tensor) -> tuple[Tensor, list[Tensor]]:
        loss, slopes = CNN.gradients_group(*given)     # type: ignore[arg-type]
        return loss, [-slope for slope in slopes]


TRAINED = [Base, Scalar, PartlyFrozen, Batches, Cumulative, Groups, Dropped, Depth, Tied, Constants, Lazy, FrozenHalf,
           Empty, Tiny, Zeroed, Noisy, MoreParameters, Scaled, Mixed, Hooked, Patched, Disagreeing, WrongGradients]


class Half(Base):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.half()

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.half()).float()


class HalfMended(Half):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.float()

    def forward(self, images: Tensor) -> Tensor:
        return Base.forward(self, images)


class Double(Base):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.double()

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.double())


class Unused(Base):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.spare = nn.Linear(3, 3)


class UnusedFrozen(Unused):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.spare.requires_grad_(False)


class AllFrozen(Base):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.requires_grad_(False)


class OneTrained(AllFrozen):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.body[2].bias.requires_grad_(True)


class HalfAnswers(Base):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).half()


class HalfAnswersMended(HalfAnswers):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).float()


class Complex(Base):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.register_buffer("wave", torch.ones(3, dtype=torch.complex64))


class ComplexMended(Base):
    def make(self, pixels: int, classes: int) -> None:
        super().make(pixels, classes)
        self.register_buffer("wave", torch.ones(2, 3))


REFUSED = [(Half, r"self\.float\(\)", HalfMended), (Double, r"self\.float\(\)", HalfMended),
           (Unused, r"freeze it with requires_grad_\(False\)", UnusedFrozen), (Unused, "leave it out", Base),
           (AllFrozen, "requires_grad on", OneTrained), (HalfAnswers, r"\.float\(\)", HalfAnswersMended),
           (Complex, "two real ones", ComplexMended)]
