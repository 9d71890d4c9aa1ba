"""Learning for real: the global model, what the devices have sent, and the training behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints, State, Weights
from netsim.fleet.work import JobSizes
from netsim.learning.aggregation import aggregate
from netsim.learning.buffers import KeptBuffers, kept_local
from netsim.learning.in_flight import Cohort, InFlight, cosine
from netsim.learning.learner import Learner
from netsim.learning.protocol import Base, Evaluation, TrainedJob
from netsim.learning.trainer import Update
from netsim.learning.upload_table import UploadTable

if TYPE_CHECKING:
    from netsim.fleet.population import Population
    from netsim.scenario import Scenario


class TorchLearning:
    """A :class:`~netsim.learning.protocol.Learning` over a learner's workers.

    ``keeps_models`` is whether somebody compares the devices' models; then those last uploaded are kept in ``folder``.
    """

    trains = True

    def __init__(self, scenario: Scenario, learner: Learner, folder: Path, *, keeps_models: bool) -> None:
        self._settings = scenario.learning
        self._learner = learner
        self._folder = folder
        self._keeps_models = keeps_models
        self._table: UploadTable | None = None
        self._sums: Ints | None = None      # of the models in the table, as a checkpoint has them
        self._weights: Weights = learner.initial_weights()
        self._buffers = KeptBuffers(learner.buffers, len(learner.samples), local=kept_local(scenario.learning))
        self._in_flight = InFlight(learner, self._buffers)
        self._server: State = {}                                   # what the server's optimiser remembers
        self._loss = np.full(len(learner.samples), np.nan)
        self._gradient_norm = np.full(len(learner.samples), np.nan)
        self._arrived: tuple[Ints, Weights] | None = None          # since the last checkpoint
        self.samples: Ints | None = learner.samples
        self._bits = scenario.bits(learner.sent)

    def sizes(self, scenario: Scenario, population: Population) -> JobSizes:
        return JobSizes.of(scenario, population, self._bits)

    def device_columns(self) -> Mapping[str, Any]:
        counts = self._learner.label_counts.T
        return {"majority_class": self._learner.majority,
                **{f"class_{label}": column for label, column in enumerate(counts)}}

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        def local_loss(devices: Ints) -> Floats:
            return self._learner.local_loss(self._weights, devices.tolist(), self._buffers.of(devices))

        return {
            "loss": lambda: self._loss.copy(), "gradient_norm": lambda: self._gradient_norm.copy(),
            "global_weights": lambda: _read_only(self._weights),
            "local_weights": lambda: self._table.weights if self._table else None,
            "layers": lambda: self._learner.layers, "local_loss": lambda: local_loss,
            "classes": lambda: self._learner.classes,
        }

    def begin(self, devices: int, round: int) -> None:
        if self._keeps_models:
            self._table = UploadTable(self._folder, devices, self._learner.parameters, round, self._sums)

    def prepare(self, jobs: Mapping[int, int], version: int, round: int | None = None) -> None:
        together = [dict(jobs)] if round is not None else [{job: device} for job, device in jobs.items()]
        for devices in (each for each in together if each):
            self._in_flight.prepare(Cohort(
                next(iter(devices)) if round is None else round, devices, version, self._weights, self._buffers.mean,
                self._server.get("gradient")))

    def start(self, jobs: Sequence[TrainedJob]) -> None:
        self._in_flight.start([job.number for job in jobs])

    def drop(self, jobs: Sequence[TrainedJob]) -> None:
        self._in_flight.drop([job.number for job in jobs])

    def update(self, job: int) -> Update:
        """What a job has learned; waits until that is known."""
        return self._in_flight.update(job)

    def aggregate(
        self, jobs: Sequence[int], weights: Floats | None, base: Base = "start", chances: Floats | None = None,
    ) -> None:
        updates, flying, rest = [self.update(job) for job in jobs], self._in_flight, 0.0
        if weights is None:
            steps = None
        else:
            steps = weights, [self._weights if base == "now" else flying.origin(job) for job in jobs]
            rest = max(0.0, 1.0 - float(weights.sum())) if base == "now" else 0.0
        self._weights = aggregate(self._settings, self._weights, updates, self._server,
                                  int(self._learner.samples.sum()), chances, steps)
        counts = np.array([update.samples for update in updates], np.float64) if weights is None else weights
        flying.drop(jobs)
        # of a device that has arrived several times, the last time
        places = list({update.device: place for place, update in enumerate(updates)}.values())
        self._note([updates[place] for place in places], counts[places], rest)

    def alignment(self, jobs: Sequence[int]) -> Floats:
        def one(job: int) -> float:
            start = self._in_flight.origin(job).astype(np.float64)
            return cosine(self.update(job).weights - start, self._weights - start)

        return np.array([one(job) for job in jobs])

    def _note(self, updates: list[Update], weights: Floats, rest: float) -> None:
        """Keep what devices have sent besides their steps: how training went, their buffers, and their models."""
        devices = np.array([update.device for update in updates])
        self._loss[devices] = [update.loss for update in updates]
        rows = [update.buffers for update in updates if update.buffers is not None]
        if rows:
            self._buffers.take(devices, np.stack(rows), weights, rest)
        self._gradient_norm[devices] = [update.gradient_norm for update in updates]
        if self._table:
            self._arrived = devices, np.stack([update.weights for update in updates])

    def evaluate(self) -> Evaluation | None:
        return self._learner.evaluate(self._weights, self._buffers.mean)

    def snapshot(self) -> State:
        uploads = {"uploads": self._table.sums} if self._table else {}
        return {**uploads, "weights": self._weights, "loss": self._loss, "gradient_norm": self._gradient_norm,
                **self._buffers.snapshot(), **self._in_flight.snapshot(),
                **{f"server.{name}": array for name, array in self._server.items()}}

    def restore(self, state: State) -> None:
        if state["weights"].shape != (self._learner.parameters,):
            raise ValueError(f"it holds no model of {self._learner.parameters} parameters")
        self._weights = state["weights"]
        self._sums = state["uploads"] if self._keeps_models else None
        self._buffers.restore(state)
        self._in_flight.restore(state)
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


def _read_only(weights: Weights) -> Weights:
    view = weights.view()
    view.flags.writeable = False
    return view
