"""Work of devices in a round: samples D_n, cycles U_n = L C_n D_n, and the allocation problem."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netsim.allocation.problem import Problem
from netsim.base.arrays import Floats, Ints
from netsim.fleet.link_model import Downlink, link_of
from netsim.fleet.population import DeviceNames, Population
from netsim.physics import best_hz, upload_time

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def problem_for(
    scenario: Scenario, population: Population, devices: Ints, *, bits: float, gain: Floats | None = None,
) -> Problem:
    """Return the allocation problem of some devices, which compute U_n = L C_n D_n cycles and upload ``bits``."""
    problems = RoundProblems(scenario, population, JobSizes.of(scenario, population, bits))
    return problems.of(np.asarray(devices), None if gain is None else gain[devices])


@dataclass(frozen=True, eq=False)
class JobSizes:
    """Size of each device's job, known before planning: arrays of shape (N,)."""

    upload_bits: Floats
    download_bits: Floats
    cycles: Floats             # U_n

    @classmethod
    def of(cls, scenario: Scenario, population: Population, bits: float) -> JobSizes:
        """Return the sizes for models of ``bits`` bits in both directions; U_n = L C_n D_n."""
        alike = np.full(len(population), float(bits))
        return cls(alike, alike, samples_trained(scenario, population.samples) * population.cycles_per_sample)

    def changed(self, devices: Ints, upload_bits: Floats, download_bits: Floats, cycles: Floats) -> JobSizes:
        """Return the sizes with other values for some devices."""
        arrays = self.upload_bits.copy(), self.download_bits.copy(), self.cycles.copy()
        for array, values in zip(arrays, (upload_bits, download_bits, cycles), strict=True):
            array[devices] = values
        return JobSizes(*arrays)


class RoundProblems:
    """The allocation problems of a run: subsets of the problem of all devices, which is validated once."""

    def __init__(self, scenario: Scenario, population: Population, sizes: JobSizes) -> None:
        limits = {name: getattr(population, name) for name in (
            "capacitance", "gain", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz", "power_min_w", "power_max_w")}
        self.whole = Problem(
            bits=sizes.upload_bits, cycles=sizes.cycles, bandwidth_hz=float(scenario.cell.bandwidth),
            noise_w_per_hz=scenario.cell.noise_w_per_hz, numbers=np.arange(len(population)),
            names=DeviceNames(scenario), link=link_of(scenario.cell), **limits)
        self.sizes = sizes
        self.part: Problem | None = None         # changed limits of some devices
        self._least_j: Floats | None = None      # of all devices; computed on first use
        self._scenario = scenario
        self.link = self.whole.link
        self.bandwidth_hz, self.noise_w_per_hz = self.whole.bandwidth_hz, self.whole.noise_w_per_hz

    @property
    def has_downlink(self) -> bool:
        """True if devices receive the model before they compute."""
        return self._scenario.cell.downlink is not None

    def downlink(self, devices: Ints | slice = slice(None)) -> Downlink | None:
        """Return the downlink to some devices, all with the size of the largest of their models."""
        bits = self.sizes.download_bits[devices]
        return Downlink.of(self._scenario, float(bits.max())) if self.has_downlink else None

    def least_j(self, *, channel_changes: bool) -> Floats:
        """Return the minimum energy of each device's job in J: computing at the minimum CPU frequency.

        With a constant channel, the minimum energy of sending in the whole band is added.
        """
        if self._least_j is None:
            self._least_j = _least_j(self.whole, channel_changes=channel_changes)
        if self.part is None:
            return self._least_j
        found = self._least_j.copy()
        found[self.part.numbers] = _least_j(self.part, channel_changes=channel_changes)
        return found

    def with_limits(self, part: Problem) -> RoundProblems:
        """Return problems for the devices of ``part`` only, with its band and limits."""
        other = copy(self)
        other.part, other.bandwidth_hz = part, part.bandwidth_hz
        return other

    def with_sizes(self, sizes: JobSizes) -> RoundProblems:
        """Return the problems of the same devices with jobs of other sizes."""
        other = copy(self)
        other.sizes, other._least_j = sizes, None
        other.whole = replace(self.whole, bits=sizes.upload_bits, cycles=sizes.cycles)
        return other

    def of(self, devices: Ints, gain: Floats | None = None) -> Problem:
        """Return the problem of these devices; ``gain`` replaces the initial gains in a time-varying channel."""
        numbers = None if self.part is None else self.part.numbers
        if self.part is None or numbers is None or not np.isin(devices, numbers).all():
            return self.whole.subset(devices, gain)
        return self.part.subset(np.searchsorted(numbers, devices), gain)


def _least_j(problem: Problem, *, channel_changes: bool) -> Floats:
    compute_j: Floats = problem.compute_weight * np.square(problem.cpu_min_hz)
    if channel_changes:
        return compute_j
    power_w, _ = problem.power_range_w
    snr_hz = problem.gain * power_w / problem.noise_w_per_hz
    rate = problem.link.rate(best_hz(problem.link, problem.bandwidth_hz, snr_hz), snr_hz)
    return compute_j + power_w * upload_time(problem.bits, rate)


def samples_trained(scenario: Scenario, samples: Ints) -> Floats:
    """Return the samples that each device processes in a round: L D_n, or those of its local steps."""
    learning = scenario.learning
    if learning.local_steps is None:
        return np.asarray((learning.local_iterations or 1) * samples, dtype=np.float64)
    epochs, steps = np.divmod(learning.local_steps, -(-samples // learning.batch_size))
    # an epoch's last step may have fewer samples than a batch
    return np.asarray(epochs * samples + np.minimum(steps * learning.batch_size, samples), dtype=np.float64)
