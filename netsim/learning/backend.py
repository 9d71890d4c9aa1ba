"""Learning backend interface of the servers, and the backend without learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from netsim.base.types import Floats, Ints, State
from netsim.devices.population import Population
from netsim.devices.workload import JobSizes
from netsim.learning.registries import input_shape, upload_bits
from netsim.scenario import Scenario

Base = Literal["start", "now"]      # an update is relative to the model that its job started from, or to the newest


@dataclass(frozen=True)
class Evaluation:
    """Accuracy (0 to 1) and mean loss of the global model on the test samples."""

    accuracy: float
    loss: float
    class_accuracy: tuple[float, ...] = ()


class TrainedJob(Protocol):
    """The attributes of a job that a learning backend uses."""

    number: int
    device: int


class Learning:
    """Learning backend: local training of jobs, aggregation, evaluation, checkpoints.

    Methods that a subclass does not define do nothing.
    """

    trains = False                   # True if there is a model
    samples: Ints | None = None      # D_n of every device; None if the scenario sets it

    @property
    def processor(self) -> str | None:
        """Processors that have computed the results, if they need not be this machine's."""
        return None

    def sizes(self, scenario: Scenario, population: Population) -> JobSizes:
        """Return the upload bits, download bits and CPU cycles of a job of each device."""
        return JobSizes.of(scenario, population, upload_bits(scenario))

    def flops_per_sample(self, scenario: Scenario) -> float | None:
        """Return the FLOP of training on one sample; None if no device's cycles depend on them.

        ``learning.flops_per_sample``, or else the count of the model, which is built without loading a known dataset.
        """
        learning = scenario.learning
        if learning.flops_per_sample is not None or not any(table.counts_flops for table in scenario.population):
            return learning.flops_per_sample
        from netsim.learning.flops import count_flops

        assert learning.model_name is not None      # the scenario was checked
        assert learning.dataset is not None
        shape, classes, tokens = input_shape(learning.dataset, learning.root)
        return count_flops(learning.model_name, shape, classes, learning.model_options, tokens=tokens)

    def device_columns(self) -> Mapping[str, Any]:
        """Return columns about each device's data for the table of devices."""
        return {}

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        """Return the columns that a selection method may read, by the names of ``LearningView``."""
        raise NotImplementedError

    def begin(self, devices: int, round: int) -> None:
        """Prepare to continue after a round (0: before the first)."""

    def prepare(self, jobs: Mapping[int, int], version: int, round: int | None = None) -> None:
        """Register jobs (device by number) that train from the present model, which is kept while one is running.

        The jobs of a ``round`` are a cohort, which trains in groups. Without it, each job is trained alone, so that its
        update depends on the job only.
        """

    def start(self, jobs: Sequence[TrainedJob]) -> None:
        """Start training these jobs, whose devices start to compute; do not block."""

    def drop(self, jobs: Sequence[TrainedJob]) -> None:
        """Discard failed jobs."""

    def aggregate(
        self, jobs: Sequence[int], weights: Floats | None, base: Base = "start", chances: Floats | None = None,
    ) -> None:
        """Aggregate the updates of jobs, in their order, into a new global model: w + sum_i weights_i (x_i - base_i).

        x_i is the model that job i has trained, base_i the one that it started from, or the present w with "now".
        Without weights, ``learning.aggregation`` sets them; ``chances`` are the selection probabilities of the devices.
        """

    def alignment(self, jobs: Sequence[int]) -> Floats:
        """Return the cosine between each job's step and the change of the global model since the job started."""
        return np.ones(len(jobs))

    def evaluate(self) -> Evaluation | None:
        """Evaluate the global model; None without a model."""
        return None

    def snapshot(self) -> State:
        """Return the arrays of a checkpoint."""
        return {}

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""

    def stage(self, round: int) -> None:
        """Write the uploaded models to a journal, before the checkpoint of the round."""

    def settle(self) -> None:
        """Move the uploaded models from the journal to their table, after the checkpoint."""

    def remove(self) -> None:
        """Delete the files that only an unfinished run needs."""


class NoLearning(Learning):
    """Backend without a model: devices compute and upload jobs of known size."""

    def __init__(self, devices: int, samples: Ints | None) -> None:
        self.samples = samples
        self._devices = devices

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> NoLearning:
        """Return the backend; the partition determines the samples of devices with ``samples = "auto"``."""
        if all(table.samples != "auto" for table in scenario.population):
            return cls(scenario.size, None)
        from netsim.learning.local_training import split

        return cls(scenario.size, np.array([len(part) for part in split(scenario, seed)], dtype=np.int64))

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        def unknown() -> Floats:
            return np.full(self._devices, np.nan)

        return {"loss": unknown, "gradient_norm": unknown, "global_weights": lambda: None,
                "local_weights": lambda: None, "layers": dict, "local_loss": lambda: None, "classes": int}
