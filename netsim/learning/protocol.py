"""What a server asks of learning, whatever learns behind it: torch, nothing at all, or another framework's app."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from netsim.base.arrays import Floats, Ints, State


@dataclass(frozen=True)
class Evaluation:
    """How the global model does on the test samples."""

    accuracy: float
    loss: float
    class_accuracy: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Merge:
    """How updates that came as they came make a new model: w + sum_i shares_i (x_i - w_i).

    x_i is what job i has learned; w_i is the model that it started from, or the present one (``since = "now"``).
    """

    jobs: list[int]
    shares: Floats
    since: Literal["start", "now"]


class TrainedJob(Protocol):
    """What learning knows of a job."""

    number: int
    device: int


class Learning(Protocol):
    """Devices learn while they compute; the server makes one model of what arrives, and saves itself."""

    @property
    def samples(self) -> Ints | None:
        """D_n of every device; None where the scenario says it."""

    @property
    def bits(self) -> float:
        """z, the size of an upload."""

    @property
    def trains(self) -> bool:
        """Whether there is a model at all."""

    @property
    def layers(self) -> Mapping[str, slice]:
        """Where the weights of each layer lie in a flat model."""

    def device_columns(self) -> Mapping[str, Any]:
        """What it knows of each device's data, for the table of devices."""

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        """What a selection method may see of it, by the names of a view's columns."""

    def begin(self, devices: int, round: int) -> None:
        """Get ready for what comes after a round (0: for the first)."""

    def prepare(self, round: int, devices: Ints) -> None:
        """These devices will learn from the present model, in groups that the cohort alone decides."""

    def prepare_job(self, version: int, job: int, device: int) -> None:
        """A device will learn from the present model, this version; it is kept as long as a job on it is under way."""

    def start(self, jobs: Sequence[TrainedJob]) -> None:
        """The devices of these jobs start to compute: train them; simulated time goes on meanwhile."""

    def drop(self, jobs: Sequence[TrainedJob]) -> None:
        """These jobs have failed."""

    def aggregate(self, devices: Ints, chances: Floats | None) -> None:
        """Make a new global model of what these devices have sent, in the order drawn."""

    def merge(self, how: Merge) -> None:
        """Make a new global model of what these jobs have sent, in the order of their arrival."""

    def alignment(self, jobs: Sequence[int]) -> Floats:
        """Cosine between the step of each job and the way that the global model has gone since the job started."""

    def evaluate(self) -> Evaluation | None:
        """How the global model does; None where there is none."""

    def snapshot(self) -> State: ...

    def restore(self, state: State) -> None: ...

    def stage(self, round: int) -> None:
        """Write the models that have arrived to a safe place, before the checkpoint."""

    def settle(self) -> None:
        """Move them to their own place, after the checkpoint."""

    def remove(self) -> None:
        """Delete what only an unfinished run needs."""
