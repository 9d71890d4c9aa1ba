"""The scenarios that come with the program: they load, say what they are, and `tiny` is as its comments say."""

from math import log2, sqrt

import numpy as np
import pytest

from netsim.allocation import allocate
from netsim.base.rng import stream
from netsim.devices.population import draw_population
from netsim.devices.workload import problem_for
from netsim.environment.channel import round_gain
from netsim.scenario import builtin_scenarios, load_scenario

DIGESTS = {      # stored trials are found by these: a change here is a change of what a scenario says
    "adaptive": "5827d274ac74c780d845a279424520f10eaf57b9e43b7387dd009859258e397b",
    "fedasync": "60261bb423a6cd7e30cb17239a91f02eca08c268417d5d929118b7d1964cd4c8",
    "fedbuff": "b18cc1b904831d317571d51812ddf57fc1a47bd3769fc352705958847a9bba36",
    "lab": "70ff3788c09fd2886be52b46858a86d4302c4671cd7321891a3eb8cb41076657",
    "mixed-fleet": "d01b7302154f9bd50dce0a38351c0ad3cb48011d2f372be43f9f959fb30e2655",
    "paper": "f3b4409afd92930446a6bbd2ad09d20ba2897b0ff06533a7e0692eae0fd573a6",
    "phones": "50fee61d609e4bcf1a8970e643882f058bad17bee459919af67624dae4e400a7",
    "quickstart": "31756e4588e42f866822bfac7472ca805c1eb4bc16129991f4aa24798ed1bdb5",
    "storm": "c60490e1b05b818503ebc9fe53ec71c6ad0c792d465a492750c6c6eb62aa0f3a",
    "street": "0cdeeab78b3c22bbf1f55f3b6c3c002bb5db2f6ca2b8d239b575cb7f3fe778d2",
    "tdma": "4d247b15141fc1d16b15b8937693cd3f0b65816448725c6d7e91cf4fe2bbac66",
    "tiny": "01a2129f6c63d524fc25f1226323f7c667fd6b65f7c41d8ab5f2f69c0515bd22",
}
TRIALS = {       # and of scenarios that the paper's trials make of them
    ("selection.method=rra-as-run",): "bde634cb24e3bc887fda03023d02ea785bac61b533e11a2158e8e97c5ae0a4e0",
    ("selection.method=rra", "selection.weight=1 mJ"):
        "426951469607b6d7a520146b8eb4554ebe51e902e0f8273a2c6757e1124921e9",
    ("learning.dataset=mnist", "learning.model=mnist-cnn", "learning.partition.sigma=0.5", "learning.aggregation=mean"):
        "f1789e279067cf957f097b32bcd7bf1527d09b10ba488b0094699be78d3b6176",
}


def test_digests_are_those_of_the_stored_trials():
    assert {name: load_scenario(name).digest for name in builtin_scenarios()} == DIGESTS
    assert {changes: load_scenario("paper", changes).digest for changes in TRIALS} == TRIALS


@pytest.mark.parametrize("name", [
    "adaptive", "fedasync", "fedbuff", "mixed-fleet", "paper", "phones", "quickstart", "storm", "street", "tdma",
    "tiny"])
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
