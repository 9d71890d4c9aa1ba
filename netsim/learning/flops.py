"""Floating-point operations of training a model on one sample, counted by torch."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from netsim.base.errors import InputError
from netsim.models import MODELS, build_model

Shape = tuple[int, ...]
TRIED = 2      # samples of a trial batch: batch normalisation needs two
OWN_SHAPE = (3, 32, 32)
SPEED_BATCH, SPEED_BATCHES = 64, 12      # of the measurement of this machine's speed


def flops_of(module: nn.Module, shape: Shape, name: str = "", *, tokens: bool = False) -> float:
    """Count the floating-point operations of training a module on one sample, forward and backward.

    The module maps samples (batch, *shape) to logits (batch, classes); ``name`` is for messages. Matrix products and
    convolutions count, two operations for each multiplication and addition, as ``torch.utils.flop_counter`` has it; the
    backward pass of a grouped convolution counts by its groups, where torch counts it as if there were none (nine times
    too much for a MobileNet). A copy of the module on torch's "meta" device computes shapes but no numbers; if it needs
    numbers, a copy is run.

    >>> from netsim.models import build_model
    >>> flops_of(build_model("fashion-cnn", (1, 28, 28), 10), (1, 28, 28))
    1824960.0
    """
    what = f"model {name or type(module).__name__}"
    try:
        with torch.random.fork_rng(devices=[]):
            try:
                flops = _counted(copy.deepcopy(module).to("meta"), shape, "meta", tokens)
            except Exception:                        # it needs numbers, or an operation has no shapes of its own
                flops = _counted(copy.deepcopy(module), shape, "cpu", tokens)
    except Exception as error:                       # users' code may raise anything
        raise InputError("your-code", what, f"on samples of shape {shape}: {error}") from error
    if not flops > 0:
        raise InputError("unsupported", what, "no operation that torch counts", "matrix products or convolutions",
                         "Set learning.flops_per_sample")
    return flops / TRIED


def _counted(module: nn.Module, shape: Shape, device: str, tokens: bool) -> float:
    kind = torch.long if tokens else torch.float32
    inputs = torch.zeros(TRIED, *shape, dtype=kind, device=device)
    labels = torch.zeros(TRIED, dtype=torch.long, device=device)
    with FlopCounterMode(display=False, custom_mapping=BACKWARD) as counter:
        functional.cross_entropy(module.train()(inputs), labels).backward()      # type: ignore[no-untyped-call]
    return float(counter.get_total_flops())


def _convolution_backward(
    grad_out: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, wanted: list[bool], out_shape: Any = None,
) -> int:
    """Return the FLOP of a convolution's gradients of images and weights: each costs as much as the forward pass."""
    return int(sum(wanted[:2]) * conv_flop_count(x, weight, grad_out, transposed=transposed))


BACKWARD = {torch.ops.aten.convolution_backward: _convolution_backward}


def count_flops(
    name: str, shape: Shape, classes: int, options: Mapping[str, Any] | None = None, *, tokens: bool = False,
) -> float:
    """Return the FLOP per sample of a model by its name, whose import has been permitted. Counts are cached."""
    key = (name, shape, classes, repr(options), MODELS.find(name))      # a notebook may define the name again
    if key not in _COUNTS:
        model = build_model(name, shape, classes, options=options, tokens=tokens)
        _COUNTS[key] = flops_of(model, shape, name, tokens=tokens)
    return _COUNTS[key]


_COUNTS: dict[tuple[Any, ...], float] = {}


def describe_torchvision(name: str, shape: Shape, classes: int, **options: Any) -> dict[str, Any]:
    """Return name, parameters and FLOP per sample of a network that a function of ``torchvision.models`` makes."""
    from netsim.learning.dataset_files import torchvision_datasets

    torchvision_datasets()      # imports torchvision, whatever torch it was built for
    import torchvision.models

    return _described(name, getattr(torchvision.models, name)(num_classes=classes, **options), shape)


def describe_model(name: str, shape: Shape | None = None, classes: int = 10) -> dict[str, Any]:
    """Return name, parameters and FLOP per sample of a model, as ``netsim models --json`` prints them.

    ``shape`` is by default that of the images for which a built-in model was designed.
    """
    images = shape or (MODELS[name].shape if name in MODELS else OWN_SHAPE)
    return _described(name, build_model(name, images, classes), images)


def _described(name: str, model: nn.Module, shape: Shape) -> dict[str, Any]:
    return {"name": name, "parameters": sum(part.numel() for part in model.parameters()),
            "flops_per_sample": round(flops_of(model, shape, name))}


def counted_during(run: Callable[[], object]) -> float:
    """Return the floating-point operations of torch in this thread while ``run`` runs."""
    with FlopCounterMode(display=False) as counter:
        run()
    return float(counter.get_total_flops())


def speed_of_this_machine() -> float:
    """Return the FLOP per CPU second of training mnist-cnn on one core of this machine, in the best of several batches.
    """
    model, shape = build_model("mnist-cnn", (1, 28, 28), 10), (1, 28, 28)
    images, labels = torch.zeros(SPEED_BATCH, *shape), torch.zeros(SPEED_BATCH, dtype=torch.long)
    best_s = math.inf
    for _ in range(SPEED_BATCHES):
        began = time.process_time()
        functional.cross_entropy(model(images), labels).backward()      # type: ignore[no-untyped-call]
        best_s = min(best_s, time.process_time() - began)
    return SPEED_BATCH * flops_of(model, shape) / best_s
