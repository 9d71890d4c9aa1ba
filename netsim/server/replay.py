"""Rounds played again on the real cell: each from the state in which it began, as it was or with changes.

All that a round depends on is what a checkpoint keeps when it begins, and the world, which is drawn in absolute time.
So a round is played again as a run is resumed: from that state, in the cell itself, under the run's own server. The
state is read off the trace where it consists of clock and battery levels alone; else the run is played up to the round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import simpy

from netsim.allocation.problem import Problem
from netsim.allocation.waves import Agenda, MakePlanner, Wave
from netsim.base.arrays import Floats, Ints, State
from netsim.cell.battery import Batteries
from netsim.cell.cell import SimulatedCell
from netsim.cell.channel import Gains, TimeVaryingChannel
from netsim.cell.job import jobs_of
from netsim.cell.schedulers import Planned, Scheduler
from netsim.cell.uplink import Uplink
from netsim.fleet.population import draw_population
from netsim.fleet.work import JobSizes
from netsim.learning.protocol import NoLearning
from netsim.selection import Choice, View
from netsim.server import SERVERS, strategy_of
from netsim.server.history import History
from netsim.server.radio_cell import CellParts, RadioCell
from netsim.server.recording import record_ended
from netsim.server.rounds import RoundRecorder
from netsim.server.server import ServerContext
from netsim.trace.recorder import Part, Recorder
from netsim.trace.schema import SERVER
from netsim.world.channel import GainTimeline

if TYPE_CHECKING:
    from netsim.scenario import Scenario

NOBODY: Ints = np.zeros(0, np.int64)
MOST_KEPT = 5_000_000      # device states: 200 MB at five numbers each; a longer run is played again when asked


@dataclass(frozen=True, eq=False)
class RecordedRound:
    """What the trace of a run says of the state in which a round began."""

    cohort: Ints
    began: float
    first_job: int
    dispatched: int                      # jobs before it that had a plan
    level_j: Callable[[], Floats]        # of all batteries when it began


@dataclass(frozen=True)
class FixedSelection:
    """A selection that chooses the cohorts of a run."""

    rounds: Mapping[int, Ints]           # cohorts; empty where there is no entry
    clusters: None = None

    def choose(self, view: View, again: int = 0) -> Choice:
        return Choice(self.rounds.get(view.round, NOBODY))

    def everybody(self, view: View) -> Choice:
        return self.choose(view)

    def moved(self, before: Ints | None) -> dict[int, float]:
        return {}


class RememberedChannel:
    """A channel that keeps its gains: the changes of one round ask for the same devices at the same instants."""

    def __init__(self, channel: GainTimeline) -> None:
        self.channel, self.changes, self.next_change = channel, channel.changes, channel.next_change
        self._known: dict[tuple[str, int, float], dict[int, float]] = {}

    def gain(self, devices: Ints | slice, t: float, round: int) -> Floats:
        return self._remembered("gain", devices, t, round)

    def mean(self, devices: Ints | slice, t: float, round: int) -> Floats:
        return self._remembered("mean", devices, t, round)

    def _remembered(self, what: str, devices: Ints | slice, t: float, round: int) -> Floats:
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
    """A cell and its rounds, with the history of its server and a recorder."""

    rounds: RoundRecorder
    history: History
    recorder: Recorder

    @property
    def cell(self) -> RadioCell:
        return self.rounds.cell

    @classmethod
    def at(cls, parts: CellParts, clock: float) -> RestoredRun:
        """A new cell, at this time."""
        recorder = Recorder()
        return cls(RoundRecorder(simpy.Environment(clock), recorder, parts), History(len(parts.population)), recorder)

    @classmethod
    def of(cls, parts: CellParts, state: Mapping[str, State]) -> RestoredRun:
        """As it was when its state was kept."""
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
    """A round as it went: its length, its plan, and the trace."""

    round_s: float
    agenda: Agenda
    part: Part


class RunReplay:
    """The rounds of one run, each played when it is asked for."""

    def __init__(
        self, scenario: Scenario, seed: int, samples: Ints, bits: float, rounds: Mapping[int, RecordedRound],
    ) -> None:
        self.scenario = scenario
        population = draw_population(scenario, seed, samples)
        self.parts = CellParts.of(scenario, seed, population, JobSizes.of(scenario, population, bits))
        self.learning = NoLearning(scenario.size, samples)
        self.rounds = rounds
        self._cohorts = {number: each.cohort for number, each in rounds.items()}
        self._on: RestoredRun | None = None                          # the run as far as it was played
        self._begun: dict[int, dict[str, State]] = {}                # states in which rounds began
        self._was: dict[int, ReplayedRound] = {}                     # rounds without a change
        self._channel = (0, self.parts.channel)                      # of the round that was played last

    @property
    def in_trace(self) -> bool:
        """Whether a round's state is clock and battery levels: no charging, heat, losses or server of a user."""
        devices, server = self.parts.devices, self.scenario.server
        return not (devices.supplies or devices.heat_limits or (devices.faults and devices.faults.losses)
                    or (server and server.kind not in SERVERS))

    @property
    def as_planned(self) -> bool:
        """Whether rounds go as their plans say, but for batteries and deadlines."""
        server, channel = self.scenario.server, self.parts.channel
        return (self.scenario.living is None and (server is None or server.kind == "synchronous")
                and self.scenario.allocation.sharing in (None, "planned") and channel.next_change(0.0) == np.inf
                and (self.parts.believes == "now" or not channel.changes))

    def begin(self, number: int) -> RadioCell:
        """The cell as it was when a round began."""
        return RestoredRun.of(self.parts, self._before(number)).cell

    def as_it_was(self, number: int) -> ReplayedRound | None:
        """A round without a change, where playing the run up to a later one has left it; else None."""
        return self._was.get(number)

    def play(
        self, number: int, problem: Problem, charge_j: Floats, planner: MakePlanner, scheduler: Scheduler, *,
        hurried: bool = True,
    ) -> ReplayedRound:
        """A round with the devices and limits of this problem; ``hurried`` is whether there is the run's deadline."""
        state, devices = self._before(number), np.asarray(problem.numbers)
        if self._channel[0] != number and self.parts.channel.changes:
            self._channel = number, RememberedChannel(self.parts.channel)
        changed = replace(self.parts, problems=self.parts.problems.with_limits(problem), planner=planner,
                          scheduler=scheduler, channel=self._channel[1])
        restored = RestoredRun.of(changed, state)
        restored.cell.batteries.hold(devices, charge_j)
        return self._play(restored, number, {number: devices}, hurried=hurried)

    def _before(self, number: int) -> dict[str, State]:
        """The state in which a round begins."""
        if number not in self._begun:
            if self.in_trace:
                self._begun = {number: self._recorded(number)}
            else:
                self._play_until(number)
        return self._begun[number]

    def _recorded(self, number: int) -> dict[str, State]:
        """The state in which a round begins, by the trace."""
        recorded = self.rounds[number]
        state = RestoredRun.at(self.parts, recorded.began).snapshot()
        state["rounds"]["counts"] = np.array([number - 1, recorded.first_job, recorded.dispatched], np.int64)
        state["cell"]["left_j"] = recorded.level_j()
        state["history"]["counts"] = np.array([0, 1], np.int64)      # a run goes on where a device has arrived
        return state

    def _play_until(self, number: int) -> None:
        """Play the run until a round begins, on from where it is; the state of each round on the way is kept."""
        on, self._on = self._on, None            # after a failure nothing of it is left
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
        """Let the run's server play one round."""
        scenario, cell = self.scenario, restored.cell
        rounds = scenario.rounds if hurried else scenario.rounds.model_copy(update={"deadline": None})
        end = scenario.end.model_copy(update={"rounds": number, "time": None})
        strategy = strategy_of(scenario)
        context = ServerContext(
            scenario.model_copy(update={"rounds": rounds, "end": end}), restored.rounds, cell.problems.sizes,
            self.learning, restored.history, lambda at: None, FixedSelection(cohorts))      # type: ignore[arg-type]
        began = cell.now
        cell.env.run(until=cell.env.process(strategy.loop(context, strategy).run()))
        return ReplayedRound(cell.now - began, restored.rounds.agenda, restored.recorder.take())


def play_wave(wave: Wave, scheduler: Scheduler | None = None, gains: Gains | None = None) -> Part:
    """Let the devices of a wave compute and upload as their plan says, all mains-powered, and return the trace.

    ``gains`` is how their channels change meanwhile; without it they are as the plan saw them.
    """
    env, recorder, problem = simpy.Environment(), Recorder(), wave.problem
    channel = None if gains is None else TimeVaryingChannel(env, gains, problem.noise_w_per_hz)
    uplink = Uplink(env, problem.bandwidth_hz, scheduler or Planned(), link=problem.link, channel=channel)
    cell = SimulatedCell(env, uplink, Batteries(env, np.full(int(wave.devices.max()) + 1, np.inf)))
    allocated = recorder.instant("allocate", SERVER, env.now, value=len(wave.devices))
    jobs = jobs_of(wave, problem.gain, cause=allocated)
    cell.submit(jobs)
    env.run(cell.wait(range(len(jobs))))
    ended = record_ended(recorder, cell.collect(), uplink.take_band(), 0, contended=uplink.contended)
    after = [] if ended is None else ended.last.tolist()
    recorder.span("aggregate", SERVER, env.now, env.now, value=len(jobs), after=after)
    return recorder.take()
