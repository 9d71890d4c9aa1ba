"""Jobs under way on models of several versions: each learns from the version that it started with.

A job is trained with its cohort, or alone. Only models that a job under way started from are kept; a resumed run trains
the jobs under way again, in the same groups and to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netsim.base.arrays import Floats, State, Weights
from netsim.learning.buffers import KeptBuffers
from netsim.learning.learner import Learner, Training
from netsim.learning.trainer import Update


@dataclass(eq=False)
class Cohort:
    """Jobs that train together, from one version of the model."""

    number: int                        # of their random draws: the round, or that of a job trained alone
    devices: dict[int, int]            # by job, also of jobs that are over
    version: int
    weights: Weights
    buffers: Floats                    # the mean that goes with these weights
    gradient: Weights | None = None    # FEDL's global gradient
    training: Training | None = None   # None until a device starts to compute


class InFlight:
    """The jobs under way, with the cohorts that they are part of."""

    def __init__(self, learner: Learner, buffers: KeptBuffers) -> None:
        self._learner = learner
        self._kept = buffers
        self._cohorts: dict[int, Cohort] = {}         # by job under way

    def prepare(self, cohort: Cohort) -> None:
        """The jobs of a cohort are under way from now on."""
        self._cohorts.update(dict.fromkeys(cohort.devices, cohort))

    def start(self, jobs: Sequence[int]) -> None:
        """Train jobs whose devices start to compute, unless they are trained already."""
        started: dict[int, list[int]] = {}
        for job in jobs:
            started.setdefault(id(self._cohorts[job]), []).append(job)
        for some in started.values():
            cohort = self._cohorts[some[0]]
            if cohort.training is None:
                cohort.training = self._learner.prepare(
                    cohort.number, cohort.weights, list(cohort.devices.values()), cohort.gradient,
                    np.stack([self._buffers(job, cohort) for job in cohort.devices]))
            cohort.training.start([cohort.devices[job] for job in some])

    def _buffers(self, job: int, cohort: Cohort) -> Floats:
        """The cohort's mean, or what a device keeps for itself: of its last job, which may wait to be aggregated."""
        device = cohort.devices[job]
        own = self._kept.own(device)
        if own is None:
            return cohort.buffers
        before = [other for other, its in self._cohorts.items() if its.devices[other] == device and other < job]
        last = self.update(max(before)).buffers if before else None
        return own if last is None else last

    def update(self, job: int) -> Update:
        """What a job has learned; waits until that is known."""
        cohort = self._cohorts[job]
        assert cohort.training is not None, "the device has not started to compute"
        return cohort.training.update(cohort.devices[job])

    def origin(self, job: int) -> Weights:
        """The model that a job started from."""
        return self._cohorts[job].weights

    def drop(self, jobs: Sequence[int]) -> None:
        """These jobs are over."""
        for job in jobs:
            self._cohorts.pop(job, None)

    def snapshot(self) -> State:
        """Nothing where no job is under way."""
        if not self._cohorts:
            return {}
        cohorts = list(dict.fromkeys(self._cohorts.values()))
        rows = [(job, device, each.version, each.number, job in self._cohorts)
                for each in cohorts for job, device in each.devices.items()]
        models = {each.version: each for each in cohorts}.values()
        gradients = [each.gradient for each in models if each.gradient is not None]
        return {"flying.jobs": np.array(rows, np.int64),
                "flying.versions": np.array([each.version for each in models], np.int64),
                "flying.models": np.stack([each.weights for each in models]),
                "flying.buffers": np.stack([each.buffers for each in models]),
                **({"flying.gradients": np.stack(gradients)} if len(gradients) == len(models) else {})}

    def restore(self, state: State) -> None:
        if "flying.jobs" not in state:
            return
        if state["flying.models"].shape[1:] != (self._learner.parameters,):
            raise ValueError(f"it holds no models of {self._learner.parameters} parameters")
        place = {version: place for place, version in enumerate(state["flying.versions"].tolist())}
        cohorts: dict[tuple[int, int], Cohort] = {}
        for job, device, version, number, under_way in state["flying.jobs"].tolist():
            at = place[version]
            cohort = cohorts.setdefault((version, number), Cohort(
                number, {}, version, state["flying.models"][at], state["flying.buffers"][at],
                state["flying.gradients"][at] if "flying.gradients" in state else None))
            cohort.devices[job] = device
            if under_way:
                self._cohorts[job] = cohort


def cosine(a: Floats, b: Floats) -> float:
    """Between two steps; 1 where one of them goes nowhere, since then it points nowhere else."""
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length > 0.0 else 1.0
