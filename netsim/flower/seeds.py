"""Seeds for code that draws from global generators: of Python, numpy and torch, each by a stream of ours."""

from __future__ import annotations

import random
import sys

import numpy as np

from netsim.base.streams import stream


def seed_server(seed: int) -> None:
    """As a ServerApp begins."""
    _seed(stream(seed, "flower server"))


def seed_client(seed: int, device: int, message: int) -> None:
    """As a ClientApp begins on the so-manieth message to a device: whoever runs it, and whatever ran before."""
    _seed(stream(seed, "flower client", message, device))


def _seed(rng: np.random.Generator) -> None:
    words = rng.integers(0, 1 << 32, 3, np.uint64).tolist()
    random.seed(words[0])
    np.random.seed(words[1])                 # noqa: NPY002  (the generator that the app's code uses)
    torch = sys.modules.get("torch")         # whoever has not imported it draws nothing from it
    if torch is not None:
        torch.manual_seed(words[2])
