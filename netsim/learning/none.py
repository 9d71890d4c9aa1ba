"""No learning: devices compute and upload, and nobody looks at what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints, State
from netsim.learning.protocol import Evaluation, Merge, TrainedJob
from netsim.learning.sizes import samples_without_learning, upload_bits

if TYPE_CHECKING:
    from netsim.scenario import Scenario


class NoLearning:
    """A :class:`~netsim.learning.protocol.Learning` that learns nothing; it still knows how large the work is."""

    trains = False
    layers: Mapping[str, slice] = {}

    def __init__(self, devices: int, samples: Ints | None, bits: float) -> None:
        self.samples = samples
        self.bits = bits
        self._devices = devices

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> NoLearning:
        return cls(scenario.size, samples_without_learning(scenario, seed), upload_bits(scenario))

    def device_columns(self) -> Mapping[str, Any]:
        return {}

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        def unknown() -> Floats:
            return np.full(self._devices, np.nan)

        return {"loss": unknown, "gradient_norm": unknown, "global_weights": lambda: None,
                "local_weights": lambda: None, "layers": dict, "local_loss": lambda: None, "classes": int}

    def begin(self, devices: int, round: int) -> None: ...

    def prepare(self, round: int, devices: Ints) -> None: ...

    def prepare_job(self, version: int, job: int, device: int) -> None: ...

    def start(self, jobs: Sequence[TrainedJob]) -> None: ...

    def drop(self, jobs: Sequence[TrainedJob]) -> None: ...

    def aggregate(self, devices: Ints, chances: Floats | None) -> None: ...

    def merge(self, how: Merge) -> None: ...

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
