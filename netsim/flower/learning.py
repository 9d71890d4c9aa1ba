"""The app's learning as the stage of a run knows it: it saves nothing, and knows how large the work is only later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.fleet.population import Population, draw_samples
from netsim.fleet.work import JobSizes, samples_trained
from netsim.learning.none import NoLearning

if TYPE_CHECKING:
    from netsim.scenario import Scenario


class AppLearning(NoLearning):
    """Another framework learns: its replies say how many bits and samples a job has."""

    trains = True

    def __init__(self, scenario: Scenario, seed: int) -> None:
        drawn = draw_samples(scenario, seed)
        super().__init__(scenario.size, np.ones(scenario.size, np.int64) if drawn is None else drawn)

    def sizes(self, scenario: Scenario, population: Population) -> JobSizes:
        """The least that a job can be, until a reply says more: one sample, and one bit in each direction."""
        one = np.ones(len(population))
        return JobSizes(one, one, cycles_of(scenario, population, np.arange(len(population)), one))


def cycles_of(scenario: Scenario, population: Population, devices: Ints, samples: Floats | Ints) -> Floats:
    """CPU cycles that training on so many samples takes."""
    trained = samples_trained(scenario, np.maximum(1, samples).astype(np.int64))
    return trained * population.cycles_per_sample[devices]
