"""The paper's learning experiments as points: dataset, sigma, selection method, cohort size and trial.

A trial is a seed: all methods of a trial have the same devices, partition and initial model. The first trial uses the
published partition in ``partitions/`` below the data folder if it exists; the others draw their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from netsim.executors.factory import ExecutorFactory
from netsim.paper.reproduce import Context
from netsim.scenario import Scenario, load_scenario
from netsim.sweep.points import Record, SweepPoint, kept_record, read_record, run_points, sole_user

METHODS = ("divergence", "fedavg", "kmeans", "cluster-round-robin", "icas")
SIGMAS = ("0.8", "0.5", "H")
LOCAL_EPOCHS = 5
LEARNING_RATE = 0.05
CAP = 150             # most rounds
CYCLES = 10 * 500     # L D of the calibrated `paper` scenario
CYCLES_A_SAMPLE = {"dist": "uniform", "low": 1e4, "high": 3e4}      # and its C_n
SCALED = ("low", "high", "median", "min", "max")                    # parameters of a distribution in its unit


@dataclass(frozen=True)
class Data:
    """Learning settings of a dataset: Table II, Section VI, and our choices for those the paper omits (see docs)."""

    model: str
    bits: str                       # z_n
    samples: dict[str, int]         # D_n by sigma, as in the published splits
    batch: int
    targets: dict[str, float]       # by sigma
    trials: dict[str, int]          # default number of trials by sigma
    file: str = ""                  # the published split: partitions/FILE-SIGMA.json
    devices: int = 100
    cap: int = CAP


def _same(value: Any) -> dict[str, Any]:
    return dict.fromkeys(SIGMAS, value)


DATA = {
    "mnist": Data("mnist-cnn", "448 kbit", _same(606), 10, {"0.5": 0.99, "0.8": 0.99, "H": 0.985}, _same(3), "mnist"),
    "fashion-mnist": Data("fashion-cnn", "79 kbit", _same(606), 10, {"0.5": 0.87, "0.8": 0.87, "H": 0.85}, _same(3),
                          "fashion-mnist"),
    "cifar10": Data("cifar-cnn", "882 kbit", {"0.5": 502, "0.8": 508, "H": 508}, 20,
                    {"0.5": 0.55, "0.8": 0.55, "H": 0.52}, {"0.5": 1, "0.8": 2, "H": 1}, "cifar10-images"),
}
QUICK = {
    "digits": Data("fashion-cnn", "448 kbit", _same(25), 10, {"0.5": 0.7, "0.8": 0.7, "H": 0.6}, _same(2), devices=30,
                   cap=10),
}
TITLES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR-10", "digits": "digits"}


def datasets(context: Context) -> dict[str, Data]:
    """Return the paper's three datasets, or digits for a quick reproduction."""
    return QUICK if context.quick else DATA


@dataclass(frozen=True)
class Trial:
    """One run of the experiments."""

    dataset: str
    sigma: str
    method: str
    cohort: int
    number: int        # from 1; also the seed

    @property
    def names(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "sigma": self.sigma, "method": self.method, "cohort": self.cohort,
                "trial": self.number}

    def point(self, context: Context) -> SweepPoint:
        data = datasets(context)[self.dataset]
        scenario, split = self.scenario(context)
        name = f"{self.method}-{self.cohort}-{self.number}"
        note = {
            "dataset": self.dataset, "sigma": self.sigma, "method": self.method, "cohort_size": self.cohort,
            "trial": self.number, **learned_as(data, self.sigma, self.sigma), "most_rounds": data.cap,
        }
        key = f"{self.dataset}-{self.sigma}-{name}-{scenario.digest[:12]}"
        return SweepPoint(scenario, self.number, context.cells / self.dataset / self.sigma / f"{name}.json",
                    context.runs / key, note=note, also={"split": split})

    def scenario(self, context: Context) -> tuple[Scenario, str]:
        """Return the `paper` scenario with this trial's learning, and "published" or "drawn" for its partition.

        A cohort without a feasible plan runs in waves, so that no device drops out.
        """
        data = datasets(context)[self.dataset]
        samples = data.samples[self.sigma]
        published = Path(context.data, "partitions", f"{data.file}-{self.sigma}.json")
        split = "published" if self.number == 1 and data.file and published.exists() else "drawn"
        if split == "published":                # D_n comes from the file
            held: dict[str, Any] = {"learning.partition": {"kind": "file", "path": str(published.resolve())}}
        else:
            drawn = {"kind": "two-class"} if self.sigma == "H" else {"kind": "majority", "sigma": float(self.sigma)}
            held = {"learning.partition": drawn, "population.phone.samples": samples}
        return in_the_paper(self.dataset, context, samples, CYCLES_A_SAMPLE, {
            "name": f"{self.dataset}-{self.sigma}", "learning.aggregation": "mean",
            "learning.target_accuracy": data.targets[self.sigma], **held,
            "selection.method": self.method, "selection.cohort": self.cohort, "end.rounds": data.cap,
        }), split


def learned_as(data: Data, samples: str, target: str) -> Record:
    """Return the learning settings in a trial's note, with samples and target accuracy of these sigmas."""
    return {"devices": data.devices, "samples": data.samples[samples], "local_epochs": LOCAL_EPOCHS,
            "batch_size": data.batch, "learning_rate": LEARNING_RATE, "target_accuracy": data.targets[target],
            "bits": data.bits}


def in_the_paper(
    dataset: str, context: Context, samples: int, cycles: Mapping[str, Any], settings: Mapping[str, Any],
) -> Scenario:
    """Return the `paper` scenario with a dataset and settings; cohorts without a feasible plan run in waves.

    ``cycles``, a distribution of cycles per sample, is scaled so that L C_n D_n is that of the calibrated scenario.
    """
    data, factor = datasets(context)[dataset], CYCLES / (LOCAL_EPOCHS * samples)
    return load_scenario("paper", {
        "learning.dataset": dataset, "learning.root": context.data, "learning.model": data.model,
        "learning.bits": data.bits, "learning.local_epochs": LOCAL_EPOCHS, "learning.batch_size": data.batch,
        "learning.learning_rate": LEARNING_RATE, "population.phone.count": data.devices,
        "rounds.infeasible_policy": "waves",
        "population.phone.cpu.cycles_per_sample": {
            name: value * factor if name in SCALED else value for name, value in cycles.items()}, **settings})


def compared(context: Context) -> list[Trial]:
    """Return the trials of five methods on all datasets, ordered so that an interrupted run is useful."""
    counts = {(sigma, dataset): context.count(data.trials[sigma])
              for sigma in SIGMAS for dataset, data in datasets(context).items()}
    return [Trial(dataset, sigma, method, 10, number) for number in range(1, 1 + max(counts.values()))
            for (sigma, dataset), count in counts.items() if number <= count for method in METHODS]


def with_rra(context: Context) -> list[Trial]:
    """Return the trials of Fig. 12: divergence with thirty devices against RRA, at sigma 0.8."""
    return [Trial(dataset, "0.8", method, cohort, number)
            for number in range(1, 1 + context.count(2)) for dataset in datasets(context)
            for method, cohort in (("divergence", 12 if context.quick else 30), ("rra-as-run", 10))]


def cohort_sizes(context: Context) -> list[Trial]:
    """Return the trials of Fig. 13: divergence with cohorts of several sizes, at sigma 0.8."""
    sizes = (10, 20, 30) if context.quick else (10, 20, 30, 50, 100)
    return [Trial(dataset, "0.8", "divergence", size, number)
            for number in range(1, 1 + context.count(1)) for size in sizes for dataset in datasets(context)]


class StoredTrial(Protocol):
    """Trial that is run once and stored."""

    @property
    def dataset(self) -> str: ...

    def point(self, context: Context) -> SweepPoint:
        """Return the point of a sweep: scenario and paths."""


T = TypeVar("T", bound=StoredTrial)


def run_trials(trials: Sequence[T], context: Context, name: str,
               place: ExecutorFactory | None = None) -> dict[T, Record]:
    """Run missing trials with a progress bar; return the stored records."""
    from netsim.learning.datasets import load_dataset
    from netsim.sweep.progress import print_failures, progress_bar

    points = {trial: trial.point(context) for trial in dict.fromkeys(trials)}
    wanted = {trial: point for trial, point in points.items() if context.trains(trial.dataset)}
    if not all(point.finished for point in wanted.values()):
        for dataset in {trial.dataset: None for trial in wanted}:      # fail now, not in a worker hours later
            load_dataset(dataset, context.data)
        with sole_user(context.runs.parent), progress_bar(name) as progress:
            run_points(list(wanted.values()), place or context.place, progress)
        print_failures(list(wanted.values()))
    return {trial: read_record(point.record) for trial, point in points.items() if point.finished}


def measured(trial: Trial, context: Context, file: str, note: Record, measure: Callable[[Trial, Context], Record]
             ) -> Record | None:
    """Return the stored record of a note, or measure it now if that is allowed."""
    note = {"dataset": trial.dataset, "sigma": trial.sigma, "trial": trial.number, "local_epochs": LOCAL_EPOCHS, **note}
    return kept_record(context.cells / trial.dataset / trial.sigma / file, note,
                       partial(measure, trial, context) if context.trains(trial.dataset) else None)
