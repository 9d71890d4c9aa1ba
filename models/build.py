"""Build a model by its name for inputs of a shape, and check it before any long work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from netsim.base.errors import MOST_LISTED, InputError
from netsim.base.pluralize import pluralize
from netsim.models import MODELS


def build_model(
    name: str, shape: tuple[int, ...], classes: int, seed: int = 0, options: Mapping[str, Any] | None = None, *,
    tokens: bool = False,
) -> nn.Module:
    """Return a freshly initialised model; the same one for the same seed.

    Parameters
    ----------
    name : str
        Name in ``MODELS``, or ``"package.module:Class"``.
    shape : tuple of int
        Shape of one input: (channels, height, width) of an image, (features,), or (length,) of tokens.
    classes : int
        Number of classes, the length of a row of logits.
    seed : int
        Seed of the initial weights.
    options : mapping, optional
        Further arguments of the model's class.
    tokens : bool
        Whether inputs are token numbers (int64), which the model embeds.

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
    if name in MODELS and len(shape) != 3:
        kind = "tokens" if tokens else "features"
        raise InputError("conflict", "learning.model", f"{name}, a model of images, for {kind} of shape {shape}",
                         '"package.module:Class" of your own')
    trial = torch.zeros(4, *shape, dtype=torch.int64) if tokens else torch.randn(
        4, *shape, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            model: nn.Module = create(shape, classes)
            if not isinstance(model, nn.Module):
                raise InputError("wrong-answer", f"model {name}", type(model).__name__,
                                 f"a torch.nn.Module, of {create.func.__name__}({shape}, {classes})")
            if any(isinstance(part, nn.parameter.UninitializedParameter) for part in model.parameters()):
                model.eval()(torch.zeros_like(trial))      # lazy layers get their weights now, from the seed
                model.train()
        except InputError:
            raise
        except Exception as error:
            raise InputError("your-code", f"model {name}",
                             f"{create.func.__name__}({shape}, {classes}): {error}") from error
    _check(name, model, trial, classes)
    return model


def _check(name: str, model: nn.Module, trial: torch.Tensor, classes: int) -> None:
    """Try some inputs, so that an error shows now and not in the first round; leave the model unchanged."""
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
            unused = _unused(name, model, trial, classes, trained, learning=False)
            if unused:      # it may be used in training mode only, or at random
                unused &= _unused(name, model, trial, classes, trained, learning=True)
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
    name: str, model: nn.Module, trial: torch.Tensor, classes: int, trained: Mapping[str, nn.Parameter],
    *, learning: bool,
) -> set[str]:
    """Return the parameters on which the output does not depend; raise InputError for an invalid output."""
    model.train(learning)
    try:
        logits = model(trial)
    except Exception as error:
        shape = tuple(trial.shape[1:])
        raise InputError("your-code", f"model {name}", f"on inputs of shape {shape}: {error}") from error
    if not isinstance(logits, torch.Tensor) or logits.shape != (4, classes):
        got = tuple(logits.shape)[1:] if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError("wrong-answer", f"model {name}", f"{got} for an input",
                         f"({classes},), as the data have {pluralize(classes, 'class', 'classes')}")
    if logits.dtype not in (torch.float32, torch.float64):
        raise InputError("wrong-answer", f"model {name}", f"{_dtype(logits)} numbers", "float32",
                         "End forward with .float()")
    try:
        slopes = torch.autograd.grad(logits.sum(), list(trained.values()), allow_unused=True)
    except RuntimeError as error:
        raise InputError("wrong-interface", f"model {name}", str(error), "answers that have gradients") from error
    return {part for part, slope in zip(trained, slopes, strict=True) if slope is None}


_KEPT: list[Any] = []    # a torch Library must live as long as its definitions


def declare_torchvision_operators() -> None:
    """Declare the two operators for which importing torchvision registers shapes.

    The import fails if torchvision's CUDA-built library, which defines them, could not be loaded. Neither datasets nor
    classification models use them: declaring them is enough.
    """
    if not _KEPT:
        library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            signature = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(signature)  # type: ignore[no-untyped-call]
        _KEPT.append(library)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _some(parts: Sequence[str]) -> str:
    """Return the first names of parts of a model."""
    return ", ".join(parts[:MOST_LISTED]) + (" and others" if len(parts) > MOST_LISTED else "")
