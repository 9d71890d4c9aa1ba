"""One run of a scenario: wires population, selection, allocation, cell and learning together."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import simpy

from netsim.allocation import Infeasible, Problem, allocate
from netsim.allocation.diagnosis import largest_feasible
from netsim.allocation.waves import Agenda, Planner
from netsim.base.arrays import Bools, Floats, Ints, Weights
from netsim.base.errors import InputError
from netsim.base.streams import stream
from netsim.cell.device import Outcome
from netsim.cell.server import Server
from netsim.cell.uplink import Uplink
from netsim.fleet.population import Population, draw_population
from netsim.fleet.work import problem_for
from netsim.learning.sizes import samples_without_learning, upload_bits
from netsim.learning.upload_table import Uploads
from netsim.prepare import check_layers, prepare
from netsim.run import Run
from netsim.selection import Choice, Selection, View, check_choice, check_state
from netsim.state import RunState
from netsim.trace.rows import SERVER, Recorder
from netsim.trace.run_directory import RunDirectory
from netsim.trace.stored_run import PARTS
from netsim.world.channel import round_gain

if TYPE_CHECKING:
    from netsim.learning.learner import Learner, Training
    from netsim.scenario import Scenario

ROWS_A_PART = 20_000   # without learning, rounds are cheap to repeat, and small parts would cost more than they save


@dataclass(frozen=True)
class RunProgress:
    """How far a run is, after each round."""

    round: int
    rounds: int                 # the most there can be
    time_s: float
    energy_j: float
    accuracy: float             # NaN where it was not evaluated
    target: float | None


def simulate(
    scenario: Scenario, out: Path | str | None = None, seed: int = 0, *,
    learning: bool = True, workers: int | None = None, resume: bool = False,
    progress: Callable[[RunProgress], None] | None = None, first_rounds: Path | None = None,
    allow_import: bool = False,
) -> Run:
    """Simulate a scenario and return its run.

    ``out`` is the run's folder (without one, the run lives as long as the object returned). ``workers`` is how many
    processes train devices (default: one for each core); it changes nothing but the speed. ``resume`` goes on with
    the run that lies in ``out``, if one does. ``learning=False`` plays the rounds without training. ``first_rounds``
    is a folder that many runs may share: those that begin alike train their first round once. ``allow_import`` lets
    the scenario name code of packages that are not made for netsim.
    """
    learning = learning and scenario.trains
    selection = prepare(scenario, learning=learning, allow_import=allow_import)
    keep = TemporaryDirectory(prefix="netsim-") if out is None else None
    path = Path(keep.name if keep else str(out))
    identity = {"scenario": scenario.name, "scenario_sha256": scenario.digest, "seed": seed, "learning": learning}
    directory = RunDirectory(path, identity, learning=learning)
    with ExitStack() as stack:
        stack.callback(directory.close)
        resuming = resume and directory.has_begun
        stored = directory.resume() if resuming else None
        if not resuming:
            directory.claim()
        learner: Learner | None = None
        if learning:
            from netsim.learning.learner import open_learner

            learner = stack.enter_context(open_learner(
                scenario, seed, workers, first_rounds, allow_import=allow_import))
            check_layers(selection, learner.layers)
        samples = learner.samples if learner else samples_without_learning(scenario, seed)
        population = draw_population(scenario, seed, samples)
        if not resuming:
            directory.begin(scenario.to_toml(), lambda file: write_devices(scenario, population, learner, file))
        parameters = learner.parameters if learner else None
        state = (directory.checked(lambda: RunState.of(stored, len(population), parameters)) if stored is not None
                 else RunState.fresh(len(population)))
        Simulation(scenario, seed, population, selection, learner, directory, state, progress).play()
    return Run(path, keep)


class Simulation:
    """The server's steps, bound to one scenario; ``play`` runs them in a SimPy environment."""

    def __init__(
        self, scenario: Scenario, seed: int, population: Population, selection: Selection, learner: Learner | None,
        directory: RunDirectory, state: RunState, progress: Callable[[RunProgress], None] | None,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.population = population
        self.selection = selection
        self.learner = learner
        self.directory = directory
        self.state = state
        self.progress = progress
        self.recorder = Recorder(next_seq=state.next_seq)
        self.selection.state.update(state.selection)
        self.bits = upload_bits(scenario)
        self.uploads: Uploads | None = None
        self.training: Training | None = None
        self.gain: Floats = population.gain
        self.cohort = Choice(np.zeros(0, np.int64))
        if learner and state.weights is None:
            state.weights = learner.initial_weights()

    def play(self) -> None:
        """Run all rounds that are still to come, then write the summary."""
        state = self.state
        if self.learner and "weights" in self.selection.needs and not self.ended():
            self.uploads = Uploads(
                self.directory.path, len(self.population), self.learner.parameters, complete_round=state.round)
        env = simpy.Environment(initial_time=state.time_s)
        server = Server(
            env, Uplink(env, self.scenario.cell.bandwidth, self.recorder), self.recorder, state,
            self.population.battery_j, self, self.scenario.rounds.deadline)
        env.run(until=env.process(server.rounds()))
        self.write_part()
        self.directory.finish(state.round, self.summary(), state.trace_sha256)
        if self.uploads:
            self.uploads.remove()

    # The steps of a round, in the order in which the server takes them.

    def ended(self) -> bool:
        """Whether the target is reached, or the rounds, the time or the devices are used up."""
        return (self.target_reached or self.state.round >= self.scenario.end.rounds or self.used_up
                or self.stuck)

    def select(self, k: int) -> Ints:
        """The cohort of round ``k``: in the first round everybody, later as the selection method says."""
        self.gain = round_gain(self.scenario, self.population, self.seed, k)
        if k == 1 and self.scenario.rounds.first == "all":
            self.cohort = Choice(np.flatnonzero(self.available))
        else:
            view = self.view(k)
            clusters = self.selection.state.get("clusters")
            choice = self.selection(view, stream(self.seed, "selection", k))
            self.cohort = Choice(check_choice(choice, view, self.scenario.selection.method), choice.probability)
            self.record_clusters(clusters, self.selection.state.get("clusters"))
        return self.cohort.devices

    def record_clusters(self, before: Ints | None, after: Ints | None) -> None:
        """Record which cluster each device is in, where the selection method has put it into one or moved it."""
        if after is not None:
            for device in np.flatnonzero(after >= 0 if before is None else after != before).tolist():
                self.recorder.counter("cluster", device, self.state.time_s, float(after[device]))

    def plan(self, k: int, devices: Ints) -> Agenda:
        """Bandwidth, CPU frequency and power for the devices that fit."""
        rounds = self.scenario.rounds
        first = k == 1 and rounds.first == "all"
        agenda = self.planner.agenda(
            np.sort(devices), rounds.first_infeasible if first else rounds.infeasible, self.scenario.selection.cohort)
        if not agenda.waves and not self.state.times_used.any():
            # a run in which no device ever fits is a mistake in the scenario, and not worth playing out
            reason = self.why_nobody_fits()
            if reason:
                raise InputError(f"no device can ever take part: {reason}")
        return agenda

    def train(self, k: int, devices: Ints) -> None:
        """Start the local training of these devices; simulated time goes on meanwhile."""
        if self.learner and len(devices):
            self.training = self.learner.train(
                k, self.weights, devices.tolist(), self.state.server.get("gradient"))

    def deliver(self, device: int) -> None:
        """An upload has ended: from here on the server has the model, so its training must be done."""
        if self.training:
            self.training.update(device)

    def learn(self, k: int, outcomes: list[Outcome]) -> None:
        """Aggregate what arrived (eq. 4), and evaluate the new global model."""
        state, accuracy = self.state, math.nan
        if self.learner and self.training:
            arrived = {outcome.device for outcome in outcomes if outcome.arrived}
            drawn = [i for i, device in enumerate(self.cohort.devices.tolist()) if device in arrived]
            if drawn:
                self.aggregate(k, drawn, self.learner, self.training)
            self.training = None
        if self.learner and self.evaluation_due(k):
            evaluation = self.learner.evaluate(self.weights)
            accuracy = evaluation.accuracy
            self.recorder.counter("accuracy", SERVER, state.time_s, accuracy)
            self.recorder.counter("loss", SERVER, state.time_s, evaluation.loss)
        state.accuracy.append(accuracy)

    def aggregate(self, k: int, drawn: list[int], learner: Learner, training: Training) -> None:
        """Make a new global model of what arrived; ``drawn`` are positions in the cohort, in the order drawn."""
        from netsim.learning.aggregation import aggregate, draw_chances

        state, probability = self.state, self.cohort.probability
        devices = self.cohort.devices[drawn]
        updates = [training.update(device) for device in devices.tolist()]
        state.weights = aggregate(
            self.scenario.learning, self.weights, updates, state.server,
            total=int(learner.samples.sum()), chances=None if probability is None else draw_chances(probability)[drawn])
        state.loss[devices] = [update.loss for update in updates]
        state.gradient_norm[devices] = [update.gradient_norm for update in updates]
        if self.uploads:
            self.uploads.stage(k, devices, np.stack([update.weights for update in updates]))

    def close(self, k: int) -> None:
        """Write the round down, and say how far the run is."""
        if self.learner or len(self.recorder) >= ROWS_A_PART:
            self.write_part()
        if self.progress:
            state = self.state
            self.progress(RunProgress(
                k, self.scenario.end.rounds, state.time_s, state.energy_j, state.accuracy[-1],
                self.scenario.learning.target_accuracy if self.learner else None))

    # What the steps lean on.

    @property
    def available(self) -> Bools:
        """The devices whose battery is not empty."""
        return self.state.used_j < self.population.battery_j

    @property
    def weights(self) -> Weights:
        """The global model; there is one as soon as there is a learner."""
        assert self.state.weights is not None
        return self.state.weights

    @property
    def planner(self) -> Planner:
        """Plans by the scenario's allocation method."""
        method = self.scenario.allocation
        return Planner(
            problem=self.problem,
            allocate=lambda problem: allocate(problem, method.method, **method.options),
            largest=lambda problem: largest_feasible(problem, method.method, **method.options),
        )

    def why_nobody_fits(self) -> str | None:
        """What keeps the devices with energy left from ever taking part again; None where one of them may."""
        changes = self.scenario.cell.fading != "none" or self.scenario.cell.gain_trace is not None
        everybody = np.flatnonzero(self.available)
        if not changes and not len(self.planner.largest(self.problem(everybody))):
            try:
                self.planner.one_wave(everybody)
            except Infeasible as reason:
                return str(reason)
        return None

    @property
    def stuck(self) -> bool:
        """Whether nobody arrived in the last round, or ever will: the batteries of those who fitted are empty."""
        state = self.state
        return (bool(state.times_used.any()) and not (state.last_round == state.round).any()
                and self.why_nobody_fits() is not None)

    @property
    def used_up(self) -> bool:
        """Whether no time is left, or no device."""
        end = self.scenario.end
        return (end.time is not None and self.state.time_s >= end.time) or not self.available.any()

    @property
    def target_reached(self) -> bool:
        """Whether the last evaluation met the target accuracy."""
        target = self.scenario.learning.target_accuracy
        evaluated = [accuracy for accuracy in self.state.accuracy[-1:] if not math.isnan(accuracy)]
        return target is not None and any(accuracy >= target for accuracy in evaluated)

    def evaluation_due(self, k: int) -> bool:
        """Every so many rounds, and in the last, whatever makes it the last."""
        return k % self.scenario.learning.evaluation.every == 0 or k >= self.scenario.end.rounds or self.used_up

    def problem(self, devices: Ints) -> Problem:
        """The allocation problem of these devices in this round."""
        return problem_for(self.scenario, self.population, devices, gain=self.gain, bits=self.bits)

    def view(self, k: int) -> View:
        """What the selection method may see."""
        state, learner = self.state, self.learner

        def local_loss(devices: Ints) -> Floats:
            assert learner is not None
            return learner.local_loss(self.weights, devices.tolist())

        everybody = self.problem(np.arange(len(self.population)))
        return View(
            round=k, time_s=state.time_s, cohort_size=self.scenario.selection.cohort, population=self.population,
            available=self.available, battery_j=self.population.battery_j - state.used_j, gain=self.gain,
            bits=self.bits, cycles=everybody.cycles, bandwidth_hz=everybody.bandwidth_hz,
            noise_w_per_hz=everybody.noise_w_per_hz, last_round=state.last_round.copy(),
            times_used=state.times_used.copy(), duration_s=state.duration_s.copy(), loss=state.loss.copy(),
            gradient_norm=state.gradient_norm.copy(), global_weights=_read_only(state.weights),
            local_weights=self.uploads.weights if self.uploads else None,
            layers=learner.layers if learner else {}, local_loss=local_loss if learner else None,
            accuracy=tuple(state.accuracy), classes=learner.classes if learner else 0)

    def write_part(self) -> None:
        """Store what was recorded since the last part, with the state to resume from."""
        if not len(self.recorder):
            return
        state = self.state
        part = self.recorder.take()
        state.next_seq = self.recorder.next_seq
        state.trace_sha256 = part.sha256(state.trace_sha256)
        state.selection = check_state(self.selection.state, self.scenario.selection.method)
        self.directory.commit(state.round, part, state.arrays(), state.trace_sha256)
        if self.uploads:
            self.uploads.commit()

    def summary(self) -> dict[str, Any]:
        """The result, as ``netsim run --json`` prints it."""
        state, rounds = self.state, Run(self.directory.path).rounds
        evaluated = [accuracy for accuracy in state.accuracy if not math.isnan(accuracy)]
        return {
            "run_dir": str(self.directory.path),
            "rounds": state.round,
            "simulated_s": state.time_s,
            "energy_j": state.energy_j,
            "accuracy": evaluated[-1] if evaluated else None,
            "target_reached": self.target_reached if self.learner else None,
            "round_s": rounds["round_s"].to_list(),
            "breakdown": {part: math.fsum(rounds[f"{part}_s"]) for part in PARTS},
            "dropped": state.dropped,
            "trace_sha256": state.trace_sha256,
        }


def write_devices(scenario: Scenario, population: Population, learner: Learner | None, file: IO[bytes]) -> None:
    """The population as a Parquet table, one row a device; ``name`` is null where the fleet gives none."""
    import polars as pl

    names = [name for table in scenario.population
             for name in (table.devices and table.devices.name) or [None] * table.size]
    columns: dict[str, Any] = {
        "device": np.arange(len(population)),
        "name": pl.Series(names, dtype=pl.String),
        "kind": np.array(population.kinds)[population.kind],
        **{name: getattr(population, name) for name in population.columns},
    }
    if learner:
        columns["majority_class"] = learner.majority
        columns.update({f"class_{label}": counts for label, counts in enumerate(learner.label_counts.T)})
    pl.DataFrame(columns).write_parquet(file)


def _read_only(weights: Weights | None) -> Weights | None:
    if weights is None:
        return None
    view = weights.view()
    view.flags.writeable = False
    return view


class _Callable(ModuleType):
    """`netsim.simulate` names this module and the function in it: whichever is imported first, it can be called."""

    __call__ = staticmethod(simulate)


sys.modules[__name__].__class__ = _Callable
