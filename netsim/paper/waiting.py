"""Beyond the paper: paired runs under servers that wait and servers that do not, as trials that are kept.

A trial is a seed: all servers of one trial meet the same devices, the same split and the same first model. With random
selection and nobody who drops out, when things happen does not depend on what is learned, and what synchronous rounds
learn does not depend on when things happen: one training stands for all of them, and their times come from playing the
rounds without learning. ``replays`` does that, and checks that the cohorts are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.paper import trials
from netsim.paper.reproduce import Context
from netsim.paper.trials import Data
from netsim.scenario import Scenario
from netsim.sweep.points import Point, Record

DATASETS = ("fashion-mnist", "mnist")
SPLITS = {"iid": {"kind": "iid"}, "0.8": {"kind": "majority", "sigma": 0.8}}
LOCAL_EPOCHS = trials.LOCAL_EPOCHS
COHORT = 10           # updates that make a model, and devices at work at a time
MORE = 13             # devices that first-k asks, of which the first COHORT count
TRIALS = 3
CAP = 100             # models of COHORT updates each, where the target is not reached before
RATIO = 30.0          # of the most cycles a sample to the least where speeds are spread wide; 3 in the paper's cell
SPREADS: Mapping[str, Mapping[str, Any]] = {       # C_n in cycles a sample, before it is scaled to the trial's L and D
    "paper": {"dist": "uniform", "low": 1e4, "high": 3e4},
    "wide": {"dist": "lognormal", "median": 2e4, "sigma": 1.0, "min": 2e4 / RATIO**0.5, "max": 2e4 * RATIO**0.5},
}
BY_ITSELF = {"allocation.method": "equal", "allocation.sharing": "equal"}    # each as fast as its budget allows
STALENESS = {"kind": "polynomial", "a": 0.5}
SERVERS: Mapping[str, Mapping[str, Any]] = {
    "synchronous": {"allocation.method": "sao"},
    "fedbuff": {**BY_ITSELF, "server": {"kind": "fedbuff", "buffer": COHORT, "rate": 1.0, "staleness": STALENESS}},
    "fedasync": {**BY_ITSELF, "server": {"kind": "fedasync", "mixing": 0.6, "staleness": STALENESS},
                 "learning.evaluation.every": COHORT},       # a model an update: the same test every COHORT updates
    "first-k": {**BY_ITSELF, "server": {"kind": "first-k", "buffer": COHORT}, "selection.cohort": MORE},
}
SYNCHRONOUS = {"synchronous sao": "sao", "synchronous tdma": "tdma"}       # methods of the report, and allocations
METHODS = (*SYNCHRONOUS, "first-k", "fedbuff", "fedasync")


@dataclass(frozen=True)
class ServerTrial:
    """One point of the grid: a server at work in one world."""

    dataset: str
    split: str
    spread: str        # of CPU speeds
    server: str
    number: int        # from 1; also the seed

    def point(self, context: Context) -> Point:
        """Where it is kept and what it runs."""
        data = _data(context, self.dataset)
        name = f"{self.spread}-{self.server}-{self.number}"
        scenario = self.scenario(context)
        note = {
            "dataset": self.dataset, "partition": self.split, "cpu_spread": self.spread, "server": self.server,
            "trial": self.number, "devices": data.devices, "samples": _samples(data), "local_epochs": LOCAL_EPOCHS,
            "batch_size": data.batch, "learning_rate": trials.LEARNING_RATE, "target_accuracy": target(data),
            "most_updates": most_updates(data), "bits": data.bits, "settings": dict(SERVERS[self.server]),
        }
        folder = context.folder("asynchronous") / "cells" / self.dataset / self.split
        key = f"{self.dataset}-{self.split}-{name}-{scenario.digest[:12]}"
        return Point(scenario, self.number, folder / f"{name}.json", context.runs / key, note=note)

    def scenario(self, context: Context, changes: Mapping[str, Any] | None = None) -> Scenario:
        """The `paper` scenario with this learning and server."""
        data = _data(context, self.dataset)
        samples = _samples(data)
        factor = trials.CYCLES / (LOCAL_EPOCHS * samples)
        cycles = {name: value * factor if name in ("low", "high", "median", "min", "max") else value
                  for name, value in SPREADS[self.spread].items()}
        return trials.in_the_paper(self.dataset, data, context, {
            "name": f"{self.server}-{self.dataset}-{self.split}", "learning.partition": SPLITS[self.split],
            "learning.target_accuracy": target(data), "population.phone.samples": samples,
            "population.phone.cpu.cycles_per_sample": cycles, "selection.method": "fedavg", "selection.cohort": COHORT,
            "rounds.first": "cohort",
            "end.rounds": most_updates(data) // (1 if self.server == "fedasync" else COHORT),
            **SERVERS[self.server], **(changes or {})})


Records = Mapping[ServerTrial, Record]


def datasets(context: Context) -> Sequence[str]:
    """The two that are trained on, or the small one that is always there."""
    return list(trials.QUICK) if context.quick else DATASETS


def _data(context: Context, dataset: str) -> Data:
    return trials.datasets(context)[dataset]


def target(data: Data) -> float:
    """That of the paper's hardest split."""
    return data.targets["H"]


def _samples(data: Data) -> int:
    return data.samples["0.8"]


def most_updates(data: Data) -> int:
    """After so many a run ends without the target."""
    return COHORT * min(CAP, data.cap)


def planned(context: Context) -> list[ServerTrial]:
    """In an order in which stopping early leaves a whole picture: all servers everywhere, then the next trial."""
    return [ServerTrial(dataset, split, spread, server, number)
            for number in range(1, 1 + (context.trials or TRIALS)) for split in SPLITS
            for dataset in datasets(context) for spread in SPREADS for server in SERVERS
            if server != "synchronous" or spread == "paper"]


@dataclass(frozen=True, eq=False)
class Course:
    """How a run went: at each test of the model the accuracy, and what it had taken until then."""

    accuracy: Floats
    simulated_s: Floats
    energy_j: Floats
    updates: Ints
    reached: bool
    processor: str = ""


def courses(records: Records, context: Context) -> dict[tuple[ServerTrial, str], Course]:
    """By training and method of the report; a synchronous training stands for several."""
    found: dict[tuple[ServerTrial, str], Course] = {}
    for training, record in records.items():
        if training.server == "synchronous":
            for (spread, method), columns in replays(training, record, context).items():
                found[replace(training, spread=spread), method] = _course(record, columns)
        else:
            found[training, training.server] = _course(record, record["by_round"])
    return found


def _course(record: Record, columns: Mapping[str, Any]) -> Course:
    accuracy = np.array(record["by_round"]["accuracy"], dtype=float)
    tested = np.isfinite(accuracy)
    simulated_s, energy_j, updates = (
        np.cumsum(column)[tested]
        for column in (columns["round_s"], columns["energy_j"], record["by_round"]["arrived"]))
    return Course(accuracy[tested], simulated_s, energy_j, updates, bool(record["target_reached"]),
                  record.get("processor", ""))


def replays(training: ServerTrial, record: Record, context: Context) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Seconds and joules of a synchronous training's rounds: in each cell, allocated by `sao` and by `tdma`."""
    from netsim.simulation import simulate

    found, cohorts = {}, set()
    for spread in SPREADS:
        for method, allocation in SYNCHRONOUS.items():
            scenario = replace(training, spread=spread).scenario(
                context, {"allocation.method": allocation, "end.rounds": int(record["rounds"])})
            run = simulate(scenario, seed=training.number, learning=False)
            found[spread, method] = {name: run.rounds[name].to_list() for name in ("round_s", "energy_j")}
            cohorts.add(tuple(run.jobs.select("round", "version", "device", "outcome").sort("round", "device").rows()))
    [jobs] = cohorts                                       # the same devices from the same versions in all of them
    assert {outcome for *_, outcome in jobs} == {"arrived"}
    trained = found[training.spread, "synchronous sao"]    # and what was trained is one of them
    assert np.allclose(trained["round_s"], record["by_round"]["round_s"], rtol=1e-9)
    return found
