"""Rounds of a cell that lives, explained: every saving against the run, stopped before the round and resumed otherwise.

The runs here are real ones: ``simulate`` up to the round, its folder, and ``simulate(resume=True)`` in a cell in which
one thing is different.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from levels import extended

from netsim import load_scenario, simulate
from netsim.allocation import Problem
from netsim.allocation.planner import planner_of
from netsim.analysis.counterfactuals import CHOOSE_POWER, WhatIfAnalysis
from netsim.analysis.explain import Explanation, WhatIf, what_ifs
from netsim.analysis.replay import RoundReplays
from netsim.base.errors import InputError
from netsim.cell.schedulers import SCHEDULERS
from netsim.devices.workload import RoundProblems
from netsim.run import Run
from netsim.scenario import Scenario
from netsim.selection import Choice
from netsim.server import radio_cell
from netsim.server.selection_runner import SelectionRunner
from netsim.trace.schema import ARRIVED

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from campaign.worlds import SHARING, WAITS, draw_world

pytestmark = pytest.mark.slow

PARTS, ROUNDS = 2, 25          # rounds in each part
MOST_ROWS = 1                  # of each key and round
CHEAP = ("sao", "equal", "tdma", "sao-joint", "fedl")


class RoundOverError(Exception):
    """A round has ended, at this instant."""


def stop(at: Any) -> None:
    raise RoundOverError(at.time_s)


class Played:
    """A run in a folder, with what the folder held after each round."""

    def __init__(self, scenario: Scenario, seed: int, folder: Path) -> None:
        self.scenario, self.seed, self.folder = scenario, seed, folder
        self.run = simulate(scenario, folder / "run", seed, learning=False, progress=self.keep)

    def keep(self, at: Any) -> None:
        shutil.copytree(self.folder / "run", self.folder / f"after-{at.round}")

    def again(self, number: int) -> float:
        """How long this round takes if the run is resumed before it."""
        out, rounds = self.folder / "again", self.run.rounds
        shutil.rmtree(out, ignore_errors=True)
        if number > 1:
            shutil.copytree(self.folder / f"after-{number - 1}", out)
        with pytest.raises(RoundOverError) as over:
            simulate(self.scenario, out, self.seed, learning=False, resume=True, progress=stop)
        return float(over.value.args[0] - rounds["t0"][number - 1])


def living_world(number: int, folder: Path) -> Played | None:
    """The random world of this number, if its rounds do not go as planned and some device takes part in them."""
    file = folder / f"world-{number}.toml"
    file.write_text(draw_world(Random(f"explained {number}"), servers=WAITS))
    scenario = load_scenario(str(file), [f"allocation.sharing={SHARING[number % 4]}"])
    if scenario.living is None or scenario.allocation.method not in CHEAP:
        return None
    try:
        (folder / str(number)).mkdir()
        found = Played(scenario, number, folder / str(number))
    except InputError:
        return None
    return found if found.run.jobs.filter(pl.col("cpu_hz").is_not_nan()).height else None


def changed(problem: Problem, row: dict[str, Any], method: str) -> Problem:
    """The problem of all devices with what a row says."""
    if row["key"] == "bandwidth":
        return replace(problem, bandwidth_hz=problem.bandwidth_hz * row["factor"])
    name = {"cpu_max": "cpu_max_hz", "budget": "budget_j", "power": "power_w"}.get(row["key"])
    if name is None:
        return problem
    if row["key"] == "power" and method in CHOOSE_POWER:
        name = "power_max_w"
    more = getattr(problem, name).copy()
    more[row["device"]] *= row["factor"]
    top = np.maximum(problem.power_max_w, more) if name == "power_w" else problem.power_max_w
    return replace(problem, **{"power_max_w": top, name: more})


def changed_cell(patch: pytest.MonkeyPatch, scenario: Scenario, row: dict[str, Any]) -> None:
    """Let cells that are opened from now on be as a row says."""
    method, (what, _, other) = scenario.allocation.method, row["change"].rpartition(" ")

    class Problems(RoundProblems):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.whole = changed(self.whole, row, method)
            self.bandwidth_hz = self.whole.bandwidth_hz

    patch.setattr(radio_cell, "RoundProblems", Problems)
    if what == "allocation method":
        patch.setattr(radio_cell, "planner_of", lambda method, options, within: planner_of(other, {}, within))
    if what == "scheduler":
        patch.setattr(radio_cell, "SCHEDULERS", SimpleNamespace(make=lambda name, _: SCHEDULERS.make(other, {})))
    if row["key"] == "without":
        for name in ("choose", "everybody"):
            patch.setattr(SelectionRunner, name, without(getattr(SelectionRunner, name), row["device"]))


def without(chosen: Any, device: int) -> Any:
    """A way to choose a cohort that leaves a device out."""
    def choose(selector: SelectionRunner, view: Any, *rest: Any) -> Choice:
        cohort = chosen(selector, view, *rest).devices
        return Choice(cohort[cohort != device])

    return choose


def few(rows: list[dict[str, Any]], dice: Random) -> list[dict[str, Any]]:
    """Some of each key."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    for row in dice.sample(rows, len(rows)):
        by_key.setdefault(row["key"], []).append(row)
    return [row for some in by_key.values() for row in some[:MOST_ROWS]]


@pytest.mark.parametrize("part", extended(range(PARTS)))
def test_every_saving_is_that_of_the_run_resumed_with_the_change(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """50 random rounds in all: coherence times, places, gain traces, absences, crashes, losses, all schedulers."""
    monkeypatch.setattr("netsim.session.rows_a_part", lambda trains: 1)
    seen: Counter[str] = Counter()
    rounds, number = 0, 1000 * part
    while rounds < ROUNDS:
        number += 1
        world = living_world(number, tmp_path)
        if world is None:
            continue
        dice, run = Random(number), world.run
        one = dice.choice(run.jobs.filter(pl.col("cpu_hz").is_not_nan())["round"].unique().sort().to_list())
        took_s = run.rounds["round_s"][one - 1]
        assert world.again(one) == took_s
        told = what_ifs(WhatIfAnalysis.of(RoundReplays(run), one))
        for row in few([each.as_json() for each in told], dice):
            with monkeypatch.context() as patch:
                changed_cell(patch, world.scenario, row)
                found = world.again(one)
            assert row["round_s"] == pytest.approx(found, abs=1e-6), (number, one, row)
            assert row["saves_s"] == pytest.approx(took_s - found, abs=1e-6), (number, one, row)
            seen[row["key"]] += 1
        seen.update((f"sharing {world.scenario.cell.scheduler}", world.scenario.living))
        rounds += 1
        shutil.rmtree(world.folder)
    assert {"without", "cpu_max", "budget", "power", "bandwidth", "method"} <= set(seen)
    assert {"sharing planned", "sharing equal", "sharing adaptive", "sharing tdma"} <= set(seen), seen


def test_a_round_played_again_is_the_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same length to the last bit, and the same devices arrive with the same energy."""
    monkeypatch.setattr("netsim.session.rows_a_part", lambda trains: 1)
    outcomes: Counter[str] = Counter()
    for number in range(60):
        world = living_world(number, tmp_path)
        if world is None:
            continue
        replays = RoundReplays(world.run)
        for one, jobs in replays.jobs.items():
            was = WhatIfAnalysis.of(replays, one).was
            assert was.round_s == replays.lengths[one]
            assert was.arrived == set(jobs.filter(jobs["outcome"] == ARRIVED)["device"].to_list())
            assert was.spent_j == dict(jobs.select("device", "energy_j").iter_rows())
            outcomes.update(jobs["outcome"].to_list())
    assert {"arrived", "lost", "crashed", "went off", "deadline", "too late"} <= set(outcomes), outcomes


# Asynchronous servers: a change holds from the start of the run.

@pytest.fixture(scope="module")
def buffered() -> Run:
    return simulate(load_scenario("fedbuff", ["end.rounds=12"]), learning=False)


@pytest.mark.parametrize(("key", "change"), [
    ("bandwidth", {"cell.bandwidth": "40 MHz"}), ("concurrency", {"server.concurrency": 12}),
    ("scheduler tdma", {"allocation.sharing": "tdma"}),
    ("allocation method tdma", {"allocation.method": "tdma", "allocation.sharing": "equal"})])
def test_a_change_of_an_asynchronous_run_is_the_run_with_it(buffered: Run, key: str, change: dict[str, Any]) -> None:
    found = buffered.explain()
    assert (found.round, found.round_s) == (None, buffered.rounds["t1"][-1])
    rows = [each for each in found.what_if if key in (each.key, each.change) and each.factor in (2.0, None)]
    rerun = simulate(buffered.scenario.with_(change), learning=False)
    over = rerun.jobs.filter(pl.col("energy_j") > pl.col("budget_j") * (1 + 1e-9)).height
    assert len(rows) == (0 if over and key not in ("bandwidth", "concurrency") else 1)
    for row in rows:
        assert row.round_s == pytest.approx(rerun.rounds["t1"][-1], rel=1e-9)
        assert row.saves_s == pytest.approx(found.round_s - row.round_s)


def test_a_devices_limit_in_an_asynchronous_run(buffered: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The energy budget of one device, doubled where the problem of all devices is made."""
    row = next(each.as_json() for each in buffered.explain().what_if if each.key == "budget")
    changed_cell(monkeypatch, buffered.scenario, row)
    rerun = simulate(buffered.scenario, learning=False)
    assert row["round_s"] == pytest.approx(rerun.rounds["t1"][-1], rel=1e-9)


@pytest.mark.parametrize("kind", ["fedbuff", "fedasync", "window", "port"])
def test_an_aggregation_of_an_asynchronous_server_is_explained(kind: str) -> None:
    options = {"window": ["server.period=200ms"]}.get(kind, [])
    scenario = load_scenario("street", [f"server.kind={kind}", "end.rounds=2", "population.phone.count=12", *options])
    told = simulate(scenario, learning=False).explain(2, methods=False).as_json()
    assert told["aggregations"] == 2
    assert {"bandwidth", "cpu_max"} <= {each["key"] for each in told["what_if"]}
    said = " ".join(told["held_up"])
    assert "Aggregation 2 came after" in said
    assert ("server.period" if kind == "window" else "The last update came from phone") in said


# Values that are proposed are realistic, and equal changes are one line.

def test_a_proposed_value_is_realistic() -> None:
    run = simulate(load_scenario("lab", ["population.phone.cpu.max=4GHz", "population.phone.radio.power=25dBm",
                                         "population.phone.budget=2J", "population.phone.cpu.cycles_per_sample=1e6"]))
    found = run.explain(2, methods=False)
    limits = {"cpu_max": (4e9, 5e9), "power": (10 ** 2.5 / 1e3, 0.4)}
    seen = {(each.key, each.factor) for each in found.what_if if each.key in limits}
    assert {key for key, _ in seen} == set(limits)
    assert all(factor == pytest.approx(limits[key][1] / limits[key][0]) for key, factor in seen)


def test_equal_changes_of_several_devices_are_one_line() -> None:
    alike = [WhatIf(f"leaving out phone {n}", n, "without", None, 1.0, 0.5) for n in range(3)]
    other = [WhatIf("leaving out phone 3", 3, "without", None, 0.9, 0.6), WhatIf("scheduler tdma", None, "method",
                                                                             None, 1.0, 0.5)]
    found = Explanation(1, 1.5, (), (*other[:1], *alike, *other[1:]))
    assert found.grouped == [(other[0],), tuple(alike), (other[1],)]
