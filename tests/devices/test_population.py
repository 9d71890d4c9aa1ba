"""Populations: draws that follow the scenario, from streams that do not disturb each other."""

import numpy as np
import polars as pl
import pytest
from refused import refused

from netsim import Scenario, simulate
from netsim.base.rng import stream
from netsim.devices.population import DeviceNames, device_table, draw_population, draw_samples
from netsim.devices.workload import JobSizes, problem_for
from netsim.environment.channel import round_gain
from netsim.scenario import load_scenario

SECOND = """
base = "paper"
[[population]]
name = "sensor"
count = 7
cpu = { min = "0.1 GHz", max = "0.4 GHz", cycles_per_sample = 1e4 }
radio = { power = "14 dBm" }
budget = "10 mJ"
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="scenario.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path
    return write


def test_arrays_are_read_only_and_in_si_units():
    population = draw_population(load_scenario("paper"), 0)
    assert len(population) == 100
    for name in population.columns:
        array = getattr(population, name)
        assert array.shape == (100,)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert population.power_w == pytest.approx(10 ** -0.7)
    assert population.power_min_w == pytest.approx(0.01)
    assert set(population.battery_j) == {np.inf}
    assert set(population.samples) == {500}
    assert population.cpu_min_hz.max() == 2e8


def test_a_property_that_all_devices_share_takes_no_memory():
    scenario = load_scenario("paper")
    population = draw_population(scenario, 0)
    for name in ("kind", "power_w", "power_min_w", "battery_j", "samples", "cpu_min_hz"):
        assert getattr(population, name).strides == (0,), name
    assert JobSizes.of(scenario, population, 1e6).upload_bits.strides == (0,)
    table = pl.read_parquet(device_table(scenario, population, {"more": list(range(100))}))
    assert table.columns == ["device", "name", "kind", *population.columns, "more"]
    for name in population.columns:
        assert table[name].to_list() == getattr(population, name).tolist(), name
    assert (table["kind"].unique().to_list(), table["name"].null_count()) == (["phone"], 100)
    assert (table["samples"].dtype, table["power_w"].dtype) == (pl.Int64, pl.Float64)


def test_draws_stay_in_their_bounds_and_fill_them():
    population = draw_population(load_scenario("paper", ["population.phone.count=20_000"]), 3)
    budget = population.budget_j
    assert budget.min() >= 0.015
    assert budget.max() <= 0.030
    assert budget.mean() == pytest.approx(0.0225, rel=0.01)
    distance = np.hypot(population.x_m, population.y_m)
    assert distance.max() <= 300
    assert np.mean(distance < 150) == pytest.approx(0.25, abs=0.015)      # even over the area
    mean_db = -(128.1 + 37.6 * np.log10(distance / 1e3))
    shadowing = 10 * np.log10(population.gain) - mean_db
    assert shadowing.std() == pytest.approx(8, rel=0.03)
    assert abs(shadowing.mean()) < 0.3


@pytest.mark.parametrize(("spread", "median"), [
    ('{ dist = "normal", mean = "20 mJ", sd = "5 mJ", min = "10 mJ", max = "30 mJ" }', 0.02),
    ('{ dist = "lognormal", median = "20 mJ", sigma = 0.5 }', 0.02),
    ('{ dist = "exponential", mean = "20 mJ" }', 0.02 * np.log(2)),
    ('{ dist = "choice", values = ["10 mJ", "20 mJ"], weights = [1, 3] }', 0.02),
    ('"20 mJ"', 0.02),
])
def test_every_distribution_draws_what_it_says(spread, median):
    scenario = load_scenario("paper", ["population.phone.count=20_000", f"population.phone.budget={spread}"])
    budget = draw_population(scenario, 1).budget_j
    assert np.median(budget) == pytest.approx(median, rel=0.03)
    assert budget.min() > 0
    if "normal" in spread and "min" in spread:
        assert (budget.min(), budget.max()) == (0.01, 0.03)
    if "choice" in spread:
        assert np.mean(budget == 0.01) == pytest.approx(0.25, abs=0.02)


def test_another_population_method_or_count_changes_no_draw(write):
    alone = draw_population(load_scenario("paper"), 5)
    both = draw_population(load_scenario(write(SECOND)), 5)
    more = draw_population(load_scenario("paper", ["population.phone.count=150"]), 5)
    other = draw_population(load_scenario("paper", ["allocation.method=equal", "selection.method=fedavg"]), 5)
    other_power = draw_population(load_scenario("paper", ["population.phone.radio.power=10 dBm"]), 5)
    for name in alone.columns:
        mine = getattr(alone, name)
        assert np.array_equal(mine, getattr(both, name)[:100])
        assert np.array_equal(mine, getattr(more, name)[:100])
        assert np.array_equal(mine, getattr(other, name))
    assert np.array_equal(alone.gain, other_power.gain)
    assert both.kinds == ("phone", "sensor")
    assert np.array_equal(both.kind, [0] * 100 + [1] * 7)
    assert not np.array_equal(alone.gain, draw_population(load_scenario("paper"), 6).gain)


def test_fading_is_of_mean_one_and_new_every_round(write):
    scenario = load_scenario("paper", ["cell.fading=rayleigh", "population.phone.count=20_000"])
    population = draw_population(scenario, 2)
    factor = round_gain(scenario, population, 2, 1) / population.gain
    assert factor.mean() == pytest.approx(1, rel=0.03)
    assert factor.std() == pytest.approx(1, rel=0.05)
    assert not np.array_equal(factor, round_gain(scenario, population, 2, 2) / population.gain)
    steady = load_scenario("paper")
    assert round_gain(steady, population, 2, 1) is population.gain
    faded, with_second = (load_scenario(source, ["cell.fading=rayleigh"]) for source in ("paper", write(SECOND)))
    gains = [round_gain(s, draw_population(s, 4), 4, 9)[:100] for s in (faded, with_second)]
    assert np.array_equal(*gains)


def test_recorded_gains_repeat(write):
    write("-90,-91,-92,-93,-94\n-100,-101,-102,-103,-104\n", "gains.csv")
    scenario = load_scenario(write('base = "tiny"\n[cell]\ngain_trace = "gains.csv"\n'))
    population = draw_population(scenario, 0)
    gains = [10 * np.log10(round_gain(scenario, population, 0, k)) for k in (1, 2, 3)]
    assert gains[0] == pytest.approx([-90, -91, -92, -93, -94])
    assert gains[1] == pytest.approx([-100, -101, -102, -103, -104])
    assert np.array_equal(gains[0], gains[2])
    assert 10 * np.log10(population.gain) == pytest.approx(gains[0])


def test_a_fleet_is_taken_as_it_is(write):
    write("name,x,y,power,budget,battery,cpu_min,cpu_max,cycles_per_sample,samples,gain\n"
          "a,30 m,40 m,20 dBm,3 mJ,mains,1 GHz,2 GHz,1e4,10,-80 dB\n"
          "b,0 m,-5 m,100 mW,4 mJ,1 kJ,1 GHz,3 GHz,2e4,20,-90 dB\n", "fleet.csv")
    scenario = load_scenario(write('''
        base = "tiny"
        [[population]]
        name = "node"
        devices = "fleet.csv"
        [selection]
        cohort = 2
    '''))
    population = draw_population(scenario, 0)
    assert np.array_equal(population.x_m, [30, 0])
    assert np.array_equal(population.y_m, [40, -5])
    assert population.gain == pytest.approx([1e-8, 1e-9])
    assert population.power_w == pytest.approx([0.1, 0.1])
    assert np.array_equal(population.battery_j, [np.inf, 1000])
    assert np.array_equal(population.samples, [10, 20])
    assert np.array_equal(population.cpu_max_hz, [2e9, 3e9])
    assert np.array_equal(population.capacitance, [1e-28, 1e-28])        # from the table of the base file


def test_the_split_may_decide_on_the_samples():
    scenario = load_scenario("quickstart", ["population.phone.samples=auto"])
    assert draw_samples(scenario, 0) is None
    with refused("needs", "population.samples"):
        draw_population(scenario, 0)
    population = draw_population(scenario, 0, samples=np.arange(1, 25))
    assert np.array_equal(population.samples, np.arange(1, 25))


def test_problem_has_the_cycles_of_passes_or_steps():
    devices = np.array([3, 1])
    scenario = load_scenario("paper")
    population = draw_population(scenario, 0)
    problem = problem_for(scenario, population, devices, bits=scenario.bits())
    assert problem.cycles == pytest.approx(10 * 500 * population.cycles_per_sample[devices])
    assert problem.bits == pytest.approx([448e3, 448e3])
    assert np.array_equal(problem.gain, population.gain[devices])
    assert problem.bandwidth_hz == 20e6
    steps = load_scenario("paper", ["learning.local_steps=7"])
    assert problem_for(steps, population, devices, bits=1.0).cycles == pytest.approx(
        7 * 50 * population.cycles_per_sample[devices])
    # 500 samples are three batches of 150 and one of 50: seven steps see them once, and then three batches more
    uneven = load_scenario("paper", ["learning.local_steps=7", "learning.batch_size=150"])
    assert problem_for(uneven, population, devices, bits=1.0).cycles == pytest.approx(
        (500 + 3 * 150) * population.cycles_per_sample[devices])
    small = load_scenario("paper", ["learning.local_steps=7", "learning.batch_size=600"])
    assert problem_for(small, population, devices, bits=1.0).cycles == pytest.approx(
        7 * 500 * population.cycles_per_sample[devices])
    gain = population.gain * 2
    assert np.array_equal(problem_for(scenario, population, devices, bits=1.0, gain=gain).gain, gain[devices])


def test_paper_meets_the_papers_round_time():
    """Budget 30 mJ, 22 dBm: the paper prints 111.84 ms; its layouts are not known, ours scatter around 110 ms."""
    from netsim.allocation import allocate

    scenario = load_scenario("paper", ["population.phone.budget=30mJ", "population.phone.radio.power=22dBm"])
    times = []
    for seed in range(40):
        population = draw_population(scenario, seed)
        cohort = stream(seed, "cohort").choice(len(population), 10, replace=False)
        times.append(allocate(problem_for(scenario, population, cohort, bits=scenario.bits()), method="sao").round_s)
    assert 0.103 <= np.median(times) <= 0.116


def test_a_fleet_may_say_what_kind_each_device_is():
    table = {"base": "tiny", "population": [{"name": "thing", "devices": {
        "name": ["door", "hall", "roof"], "kind": ["sensor", "hub", "sensor"]}, "budget": "6 mJ",
        "cpu": {"min": "0.5 GHz", "max": "2 GHz", "cycles_per_sample": 1e4}, "samples": 100,
        "radio": {"power": "100 mW"}}]}
    scenario = Scenario.of(table)
    devices = simulate(scenario).devices
    assert devices["kind"].to_list() == ["node"] * 5 + ["sensor", "hub", "sensor"]
    assert [DeviceNames(scenario)(number) for number in (4, 5, 7)] == ["node 4", "door", "roof"]
    nameless = Scenario.of({**table, "population": [{**table["population"][0], "devices": {
        "kind": ["sensor", "hub", "sensor"]}}]})
    assert [DeviceNames(nameless)(number) for number in (5, 6)] == ["sensor 5", "hub 6"]
    same = [run.rounds["round_s"].to_list() for run in (simulate(scenario), simulate(nameless))]
    assert same[0] == same[1]                                       # what a device is called changes nothing
