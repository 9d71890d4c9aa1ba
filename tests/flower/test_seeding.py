"""Seeds of the generators that apps use."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from netsim.base.rng import stream
from netsim.flower.seeding import seed_generators


def test_generators_of_every_library_are_seeded_per_client_and_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow has a generator of its own; without a seed, a resumed run would train to other weights."""
    seeds: list[int] = []
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(random=SimpleNamespace(set_seed=seeds.append)))
    drawn = []
    for message, device in [(0, 3), (0, 3), (1, 3), (0, 4)]:
        seed_generators(stream(0, "flower client", message, device))
        drawn.append((random.random(), float(np.random.rand()), seeds[-1]))      # noqa: NPY002
    assert drawn[0] == drawn[1]
    assert len({numbers for each in drawn[1:] for numbers in each}) == 9      # all others differ
