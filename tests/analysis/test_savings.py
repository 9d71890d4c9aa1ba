"""Every saving that an explanation tells, against the round with that change, planned and simulated here."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy
from explained_cells import random_rounds
from levels import extended

from netsim.allocation import METHODS, Infeasible, Plan, Problem
from netsim.allocation.planner import RoundPlan, planner_of
from netsim.allocation.problem import CELL, DEVICE
from netsim.analysis.counterfactuals import CHOOSE_POWER, WhatIfAnalysis
from netsim.analysis.explain import what_ifs
from netsim.analysis.replay import RoundReplays
from netsim.cell.battery import Batteries
from netsim.cell.cell import SimulatedCell
from netsim.cell.job import jobs_of
from netsim.cell.schedulers import SCHEDULERS
from netsim.cell.uplink import Uplink
from netsim.run import Run

pytestmark = pytest.mark.slow

PARTS = 4          # of 25 rounds each
ALL = {"without", "cpu_max", "budget", "power", "bandwidth", "method", "allocation method", "scheduler"}


@pytest.fixture
def plans_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same problem, to the last bit, is solved once: most of the time would go into plans made twice."""
    make, known = METHODS.make, dict[Any, Plan | Infeasible]()

    def remembered(name: str, options: Any) -> Any:
        solve = make(name, options)

        def once(problem: Problem) -> Plan:
            told = hashlib.sha256(f"{name} {sorted(options.items())}".encode())
            for field in (*DEVICE, *CELL):
                told.update(np.asarray(getattr(problem, field), np.float64).tobytes())
            key = told.digest()
            if key not in known:
                try:
                    known[key] = solve(problem)
                except Infeasible as reason:
                    known[key] = reason
            found = known[key]
            if isinstance(found, Infeasible):
                raise found
            return found

        return once

    monkeypatch.setattr(METHODS, "make", remembered)


def changed(problem: Problem, row: dict[str, object], method: str) -> Problem:
    """The problem with what a row says, put together here once more."""
    at, factor = problem.numbers == row["device"], row["factor"]
    high = problem.power_range_w[1]
    match row["key"]:
        case "without":
            return problem.subset(~at)
        case "bandwidth":
            return replace(problem, bandwidth_hz=problem.bandwidth_hz * factor)
        case "cpu_max":
            return replace(problem, cpu_max_hz=np.where(at, problem.cpu_max_hz * factor, problem.cpu_max_hz))
        case "budget":
            return replace(problem, budget_j=np.where(at, problem.budget_j * factor, problem.budget_j))
        case "power" if method in CHOOSE_POWER:
            return replace(problem, power_max_w=np.where(at, high * factor, high))
        case "power":
            return replace(problem, power_w=np.where(at, problem.power_w * factor, problem.power_w))
    return problem


def simulated(agenda: RoundPlan, replay: WhatIfAnalysis, wait_s: float, bandwidth_hz: float, sharing: str) -> float:
    """The round of an agenda, event by event, with the batteries as they were and the deadline."""
    if not agenda.waves:
        return wait_s
    env = simpy.Environment()
    charge_j = np.full(int(replay.problem.numbers.max()) + 1, np.inf)
    charge_j[replay.problem.numbers] = replay.charge_j
    cell = SimulatedCell(env, Uplink(env, bandwidth_hz, SCHEDULERS.make(sharing, {})), Batteries(env, charge_j))
    first = 0
    for wave in agenda.waves:
        cell.submit(jobs_of(wave, wave.problem.gain, now=env.now, first=first))
        first += len(wave.devices)
        env.run(cell.wait(cell.running, env.now + replay.deadline_s * (1 + 1e-12)))
        cell.collect()
        env.run(cell.cancel(cell.running, "deadline"))
        cell.collect()
    return float(env.now)


def check_every_row(run: Run, number: int, seen: Counter[str]) -> None:
    """All of an explanation's rows against a round that is planned and simulated here."""
    replay, scenario = WhatIfAnalysis.of(RoundReplays(run), number), run.scenario
    took_s = float(run.rounds["round_s"][number - 1])
    method, options = scenario.allocation.method, scenario.allocation.options
    for each in what_ifs(replay):
        row = each.as_json()
        what, _, other = row["change"].rpartition(" ") if row["key"] == "method" else ("", "", "")
        other_method = other if what == "allocation method" else None
        sharing = other if what == "scheduler" else scenario.cell.scheduler or "planned"
        problem = changed(replay.problem, row, method)
        numbers = problem.numbers
        planner = planner_of(other_method or method, {} if other_method else options, scenario.rounds.deadline)(
            lambda some, problem=problem, numbers=numbers: problem.subset(np.searchsorted(numbers, some)),
            lambda some: replay.charge_j[np.searchsorted(replay.problem.numbers, some)])
        rounds = scenario.rounds
        rule = rounds.first_round_policy if number == 1 and rounds.first == "all" else rounds.infeasible_policy
        agenda = planner.agenda(numbers, rule, scenario.selection.cohort)
        found = simulated(agenda, replay, rounds.wait_s, problem.bandwidth_hz, sharing)
        assert row["round_s"] == pytest.approx(found, abs=1e-6), (method, row)
        assert row["saves_s"] == pytest.approx(took_s - found, abs=1e-6), (method, row)
        seen[row["key"]] += 1
        seen[what or row["key"]] += 1


@pytest.mark.usefixtures("plans_once")
@pytest.mark.parametrize("part", extended(range(PARTS)))
def test_every_saving_is_that_of_the_round_simulated(part: int, tmp_path: Path) -> None:
    """100 random rounds in all: batteries that run out, deadlines, waves, fading channels."""
    seen: Counter[str] = Counter()
    for run, number in random_rounds(100 // PARTS, tmp_path, first=12 * part):
        check_every_row(run, number, seen)
    assert set(seen) == ALL
    assert min(seen.values()) >= 100 // PARTS, seen
