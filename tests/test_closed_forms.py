"""Without faults, what the simulation plays out equals the paper's closed forms."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from netsim import load_scenario, simulate
from netsim.allocation import METHODS, allocate
from netsim.base.errors import InputError
from netsim.cell.job import jobs_of
from netsim.devices.population import draw_population
from netsim.devices.workload import problem_for
from netsim.environment.channel import round_gain
from netsim.validation import check_whole

RTOL = 1e-9


def random_scenario(number: int, folder) -> str:
    """A scenario that no human would write: everything drawn, several kinds of devices, some cohorts infeasible."""
    rng = np.random.default_rng([20, number])
    kinds = []
    for kind in range(rng.integers(1, 4)):
        low = rng.uniform(0.05, 1.0)
        kinds.append(f"""
[[population]]
name = "kind{kind}"
count = {rng.integers(3, 12)}
cpu.min = "{low} GHz"
cpu.max = "{low * rng.uniform(1.0, 8.0)} GHz"
cpu.cycles_per_sample = {{ dist = "uniform", low = {rng.uniform(1e3, 1e4)}, high = {rng.uniform(1e4, 1e5)} }}
radio = {{ power = "{rng.uniform(10, 26)} dBm", min_power = "5 dBm", max_power = "27 dBm" }}
budget = {{ dist = "uniform", low = "{rng.uniform(5, 30)} mJ", high = "{rng.uniform(30, 300)} mJ" }}
samples = {{ dist = "uniform", low = 10, high = {rng.integers(20, 900)} }}
battery = {rng.choice(['"1 MJ"', '"mains"'])}
""")
    path = folder / f"random{number}.toml"
    path.write_text(f"""
[cell]
radius = "{rng.uniform(50, 600)} m"
bandwidth = "{rng.uniform(2, 40)} MHz"
shadowing = "{rng.uniform(0, 10)} dB"
fading = "{rng.choice(['none', 'rayleigh'])}"
{"".join(kinds)}
[learning]
bits = "{rng.uniform(10, 900)} kbit"
local_iterations = {rng.integers(1, 12)}
[selection]
method = "fedavg"
cohort = {rng.integers(1, 4)}
[rounds]
first = "{rng.choice(['all', 'cohort'])}"
infeasible = "{rng.choice(['largest', 'waves'])}"
[end]
rounds = 3
""")
    return str(path)


def check(scenario, seed: int) -> int:
    """Every wave of every round against the plan of those who took part; returns how many waves there were."""
    run = simulate(scenario, seed=seed, learning=False)
    bits = scenario.bits()
    population = draw_population(scenario, seed)
    waves = 0
    computing = run.spans.filter(pl.col("name") == "compute").group_by(["round", "t0"], maintain_order=True)
    for (k, began), wave in computing:
        spans = wave.sort("device")
        devices = spans["device"].to_numpy().astype(np.int64)
        gain = round_gain(scenario, population, seed, k)
        plan = allocate(problem_for(scenario, population, devices, gain=gain, bits=bits),
                        scenario.allocation.method, **scenario.allocation.options)
        uploads = run.spans.filter((pl.col("name") == "upload") & (pl.col("round") == k))
        uploads = spans.select("device").join(uploads, on="device", how="left", maintain_order="left")
        np.testing.assert_allclose(uploads["t1"].max() - began, plan.round_s, rtol=RTOL)
        np.testing.assert_allclose((spans["t1"] - spans["t0"]).to_numpy(), plan.compute_s, rtol=RTOL)
        np.testing.assert_allclose((uploads["t1"] - uploads["t0"]).to_numpy(), plan.upload_s, rtol=RTOL)
        energy = (spans["energy_j"] + uploads["energy_j"]).to_numpy()
        np.testing.assert_allclose(energy, plan.device_energy_j, rtol=RTOL)
        np.testing.assert_allclose(energy.sum(), plan.energy_j, rtol=RTOL)
        waves += 1
    rounds = run.rounds
    parts = (rounds["compute_s"] + rounds["upload_s"] + rounds["wait_s"]).to_numpy()
    np.testing.assert_allclose(parts, rounds["round_s"].to_numpy(), rtol=RTOL)
    assert run.summary["energy_j"] == pytest.approx(run.spans["energy_j"].sum(), rel=RTOL)
    assert run.summary["simulated_s"] == pytest.approx(sum(run.summary["round_s"]), rel=RTOL)
    return waves


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["tiny", "paper"])
def test_built_in_scenarios(name, method):
    scenario = load_scenario(name, [f"allocation.method={method}", "selection.method=fedavg", "end.rounds=3",
                                    "rounds.infeasible=largest"])
    assert check(scenario, seed=1) >= 3


RATE = 'cell.rate={cap="5.55 bit/s/Hz",efficiency=0.8}'


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].links != "uncapped"])
def test_plans_know_the_efficiency_and_the_cap_of_the_link(method):
    scenario = load_scenario("tiny", [f"allocation.method={method}", "selection.method=fedavg", "end.rounds=3", RATE,
                                      "rounds.infeasible=largest", "rounds.first=cohort"])
    assert check(scenario, seed=1) >= 3


@pytest.mark.parametrize("method", ["fedl", "rra", "sao-joint"])
def test_methods_that_do_not_know_the_cap_say_so_before_a_run(method):
    for play in (lambda given: check_whole(given), lambda given: simulate(given, learning=False)):
        with pytest.raises(InputError) as refused:
            play(load_scenario("tiny", [f"allocation.method={method}", RATE]))
        assert (refused.value.code, refused.value.key) == ("unsupported", "allocation.method")


def test_sao_is_not_behind_equal_where_a_cap_binds():
    changes = ['cell.rate={cap="5.55 bit/s/Hz",efficiency=0.75}', "selection.method=fedavg", "end.rounds=5"]
    rounds = {method: simulate(load_scenario("tiny", [*changes, f"allocation.method={method}"]), learning=False).rounds
              for method in ("sao", "equal", "sao-adaptive")}
    assert (rounds["sao"]["round_s"].to_numpy() <= rounds["equal"]["round_s"].to_numpy() * (1 + 1e-9)).all()
    assert (rounds["sao-adaptive"]["round_s"].to_numpy() <= rounds["sao"]["round_s"].to_numpy() * (1 + 1e-9)).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("numbers", [range(8), pytest.param(range(8, 50), marks=pytest.mark.extended)],
                         ids=["eight", "all fifty"])
def test_fifty_random_scenarios(tmp_path, method, numbers):
    changes = [f"allocation.method={method}"]
    if method == "algorithm6":         # nested searches to the letter are slow: coarser ones, for fewer devices
        changes += ["allocation.tolerance=0.02", "rounds.first=cohort"]
    waves = 0
    for number in numbers:
        waves += check(load_scenario(random_scenario(number, tmp_path), changes), seed=number)
    assert waves >= len(numbers)          # most of them have a plan, so that something was compared


@pytest.mark.parametrize("wrong", [1 + 1e-6, 1 - 1e-6])
def test_a_rate_of_the_cell_that_is_wrong_by_a_millionth_is_seen(monkeypatch, wrong):
    """The comparison above can fail: the cell works out rates itself, it does not play the plan's seconds back."""
    scenario = load_scenario("paper", ["selection.method=fedavg", "end.rounds=2", "rounds.first=cohort"])
    assert check(scenario, seed=1) == 2

    def faster(*args, **options):
        jobs = jobs_of(*args, **options)
        for job in jobs:
            job.plan = replace(job.plan, rate=job.plan.rate * wrong)
        return jobs

    monkeypatch.setattr("netsim.server.radio_cell.jobs_of", faster)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check(scenario, seed=1)
