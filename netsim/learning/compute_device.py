"""The device that computes training: the one place that knows of GPUs.

Arrays of numpy enter a device by :func:`to_device` and leave it by :func:`to_array`; in between, tensors stay on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netsim.base.errors import InputError, quoted

CPU = torch.device("cpu")


def device_of(name: str | None) -> torch.device:
    """Return the device of ``learning.device``; raise InputError if this machine does not have it.

    "auto" is the first of CUDA, MPS (Apple) and CPU that there is.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, found in there.items() if found)
    if not there.get(name or "cpu", name == "meta"):
        raise InputError("needs", "learning.device", quoted(name), f"a device that torch {torch.__version__} finds: "
                         + ", ".join(kind for kind, found in there.items() if found),
                         'Use "auto" for the fastest one that there is')
    return torch.device(name or "cpu")


def description(device: torch.device) -> str | None:
    """Return the name of a device for run.json; None for the CPU, which is named anyway."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return None if device.type == "cpu" else f"{device.type} device"


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the random numbers of a device inside the block; leave those of the CPU as they were."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed also notes the call for GPUs that are not there, which takes 2 ms each time
        (torch.default_generator if device == CPU else torch).manual_seed(seed)
        yield


def to_device(array: Any, device: torch.device) -> Tensor:
    """Return an array as a tensor on the device; on the CPU both share their memory."""
    return torch.from_numpy(array).to(device)


def to_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor as an array; on the CPU both share their memory."""
    found: np.ndarray = tensor.detach().cpu().numpy()
    return found
