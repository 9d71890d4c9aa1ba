"""What a round asks of the devices: samples D_n, cycles U_n = L C_n D_n, and the allocation problem they pose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.allocation.problem import Problem
from netsim.base.arrays import Floats, Ints, frozen
from netsim.fleet.population import Population

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def cycles_of(scenario: Scenario, population: Population, devices: Ints | slice = slice(None)) -> Floats:
    """U_n = L C_n D_n: what the devices compute in a round."""
    learning, samples = scenario.learning, population.samples[devices]
    if learning.local_steps is not None:      # an epoch's last step may have fewer samples than a batch
        epochs, steps = np.divmod(learning.local_steps, -(-samples // learning.batch_size))
        trained = epochs * samples + np.minimum(steps * learning.batch_size, samples)
    else:
        trained = (learning.local_iterations or 1) * samples
    return np.asarray(trained.astype(float) * population.cycles_per_sample[devices])


class RoundProblems:
    """The allocation problems of a run's rounds: what does not change is worked out once."""

    def __init__(self, scenario: Scenario, population: Population, bits: float) -> None:
        self.population = population
        self.bits = float(bits)
        self.bandwidth_hz = float(scenario.cell.bandwidth)
        self.noise_w_per_hz = float(scenario.cell.noise)
        self.cycles = frozen(cycles_of(scenario, population))

    def of(self, devices: Ints, gain: Floats) -> Problem:
        """The problem of these devices with these gains of everybody's channels."""
        population = self.population
        return Problem(
            bits=np.full(len(devices), self.bits), cycles=self.cycles[devices],
            capacitance=population.capacitance[devices], gain=gain[devices], power_w=population.power_w[devices],
            budget_j=population.budget_j[devices], cpu_min_hz=population.cpu_min_hz[devices],
            cpu_max_hz=population.cpu_max_hz[devices], bandwidth_hz=self.bandwidth_hz,
            noise_w_per_hz=self.noise_w_per_hz, power_min_w=population.power_min_w[devices],
            power_max_w=population.power_max_w[devices], numbers=devices)


def problem_for(
    scenario: Scenario, population: Population, devices: Ints, *, bits: float, gain: Floats | None = None,
) -> Problem:
    """The allocation problem of some devices: what they compute (U_n = L C_n D_n) and upload in a round."""
    return RoundProblems(scenario, population, bits).of(devices, population.gain if gain is None else gain)
