"""Methods side by side: the contract's JSON, and the picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import sleep
from types import ModuleType

import numpy as np
import pytest
from allocation_worlds import paper_world, with_budgets
from refused import refused

from netsim.allocation import Plan, Problem, allocate, sao
from netsim.allocation.compare import compare, figure

KEYS = ["method", "feasible", "reason", "round_s", "energy_j", "solve_s", "devices"]
COLUMNS = ["device", "bandwidth_hz", "cpu_hz", "power_w", "compute_s", "upload_s", "energy_j", "budget_j"]


def test_the_contract() -> None:
    problem = with_budgets(paper_world(np.random.default_rng(1), 4), 1.01)
    numbers = np.array([3, 14, 15, 92])
    good, bad = compare(problem, [("sao", {}), ("rra", {"deadline": 0.01})], numbers)
    shown = json.loads(json.dumps([good.as_json(), bad.as_json()], allow_nan=False))
    plan = allocate(problem)
    assert [list(each) for each in shown] == [KEYS, KEYS]
    assert (shown[0]["method"], shown[0]["feasible"], shown[0]["reason"]) == ("sao", True, None)
    assert (shown[0]["round_s"], shown[0]["energy_j"]) == (plan.round_s, plan.energy_j)
    assert [list(row) for row in shown[0]["devices"]] == [COLUMNS] * 4
    assert [row["device"] for row in shown[0]["devices"]] == numbers.tolist()
    assert [row["cpu_hz"] for row in shown[0]["devices"]] == plan.cpu_hz.tolist()
    assert shown[1]["method"] == "rra:deadline=0.01"
    assert (shown[1]["feasible"], shown[1]["round_s"], shown[1]["devices"]) == (False, None, [])
    assert "left out by rra" in shown[1]["reason"]


def test_prices_where_there_is_a_plan_and_obstacles_where_there_is_none() -> None:
    problem = paper_world(np.random.default_rng(2), 4)
    plenty, = compare(with_budgets(problem, 2.0), [("sao", {})], np.arange(4))
    assert plenty.prices is not None
    assert plenty.obstacles is None
    little, = compare(with_budgets(problem, 0.5), [("sao", {})], np.arange(4))
    assert little.prices is None
    assert little.obstacles is not None
    assert little.obstacles.budget_scaling == pytest.approx(2.0)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture(tmp_path: Path, suffix: str) -> None:
    problem = with_budgets(paper_world(np.random.default_rng(3), 5), 1.2)
    results = compare(problem, [("sao", {}), ("algorithm5", {}), ("rra", {"deadline": 0.01})], np.arange(5))
    figure(results, tmp_path / f"plan.{suffix}")
    assert (tmp_path / f"plan.{suffix}").stat().st_size > 5_000


def test_a_picture_without_any_plan(tmp_path: Path) -> None:
    results = compare(with_budgets(paper_world(np.random.default_rng(4), 5), 0.5), [("sao", {})], np.arange(5))
    figure(results, tmp_path / "plan.png")
    with refused("unknown-name", "plan.xyz"):
        figure(results, tmp_path / "plan.xyz")


def test_loading_a_library_is_not_solving(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_at_first(problem: Problem) -> Plan:
        if "netsim_test_library" not in sys.modules:
            monkeypatch.setitem(sys.modules, "netsim_test_library", ModuleType("netsim_test_library"))
            sleep(0.3)
        return sao.solve(problem)

    monkeypatch.setattr("netsim.allocation.compare.METHODS.make", lambda *_: slow_at_first)
    result, = compare(with_budgets(paper_world(np.random.default_rng(1), 4), 2.0), [("mine", {})], np.arange(4))
    assert result.solve_s < 0.2
