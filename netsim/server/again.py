"""A run once more: the same world and the same cohorts, as far as a round, and from there on as it was or otherwise.

All that a round depends on is what a checkpoint keeps when it begins, and the world, which is drawn in absolute time.
So a round is played again as a run is taken up: from that state, in the cell itself, under the run's own server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import simpy

from netsim.allocation.problem import Problem
from netsim.allocation.waves import Agenda, MakePlanner
from netsim.base.arrays import Floats, Ints, State
from netsim.cell.schedulers import Scheduler
from netsim.fleet.population import draw_population
from netsim.fleet.work import JobSizes
from netsim.learning.none import NoLearning
from netsim.selection import Choice, View
from netsim.server import SERVERS
from netsim.server.cell_parts import CellParts
from netsim.server.history import History
from netsim.server.radio_cell import RadioCell
from netsim.server.rounds import RoundRecorder
from netsim.server.server import ServerContext
from netsim.trace.recorder import Part, Recorder

if TYPE_CHECKING:
    from netsim.scenario import Scenario

NOBODY: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Cohorts:
    """A selection that chooses whom a run has chosen."""

    chosen: Mapping[int, Ints]     # by round; nobody where there is no entry
    clusters: None = None

    def choose(self, view: View, again: int = 0) -> Choice:
        return Choice(self.chosen.get(view.round, NOBODY))

    def everybody(self, view: View) -> Choice:
        return self.choose(view)

    def moved(self, before: Ints | None) -> dict[int, float]:
        return {}


@dataclass(frozen=True, eq=False)
class Opened:
    """A cell with those who write down what happens in it."""

    rounds: RoundRecorder
    history: History
    recorder: Recorder

    @property
    def cell(self) -> RadioCell:
        return self.rounds.cell

    @classmethod
    def of(cls, parts: CellParts, state: Mapping[str, State] | None = None) -> Opened:
        """At the beginning of a run, or as it was when its state was kept."""
        env = simpy.Environment(0.0 if state is None else float(state["cell"]["clock"][0]))
        recorder = Recorder()
        found = cls(parts.build(env, recorder), History(len(parts.population)), recorder)
        if state is not None:
            found.recorder.restore(state["recorder"])
            found.history.restore(state["history"])
            found.rounds.restore(state["rounds"])
            found.cell.restore(state["cell"])
        return found

    def snapshot(self) -> dict[str, State]:
        return {"cell": self.cell.snapshot(), "rounds": self.rounds.snapshot(),
                "history": self.history.snapshot(), "recorder": self.recorder.snapshot()}


@dataclass(frozen=True, eq=False)
class PlayedAgain:
    """A round as it went: its length, its plan, and the trace."""

    round_s: float
    agenda: Agenda
    part: Part


class Again:
    """The rounds of one run, each played when it is asked for."""

    def __init__(self, scenario: Scenario, seed: int, samples: Ints, bits: float, cohorts: Mapping[int, Ints]) -> None:
        self.scenario = scenario
        population = draw_population(scenario, seed, samples)
        self.parts = CellParts.of(scenario, seed, population, JobSizes.of(scenario, population, bits))
        self.learning = NoLearning(scenario.size, samples)
        self.cohorts = cohorts
        self._on: Opened | None = None              # the run as far as it was played
        self._begun: tuple[int, dict[str, State]] | None = None      # the round asked for last, and how it begins

    def begin(self, number: int) -> RadioCell:
        """The cell as it was when a round began."""
        return Opened.of(self.parts, self._before(number)).cell

    def play(
        self, number: int, problem: Problem, charge_j: Floats, planner: MakePlanner, scheduler: Scheduler, *,
        hurried: bool = True,
    ) -> PlayedAgain:
        """A round with the devices and limits of this problem; ``hurried`` is whether there is the run's deadline."""
        state, who = self._before(number), np.asarray(problem.numbers)
        whole = self.parts.problems.with_limits(problem)
        opened = Opened.of(replace(self.parts, problems=whole, planner=planner, scheduler=scheduler), state)
        opened.cell.batteries.hold(who, charge_j)
        began = opened.cell.now
        self._play(opened, number, {number: who}, hurried=hurried)
        return PlayedAgain(opened.cell.now - began, opened.rounds.agenda, opened.recorder.take())

    def _before(self, number: int) -> dict[str, State]:
        """The state in which a round begins: the run is played as far as that, on from where it was if it can."""
        if self._begun is None or self._begun[0] != number:
            on, self._on = self._on, None            # where it comes to grief, it has not been played
            if on is None or on.rounds.version >= number:
                on = Opened.of(self.parts)
            if number > 1:
                self._play(on, number - 1, self.cohorts)
                on.recorder.take()
            self._on, self._begun = on, (number, on.snapshot())
        return self._begun[1]

    def _play(self, opened: Opened, last: int, cohorts: Mapping[int, Ints], *, hurried: bool = True) -> None:
        """Let the run's server go on as far as a round."""
        scenario, cell = self.scenario, opened.cell
        rounds = scenario.rounds if hurried else scenario.rounds.model_copy(update={"deadline": None})
        end = scenario.end.model_copy(update={"rounds": last, "time": None})
        kind, options = (scenario.server.kind, scenario.server.options) if scenario.server else ("synchronous", {})
        strategy = SERVERS.make(kind, options)
        context = ServerContext(
            scenario.model_copy(update={"rounds": rounds, "end": end}), opened.rounds, cell.problems.sizes,
            self.learning, opened.history, lambda at: None, Cohorts(cohorts))      # type: ignore[arg-type]
        cell.env.run(until=cell.env.process(strategy.loop(context, strategy).run()))
