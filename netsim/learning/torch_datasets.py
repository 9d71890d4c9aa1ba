"""Datasets from torch: a training and a test set with ``__len__`` and ``__getitem__`` that return input and label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.errors import InputError
from netsim.base.errors import describe_value as described
from netsim.base.types import Ints
from netsim.learning.dataset_files import INPUTS, Dataset, check_memory, decoded


def from_torch(train: Any, test: Any, names: Sequence[str] | None = None) -> Dataset:
    """Build a dataset from two torch datasets or lists of pairs (input, label).

    A dataset function may also return the pair (train, test) itself. Every sample is read once, so a random transform
    is drawn once and not in every epoch. Tensors of images are (channels, height, width), as torch keeps them; arrays
    and pictures have their channels last. ``names`` are the classes, by default ``train.classes`` or their numbers.
    """
    parts = [_part(name, part) for name, part in (("training set", train), ("test set", test))]
    labels = np.concatenate([part[1] for part in parts])
    given = getattr(train, "classes", None) if names is None else names
    called = given if isinstance(given, list | tuple) and given else range(int(labels.max()) + 1)
    inputs = [part[0] for part in parts]
    if inputs[0].shape[1:] != inputs[1].shape[1:]:
        raise InputError("conflict", "test set", f"inputs of shape {inputs[1].shape[1:]}",
                         f"that of the training set, {inputs[0].shape[1:]}")
    return decoded(np.concatenate(inputs), labels, len(inputs[0]), [str(name) for name in called])


def _part(name: str, part: Any) -> tuple[NDArray[Any], Ints]:
    if not (hasattr(part, "__len__") and hasattr(part, "__getitem__")) or not len(part):
        raise InputError("wrong-type", name, described(part), "a dataset with __len__, __getitem__ and some samples")
    first = _sample(name, part, 0)[0]
    if first.dtype.kind not in "biuf":
        raise InputError("wrong-type", f"{name}, sample 0", f"{first.dtype} {first.shape}", INPUTS,
                         "Add a transform that returns a tensor")
    check_memory(Path(name), 2 * len(part) * math.prod(first.shape) * first.dtype.itemsize,
                 f"{len(part):,} samples of {first.dtype} {first.shape}")
    inputs = np.empty((len(part), *first.shape), first.dtype)
    labels = np.empty(len(part), np.int64)
    for row in range(len(part)):
        each, labels[row] = _sample(name, part, row)
        if each.shape != first.shape:
            raise InputError("conflict", f"{name}, sample {row}", f"an input of shape {each.shape}",
                             f"{first.shape}, the shape of sample 0", "Bring all to one shape: crop, resize or pad")
        inputs[row] = each
    return inputs, labels


def _sample(name: str, part: Any, row: int) -> tuple[NDArray[Any], int]:
    """Return one input, channels last, and its label."""
    sample = part[row]
    if not isinstance(sample, tuple | list) or len(sample) != 2:
        raise InputError("wrong-type", f"{name}, sample {row}", described(sample), "a pair (input, label)")
    given, label = sample
    value = np.asarray(given)
    if hasattr(given, "detach") and value.ndim == 3:
        value = np.moveaxis(value, 0, -1)
    if not np.ndim(label) == 0 or int(label) != label:
        raise InputError("wrong-type", f"{name}, sample {row}", f"label {described(label)}", "the number of a class")
    return value, int(label)
