"""The app's learning as the stage of a run knows it: it saves nothing, and knows how large the work is only later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Ints
from netsim.fleet.population import draw_samples
from netsim.learning.none import NoLearning

if TYPE_CHECKING:
    from netsim.scenario import Scenario


class AppLearning(NoLearning):
    """Another framework learns: its replies say how many bits and samples a job has."""

    trains = True
    bits = 1.0                     # until the first reply says it

    def __init__(self, scenario: Scenario, seed: int) -> None:
        drawn = draw_samples(scenario, seed)
        self.samples: Ints | None = np.ones(scenario.size, np.int64) if drawn is None else drawn
        self._devices = scenario.size
