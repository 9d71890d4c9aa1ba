"""Job-to-job variation of compute and upload times."""

import numpy as np
import polars as pl
import pytest

from netsim import InputError, Scenario, load_scenario, simulate

VARIED = {"population.node.variation": {"compute": 0.3, "upload": 0.2}, "end.rounds": 300}


@pytest.fixture(scope="module")
def runs():
    tiny = load_scenario("tiny")
    return simulate(tiny, seed=1), simulate(tiny.with_(VARIED), seed=1)


def test_times_have_the_given_spread_around_the_planned_ones(runs):
    plain, varied = runs
    planned = plain.jobs.filter(pl.col("round") == 1).sort("device")
    for device in range(5):
        jobs = varied.jobs.filter(pl.col("device") == device)
        for part, sd in (("compute_s", 0.3), ("upload_s", 0.2)):
            logs = np.log(jobs[part].to_numpy() / planned[part][device])
            assert logs.std() == pytest.approx(sd, rel=0.15)
            assert logs.mean() == pytest.approx(0.0, abs=4 * sd / np.sqrt(300))


def test_the_plan_and_the_power_stay_as_they_are(runs):
    plain, varied = runs
    first = varied.jobs.filter(pl.col("round") == 1).sort("device")
    planned = plain.jobs.filter(pl.col("round") == 1).sort("device")
    for column in ("bits", "cycles", "cpu_hz", "power_w", "bandwidth_hz", "planned_s"):
        assert first[column].to_list() == planned[column].to_list()
    compute_w = 1e-28 * first["cpu_hz"] ** 3
    assert first["energy_j"].to_list() == pytest.approx(
        (compute_w * first["compute_s"] + first["power_w"] * first["upload_s"]).to_list())


def test_two_methods_meet_the_same_factors(runs):
    _, varied = runs
    other = simulate(load_scenario("tiny").with_({**VARIED, "allocation.method": "sao", "end.rounds": 20}), seed=1)
    seconds = {name: (run.jobs["compute_s"] * run.jobs["cpu_hz"] / run.jobs["cycles"]).to_list()[:100]
               for name, run in (("equal", varied), ("sao", other))}
    assert seconds["sao"] == pytest.approx(seconds["equal"])


def test_a_column_gives_each_device_its_own():
    fleet = {"name": ["steady", "shaky"], "compute_variation": [0.0, 0.5], "x": ["100 m"] * 2, "y": ["0 m"] * 2}
    node = {"name": "node", "devices": fleet, "cpu": {"min": "0.5 GHz", "max": "2 GHz", "cycles_per_sample": 1e4},
            "radio": {"power": "100 mW"}, "budget": "6 mJ", "samples": 100}
    scenario = Scenario.of({
        "cell": {"radius": "500 m", "bandwidth": "5 MHz"}, "population": [node], "rounds": {"first": "cohort"},
        "learning": {"bits": "100 kbit"}, "selection": {"method": "fedavg", "cohort": 2},
        "allocation": {"method": "equal"}, "end": {"rounds": 50}})
    jobs = simulate(scenario).jobs
    spread = jobs.group_by("device").agg(pl.col("compute_s").log().std()).sort("device")["compute_s"].to_list()
    assert spread[0] == pytest.approx(0.0, abs=1e-9)
    assert spread[1] == pytest.approx(0.5, rel=0.3)


def test_a_resumed_run_draws_the_same(tmp_path):
    scenario = load_scenario("tiny").with_({**VARIED, "end.rounds": 6})
    whole = simulate(scenario, tmp_path / "whole", seed=3)

    def stop(at):
        if at.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(scenario, tmp_path / "part", seed=3, progress=stop)
    again = simulate(scenario, tmp_path / "part", seed=3, resume=True)
    assert again.summary["trace_sha256"] == whole.summary["trace_sha256"]


def test_a_variation_of_nothing_is_an_error():
    with pytest.raises(InputError, match="has no effect"):
        load_scenario("tiny", ["population.node.variation.compute=0"])


def test_a_deviation_outside_its_range_is_an_error():
    with pytest.raises(InputError, match=r"variation\.compute"):
        load_scenario("tiny", ["population.node.variation.compute=-1"])
