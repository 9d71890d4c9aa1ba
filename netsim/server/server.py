"""What all servers have in common: the loop over rounds, when a run is over, and how a round is closed."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import simpy
from simpy.events import ProcessGenerator

from netsim.allocation.waves import Agenda
from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError
from netsim.cell.clock import rounding_of
from netsim.cell.job import Job
from netsim.fleet.work import JobSizes
from netsim.learning.protocol import Learning
from netsim.selection.view import View
from netsim.server.history import History
from netsim.server.rounds import RoundRecorder
from netsim.server.selector import Selector
from netsim.server.strategy import Strategy, Updates
from netsim.trace.schema import DEADLINE, SERVER

if TYPE_CHECKING:
    from netsim.scenario import Scenario

Jobs = Generator[simpy.Event, Any, list[Job]]          # a process that returns jobs that have ended
Played = Generator[simpy.Event, Any, Updates]          # a process that returns the updates that make a new model


@dataclass(frozen=True)
class RunProgress:
    """How far a run is, after each round."""

    round: int
    rounds: int                 # the most there can be
    time_s: float
    energy_j: float
    accuracy: float             # NaN where it was not evaluated
    target: float | None


@dataclass(frozen=True, eq=False)
class ServerContext:
    """What a server works with.

    Parameters
    ----------
    scenario : Scenario
    rounds : RoundRecorder
        The cell, and the rounds that are played in it.
    sizes : JobSizes
        How large a job of each device is.
    learning : Learning
    history : History
        What is remembered of devices and rounds.
    closed : callable
        Called when a round is complete.
    selector : Selector
        The scenario's selection method; None where another framework selects.
    """

    scenario: Scenario
    rounds: RoundRecorder
    sizes: JobSizes
    learning: Learning
    history: History
    closed: Callable[[RunProgress], None]
    selector: Selector | None = None


class Server:
    """The loop over rounds; a subclass says in ``play_round`` which jobs begin, and which are waited for.

    Parameters
    ----------
    context : ServerContext
        The scenario, the cell, and what selects and learns.
    strategy : Strategy
        Whom to select, and how much each update counts; its fields are the options of the scenario's [server] table.
    """

    def __init__(self, context: ServerContext, strategy: Strategy) -> None:
        self.context, self.strategy = context, strategy
        self.scenario, self.rounds, self.cell = context.scenario, context.rounds, context.rounds.cell
        self.learning, self.history = context.learning, context.history
        self.selector = cast("Selector", context.selector)      # not asked where another framework selects
        self.most_rounds = self.scenario.end.rounds
        self.shares = 1        # equal band shares assumed when a job is planned; 1 where plans are for whole cohorts

    def run(self) -> ProcessGenerator:
        """All rounds that are still to come."""
        if not self.rounds.version and self.cell.next_available_time == math.inf:
            self.refuse_infeasible()
        while not self.ended():
            if self.nothing_to_do():
                yield self.rounds.ready()                  # all devices are off, or have no energy
                continue
            updates = yield from self.play_round()         # select, plan, dispatch, wait
            self.aggregate(updates)                        # learn, evaluate
            if not self.strategy.waits and self.ended():
                yield from self.stop()
            self.close()                                   # record

    def play_round(self) -> Played:
        """Select, plan and dispatch devices, and wait; returns the updates that make a new model."""
        raise NotImplementedError

    # Steps of a round.

    def nothing_to_do(self) -> bool:
        """Whether no device can be selected now."""
        return self.rounds.ready_at > self.cell.now

    def rule(self) -> str:
        """What becomes of devices without a plan."""
        return self.scenario.rounds.infeasible

    def view(self, **columns: Callable[[], Any]) -> View:
        """What a selection method may see."""
        return self.cell.view(**{
            "round": lambda: self.rounds.version + 1, "cohort_size": lambda: self.scenario.selection.cohort,
            **self.history.columns(), **self.learning.columns(), **columns})

    def play_waves(self, agenda: Agenda, until: float = math.inf) -> Jobs:
        """Let the waves of an agenda follow each other; none begins after ``until``.

        Where the cell changes in time, waves after the first are planned again when they start.
        """
        ended: list[Job] = []
        for planned in agenda.waves:
            if self.cell.now < until:
                wave = planned if planned is agenda.waves[0] else self.rounds.replan(planned)
                ended += yield from self.wait_for(self.rounds.dispatch(wave), min(until, self.deadline()))
        if not agenda.waves:
            yield self.rounds.pause(self.scenario.rounds.wait_s)             # no device fits: another try later
        return ended

    def wait_for(self, jobs: Ints, until: float) -> Jobs:
        """Wait until all jobs of a wave have ended, or the time is up."""
        yield self.cell.wait(jobs.tolist(), until)
        ended = self.rounds.collect()
        if self.cell.running:
            ended += yield from self.cancel(self.cell.running, DEADLINE)
        return ended

    def next_ended(self, until: float = math.inf) -> Jobs:
        """Wait until the next job has ended, or the time is up: no more than one job."""
        yield self.cell.wait(self.cell.running, until, 1)
        return self.rounds.collect(first=True)

    def cancel(self, jobs: Any, reason: str) -> Jobs:
        """Abort jobs."""
        yield self.cell.cancel(jobs, reason)
        return self.rounds.collect()

    def start_alone(self, device: int, shares: int, sizes: JobSizes) -> int | None:
        """Let a device begin a job on the present model in its share of the band: its number; None without a plan."""
        agenda = self.rounds.plan(np.array([device]), sizes, self.rule(), 1, shares)
        if not agenda.waves:
            return None
        self.learning.prepare(self.rounds.jobs_of(agenda), self.rounds.version)
        return int(self.rounds.dispatch(agenda.waves[0])[0])

    def deadline(self) -> float:
        """When a wave that starts now is over; a job that ends right on time is in time, whatever rounding does."""
        if self.scenario.rounds.deadline is None:
            return math.inf
        at = self.cell.now + float(self.scenario.rounds.deadline)
        return at + rounding_of(at, self.cell.now)

    # The end of a round.

    def updates(self, jobs: Ints, devices: Ints, chances: Floats | None = None) -> Updates:
        """The updates of jobs that have arrived, in this order."""
        known = self.learning.samples
        return Updates(
            jobs, devices, self.rounds.version - self.rounds.started_from(jobs),
            np.ones(len(jobs)) if known is None else known[devices].astype(np.float64),
            partial(self.learning.alignment, jobs.tolist()), chances)

    def aggregate(self, updates: Updates | None, *, barrier: bool | None = None) -> None:
        """Make a new global model of these updates, and evaluate it."""
        outcomes = self.rounds.aggregate(barrier=self.strategy.barrier if barrier is None else barrier)
        if updates is not None and len(updates.jobs):
            self.learning.aggregate(
                updates.jobs.tolist(), self.strategy.weights(updates), self.strategy.base, updates.chances)
        self.history.add(self.rounds.version, outcomes)
        self.evaluate()

    def evaluate(self) -> None:
        """Test the new model, if that is due: every so many rounds, and in the last, whatever makes it the last."""
        due = self.rounds.version % self.scenario.learning.evaluation.every == 0 or self.ended()
        evaluation = self.learning.evaluate() if due else None
        if evaluation:
            self.rounds.count("accuracy", {SERVER: evaluation.accuracy})
            self.rounds.count("loss", {SERVER: evaluation.loss})
        self.history.accuracy.append(evaluation.accuracy if evaluation else math.nan)

    def stop(self) -> ProcessGenerator:
        """Abort the jobs under way, since the run is over; what they have spent counts."""
        yield self.rounds.stop()
        self.history.spend(self.rounds.stopped())

    def close(self) -> None:
        """Write the round down, and say how far the run is."""
        self.rounds.close()
        self.context.closed(RunProgress(
            self.rounds.version, self.most_rounds, self.cell.now, self.history.energy_j, self.history.accuracy[-1],
            self.scenario.learning.target_accuracy if self.learning.trains else None))

    # The end of a run.

    @property
    def target_reached(self) -> bool:
        """Whether the last evaluation met the target accuracy."""
        target = self.scenario.learning.target_accuracy
        return target is not None and any(accuracy >= target for accuracy in self.history.accuracy[-1:])

    def ended(self) -> bool:
        """Whether the target is reached, or no round is left, no time, or no device that will be available in time."""
        end = self.scenario.end
        return (self.target_reached or self.rounds.version >= end.rounds
                or self.rounds.ready_at >= (math.inf if end.time is None else end.time)
                or bool(self.rounds.dispatched and self.history.arrived_last == 0
                        and self.cell.infeasibility_reason(self.rule(), self.shares)))

    def refuse_infeasible(self) -> None:
        """Raise InputError where no device can ever take part: that is a mistake in the scenario."""
        reason = self.cell.infeasibility_reason(self.rule(), self.shares)
        if reason:
            raise InputError("infeasible", "population", f"no device can ever take part: {reason}")
