"""The cell against an exact reference that shares no code with it; benchmarks/reference.py plays more worlds."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import polars as pl
import pytest
from reference_cell.band import Link, bandwidth, common_end, shannon
from reference_cell.cell import Job
from reference_cell.compare import DECIDED, SAME, TIMES, compare, rounding
from reference_cell.server import Server

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.cell.band_sharing import SharedBand
from netsim.cell.device import Device
from netsim.scenario import Scenario

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from campaign.grammar import living

LOSS = "population.phone.loss={probability=0.3,tries=4}"


def differences(number: int) -> tuple[int, list[str]]:
    """Jobs of a world, and how netsim's run differs from the reference."""
    scenario = Scenario.of(living(Random(f"test {number}")))
    jobs, _, found = compare(simulate(scenario, None, number, learning=False), Server(scenario, number).run())
    return jobs, found


@pytest.mark.parametrize("group", range(5))
def test_every_job_has_the_times_energies_and_outcome_of_the_reference(group):
    for number in range(5 * group, 5 * group + 5):
        try:
            jobs, found = differences(number)
        except InputError:
            continue
        assert not found, f"world {number}, {jobs} jobs: {found[:2]}"


@pytest.mark.parametrize(("owner", "name"), [(SharedBand, "channel_changed"), (Device, "come_back")])
def test_the_reference_sees_a_broken_cell(owner, name, monkeypatch):
    """A change of the channel that is missed; a device that does not continue when it is back."""
    monkeypatch.setattr(owner, name, lambda *_: None)
    assert any(is_seen(number) for number in range(12))


def is_seen(number: int) -> bool:
    """Whether a world shows that the cell is broken."""
    try:
        return bool(differences(number)[1])
    except InputError:
        return False
    except RuntimeError:              # jobs that never end
        return True


# Ties at which an earlier cell gave remainders of finished uploads a new common end.

@pytest.mark.parametrize(("changes", "seed", "rounds"), [
    (["allocation.method=tdma", "allocation.sharing=adaptive"], 3, 6),
    (["allocation.sharing=adaptive", LOSS], 11, 6), ([LOSS], 11, 6),
    (["allocation.method=sao-adaptive", "allocation.sharing=adaptive", "selection.cohort=4"], 11, 3),
], ids=["tdma", "sao with loss, adaptive", "sao with loss", "sao-adaptive"])
def test_uploads_of_the_papers_cell_that_end_together_are_those_of_the_reference(changes, seed, rounds):
    scenario = load_scenario("paper", ["rounds.first=cohort", "selection.method=fedavg", f"end.rounds={rounds}",
                                       *changes])
    run = simulate(scenario, None, seed, learning=False)
    jobs, worst, found = compare(run, Server(scenario, seed).run())
    assert (jobs, found) == (rounds * scenario.selection.cohort, [])
    assert worst < 1e-11


def test_a_device_of_a_tdma_plan_sends_as_fast_as_alone():
    """Round 4, device 39 has the band to itself: 2.285 ms; with remainders of others on the air it took 42.08 ms."""
    run = simulate(load_scenario("paper", ["rounds.first=cohort", "selection.method=fedavg", "end.rounds=4",
                                           "allocation.method=tdma", "allocation.sharing=adaptive"]), None, 3,
                   learning=False)
    job = run.jobs.filter((run.jobs["round"] == 4) & (run.jobs["device"] == 39)).row(0, named=True)
    assert job["upload_s"] == pytest.approx(2.284675e-3, rel=1e-6)


def test_the_common_end_of_two_uploads_by_hand():
    """1 MHz, J = 1 MHz: bands of 1/3 and 2/3 MHz carry 1 and 1.321928 Mbit in 1.5 s (living-cell example 1)."""
    jobs = [Job(0, 0, 0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, float("inf"), 1.0, 0.0, 0.0, 1e6, left=left)
            for left in (1e6, 1.321928094887362e6)]
    assert common_end(jobs, 1e6, Link(1.0, math.inf)) == pytest.approx([1e6 / 3, 2e6 / 3], rel=1e-12)
    assert bandwidth(shannon(1.7e5, 3.3e7), 3.3e7) == pytest.approx(1.7e5, rel=1e-13)


# A device that charges from 6 h on: a unit in the last place of the clock is 3.6 ps there.

CHARGED = """
[cell]
radius = "100 m"
bandwidth = "1 MHz"
[[population]]
count = 1
cpu = { min = "10 MHz", max = "1 GHz", cycles_per_sample = 1000, capacitance = 2e-28 }
radio = { power = "10 dBm" }
samples = 100
budget = "1 mJ"
battery = "1 mJ"
charging = { power = "50 W", start = "06:00", end = "22:00" }
[learning]
bits = "1 Mbit"
[selection]
method = "fedavg"
cohort = 1
[allocation]
method = "equal"
[rounds]
wait = "1 ms"
over_budget = "go on"
[end]
rounds = 3
"""


def test_a_device_starts_at_the_instant_at_which_it_has_charged_enough_for_a_job(tmp_path):
    """The clock's rounding times 50 W is more than a billionth of a job: a wake-up without it falls short."""
    (tmp_path / "charged.toml").write_text(CHARGED)
    scenario = load_scenario(tmp_path / "charged.toml")
    reference = Server(scenario, 1).run()
    _, worst, found = compare(simulate(scenario, None, 1, learning=False), reference)
    least_j, left_j = float(reference.cell.least_j[0]), 1e-3 - reference.jobs[0].energy_j
    assert found == []
    assert worst < 1e-9
    assert [job.outcome for job in reference.jobs] == ["arrived"] * 3
    assert reference.jobs[1].t0 == pytest.approx(21_600 + (least_j - left_j) / 50.0, abs=1e-10)


@pytest.mark.parametrize("name", ["t1", "upload_s", "energy_j", "cpu_hz"])
def test_a_deviation_is_not_taken_for_rounding(name, tmp_path):
    (tmp_path / "charged.toml").write_text(CHARGED)
    scenario = load_scenario(tmp_path / "charged.toml")
    run = simulate(scenario, None, 1, learning=False)
    off = 1 + (1e-6 if name == "upload_s" else 3e-8)
    assert compare(SimpleNamespace(jobs=run.jobs.with_columns(pl.col(name) * off)), Server(scenario, 1).run())[2]


def test_jobs_are_compared_until_rounding_alone_has_grown_beyond_a_millionth():
    """Limits are twice what a unit in the last place of the clock changes in the reference, and 1e-8 at least."""
    own = [dict.fromkeys((*TIMES, *SAME, *DECIDED, "energy_j"), 1.0) for _ in range(5)]
    shaken = [{**row, "cpu_hz": 1.0 - growth} for row, growth in zip(own, (1e-9, 1e-7, 1e-8, 1.1e-6, 0.0), strict=True)]
    assert rounding(own, shaken) == pytest.approx([1e-8, 2e-7, 2e-7], rel=1e-6)
    assert len(rounding(own, [*own[:3], *shaken[3:]])) == 5        # in one job: no growth
    shaken[0]["outcome"] = 2.0                                           # decided by rounding: excuses nothing
    assert rounding(own, shaken) == [1e-8] * 5
