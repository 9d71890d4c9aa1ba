"""Replay of rounds in the simulated cell, each from the state at its start, unchanged or with changes.

A round depends only on the state that a checkpoint saves at its start, and on the environment, which is drawn in
absolute time. A replay therefore works like resuming a run: from that state, in the cell, with the run's own server.
The state is read from the trace if it consists of clock and battery levels; otherwise the run is replayed up to the
round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import simpy

from netsim.allocation.planner import PlannerFactory, RoundPlan, Wave
from netsim.allocation.problem import Problem
from netsim.base.types import Floats, Ints, State
from netsim.cell.battery import Batteries
from netsim.cell.cell import SimulatedCell
from netsim.cell.channel import Gains, TimeVaryingChannel
from netsim.cell.job import jobs_of
from netsim.cell.schedulers import Planned, Scheduler
from netsim.cell.uplink import Uplink
from netsim.devices.population import draw_population
from netsim.devices.workload import JobSizes
from netsim.environment.channel import GainTimeline
from netsim.learning.backend import NoLearning
from netsim.selection import METHODS, Choice, View, make_selection
from netsim.server import SERVERS, strategy_of
from netsim.server.job_recording import record_ended
from netsim.server.participation import Participation
from netsim.server.radio_cell import CellParts, RadioCell
from netsim.server.round_recorder import RoundRecorder
from netsim.server.round_trace import NO_DEVICES
from netsim.server.selection_runner import SelectionRunner
from netsim.server.server import RunProgress, Server, ServerContext
from netsim.trace.recorder import Part, Recorder
from netsim.trace.schema import SERVER

if TYPE_CHECKING:
    from netsim.scenario import Scenario

MOST_KEPT = 5_000_000      # device states: 200 MB at five numbers each; larger runs keep the state of one round only


@dataclass(frozen=True, eq=False)
class RecordedRound:
    """State at the start of a round, read from the trace."""

    cohort: Ints
    began: float                         # seconds
    first_job: int
    dispatched: int                      # jobs with a plan before this round
    level_j: Callable[[], Floats]        # returns the levels of all batteries in J


@dataclass(frozen=True)
class FixedSelection:
    """A selection method that returns recorded cohorts."""

    rounds: Mapping[int, Ints]           # cohort of each round; empty for other rounds
    clusters: None = None

    def choose(self, view: View, again: int = 0) -> Choice:
        return Choice(self.rounds.get(view.round, NO_DEVICES))

    def everybody(self, view: View) -> Choice:
        return self.choose(view)

    def moved(self, before: Ints | None) -> dict[int, float]:
        return {}


class RecordedChannel:
    """A channel with a cache: what-if replays of one round use the same devices at the same instants."""

    def __init__(self, channel: GainTimeline) -> None:
        self.channel, self.changes, self.next_change = channel, channel.changes, channel.next_change
        self._known: dict[tuple[str, int, float], dict[int, float]] = {}

    def gain(self, devices: Ints | slice, t: float, round: int) -> Floats:
        return self._recorded_gain("gain", devices, t, round)

    def mean(self, devices: Ints | slice, t: float, round: int) -> Floats:
        return self._recorded_gain("mean", devices, t, round)

    def _recorded_gain(self, what: str, devices: Ints | slice, t: float, round: int) -> Floats:
        ask = getattr(self.channel, what)
        if isinstance(devices, slice):
            found: Floats = ask(devices, t, round)
            return found
        known = self._known.setdefault((what, round, self.next_change(t)), {})      # gains are constant until then
        new = [device for device in devices.tolist() if device not in known]
        if new:
            known.update(zip(new, ask(np.array(new), t, round).tolist(), strict=True))
        return np.array([known[device] for device in devices.tolist()])


@dataclass(frozen=True, eq=False)
class RestoredRun:
    """A cell with its rounds, the history of its server and a recorder."""

    rounds: RoundRecorder
    history: Participation
    recorder: Recorder

    @property
    def cell(self) -> RadioCell:
        return self.rounds.cell

    @classmethod
    def at(cls, parts: CellParts, clock: float) -> RestoredRun:
        """Return a new cell at time ``clock`` (seconds)."""
        recorder = Recorder()
        rounds = RoundRecorder(simpy.Environment(clock), recorder, parts)
        return cls(rounds, Participation(len(parts.population)), recorder)

    @classmethod
    def of(cls, parts: CellParts, state: Mapping[str, State]) -> RestoredRun:
        """Return a cell with the state of a snapshot."""
        found = cls.at(parts, float(state["cell"]["clock"][0]))
        found.recorder.restore(state["recorder"])
        found.history.restore(state["history"])
        found.rounds.restore(state["rounds"])
        found.cell.restore(state["cell"])
        return found

    def snapshot(self) -> dict[str, State]:
        return {"cell": self.cell.snapshot(), "rounds": self.rounds.snapshot(),
                "history": self.history.snapshot(), "recorder": self.recorder.snapshot()}


@dataclass(frozen=True, eq=False)
class ReplayedRound:
    """A replayed round: its length in s, its plan and its trace."""

    round_s: float
    agenda: RoundPlan
    part: Part


class RunReplay:
    """The rounds of one run, each replayed on request."""

    def __init__(
        self, scenario: Scenario, seed: int, work: tuple[Ints, Floats], bits: float,
        rounds: Mapping[int, RecordedRound],
    ) -> None:
        self.scenario, self.seed = scenario, seed
        samples, cycles_per_sample = work            # known from data and model, which a replay does not read
        population = replace(draw_population(scenario, seed, samples, 1.0), cycles_per_sample=cycles_per_sample)
        self.parts = CellParts.of(scenario, seed, population, JobSizes.of(scenario, population, bits))
        self.learning = NoLearning(scenario.size, samples)
        self.rounds = rounds
        self._cohorts = {number: each.cohort for number, each in rounds.items()}
        self._on: RestoredRun | None = None                          # the run, as far as it was replayed
        self._begun: dict[int, dict[str, State]] = {}                # states at the start of rounds
        self._was: dict[int, ReplayedRound] = {}                     # rounds replayed without a change
        self._channel = (0, self.parts.channel)                      # of the round replayed last

    @property
    def in_trace(self) -> bool:
        """True if a round's state is clock and battery levels: no charging, heat, losses or user's server."""
        devices, server = self.parts.devices, self.scenario.server
        return not (devices.supplies or devices.heat_limits or (devices.faults and devices.faults.losses)
                    or (server and server.kind not in SERVERS))

    @property
    def as_planned(self) -> bool:
        """True if rounds follow their plans, except for batteries and deadlines."""
        server, channel = self.scenario.server, self.parts.channel
        return (self.scenario.living is None and (server is None or server.kind == "synchronous")
                and self.scenario.cell.scheduler in (None, "planned") and channel.next_change(0.0) == np.inf
                and (self.parts.believes == "instantaneous" or not channel.changes))

    @property
    def waves_independent(self) -> bool:
        """True if a wave of a round depends neither on its start nor on the waves before it."""
        server = self.scenario.server
        return (self.scenario.living is None and self.in_trace and (server is None or server.kind == "synchronous")
                and self.parts.channel.next_change(0.0) == np.inf and not self.parts.problems.has_downlink)

    def begin(self, number: int) -> RadioCell:
        """Return the cell in its state at the start of a round."""
        return RestoredRun.of(self.parts, self._before(number)).cell

    def unchanged(self, number: int) -> ReplayedRound | None:
        """Return a round without a change if it was replayed on the way to a later one; else None."""
        return self._was.get(number)

    def play(
        self, number: int, problem: Problem, charge_j: Floats, planner: PlannerFactory, scheduler: Scheduler, *,
        hurried: bool = True,
    ) -> ReplayedRound:
        """Replay a round with other devices and limits, battery levels in J of these devices, method and scheduler.

        ``hurried`` applies the deadline of the run.
        """
        restored, devices = self._changed(number, problem, charge_j, planner, scheduler), np.asarray(problem.numbers)
        return self._play(restored, number, {number: devices}, hurried=hurried)

    def plan(self, number: int, problem: Problem, charge_j: Floats, planner: PlannerFactory) -> RoundPlan:
        """Return the plan of a round with changes (see :meth:`play`), without playing it."""
        devices = np.asarray(problem.numbers)
        restored = self._changed(number, problem, charge_j, planner, self.parts.scheduler)
        server = self._server(restored, number, FixedSelection({number: devices}))
        return restored.cell.plan(devices, restored.cell.problems.sizes, server.rule(), self.scenario.selection.cohort)

    def play_from_start(
        self, problem: Problem, planner: PlannerFactory, scheduler: Scheduler, aggregations: int, *,
        allow_import: bool = False, **options: Any,
    ) -> tuple[list[float], Part]:
        """Replay a run with changes from its start; return the times of its aggregations in s, and the trace.

        ``options`` are changed options of the server, such as ``concurrency``.
        """
        parts = replace(self.parts, problems=self.parts.problems.with_limits(problem), planner=planner,
                        scheduler=scheduler)
        method, given = self.scenario.selection.method, self.scenario.selection.options
        METHODS.permit(method, allow_import=allow_import)
        selector = SelectionRunner(method, make_selection(method, given), self.seed)
        restored, ends = RestoredRun.at(parts, 0.0), list[float]()
        server = self._server(restored, aggregations, selector, lambda at: ends.append(at.time_s), **options)
        restored.cell.env.run(until=restored.cell.env.process(server.run()))
        return ends, restored.recorder.take()

    def _changed(
        self, number: int, problem: Problem, charge_j: Floats, planner: PlannerFactory, scheduler: Scheduler,
    ) -> RestoredRun:
        """Return the cell at the start of a round, with changes."""
        state = self._before(number)
        if self._channel[0] != number and self.parts.channel.changes:
            self._channel = number, RecordedChannel(self.parts.channel)
        changed = replace(self.parts, problems=self.parts.problems.with_limits(problem), planner=planner,
                          scheduler=scheduler, channel=self._channel[1])
        restored = RestoredRun.of(changed, state)
        restored.cell.batteries.hold(np.asarray(problem.numbers), charge_j)
        return restored

    def _before(self, number: int) -> dict[str, State]:
        """Return the state at the start of a round."""
        if number not in self._begun:
            if self.in_trace:
                self._begun = {number: self._recorded(number)}
            else:
                self._play_until(number)
        return self._begun[number]

    def _recorded(self, number: int) -> dict[str, State]:
        """Return the state at the start of a round, read from the trace."""
        recorded = self.rounds[number]
        restored = RestoredRun.at(self.parts, recorded.began)
        state = restored.snapshot()
        state["rounds"]["counts"] = np.array([number - 1, recorded.first_job, recorded.dispatched], np.int64)
        state["cell"]["left_j"] = recorded.level_j()[restored.cell.batteries.finite]
        state["history"]["counts"] = np.array([0, 1], np.int64)      # one arrival, or the run may count as ended
        return state

    def _play_until(self, number: int) -> None:
        """Replay the run up to the start of a round, and keep the state of each round on the way."""
        on, self._on = self._on, None            # discarded after an error
        if on is None or on.rounds.version >= number:
            on = RestoredRun.at(self.parts, 0.0)
        keep = len(self.parts.population) * max(self.rounds) <= MOST_KEPT
        while True:
            here = on.rounds.version + 1
            self._begun = {**(self._begun if keep else {}), here: on.snapshot()}
            if here == number:
                break
            self._was[here] = self._play(on, here, self._cohorts)
        self._on = on

    def _play(
        self, restored: RestoredRun, number: int, cohorts: Mapping[int, Ints], *, hurried: bool = True,
    ) -> ReplayedRound:
        """Run one round with the run's server."""
        cell, server = restored.cell, self._server(restored, number, FixedSelection(cohorts), hurried=hurried)
        began = cell.now
        cell.env.run(until=cell.env.process(server.run()))
        return ReplayedRound(cell.now - began, restored.rounds.agenda, restored.recorder.take())

    def _server(
        self, restored: RestoredRun, number: int, selector: SelectionRunner | FixedSelection,
        closed: Callable[[RunProgress], None] = lambda at: None, *, hurried: bool = True, **options: Any,
    ) -> Server:
        """Return the run's server up to a round, with changed options."""
        scenario = self.scenario
        rounds = scenario.rounds if hurried else scenario.rounds.model_copy(update={"deadline": None})
        end = scenario.end.model_copy(update={"rounds": number, "time": None})
        strategy = replace(strategy_of(scenario), **options) if options else strategy_of(scenario)
        context = ServerContext(
            scenario.model_copy(update={"rounds": rounds, "end": end}), restored.rounds, restored.cell.problems.sizes,
            self.learning, restored.history, closed, selector)      # type: ignore[arg-type]
        return cast("Server", strategy.loop(context, strategy))


def play_wave(wave: Wave, scheduler: Scheduler | None = None, gains: Gains | None = None) -> Part:
    """Simulate the jobs of a wave on mains-powered devices, and return the trace.

    ``gains`` are time-varying channel gains; by default those of the plan are constant.
    """
    env, recorder, problem = simpy.Environment(), Recorder(), wave.problem
    channel = None if gains is None else TimeVaryingChannel(env, gains, problem.noise_w_per_hz)
    uplink = Uplink(env, problem.bandwidth_hz, scheduler or Planned(), link=problem.link, channel=channel)
    cell = SimulatedCell(env, uplink, Batteries(env, np.full(int(wave.devices.max()) + 1, np.inf)))
    allocated = recorder.instant("allocate", SERVER, env.now, value=len(wave.devices))
    jobs = jobs_of(wave, problem.gain, cause=allocated)
    cell.submit(jobs)
    env.run(cell.wait(range(len(jobs))))
    ended = record_ended(recorder, cell.collect(), uplink, 0)
    after = [] if ended is None else ended.last.tolist()
    recorder.span("aggregate", SERVER, env.now, env.now, value=len(jobs), after=after)
    return recorder.take()
