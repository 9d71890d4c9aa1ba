"""Whether a model fits the data as they lie on the devices and what the scenario says of it, before the first round."""

from __future__ import annotations

from typing import Any

import torch

from netsim.base.arrays import Ints
from netsim.base.counts import counted
from netsim.base.errors import InputError, quoted
from netsim.learning.grouping import Shape
from netsim.learning.network import Network
from netsim.learning.trainer import Hyperparameters

FARTHEST = 1_000      # how much larger a batch size is looked for


def check_buffers(settings: Any, network: Network) -> None:
    """A key that is set and has no effect is an error."""
    if settings.buffers is not None and not network.buffers.size:
        raise InputError("no-effect", "learning.buffers", quoted(settings.buffers),
                         hint=f"Model {settings.model_name} keeps no buffers: remove this key")


def check_batches(network: Network, shape: Shape, samples: Ints, settings: Hyperparameters) -> None:
    """Refuse a split that leaves a batch of one sample to a model that cannot learn from one, as with batch norm."""
    lone = [int(size) for size in samples if _leaves_one(int(size), settings.batch_size)]
    if not lone or _learns_from_one(network, shape):
        return
    wider = next((size for size in range(settings.batch_size + 1, settings.batch_size + FARTHEST)
                  if not any(_leaves_one(int(count), size) for count in samples)), int(max(samples)))
    raise InputError(
        "conflict", "learning.batch_size", f"{settings.batch_size}, which leaves a batch of one image to a device of "
        f"{counted(lone[0], 'sample')}", f"batches of at least 2, as model {type(network.module).__name__} needs",
        "Give every device at least 2 samples, or use GroupNorm or LayerNorm" if min(samples) == 1 else
        f"Take learning.batch_size = {wider}")


def _leaves_one(samples: int, batch: int) -> bool:
    return batch == 1 or samples % batch == 1


def _learns_from_one(network: Network, shape: Shape) -> bool:
    network.module.train()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            network.logits(network.stack(network.weights()), torch.zeros(1, *shape))
    except InputError:
        return False
    finally:
        network.buffers.write(network.buffers.start)
    return True
