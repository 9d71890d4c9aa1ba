"""No learning: devices compute and upload, and nothing is made of what they send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints, State
from netsim.fleet.work import JobSizes
from netsim.learning.protocol import Base, Evaluation, TrainedJob
from netsim.learning.sizes import samples_without_learning, upload_bits

if TYPE_CHECKING:
    from netsim.fleet.population import Population
    from netsim.scenario import Scenario


class NoLearning:
    """A :class:`~netsim.learning.protocol.Learning` that learns nothing; it still knows how large the work is."""

    trains = False

    def __init__(self, devices: int, samples: Ints | None) -> None:
        self.samples = samples
        self._devices = devices

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> NoLearning:
        return cls(scenario.size, samples_without_learning(scenario, seed))

    def sizes(self, scenario: Scenario, population: Population) -> JobSizes:
        return JobSizes.of(scenario, population, upload_bits(scenario))

    def device_columns(self) -> Mapping[str, Any]:
        return {}

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        def unknown() -> Floats:
            return np.full(self._devices, np.nan)

        return {"loss": unknown, "gradient_norm": unknown, "global_weights": lambda: None,
                "local_weights": lambda: None, "layers": dict, "local_loss": lambda: None, "classes": int}

    def begin(self, devices: int, round: int) -> None: ...

    def prepare(self, jobs: Mapping[int, int], version: int, round: int | None = None) -> None: ...

    def start(self, jobs: Sequence[TrainedJob]) -> None: ...

    def drop(self, jobs: Sequence[TrainedJob]) -> None: ...

    def aggregate(
        self, jobs: Sequence[int], weights: Floats | None, base: Base = "start", chances: Floats | None = None,
    ) -> None: ...

    def alignment(self, jobs: Sequence[int]) -> Floats:
        return np.ones(len(jobs))

    def evaluate(self) -> Evaluation | None:
        return None

    def snapshot(self) -> State:
        return {}

    def restore(self, state: State) -> None: ...

    def stage(self, round: int) -> None: ...

    def settle(self) -> None: ...

    def remove(self) -> None: ...
