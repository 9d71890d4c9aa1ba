"""Build a model by its name for images of a shape, and check it before any long work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from netsim.base.counts import counted
from netsim.base.errors import MOST_TOLD, InputError
from netsim.models import MODELS


def build_model(
    name: str, shape: tuple[int, int, int], classes: int, seed: int = 0, options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Return a freshly initialised model; the same one for the same seed.

    Parameters
    ----------
    name : str
        Name in ``MODELS``, or ``"package.module:Class"``.
    shape : tuple of int
        (channels, height, width) of one image.
    classes : int
        Number of classes, the length of a row of logits.
    seed : int
        Seed of the initial weights.
    options : mapping, optional
        Further arguments of the model's class.

    Returns
    -------
    torch.nn.Module
        Model with float32 parameters.

    Raises
    ------
    InputError
        If the model is unknown, does not fit the data, or has parameters that its output does not depend on.

    Examples
    --------
    >>> model = build_model("fashion-cnn", (1, 28, 28), classes=10)
    >>> sum(parameter.numel() for parameter in model.parameters())
    19522
    """
    create = MODELS.make(name, options or {})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            model: nn.Module = create(shape, classes)
            if not isinstance(model, nn.Module):
                raise InputError("wrong-answer", f"model {name}", type(model).__name__,
                                 f"a torch.nn.Module, of {create.func.__name__}({shape}, {classes})")
            if any(isinstance(part, nn.parameter.UninitializedParameter) for part in model.parameters()):
                model.eval()(torch.zeros(2, *shape))      # lazy layers get their weights now, from the seed
                model.train()
        except InputError:
            raise
        except Exception as error:
            raise InputError("your-code", f"model {name}",
                             f"{create.func.__name__}({shape}, {classes}): {error}") from error
    _check(name, model, shape, classes)
    return model


def _check(name: str, model: nn.Module, shape: tuple[int, int, int], classes: int) -> None:
    """Try some images, so that an error shows now and not in the first round; leave the model unchanged."""
    trained = {part: parameter for part, parameter in model.named_parameters() if parameter.requires_grad}
    if not trained:
        raise InputError("wrong-interface", f"model {name}", "no parameters to train",
                         "one at least with requires_grad on")
    other = [part for part, parameter in trained.items() if parameter.dtype != torch.float32]
    if other:
        raise InputError("wrong-interface", f"model {name}", f"{_some(other)} is {_dtype(trained[other[0]])}",
                         "float32 parameters to train",
                         "End __init__ with self.float(), and take no .double() or .half() in forward")
    odd = [part for part, buffer in model.named_buffers() if buffer.is_complex()]
    if odd:
        raise InputError("unsupported", f"model {name}", f"complex numbers in the buffer {odd[0]}",
                         hint="Keep it as two real ones")
    training, kept = model.training, {part: buffer.clone() for part, buffer in model.named_buffers()}
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            unused = _unused(name, model, shape, classes, trained, learning=False)
            if unused:      # it may be used in training mode only, or at random
                unused &= _unused(name, model, shape, classes, trained, learning=True)
    finally:
        model.train(training)
        with torch.no_grad():
            for part, buffer in model.named_buffers():
                buffer.copy_(kept[part])
    if unused:
        parts = _some([part for part in trained if part in unused])
        raise InputError("no-effect", f"model {name}: {parts}",
                         hint="Its answers do not depend on it: leave it out, or freeze it with requires_grad_(False)")


def _unused(
    name: str, model: nn.Module, shape: tuple[int, int, int], classes: int, trained: Mapping[str, nn.Parameter],
    *, learning: bool,
) -> set[str]:
    """Return the parameters on which the output does not depend; raise InputError for an invalid output."""
    model.train(learning)
    try:
        logits = model(torch.randn(4, *shape))
    except Exception as error:
        raise InputError("your-code", f"model {name}", f"on images of shape {shape}: {error}") from error
    if not isinstance(logits, torch.Tensor) or logits.shape != (4, classes):
        got = tuple(logits.shape)[1:] if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError("wrong-answer", f"model {name}", f"{got} for an image",
                         f"({classes},), as the data have {counted(classes, 'class', 'classes')}")
    if logits.dtype not in (torch.float32, torch.float64):
        raise InputError("wrong-answer", f"model {name}", f"{_dtype(logits)} numbers", "float32",
                         "End forward with .float()")
    try:
        slopes = torch.autograd.grad(logits.sum(), list(trained.values()), allow_unused=True)
    except RuntimeError as error:
        raise InputError("wrong-interface", f"model {name}", str(error), "answers that have gradients") from error
    return {part for part, slope in zip(trained, slopes, strict=True) if slope is None}


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _some(parts: Sequence[str]) -> str:
    """Return the first names of parts of a model."""
    return ", ".join(parts[:MOST_TOLD]) + (" and others" if len(parts) > MOST_TOLD else "")
