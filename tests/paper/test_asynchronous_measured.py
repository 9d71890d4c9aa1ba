"""Waiting or not, measured: one training stands for all synchronous rounds, and a report says what it rests on."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import simulate
from netsim.paper import trials
from netsim.paper.asynchronous import (
    GAUGES,
    METHODS,
    SERVERS,
    SPREADS,
    Course,
    ServerTrial,
    courses,
    pairs,
    planned,
    replays,
)
from netsim.paper.reproduce import Context, command, reproduce
from netsim.sweep.points import write_record

STORED = Path(__file__).parents[2] / "results" / "beyond"


def quick(tmp_path: Path, **options: Any) -> Context:
    return Context(tmp_path / "quick", quick=True, **options)


def test_stopping_early_leaves_all_servers_in_every_world():
    everything = planned(Context(Path("paper")))
    assert len(everything) == len(set(everything)) == 3 * 2 * 2 * (1 + 3 * 2)
    assert {training.number for training in everything[:28]} == {1}
    worlds = [everything[place:place + 7] for place in range(0, 84, 7)]
    for world in worlds:
        assert len({(training.dataset, training.split, training.number) for training in world}) == 1
        assert [training.server for training in world] == [*SERVERS, *list(SERVERS)[1:]]


def test_speeds_are_spread_ten_times_as_wide_and_nothing_else_is_changed(tmp_path):
    context = quick(tmp_path)
    narrow, wide = (ServerTrial("digits", "iid", spread, "fedbuff", 1).scenario(context) for spread in SPREADS)
    bounds = [scenario.population[0].cpu.cycles_per_sample.bounds() for scenario in (narrow, wide)]
    assert [high / low for low, high in bounds] == pytest.approx([3, 30])
    devices = [simulate(scenario, seed=1, learning=False).devices.drop("cycles_per_sample")
               for scenario in (narrow, wide)]
    assert devices[0].equals(devices[1])


def test_synchronous_rounds_learn_the_same_under_every_allocation_and_in_both_cells(tmp_path):
    context = quick(tmp_path)
    runs = []
    for spread in SPREADS:
        for allocation in ("sao", "tdma"):
            training = ServerTrial("digits", "0.8", spread, "synchronous", 1)
            changes = {"allocation.method": allocation, "end.rounds": 2, "learning.local_epochs": 1}
            runs.append(simulate(training.scenario(context, changes), seed=1, workers=1))
    assert len({run.summary["simulated_s"] for run in runs}) == 4
    for column in ("accuracy", "loss"):
        assert {tuple(run.rounds[column]) for run in runs} == {tuple(runs[0].rounds[column])}


def fake(context: Context, training: ServerTrial, models: int, reached: bool = True) -> None:
    """Stores a record as a finished training of so many models of ten updates would; its times are those of a run."""
    rounds = models * (10 if training.server == "fedasync" else 1)
    run = simulate(training.scenario(context, {"end.rounds": rounds}), seed=training.number, learning=False)
    each = rounds // models
    accuracy = [(round_ + 1) / rounds if (round_ + 1) % each == 0 else None for round_ in range(rounds)]
    cell = training.point(context)
    cell.record.parent.mkdir(parents=True, exist_ok=True)
    write_record(cell.record, {
        **cell.note, "rounds": rounds, "target_reached": reached, "seconds": 5.0, "processor": "a chip",
        "by_round": {"accuracy": accuracy, **{name: run.rounds[name].to_list()
                                              for name in ("round_s", "energy_j", "arrived")}}})


@pytest.mark.slow
def test_a_report_is_drawn_from_what_is_stored_and_says_how_much_that_is(tmp_path):
    context = quick(tmp_path, stored=True)
    assert reproduce(["asynchronous"], context) == []
    world = ServerTrial("digits", "0.8", "paper", "synchronous", 1)
    for number in (1, 2):
        fake(context, replace(world, number=number), 4)
    fake(context, replace(world, server="fedbuff"), 6)
    fake(context, replace(world, server="fedasync"), 5)
    fake(context, replace(world, server="first-k"), 10, reached=False)
    [report] = reproduce(["asynchronous"], context)
    assert report.seconds == 25.0
    text = (context.out / "asynchronous" / "README.md").read_text()
    assert "**5 of 42 planned trainings are done.**" in text
    lines = {tuple(cell.strip() for cell in line.split("|")[1:4]): line for line in text.splitlines()}
    assert ("digits 0.8", "fedbuff", "1 of 3") in lines
    assert ("digits 0.8", "synchronous tdma", "2 of 3") in lines
    assert ("digits 0.8", "first-k", "1 of 3, 1 missed the target") in lines
    assert {finding.verdict for finding in report.findings} == {"open", "not measured"}
    rows = list(csv.DictReader((context.out / "asynchronous" / "numbers.csv").open()))
    updates = {(row["method"], row["cpu_spread"], row["trial"]): row["updates"] for row in rows}
    assert updates == {
        **{(f"synchronous {name}", spread, trial): "40" for name in ("sao", "tdma") for spread in SPREADS
           for trial in ("1", "2")},
        ("fedbuff", "paper", "1"): "60", ("fedasync", "paper", "1"): "50", ("first-k", "paper", "1"): "100"}


def test_what_is_replayed_is_what_was_trained(tmp_path):
    context = quick(tmp_path, stored=True)
    training = ServerTrial("digits", "iid", "paper", "synchronous", 2)
    fake(context, training, 3)
    [record] = trials.run_trials([training], context, "one").values()
    found = replays(training, record, context)
    assert found["paper", "synchronous sao"]["round_s"] == record["by_round"]["round_s"]
    assert found["paper", "synchronous sao"]["energy_j"] == record["by_round"]["energy_j"]
    assert sum(found["wide", "synchronous sao"]["round_s"]) > 2 * sum(record["by_round"]["round_s"])
    record["by_round"]["round_s"][1] *= 1.001
    with pytest.raises(AssertionError):
        replays(training, record, context)


def course(updates: int, reached: bool = True) -> Course:
    return Course(np.array([0.5, 0.9]), np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([10, updates]), reached)


def test_pairs_are_of_one_trial_in_one_world():
    table = {
        ("digits", "iid", "paper"): {"fedbuff": {1: course(30), 2: course(50)}, "first-k": {2: course(40, False)}},
        ("digits", "0.8", "paper"): {"fedbuff": {1: course(20)}, "first-k": {1: course(70)}},
        ("digits", "iid", "wide"): {"fedbuff": {1: course(90)}, "first-k": {1: course(80)}},
    }
    assert pairs(table, "paper", "fedbuff", "first-k", "updates") == [(50, math.inf), (20, 70)]
    assert pairs(table, "wide", "fedbuff", "first-k", "energy_j") == [(4.0, 4.0)]
    table["digits", "iid", "wide"]["first-k"][1] = replace(course(80), processor="another chip")
    assert pairs(table, "wide", "fedbuff", "first-k", "energy_j") == []


def test_it_needs_data_and_says_so(tmp_path):
    assert command("asynchronous", Context(tmp_path)) == "netsim reproduce asynchronous --data DIR"


def test_what_is_committed_is_drawn_from_the_trials_that_are():
    context = Context(STORED.parent / "paper", beyond=STORED, stored=True)
    with (STORED / "asynchronous" / "numbers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows
    records = trials.run_trials(planned(context), context, "asynchronous")
    stored = sum(4 if training.server == "synchronous" else 1 for training in records)
    assert len(rows) <= stored                      # more than are drawn, while trials are under way
    first = next(training for training in records if training.server == "synchronous")
    chosen = {training: record for training, record in records.items()
              if replace(training, server="synchronous", spread="paper") == first}
    found = courses(chosen, context)
    drawn = {(row["dataset"], row["partition"], row["cpu_spread"], row["method"], row["trial"]): row for row in rows}
    assert len(drawn) == len(rows)
    for world, methods in found.items():
        assert set(methods) <= set(METHODS)
        for method, by_trial in methods.items():
            for number, taken in by_trial.items():
                row = drawn.get((*world, method, str(number)))
                if row is None:
                    continue
                assert row["target_reached"] == str(taken.reached)
                for gauge in GAUGES:
                    assert float(row[gauge]) == pytest.approx(getattr(taken, gauge)[-1], rel=1e-6)
