"""Work of devices in a round: samples D_n, batches, cycles U_n, and the allocation problem."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from netsim.allocation.cpu_power import CpuPower
from netsim.allocation.problem import Problem
from netsim.base.types import Floats, Ints, constant, read_only
from netsim.devices.link_model import Downlink, link_of
from netsim.devices.population import DeviceNames, Population
from netsim.physics import best_hz, upload_time
from netsim.scenario import Scenario


def problem_for(
    scenario: Scenario, population: Population, devices: Ints, *, bits: float, gain: Floats | None = None,
) -> Problem:
    """Return the allocation problem of some devices, which compute U_n cycles and upload ``bits``."""
    problems = RoundProblems(scenario, population, JobSizes.of(scenario, population, bits))
    if gain is not None and population.radiated is not None:
        gain = gain * population.radiated
    return problems.of(np.asarray(devices), None if gain is None else gain[devices])


@dataclass(frozen=True, eq=False)
class JobSizes:
    """Size of each device's job, known before planning: arrays of shape (N,)."""

    upload_bits: Floats
    download_bits: Floats
    cycles: Floats             # U_n

    @classmethod
    def of(cls, scenario: Scenario, population: Population, bits: float) -> JobSizes:
        """Return the sizes for models of ``bits`` bits in both directions, and U_n of :func:`training_cycles`."""
        alike = constant(float(bits), len(population))
        return cls(alike, alike, read_only(training_cycles(scenario, population, slice(None), population.samples)))

    def changed(self, devices: Ints, upload_bits: Floats, download_bits: Floats, cycles: Floats) -> JobSizes:
        arrays = self.upload_bits.copy(), self.download_bits.copy(), self.cycles.copy()
        for array, values in zip(arrays, (upload_bits, download_bits, cycles), strict=True):
            array[devices] = values
        return JobSizes(*arrays)


class RoundProblems:
    """The allocation problems of a run: subsets of the problem of all devices, which is validated once."""

    def __init__(self, scenario: Scenario, population: Population, sizes: JobSizes) -> None:
        limits = {name: getattr(population, name) for name in (
            "capacitance", "gain", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz", "power_min_w", "power_max_w")}
        if population.radiated is not None:
            limits["gain"] = limits["gain"] * population.radiated
        powers = [None if table.cpu_table is None else table.cpu_table.points for table in scenario.population
                  for _ in range(table.size)] if scenario.has_cpu_tables else None
        self.whole = Problem(
            bits=sizes.upload_bits, cycles=sizes.cycles, bandwidth_hz=float(scenario.cell.bandwidth),
            noise_w_per_hz=scenario.cell.noise_w_per_hz, numbers=read_only(np.arange(len(population))),
            names=DeviceNames(scenario), link=link_of(scenario),
            cpu_power=None if powers is None else CpuPower.of(powers), **limits)
        self.sizes = sizes
        self.part: Problem | None = None         # changed limits of some devices
        self._least_j: Floats | None = None      # of all devices; computed on first use
        self._scenario, self._population = scenario, population
        self.link = self.whole.link
        self.bandwidth_hz, self.noise_w_per_hz = self.whole.bandwidth_hz, self.whole.noise_w_per_hz

    @property
    def has_downlink(self) -> bool:
        """True if devices receive the model before they compute."""
        return self._scenario.has_downlink

    def downlink(self, devices: Ints | slice = slice(None)) -> Downlink | None:
        """Return the downlink to some devices, all with the size of the largest of their models."""
        if not self.has_downlink:
            return None
        return Downlink.of(self._scenario, float(self.sizes.download_bits[devices].max()),
                           self._population.downlink_bit_per_s, self._population.radiated)

    def least_j(self, *, channel_changes: bool) -> Floats:
        """Return the least energy of each job in J: at the lowest clock, in a constant channel with all of the band."""
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
        other = copy(self)
        other.sizes, other._least_j = sizes, None
        other.whole = replace(self.whole, bits=sizes.upload_bits, cycles=sizes.cycles)
        return other

    def of(self, devices: Ints, gain: Floats | None = None) -> Problem:
        """Return the problem of these devices; ``gain`` replaces the initial gains in a time-varying channel."""
        part = self.part
        if part is None or part.numbers is None or not np.isin(devices, part.numbers).all():
            return self.whole.subset(devices, gain)
        return part.subset(np.searchsorted(part.numbers, devices), gain)


def _least_j(problem: Problem, *, channel_changes: bool) -> Floats:
    compute_j = problem.compute_energy_j(problem.cpu_min_hz)
    if channel_changes:
        return compute_j
    power_w, _ = problem.power_range_w
    snr_hz = problem.gain * power_w / problem.noise_w_per_hz
    rate = problem.link.rate(best_hz(problem.link, problem.bandwidth_hz, snr_hz), snr_hz)
    return compute_j + power_w * upload_time(problem.bits, rate)


def training_cycles(scenario: Scenario, population: Population, devices: Ints | slice, samples: Ints) -> Floats:
    """Return the CPU cycles U_n of jobs: batches * cycles per batch + samples * cycles per sample; shape (devices,).

    Without the first term it is L C_n D_n, as in the paper. ``samples`` are D_n, the samples that each device holds.
    """
    cycles = samples_trained(scenario, samples) * population.cycles_per_sample[devices]
    if population.cycles_per_batch is None:
        return cycles
    return cycles + batches_trained(scenario, samples) * population.cycles_per_batch[devices]


def batches_trained(scenario: Scenario, samples: Ints) -> Floats:
    """Return the batches that each device processes in a round: local steps, or epochs * ceil(D_n / batch size)."""
    learning = scenario.learning
    if learning.local_steps is not None:
        return np.full(len(samples), float(learning.local_steps))
    return np.asarray((learning.local_epochs or 1) * -(-samples // learning.batch_size), dtype=np.float64)


def samples_trained(scenario: Scenario, samples: Ints) -> Floats:
    """Return the samples that each device processes in a round: L D_n, or those of its local steps."""
    learning = scenario.learning
    if learning.local_steps is None:
        return np.asarray((learning.local_epochs or 1) * samples, dtype=np.float64)
    epochs, steps = np.divmod(learning.local_steps, -(-samples // learning.batch_size))
    # an epoch's last step may have fewer samples than a batch
    return np.asarray(epochs * samples + np.minimum(steps * learning.batch_size, samples), dtype=np.float64)
