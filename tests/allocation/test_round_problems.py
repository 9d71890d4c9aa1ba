"""A run's problems, cut out of that of all devices: the same as those made one by one."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from netsim import load_scenario
from netsim.allocation import Problem, allocate
from netsim.base.types import Floats, Ints
from netsim.devices.population import DeviceNames, Population, draw_population
from netsim.devices.workload import JobSizes, RoundProblems, problem_for
from netsim.scenario import Scenario


@pytest.fixture(scope="module")
def world() -> tuple[Scenario, Population]:
    scenario = load_scenario("paper")
    return scenario, draw_population(scenario, 1, samples=np.arange(100, 100 + scenario.size))


def made_by_hand(scenario: Scenario, population: Population, devices: Ints, gain: Floats) -> Problem:
    limits = ("capacitance", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz", "power_min_w", "power_max_w")
    passes = scenario.learning.local_epochs or 1
    return Problem(bits=np.full(len(devices), 448e3), gain=gain[devices], numbers=devices, names=DeviceNames(scenario),
                   cycles=passes * population.samples[devices] * population.cycles_per_sample[devices],
                   bandwidth_hz=20e6, noise_w_per_hz=scenario.cell.noise_w_per_hz,
                   **{name: getattr(population, name)[devices] for name in limits})


def test_the_same_as_one_by_one(world: tuple[Scenario, Population]) -> None:
    scenario, population = world
    problems = RoundProblems(scenario, population, JobSizes.of(scenario, population, 448e3))
    rng = np.random.default_rng(1)
    for fading in (None, population.gain * rng.exponential(size=len(population))):
        devices = rng.choice(len(population), 10, replace=False)
        now = None if fading is None else fading[devices]
        made = made_by_hand(scenario, population, devices, population.gain if fading is None else fading)
        for cut in (problems.of(devices, now), problem_for(scenario, population, devices, bits=448e3, gain=fading)):
            for field in fields(Problem):
                assert np.array_equal(getattr(cut, field.name), getattr(made, field.name)), field.name
            assert cut.snr_hz.tolist() == made.snr_hz.tolist()


def test_the_answer_does_not_depend_on_what_was_asked_before(world: tuple[Scenario, Population]) -> None:
    """A resumed run must plan its rounds to the same bytes as an unbroken one."""
    scenario, population = world
    first, second = np.arange(5), np.arange(5, 10)
    once, again = (RoundProblems(scenario, population, JobSizes.of(scenario, population, 448e3)) for _ in range(2))
    allocate(once.of(first))
    after, fresh = allocate(once.of(second)), allocate(again.of(second))
    assert after.bandwidth_hz.tobytes() == fresh.bandwidth_hz.tobytes()
    assert after.round_s == fresh.round_s


def test_shares_the_population_s_arrays(world: tuple[Scenario, Population]) -> None:
    scenario, population = world
    whole = RoundProblems(scenario, population, JobSizes.of(scenario, population, 448e3)).whole
    assert np.shares_memory(whole.budget_j, population.budget_j)
    assert whole.numbers is not None
    assert whole.numbers.tolist() == list(range(len(population)))
