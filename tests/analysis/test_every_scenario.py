"""What must hold for the trace of any run, tried on the built-in scenarios and on hard times."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from netsim import load_scenario, simulate
from netsim.run import Run
from netsim.scenario import builtin_scenarios

CLOSE = 1e-9


HARD_TIMES = {
    # a plan is told of deadlines and batteries; what it is not told is how the band is then shared, or it does not care
    "cut by the deadline": ["allocation.sharing=tdma", "cell.fading=rayleigh", "rounds.deadline=60ms",
                            "cell.bandwidth=5MHz"],
    "batteries run dry": ["allocation.method=fedl", "allocation.lambda=10", "population.phone.battery=80mJ",
                          "cell.fading=rayleigh"],
    "nobody fits": ["cell.fading=rayleigh", "cell.bandwidth=1MHz", "selection.cohort=2", "rounds.deadline=50ms",
                    "rounds.wait=70ms"],
}


@cache
def play(name: str) -> Run:
    """A run without training, with a selection method that needs none."""
    scenario = load_scenario("mixed-fleet" if name in HARD_TIMES else name)
    overrides = ["selection.method=fedavg", f"end.rounds={min(scenario.end.rounds, 40)}", *HARD_TIMES.get(name, [])]
    return simulate(load_scenario(scenario.name, overrides), seed=3, learning=False)


LONG = ("adaptive", "batteries run dry", "cut by the deadline", "paper", "storm")
scenarios = pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
    for name in (*builtin_scenarios(), *HARD_TIMES)])


@pytest.mark.slow
def test_hard_times_are_hard() -> None:
    reasons = {outcome for name in HARD_TIMES for outcome in play(name).breakdown().shares["outcome"]}
    assert reasons == {"arrived", "deadline", "battery empty"}
    nobody = play("nobody fits").rounds.filter(pl.col("arrived") == 0)
    assert nobody.height > 10
    assert nobody["round_s"].to_list() == pytest.approx([0.07] * nobody.height, abs=CLOSE)
    paper = play("paper")
    assert (paper.events["name"] == "allocate").sum() > paper.last_round        # its first round comes in waves


@pytest.mark.slow
@scenarios
def test_the_parts_sum_to_the_round(name: str) -> None:
    run = play(name)
    parts = [f"{part}_s" for part in run.parts]
    whole = [run.breakdown().shares] if run.in_rounds else []       # else jobs reach from one round into the next
    for table in (run.breakdown().rounds, run.rounds, *whole):
        difference = table.select((pl.sum_horizontal(parts) - pl.col("round_s")).abs().max()).item()
        assert difference < CLOSE
    totals = run.breakdown().totals
    assert sum(totals[part] for part in parts) == pytest.approx(totals["makespan_s"], abs=CLOSE)


@scenarios
def test_the_critical_path_is_as_long_as_the_run(name: str) -> None:
    run = play(name)
    path = run.critical_path()
    assert path.length_s == run.summary["simulated_s"] == run.breakdown().totals["makespan_s"]
    assert path.steps["t0"].to_list()[1:] == path.steps["t1"].to_list()[:-1]
    assert path.slack["least_s"].min() == 0.0


@scenarios
def test_the_energy_of_the_trace_is_what_the_batteries_lost(name: str) -> None:
    run = play(name)
    devices = run.breakdown().devices
    lost = devices["battery_j"] - devices["left_j"]
    if "harvest" not in run.events["name"]:         # what comes in, and is drawn at rest: test_energy_in_time
        assert max((lost - devices["energy_j"]).abs().drop_nulls(), default=0.0) < CLOSE
    totals = run.breakdown().totals
    assert totals["energy_j"] == pytest.approx(run.summary["energy_j"], abs=CLOSE)
    work_j = totals["compute_j"] + totals["upload_j"] + totals.get("download_j", 0.0)
    assert work_j == pytest.approx(totals["energy_j"], abs=CLOSE)


@scenarios
def test_the_band_is_never_oversold(name: str) -> None:
    run = play(name)
    used = run.breakdown().rounds["band_used"]
    assert min(used) >= 0.0
    assert max(used) <= 1.0 + CLOSE
