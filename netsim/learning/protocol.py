"""What a server asks of learning, whatever learns behind it: torch, nothing at all, or another framework's app."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from netsim.base.arrays import Floats, Ints, State
from netsim.fleet.work import JobSizes
from netsim.learning.named import samples_without_learning, upload_bits

if TYPE_CHECKING:
    from netsim.fleet.population import Population
    from netsim.scenario import Scenario

Base = Literal["start", "now"]      # an update is the difference from the model its job started from, or the newest


@dataclass(frozen=True)
class Evaluation:
    """How the global model does on the test samples."""

    accuracy: float
    loss: float
    class_accuracy: tuple[float, ...] = ()


class TrainedJob(Protocol):
    """What learning knows of a job."""

    number: int
    device: int


class Learning:
    """Devices learn while they compute; the server makes one model of what arrives, and saves itself.

    A method that a subclass does not define does nothing.
    """

    trains = False                   # whether there is a model at all
    samples: Ints | None = None      # D_n of every device; None where the scenario says it

    def sizes(self, scenario: Scenario, population: Population) -> JobSizes:
        """Bits to send and to receive, and cycles to compute, in a job of each device."""
        return JobSizes.of(scenario, population, upload_bits(scenario))

    def device_columns(self) -> Mapping[str, Any]:
        """What it knows of each device's data, for the table of devices."""
        return {}

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        """What a selection method may see of it, by the names of a view's columns."""
        raise NotImplementedError

    def begin(self, devices: int, round: int) -> None:
        """Get ready for what comes after a round (0: for the first)."""

    def prepare(self, jobs: Mapping[int, int], version: int, round: int | None = None) -> None:
        """These jobs (devices by job number) will learn from the present model, which is this version.

        With a ``round`` they are a cohort that trains in groups; else each job is trained alone, so that what it learns
        depends on nothing but the job. The model is kept as long as one of them is under way.
        """

    def start(self, jobs: Sequence[TrainedJob]) -> None:
        """The devices of these jobs start to compute: train them; simulated time goes on meanwhile."""

    def drop(self, jobs: Sequence[TrainedJob]) -> None:
        """These jobs have failed."""

    def aggregate(
        self, jobs: Sequence[int], weights: Floats | None, base: Base = "start", chances: Floats | None = None,
    ) -> None:
        """Make a new global model of what these jobs have sent: w + sum_i weights_i (x_i - base_i).

        x_i is what job i has learned, and base_i the model that it started from ("start") or the present model w
        ("now"). Without weights, ``learning.aggregation`` decides; ``chances`` are those of selection, if known.
        """

    def alignment(self, jobs: Sequence[int]) -> Floats:
        """Cosine between the step of each job and the way that the global model has gone since the job started."""
        return np.ones(len(jobs))

    def evaluate(self) -> Evaluation | None:
        """How the global model does; None where there is none."""
        return None

    def snapshot(self) -> State:
        """What a resumed run needs."""
        return {}

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""

    def stage(self, round: int) -> None:
        """Write the models that have arrived to a safe place, before the checkpoint."""

    def settle(self) -> None:
        """Move them to their own place, after the checkpoint."""

    def remove(self) -> None:
        """Delete what only an unfinished run needs."""


class NoLearning(Learning):
    """Devices compute and upload, and nothing is made of what they send; how large the work is, is known."""

    def __init__(self, devices: int, samples: Ints | None) -> None:
        self.samples = samples
        self._devices = devices

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> NoLearning:
        return cls(scenario.size, samples_without_learning(scenario, seed))

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        def unknown() -> Floats:
            return np.full(self._devices, np.nan)

        return {"loss": unknown, "gradient_norm": unknown, "global_weights": lambda: None,
                "local_weights": lambda: None, "layers": dict, "local_loss": lambda: None, "classes": int}
