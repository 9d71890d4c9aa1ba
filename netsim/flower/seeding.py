"""Seeds of the global random generators that apps use."""

from __future__ import annotations

import random
import sys

import numpy as np


def seed_generators(rng: np.random.Generator) -> None:
    """Seed the global generators of Python, numpy, torch and TensorFlow, before a ServerApp starts or a ClientApp
    receives a message."""
    words = rng.integers(0, 1 << 32, 4, np.uint64).tolist()
    random.seed(words[0])
    np.random.seed(words[1])                 # noqa: NPY002  (the generator that the app's code uses)
    if "torch" in sys.modules:               # not used by the app if not imported
        sys.modules["torch"].manual_seed(words[2])
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(words[3])
