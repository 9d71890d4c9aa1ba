"""Learning backend with torch: the global model, running jobs, and uploaded models.

A job is trained with its cohort, or alone, from the model version that it started with. Only model versions of running
jobs are kept; a resumed run trains the running jobs again, in the same groups and to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base.types import Floats, Ints, State, Weights, read_only
from netsim.learning.aggregation import aggregate
from netsim.learning.backend import Base, Evaluation, Learning, TrainedJob
from netsim.learning.last_uploads import UploadTable
from netsim.learning.local_training import LocalTrainer, Training
from netsim.learning.model_buffers import DeviceBuffers
from netsim.learning.sgd import Update
from netsim.scenario import Scenario


@dataclass(eq=False)
class Cohort:
    """Jobs that train together from one model version."""

    number: int                        # index of the random stream: the round, or the job if trained alone
    devices: dict[int, int]            # by job, including finished ones
    version: int
    weights: Weights
    buffers: Floats                    # mean buffers of this model version
    gradient: Weights | None = None    # FEDL's global gradient
    training: Training | None = None   # None until a device starts to compute


class TorchBackend(Learning):
    """Backend that trains in a learner's workers.

    With ``keeps_models``, the model last uploaded by each device is kept in ``folder`` for the selection method.
    """

    trains = True

    def __init__(self, scenario: Scenario, learner: LocalTrainer, folder: Path, *, keeps_models: bool) -> None:
        self._settings = scenario.learning
        self._learner = learner
        self._folder = folder
        self._keeps_models = keeps_models
        self._table: UploadTable | None = None
        self._sums: Ints | None = None      # checksums of the uploaded models, from a checkpoint
        self._weights: Weights = learner.initial_weights()
        self._buffers = DeviceBuffers(
            learner.buffers, len(learner.samples), local=scenario.learning.buffers == "local")
        self._cohorts: dict[int, Cohort] = {}                      # by running job
        self._server: State = {}                                   # state of the server's optimiser
        self._loss = np.full(len(learner.samples), np.nan)
        self._gradient_norm = np.full(len(learner.samples), np.nan)
        self._arrived: tuple[Ints, Weights] | None = None          # since the last checkpoint
        self.samples = learner.samples

    @property
    def processor(self) -> str | None:
        return self._learner.processor

    def device_columns(self) -> Mapping[str, Any]:
        counts = self._learner.label_counts.T
        return {"majority_class": self._learner.majority,
                **{f"class_{label}": column for label, column in enumerate(counts)}}

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        def local_loss(devices: Ints) -> Floats:
            return self._learner.local_loss(self._weights, devices.tolist(), self._buffers.of(devices))

        return {
            "loss": lambda: self._loss.copy(), "gradient_norm": lambda: self._gradient_norm.copy(),
            "global_weights": lambda: read_only(self._weights.view()),
            "local_weights": lambda: self._table.weights if self._table else None,
            "layers": lambda: self._learner.layers, "local_loss": lambda: local_loss,
            "classes": lambda: self._learner.classes,
        }

    def begin(self, devices: int, round: int) -> None:
        if self._keeps_models:
            self._table = UploadTable(self._folder, devices, self._learner.parameters, round, self._sums)

    def prepare(self, jobs: Mapping[int, int], version: int, round: int | None = None) -> None:
        together = [dict(jobs)] if round is not None else [{job: device} for job, device in jobs.items()]
        for devices in filter(None, together):
            cohort = Cohort(next(iter(devices)) if round is None else round, devices, version, self._weights,
                            self._buffers.mean, self._server.get("gradient"))
            self._cohorts.update(dict.fromkeys(devices, cohort))

    def start(self, jobs: Sequence[TrainedJob]) -> None:
        started: dict[Cohort, list[int]] = {}
        for job in jobs:
            started.setdefault(self._cohorts[job.number], []).append(job.device)
        for cohort, devices in started.items():
            if cohort.training is None:
                cohort.training = self._learner.prepare(
                    cohort.number, cohort.weights, list(cohort.devices.values()), cohort.gradient,
                    np.stack([self._first_buffers(job, cohort) for job in cohort.devices]))
            cohort.training.start(devices)

    def _first_buffers(self, job: int, cohort: Cohort) -> Floats:
        """Return the initial buffers of a job: the cohort's mean, or those of the device's last job if local."""
        device = cohort.devices[job]
        own = self._buffers.own(device)
        if own is None:
            return cohort.buffers
        before = [other for other, its in self._cohorts.items() if its.devices[other] == device and other < job]
        last = self.update(max(before)).buffers if before else None
        return own if last is None else last

    def drop(self, jobs: Sequence[TrainedJob]) -> None:
        for job in jobs:
            self._cohorts.pop(job.number, None)

    def update(self, job: int) -> Update:
        """Return the update of a job; blocks until it is trained."""
        cohort = self._cohorts[job]
        assert cohort.training is not None, "the device has not started to compute"
        return cohort.training.update(cohort.devices[job])

    def aggregate(
        self, jobs: Sequence[int], weights: Floats | None, base: Base = "start", chances: Floats | None = None,
    ) -> None:
        updates, steps, rest = [self.update(job) for job in jobs], None, 0.0
        if weights is not None:
            steps = weights, [self._weights if base == "now" else self._cohorts[job].weights for job in jobs]
            rest = max(0.0, 1.0 - float(weights.sum())) if base == "now" else 0.0
        self._weights = aggregate(self._settings, self._weights, updates, self._server,
                                  int(self._learner.samples.sum()), chances, steps)
        counts = np.array([update.samples for update in updates], np.float64) if weights is None else weights
        for job in jobs:
            self._cohorts.pop(job, None)
        # the last upload of a device that has uploaded several times
        places = list({update.device: place for place, update in enumerate(updates)}.values())
        self._note([updates[place] for place in places], counts[places], rest)

    def _note(self, updates: list[Update], weights: Floats, rest: float) -> None:
        """Store losses, gradient norms, buffers and models of the updates."""
        devices = np.array([update.device for update in updates])
        self._loss[devices] = [update.loss for update in updates]
        rows = [update.buffers for update in updates if update.buffers is not None]
        if rows:
            self._buffers.take(devices, np.stack(rows), weights, rest)
        self._gradient_norm[devices] = [update.gradient_norm for update in updates]
        if self._table:
            self._arrived = devices, np.stack([update.weights for update in updates])

    def alignment(self, jobs: Sequence[int]) -> Floats:
        def one(job: int) -> float:
            start = self._cohorts[job].weights.astype(np.float64)
            return cosine(self.update(job).weights - start, self._weights - start)

        return np.array([one(job) for job in jobs])

    def evaluate(self) -> Evaluation:
        return self._learner.evaluate(self._weights, self._buffers.mean)

    def snapshot(self) -> State:
        uploads = {"uploads": self._table.sums} if self._table else {}
        return {**uploads, "weights": self._weights, "loss": self._loss, "gradient_norm": self._gradient_norm,
                **self._buffers.snapshot(), **_snapshot(self._cohorts),
                **{f"server.{name}": array for name, array in self._server.items()}}

    def restore(self, state: State) -> None:
        parameters, devices, buffers = self._learner.parameters, len(self._loss), len(self._buffers.mean)
        model, models = ("f4", (parameters,)), ("f4", (..., parameters))
        moments, of_devices = ("f8", (parameters,)), ("f8", (devices,))
        _check_arrays(state, {
            "weights": model, "server.gradient": model, "server.velocity": moments, "server.first": moments,
            "server.second": moments, "loss": of_devices, "gradient_norm": of_devices, "flying.models": models,
            "flying.gradients": models, "flying.buffers": ("f8", (..., buffers)), "flying.jobs": ("i8", (..., 5)),
            "flying.versions": ("i8", (...,)),
            "buffers.mean": ("f8", (buffers,)), "buffers.own": ("f8", (devices, buffers))})
        self._weights = state["weights"]
        self._sums = state["uploads"] if self._keeps_models else None
        self._buffers.restore(state)
        self._cohorts = _restored(state) if "flying.jobs" in state else {}
        self._loss, self._gradient_norm = state["loss"].copy(), state["gradient_norm"].copy()
        self._server = {name.removeprefix("server."): array for name, array in state.items()
                        if name.startswith("server.")}

    def stage(self, round: int) -> None:
        if self._table and self._arrived:
            self._table.stage(round, *self._arrived)
            self._arrived = None

    def settle(self) -> None:
        if self._table:
            self._table.commit()

    def remove(self) -> None:
        if self._table:
            self._table.remove()


def _snapshot(under_way: Mapping[int, Cohort]) -> State:
    """Return the cohorts of running jobs as arrays; empty if there are none."""
    if not under_way:
        return {}
    cohorts = list(dict.fromkeys(under_way.values()))
    rows = [(job, device, each.version, each.number, job in under_way)
            for each in cohorts for job, device in each.devices.items()]
    models = {each.version: each for each in cohorts}.values()
    gradients = [each.gradient for each in models if each.gradient is not None]
    return {"flying.jobs": np.array(rows, np.int64),
            "flying.versions": np.array([each.version for each in models], np.int64),
            "flying.models": np.stack([each.weights for each in models]),
            "flying.buffers": np.stack([each.buffers for each in models]),
            **({"flying.gradients": np.stack(gradients)} if len(gradients) == len(models) else {})}


def _check_arrays(state: State, expected: Mapping[str, tuple[str, tuple[Any, ...]]]) -> None:
    """Raise ValueError unless arrays have the expected type and shape, in which ``...`` is a count of any size."""
    for name, (kind, shape) in expected.items():
        found = state.get(name)
        if found is not None and (found.dtype != np.dtype(kind) or len(found.shape) != len(shape) or any(
                size not in (..., own) for size, own in zip(shape, found.shape, strict=True))):
            sizes = ", ".join("any" if size is ... else str(size) for size in shape)
            raise ValueError(f"its {name} is {found.dtype} of shape {found.shape}, not {np.dtype(kind)} of ({sizes})")


def _restored(state: State) -> dict[int, Cohort]:
    """Return the cohorts of a snapshot, by running job."""
    place = {version: place for place, version in enumerate(state["flying.versions"].tolist())}
    cohorts: dict[tuple[int, int], Cohort] = {}
    under_way: dict[int, Cohort] = {}
    for job, device, version, number, is_under_way in state["flying.jobs"].tolist():
        at = place[version]
        cohort = cohorts.setdefault((version, number), Cohort(
            number, {}, version, state["flying.models"][at], state["flying.buffers"][at],
            state["flying.gradients"][at] if "flying.gradients" in state else None))
        cohort.devices[job] = device
        if is_under_way:
            under_way[job] = cohort
    return under_way


def cosine(a: Floats, b: Floats) -> float:
    """Return the cosine between two steps; 1 if one of them is zero."""
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length > 0.0 else 1.0
