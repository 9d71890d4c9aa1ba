"""Jobs under way on models of several versions: each learns from the version that it started with, whatever came since.

Only versions with a job under way are kept. A job is trained alone, so that what it learns depends on nothing but the
job: a run that is taken up again trains those under way anew, to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from netsim.base.arrays import Floats, State, Weights
from netsim.learning.buffers import KeptBuffers
from netsim.learning.learner import Learner, Training
from netsim.learning.trainer import Update


@dataclass(frozen=True, eq=False)
class Under:
    """A job under way."""

    device: int
    version: int               # of the model that it started from
    training: Training | None  # None until its device starts to compute


class InFlight:
    """The jobs under way, and the models that they started from."""

    def __init__(self, learner: Learner, buffers: KeptBuffers) -> None:
        self._learner = learner
        self._kept = buffers
        self._jobs: dict[int, Under] = {}
        self._models: dict[int, tuple[Weights, Floats]] = {}         # by version: weights, and buffers of the mean

    def __contains__(self, job: int) -> bool:
        return job in self._jobs

    def prepare(self, version: int, job: int, device: int, weights: Weights) -> None:
        """A device will learn from these weights, which are that version."""
        self._models.setdefault(version, (weights, self._kept.mean))
        self._jobs[job] = Under(device, version, None)

    def start(self, job: int) -> None:
        """Train a job whose device starts to compute, unless it is under way; one that was saved is trained again."""
        under = self._jobs[job]
        if under.training is None:
            weights, mean = self._models[under.version]
            own = self._own_buffers(job, under.device)
            training = self._learner.prepare(
                job, weights, [under.device], None, (mean if own is None else own)[np.newaxis])
            training.start([under.device])
            self._jobs[job] = replace(under, training=training)

    def _own_buffers(self, job: int, device: int) -> Floats | None:
        """What a device keeps for itself: of its last job, which may have arrived and wait to be merged."""
        before = [other for other, under in self._jobs.items() if under.device == device and other < job]
        own = self._kept.own(device)
        return own if own is None or not before else self.update(max(before)).buffers

    def update(self, job: int) -> Update:
        """What a job has learned; waits until that is known."""
        under = self._jobs[job]
        assert under.training is not None, "the device has not started to compute"
        return under.training.update(under.device)

    def origin(self, job: int) -> Weights:
        """The model that a job started from."""
        return self._models[self._jobs[job].version][0]

    def drop(self, jobs: Sequence[int]) -> None:
        """These jobs are over; a version that nobody works on any more is forgotten."""
        for job in jobs:
            del self._jobs[job]
        used = {under.version for under in self._jobs.values()}
        self._models = {version: model for version, model in self._models.items() if version in used}

    def snapshot(self) -> State:
        """Nothing where no job is under way."""
        if not self._jobs:
            return {}
        rows = [(job, under.device, under.version) for job, under in self._jobs.items()]
        return {"flying.jobs": np.array(rows, np.int64), "flying.versions": np.array(list(self._models), np.int64),
                "flying.models": np.stack([weights for weights, _ in self._models.values()]),
                "flying.buffers": np.stack([mean for _, mean in self._models.values()])}

    def restore(self, state: State) -> None:
        if "flying.jobs" not in state:
            return
        if state["flying.models"].shape[1:] != (self._learner.parameters,):
            raise ValueError(f"it holds no models of {self._learner.parameters} parameters")
        self._models = {int(version): (weights, mean) for version, weights, mean in zip(
            state["flying.versions"], state["flying.models"], state["flying.buffers"], strict=True)}
        self._jobs = {int(job): Under(int(device), int(version), None)
                      for job, device, version in state["flying.jobs"].tolist()}


def cosine(a: Floats, b: Floats) -> float:
    """Between two steps; 1 where one of them goes nowhere, since then it points nowhere else."""
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length > 0.0 else 1.0
