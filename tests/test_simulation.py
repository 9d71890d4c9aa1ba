"""What a run does at its edges: its end, devices that can't go on, and methods that would meddle."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest

from netsim import load_scenario, simulate
from netsim.allocation import Plan, Problem, plan_for
from netsim.base.errors import InputError
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
    with pytest.raises(InputError, match="no device can ever take part"):
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
    with pytest.raises(InputError, match=r'state\["mood"\] must be an array of numbers'):
        simulate(scenario, workers=1, allow_import=True)


def equal(problem: Problem, band: float = 1.0) -> Plan:
    share = np.full(len(problem), band * problem.bandwidth_hz / len(problem))
    return plan_for(problem, share, problem.cpu_min_hz)


@pytest.mark.parametrize(("answer", "said"), [
    (lambda problem: None, "answered with NoneType"),
    (lambda problem: equal(problem, 1.01), "of a band of"),
    (lambda problem: equal(problem.subset([0])), r"bandwidth_hz has shape \(1,\)"),
    (lambda problem: plan_for(problem, np.full(len(problem), np.nan), problem.cpu_min_hz), "bandwidth_hz of device"),
    (lambda problem: plan_for(problem, equal(problem).bandwidth_hz, -problem.cpu_min_hz), "cpu_hz of device"),
])
def test_an_allocation_that_is_no_plan_is_refused(monkeypatch, answer, said):
    installed(monkeypatch, solve=answer)
    with pytest.raises(InputError, match=said):
        simulate(load_scenario("tiny", ["allocation.method=mylab:solve"]), allow_import=True)


def test_a_plan_for_just_the_band_is_not_refused(monkeypatch):
    installed(monkeypatch, solve=equal)
    assert simulate(load_scenario("tiny", ["allocation.method=mylab:solve"]), allow_import=True).summary["rounds"] == 3
