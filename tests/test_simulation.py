"""What a run does at its edges: its end, devices that can't go on, and methods that would meddle."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest

from netsim import load_scenario, simulate
from netsim.allocation import Plan, Problem, plan_for
from netsim.base.errors import InputError
from netsim.run import Run
from netsim.selection import Choice, Method, View

LEFT_OVER = """
base = "tiny"
[rounds]
first = "cohort"
[[population]]
name = "node"
battery = "30 mJ"
[[population]]
name = "hopeless"
count = 2
cpu = { min = "1 GHz", max = "2 GHz", cycles_per_sample = 1e6 }
radio = { power = "10 mW" }
budget = "1 nJ"
[end]
rounds = 500
"""


def test_a_run_ends_where_those_who_fitted_have_empty_batteries(tmp_path):
    (tmp_path / "left.toml").write_text(LEFT_OVER)
    run = simulate(load_scenario(tmp_path / "left.toml"), tmp_path / "run")
    arrived = run.rounds["arrived"].to_list()
    assert 0 < len(arrived) < 500
    assert max(arrived) > 0
    assert run.info["status"] == "finished"
    assert simulate(load_scenario(tmp_path / "left.toml"), tmp_path / "run", resume=True).summary == run.summary


def test_a_run_in_which_nobody_ever_fits_is_a_mistake(tmp_path):
    (tmp_path / "left.toml").write_text(LEFT_OVER.replace('battery = "30 mJ"', 'budget = "1 nJ"'))
    with pytest.raises(InputError, match="no feasible device"):
        simulate(load_scenario(tmp_path / "left.toml"), tmp_path / "run")


SMALL = ["population.phone.count=6", "population.phone.samples=20", "selection.cohort=2", "selection.method=fedavg",
         "learning.evaluation.every=100"]


@pytest.mark.slow
def test_the_last_round_is_tested_whatever_makes_it_the_last():
    by_rounds = simulate(load_scenario("quickstart", [*SMALL, "end.rounds=3"]), workers=1)
    long = by_rounds.summary["simulated_s"]
    by_time = simulate(load_scenario("quickstart", [*SMALL, "end.rounds=50", f"end.time={0.99 * long} s"]), workers=1)
    assert by_time.summary["rounds"] == 3
    assert by_time.rounds["accuracy"].to_list()[-1] == by_rounds.rounds["accuracy"].to_list()[-1] is not None
    batteries = [*SMALL, "end.rounds=50", "population.phone.battery=100 mJ"]
    emptied = simulate(load_scenario("quickstart", batteries), workers=1)
    assert emptied.summary["rounds"] < 50
    assert emptied.summary["accuracy"] is not None


def installed(monkeypatch: pytest.MonkeyPatch, **names: object) -> None:
    module = ModuleType("mylab")
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "mylab", module)


@dataclass(frozen=True)
class Meddler(Method):
    """Writes to what it is shown."""

    needs: ClassVar[frozenset[str]] = frozenset({"weights"})

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        assert view.global_weights is not None
        view.global_weights[:] = 0
        return Choice(np.arange(view.cohort_size))


@dataclass(frozen=True)
class Writer(Method):
    """Remembers words."""

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        self.state["mood"] = np.array(["good", "bad"])
        return Choice(np.arange(view.cohort_size))


def test_a_selection_method_can_look_at_the_model_and_not_change_it(monkeypatch):
    installed(monkeypatch, Meddler=Meddler)
    scenario = load_scenario("quickstart", [*SMALL, "end.rounds=2", "selection.method=mylab:Meddler"])
    with pytest.raises(ValueError, match="read-only"):
        simulate(scenario, workers=1, allow_import=True)


def test_what_a_selection_method_remembers_is_numbers(monkeypatch):
    installed(monkeypatch, Writer=Writer)
    scenario = load_scenario("quickstart", [*SMALL, "end.rounds=2", "selection.method=mylab:Writer"])
    with pytest.raises(InputError) as error:
        simulate(scenario, workers=1, allow_import=True)
    assert (error.value.code, "mood" in str(error.value)) == ("wrong-interface", True)


def equal(problem: Problem, band: float = 1.0) -> Plan:
    share = np.full(len(problem), band * problem.bandwidth_hz / len(problem))
    return plan_for(problem, share, problem.cpu_min_hz)


@pytest.mark.parametrize(("answer", "found"), [
    (lambda problem: None, "NoneType"),
    (lambda problem: equal(problem, 1.01), "Hz in all"),
    (lambda problem: equal(problem.subset([0])), "bandwidth_hz"),
    (lambda problem: plan_for(problem, np.full(len(problem), np.nan), problem.cpu_min_hz), "bandwidth_hz of node"),
    (lambda problem: plan_for(problem, equal(problem).bandwidth_hz, -problem.cpu_min_hz), "cpu_hz of node"),
])
def test_an_allocation_that_is_no_plan_is_refused(monkeypatch, answer, found):
    installed(monkeypatch, solve=answer)
    with pytest.raises(InputError) as error:
        simulate(load_scenario("tiny", ["allocation.method=mylab:solve"]), allow_import=True)
    assert (error.value.code, error.value.key) == ("wrong-answer", "allocation method mylab:solve")
    assert found in str(error.value.found)


def test_a_plan_for_just_the_band_is_not_refused(monkeypatch):
    installed(monkeypatch, solve=equal)
    assert simulate(load_scenario("tiny", ["allocation.method=mylab:solve"]), allow_import=True).summary["rounds"] == 3


FIVE = """
[cell]
radius = "60 m"
bandwidth = "2 MHz"

[[population]]
name = "phone"
count = 5
cpu = { min = "0.1 GHz", max = "1.8 GHz", cycles_per_sample = 1e5 }
radio = { power = "17 dBm" }
budget = "6 mJ"
battery = "5.9999 mJ"
samples = 400

[learning]
bits = "200 kbit"

[selection]
method = "fedavg"
cohort = 5

[end]
rounds = 3
"""


def five(tmp_path: Path, *overrides: str) -> Run:
    """Five phones whose batteries hold a little less than their budgets allow, in a channel that stays."""
    (tmp_path / "five.toml").write_text(FIVE)
    return simulate(load_scenario(tmp_path / "five.toml", overrides), learning=False)


def test_a_plan_spends_what_is_in_the_battery_and_not_a_hair_more(tmp_path: Path) -> None:
    run = five(tmp_path)
    assert run.jobs["outcome"].to_list() == ["arrived"] * 5
    assert run.jobs["energy_j"].to_list() == pytest.approx([5.9999e-3] * 5, rel=1e-8)
    assert run.jobs["energy_j"].max() < 5.9999e-3
    assert run.summary["rounds"] == 1              # what is left is not enough for another job


def test_where_no_battery_is_enough_for_a_job_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no feasible device: no battery holds the minimum energy of a job "
                                         r"\(device \d: 39 µJ against 40 µJ\)"):
        five(tmp_path, "population.phone.battery=39uJ", "cell.fading=rayleigh")      # that of computing alone


def test_a_deadline_that_a_cohort_misses_leaves_out_as_few_as_it_can(tmp_path: Path) -> None:
    whole, hurried = five(tmp_path), five(tmp_path, "rounds.deadline=60ms", "rounds.first=cohort")
    assert whole.rounds["round_s"][0] == pytest.approx(0.06363, rel=1e-3)
    assert hurried.rounds["arrived"].to_list()[0] == 4
    assert hurried.rounds["round_s"][0] <= 0.06
    left_out = hurried.jobs.filter(hurried.jobs["outcome"] == "infeasible")
    assert left_out["energy_j"].to_list()[0] == 0.0


def test_a_round_in_which_nobody_fits_takes_time(tmp_path: Path) -> None:
    """Fading from round to round: the cohort of one is too far to be in time in some of them."""
    more = ["cell.fading=rayleigh", "rounds.first=cohort", "selection.cohort=1", "rounds.deadline=40ms",
            "end.rounds=12", "population.phone.battery=1J"]
    for wait, seconds in (([], 1.0), (["rounds.wait=50ms"], 0.05)):
        rounds = five(tmp_path, *more, *wait).rounds
        nobody = rounds.filter(rounds["arrived"] == 0)
        assert 0 < nobody.height < 12
        assert nobody["round_s"].to_list() == pytest.approx([seconds] * nobody.height)
        assert nobody["wait_s"].to_list() == nobody["round_s"].to_list()


@pytest.mark.slow
def test_the_factor_of_raised_budgets_is_in_the_trace(tmp_path: Path) -> None:
    run = five(tmp_path, "rounds.first_infeasible=relax", "rounds.infeasible=relax", "population.phone.budget=1mJ",
               "population.phone.battery=1J")
    raised = run.events.filter(run.events["name"] == "relax")
    assert raised["round"].to_list() == [1, 2, 3]
    assert raised["value"][0] > 1.0
    assert run.jobs["budget_j"].to_list() == pytest.approx([1e-3 * raised["value"][0]] * 15, rel=1e-9)
    assert run.explain(2).relaxed == raised["value"][1]
