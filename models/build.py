"""A model by its name: built for images of a shape, and tried before any long work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from netsim.base.errors import InputError
from netsim.models import MODELS


def build_model(
    name: str, shape: tuple[int, int, int], classes: int, seed: int = 0, options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A freshly initialised model for images of ``shape`` (channels, height, width); the same one for the same seed.

    Raises InputError, before any long work, for a model that is unknown or does not fit the data.
    """
    create = MODELS.make(name, options or {})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            model: nn.Module = create(shape, classes)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f'model "{name}": {create.func.__name__}({shape}, {classes}) failed: {error}') from error
    _check(name, model, shape, classes)
    return model


def _check(name: str, model: nn.Module, shape: tuple[int, int, int], classes: int) -> None:
    """Tries two blank images, since a misfit should show now and not in the first round."""
    if not any(True for _ in model.parameters()):
        raise InputError(f'model "{name}" has no parameters to train')
    if any(parameter.dtype != torch.float32 for parameter in model.parameters()):
        raise InputError(f'model "{name}" must have float32 parameters only')
    if any(True for _ in model.buffers()):
        raise InputError(
            f'model "{name}" keeps buffers (batch normalisation?), which are not part of an upload; '
            "use GroupNorm or LayerNorm instead"
        )
    frozen = [part for part, parameter in model.named_parameters() if not parameter.requires_grad]
    if frozen:
        raise InputError(f'model "{name}": {", ".join(frozen)} is not to be trained (requires_grad is off), but every '
                         "parameter is trained and uploaded; keep what is fixed out of the parameters")
    try:
        with torch.random.fork_rng(devices=[]):
            logits = model(torch.zeros(2, *shape))
    except Exception as error:
        raise InputError(f'model "{name}" does not take images of shape {shape}: {error}') from error
    if not isinstance(logits, torch.Tensor) or logits.shape != (2, classes):
        got = tuple(logits.shape)[1:] if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(f'model "{name}" answers {got} for an image, but the data have {classes} classes')
    parameters = dict(model.named_parameters())
    try:
        slopes = torch.autograd.grad(logits.sum(), list(parameters.values()), allow_unused=True)
    except RuntimeError as error:
        raise InputError(f'model "{name}" cannot be trained by gradients: {error}') from error
    unused = [part for part, slope in zip(parameters, slopes, strict=True) if slope is None]
    if unused:
        raise InputError(f'model "{name}": {", ".join(unused)} plays no part in its answers; leave it out')
