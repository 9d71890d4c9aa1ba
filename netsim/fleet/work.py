"""What a round asks of the devices: samples D_n, cycles U_n = L C_n D_n, and the allocation problem they pose."""

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
    """The allocation problem of some devices: what they compute (U_n = L C_n D_n) and upload in a round."""
    problems = RoundProblems(scenario, population, JobSizes.of(scenario, population, bits))
    return problems.of(np.asarray(devices), None if gain is None else gain[devices])


@dataclass(frozen=True, eq=False)
class JobSizes:
    """How large a job of each device is, known before it is planned: arrays of N entries."""

    upload_bits: Floats
    download_bits: Floats
    cycles: Floats             # U_n

    @classmethod
    def of(cls, scenario: Scenario, population: Population, bits: float) -> JobSizes:
        """Models of so many bits in both directions; U_n = L C_n D_n."""
        alike = np.full(len(population), float(bits))
        return cls(alike, alike, samples_trained(scenario, population.samples) * population.cycles_per_sample)

    def changed(self, devices: Ints, upload_bits: Floats, download_bits: Floats, cycles: Floats) -> JobSizes:
        """The same, with other jobs for some devices."""
        arrays = self.upload_bits.copy(), self.download_bits.copy(), self.cycles.copy()
        for array, values in zip(arrays, (upload_bits, download_bits, cycles), strict=True):
            array[devices] = values
        return JobSizes(*arrays)


class RoundProblems:
    """A run's allocation problems, cut round after round out of that of all devices, which is validated once."""

    def __init__(self, scenario: Scenario, population: Population, sizes: JobSizes) -> None:
        limits = {name: getattr(population, name) for name in (
            "capacitance", "gain", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz", "power_min_w", "power_max_w")}
        self.whole = Problem(
            bits=sizes.upload_bits, cycles=sizes.cycles, bandwidth_hz=float(scenario.cell.bandwidth),
            noise_w_per_hz=scenario.cell.noise_w_per_hz, numbers=np.arange(len(population)),
            names=DeviceNames(scenario), link=link_of(scenario.cell), **limits)
        self.sizes = sizes
        self.part: Problem | None = None         # with the limits of some devices
        self._least_j: Floats | None = None      # of all devices; known when it is first asked for
        self._scenario = scenario
        self.link = self.whole.link
        self.bandwidth_hz, self.noise_w_per_hz = self.whole.bandwidth_hz, self.whole.noise_w_per_hz

    @property
    def has_downlink(self) -> bool:
        """Whether devices receive the model before they compute."""
        return self._scenario.cell.downlink is not None

    def downlink(self, devices: Ints | slice = slice(None)) -> Downlink | None:
        """The way of the model to some devices: all of them receive as much as the largest of their models."""
        bits = self.sizes.download_bits[devices]
        return Downlink.of(self._scenario, float(bits.max())) if self.has_downlink else None

    def least_j(self, *, channel_changes: bool) -> Floats:
        """What no job takes less than: computing at the slowest clock, and in a channel that stays, sending alone."""
        if self._least_j is None:
            self._least_j = _least_j(self.whole, channel_changes=channel_changes)
        if self.part is None:
            return self._least_j
        found = self._least_j.copy()
        found[self.part.numbers] = _least_j(self.part, channel_changes=channel_changes)
        return found

    def with_limits(self, part: Problem) -> RoundProblems:
        """The same where only the devices of ``part`` get work, with its band and its limits."""
        other = copy(self)
        other.part, other.bandwidth_hz = part, part.bandwidth_hz
        return other

    def with_sizes(self, sizes: JobSizes) -> RoundProblems:
        """The same devices with jobs of other sizes."""
        other = copy(self)
        other.sizes, other._least_j = sizes, None
        other.whole = replace(self.whole, bits=sizes.upload_bits, cycles=sizes.cycles)
        return other

    def of(self, devices: Ints, gain: Floats | None = None) -> Problem:
        """The problem of these devices, with their gains as they are now if the channel changes."""
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
    """How many samples a device works through in a round: L D_n, or what its local steps come to."""
    learning = scenario.learning
    if learning.local_steps is None:
        return np.asarray((learning.local_iterations or 1) * samples, dtype=np.float64)
    epochs, steps = np.divmod(learning.local_steps, -(-samples // learning.batch_size))
    # an epoch's last step may have fewer samples than a batch
    return np.asarray(epochs * samples + np.minimum(steps * learning.batch_size, samples), dtype=np.float64)
