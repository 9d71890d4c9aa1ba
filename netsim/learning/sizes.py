"""What data and model say of a round's work even when nothing is trained: D_n and the size of an upload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Ints

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def upload_bits(scenario: Scenario) -> float:
    """z; only ``bits = "auto"`` has to build the model for it."""
    if scenario.learning.bits != "auto":
        return scenario.bits()
    from netsim.learning.learner import count_parameters

    return scenario.bits(count_parameters(scenario))


def samples_without_learning(scenario: Scenario, seed: int) -> Ints | None:
    """D_n where only the data split knows it (``samples = "auto"``), else None: as the scenario says."""
    if all(table.samples != "auto" for table in scenario.population):
        return None
    from netsim.learning.learner import split

    return np.array([len(part) for part in split(scenario, seed)], dtype=np.int64)
