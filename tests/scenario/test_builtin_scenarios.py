"""The scenarios that come with the program: they load, say what they are, and `tiny` is as its comments say."""

from math import log2, sqrt

import numpy as np
import pytest

from netsim.allocation import allocate
from netsim.base.streams import stream
from netsim.fleet.population import draw_population
from netsim.fleet.work import problem_for
from netsim.scenario import builtin_scenarios, load_scenario
from netsim.world.channel import round_gain


@pytest.mark.parametrize("name", ["mixed-fleet", "paper", "quickstart", "tiny"])
def test_is_there_and_described(name):
    assert name in builtin_scenarios()
    assert load_scenario(name).description


def plan_of_tiny(method):
    scenario = load_scenario("tiny")
    population = draw_population(scenario, 0)
    return allocate(problem_for(scenario, population, np.arange(5), bits=scenario.bits()), method=method)


def test_tiny_under_equal_shares_by_hand():
    plan = plan_of_tiny("equal")
    uploads, computes, energies = [], [], []
    for distance_m in (100, 200, 250, 400, 500):
        snr = 1e12 / distance_m**2 / 1e6
        upload_ms = 100 / log2(1 + snr)
        ghz = min(2.0, sqrt(6 - 0.1 * upload_ms))
        uploads.append(upload_ms)
        computes.append(10 / ghz)
        energies.append(0.1 * upload_ms + ghz**2)
    assert plan.bandwidth_hz == pytest.approx([1e6] * 5, rel=1e-12)
    assert plan.upload_s * 1e3 == pytest.approx(uploads, rel=1e-9)
    assert plan.compute_s * 1e3 == pytest.approx(computes, rel=1e-9)
    assert plan.device_energy_j * 1e3 == pytest.approx(energies, rel=1e-9)
    assert plan.round_s * 1e3 == pytest.approx(uploads[4] + computes[4], rel=1e-9)


def test_tiny_under_equal_shares_as_its_comments_say():
    plan = plan_of_tiny("equal")
    assert plan.round_s * 1e3 == pytest.approx(50.7526, abs=5e-5)
    assert plan.energy_j * 1e3 == pytest.approx(29.5019, abs=5e-5)
    assert plan.device_energy_j * 1e3 == pytest.approx([5.5019, 6, 6, 6, 6], abs=5e-5)
    assert plan.upload_s * 1e3 == pytest.approx([15.0190, 21.2746, 24.4651, 34.9897, 43.0677], abs=5e-5)
    assert plan.compute_s * 1e3 == pytest.approx([5.0000, 5.0816, 5.3048, 6.3233, 7.6850], abs=5e-5)
    assert plan.cpu_hz / 1e9 == pytest.approx([2, 1.96788, 1.88507, 1.58146, 1.30124], abs=5e-6)


def test_tiny_under_sao_as_its_comments_say():
    plan = plan_of_tiny("sao")
    assert plan.round_s * 1e3 == pytest.approx(37.0256, abs=5e-5)
    assert plan.energy_j * 1e3 == pytest.approx(30.0, rel=1e-9)
    assert plan.cpu_hz / 1e9 == pytest.approx([1.698844] * 5, abs=5e-7)
    assert plan.upload_s * 1e3 == pytest.approx([31.1393] * 5, abs=5e-5)
    assert plan.bandwidth_hz / 1e6 == pytest.approx([0.403486, 0.590629, 0.702486, 1.235722, 2.067677], abs=5e-7)
    assert plan.bandwidth_hz.sum() == pytest.approx(5e6, rel=1e-9)


@pytest.mark.parametrize("name", ["mixed-fleet", "paper", "quickstart"])
def test_random_cohorts_have_a_plan(name):
    scenario = load_scenario(name)
    for seed in range(15):
        population = draw_population(scenario, seed)
        cohort = stream(seed, "cohort").choice(len(population), scenario.selection.cohort, replace=False)
        gain = round_gain(scenario, population, seed, 1)
        allocate(problem_for(scenario, population, cohort, bits=scenario.bits(), gain=gain), method="sao")


def test_sensors_of_the_mixed_fleet_run_dry():
    population = draw_population(load_scenario("mixed-fleet"), 0)
    sensors = population.kind == population.kinds.index("sensor")
    assert (population.battery_j[sensors] < 10 * population.budget_j[sensors]).all()
    assert np.isinf(population.battery_j[population.kind == population.kinds.index("laptop")]).all()
