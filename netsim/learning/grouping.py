"""Several models in one pass: used where a class offers that, and means what its ``forward`` computes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

Shape = tuple[int, int, int]
ForwardGroup = Callable[[Sequence[Tensor], Tensor], Tensor]
Gradients = Callable[[Sequence[Tensor], Tensor, Tensor, Tensor], tuple[Tensor, list[Tensor]]]

# What a class may define without computing anything else than its parent.
_HARMLESS = {"__init__", "__repr__", "extra_repr", "__dict__", "__weakref__", "__annotate__", "__annotate_func__",
             "gradients_group"}
_CLOSE = 1e-3      # of the largest number: far above rounding, far below any other computation


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
    leaves = [part.clone().requires_grad_() for part in stacked]
    logits = forward_group(leaves, images)
    labels = torch.arange(logits.shape[0] * logits.shape[1]) % logits.shape[2]
    share = torch.full(logits.shape[:2], 1 / logits.shape[1])
    losses = functional.cross_entropy(logits.flatten(0, 1), labels, reduction="none").view(share.shape)
    loss = (losses * share).sum(dim=1)
    with torch.no_grad():
        told, slopes = gradients_group(stacked, images, labels, share)
    expected = torch.autograd.grad(loss.sum(), leaves)
    pairs = zip([told, *slopes], [loss.detach(), *expected], strict=True)
    return all(_close(found, wanted) for found, wanted in pairs)


def _close(found: Tensor, expected: Tensor) -> bool:
    size = float(expected.abs().max()) if expected.numel() else 0.0
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=_CLOSE, atol=_CLOSE * size)
