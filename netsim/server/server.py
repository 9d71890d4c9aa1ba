"""Base class of all servers: the loop over rounds, the end of a round, and the end of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import simpy
from simpy.events import ProcessGenerator

from netsim.allocation.planner import RoundPlan
from netsim.base.errors import InputError
from netsim.base.types import Floats, Ints
from netsim.cell.clock import rounding_of
from netsim.cell.job import Job
from netsim.devices.workload import JobSizes
from netsim.learning.backend import Learning
from netsim.selection.view import View
from netsim.server.participation import Participation
from netsim.server.round_recorder import RoundRecorder
from netsim.server.selection_runner import SelectionRunner
from netsim.server.strategy import Strategy, Updates
from netsim.trace.schema import DEADLINE, SERVER

if TYPE_CHECKING:
    from netsim.scenario import Scenario

Jobs = Generator[simpy.Event, Any, list[Job]]          # a process that returns ended jobs
Played = Generator[simpy.Event, Any, Updates]          # a process that returns the updates to aggregate


@dataclass(frozen=True)
class RunProgress:
    """State of a run after a round, for progress displays and experiment trackers: ``simulate(progress=...)``.

    Attributes
    ----------
    round, rounds : int
        Completed rounds, and the maximum number of rounds.
    time_s : float
        Simulated seconds since the start.
    energy_j : float
        Joules of all devices since the start.
    accuracy : float
        Test accuracy, 0 to 1; NaN if the round was not evaluated.
    target : float or None
        Target accuracy of the scenario.
    end_s : float or None
        Simulated seconds after which the run ends.
    """

    round: int
    rounds: int
    time_s: float
    energy_j: float
    accuracy: float
    target: float | None
    end_s: float | None = None

    def metrics(self) -> dict[str, float]:
        """Return what trackers log under the step ``round``.

        Returns
        -------
        dict of str to float
            ``time_s``, ``energy_j``, and ``accuracy`` if the round was evaluated.

        Examples
        --------
        >>> RunProgress(1, 3, 0.05, 0.2, math.nan, None).metrics()
        {'time_s': 0.05, 'energy_j': 0.2}
        """
        known = {} if math.isnan(self.accuracy) else {"accuracy": self.accuracy}
        return {"time_s": self.time_s, "energy_j": self.energy_j, **known}

    @property
    def share(self) -> float:
        """Part of the run that is done, by rounds or by time, whichever is further; at most 1."""
        return min(1.0, max(self.round / self.rounds, self.time_s / self.end_s if self.end_s else 0.0))


@dataclass(frozen=True, eq=False)
class ServerContext:
    """Scenario, cell, learning and selection that a server works with.

    Parameters
    ----------
    scenario : Scenario
        The scenario of the run.
    rounds : RoundRecorder
        The cell, with its rounds and their trace.
    sizes : JobSizes
        Cycles, upload bits and download bits of each device's job.
    learning : Learning
        Training, aggregation and evaluation.
    history : Participation
        Participation of devices and results of rounds.
    closed : callable
        Called with a `RunProgress` when a round is complete.
    selector : SelectionRunner, optional
        The scenario's selection method; None if another framework selects.
    """

    scenario: Scenario
    rounds: RoundRecorder
    sizes: JobSizes
    learning: Learning
    history: Participation
    closed: Callable[[RunProgress], None]
    selector: SelectionRunner | None = None


class Server:
    """The loop over rounds, a SimPy process; a subclass implements ``play_round``.

    Parameters
    ----------
    context : ServerContext
        Scenario, cell, learning and selection.
    strategy : Strategy
        Selection and weights of updates; its fields are the options of the scenario's [server] table.
    """

    def __init__(self, context: ServerContext, strategy: Strategy) -> None:
        self.context, self.strategy = context, strategy
        self.scenario, self.rounds, self.cell = context.scenario, context.rounds, context.rounds.cell
        self.learning, self.history = context.learning, context.history
        self.selector = cast("SelectionRunner", context.selector)      # not used if another framework selects
        self.most_rounds = self.scenario.end.rounds
        self.shares = 1        # equal band shares assumed when planning a single job; 1 for plans of whole cohorts

    def run(self) -> ProcessGenerator:
        """Play all remaining rounds: the server's process."""
        if not self.rounds.version and self.cell.next_available_time == math.inf:
            self.refuse_infeasible()
        while not self.ended():
            if self.nothing_to_do():
                yield self.rounds.ready()                  # no device is available with enough energy
                continue
            updates = yield from self.play_round()         # select, plan, dispatch, wait
            self.aggregate(updates)                        # learn, evaluate
            if not self.strategy.waits and self.ended():
                yield from self.stop()
            self.close()                                   # record

    def play_round(self) -> Played:
        """Select, plan and dispatch devices, and wait for their updates.

        A server of your own implements this generator with the steps below: ``view``, ``start_job``, ``play_waves``,
        ``wait_for``, ``next_ended``, ``cancel`` and ``updates``.

        Yields
        ------
        simpy.Event
            Events of the simulation to wait for.

        Returns
        -------
        Updates
            The updates to aggregate.
        """
        raise NotImplementedError

    # Steps of a round.

    def nothing_to_do(self) -> bool:
        """Return True if no device can be selected now."""
        return self.rounds.ready_at > self.cell.now

    def rule(self) -> str:
        """Return the policy for devices without a feasible plan (``rounds.infeasible_policy``)."""
        return self.scenario.rounds.infeasible_policy

    def view(self, **columns: Callable[[], Any]) -> View:
        """Return the view of a selection method; ``columns`` replace or add columns, each made on request."""
        return self.cell.view(**{
            "round": lambda: self.rounds.version + 1, "cohort_size": lambda: self.scenario.selection.cohort,
            **self.history.columns(), **self.learning.columns(), **columns})

    def play_waves(self, agenda: RoundPlan, until: float = math.inf) -> Jobs:
        """Dispatch the waves of an agenda one after another, none after ``until`` (seconds); return the ended jobs.

        In a time-varying cell, waves after the first are planned again when they start.
        """
        ended: list[Job] = []
        for planned in agenda.waves:
            if self.cell.now < until:
                wave = planned if planned is agenda.waves[0] else self.rounds.replan(planned)
                ended += yield from self.wait_for(self.rounds.dispatch(wave), min(until, self.deadline()))
        if not agenda.waves:
            yield self.rounds.pause(self.scenario.rounds.wait_s)             # no feasible device: retry later
        return ended

    def wait_for(self, jobs: Ints, until: float) -> Jobs:
        """Wait until all jobs of a wave have ended, or until ``until``; cancel the others and return the ended jobs."""
        yield self.cell.wait(jobs.tolist(), until)
        ended = self.rounds.collect()
        if self.cell.running:
            ended += yield from self.cancel(self.cell.running, DEADLINE)
        return ended

    def next_ended(self, until: float = math.inf) -> Jobs:
        """Wait until the next job has ended, or until ``until``; return a list of at most one job.

        Of jobs that end simultaneously within rounding errors, that of the lowest device number is the next.
        """
        yield self.cell.wait(self.cell.running, until, 1)
        if simultaneous := self.cell.ending_now():
            yield self.cell.wait(simultaneous)
        return self.rounds.collect(first=True)

    def cancel(self, jobs: Any, reason: str) -> Jobs:
        """Abort jobs with the outcome ``reason``, and return the ended jobs."""
        yield self.cell.cancel(jobs, reason)
        return self.rounds.collect()

    def start_job(self, device: int, shares: int, sizes: JobSizes) -> int | None:
        """Start a job of one device from the current model, planned in one of ``shares`` equal shares of the band.

        Return the number of the job; None if there is no feasible plan.
        """
        agenda = self.rounds.plan(np.array([device]), sizes, self.rule(), 1, shares)
        if not agenda.waves:
            return None
        self.learning.prepare(self.rounds.jobs_of(agenda), self.rounds.version)
        return int(self.rounds.dispatch(agenda.waves[0])[0])

    def deadline(self) -> float:
        """Return the deadline in seconds of a wave that starts now, with a tolerance for rounding errors."""
        if self.scenario.rounds.deadline is None:
            return math.inf
        at = self.cell.now + float(self.scenario.rounds.deadline)
        return at + rounding_of(at, self.cell.now)

    # The end of a round.

    def updates(self, jobs: Ints, devices: Ints, chances: Floats | None = None) -> Updates:
        """Return the updates of arrived jobs, in this order."""
        known = self.learning.samples
        return Updates(
            jobs, devices, self.rounds.version - self.rounds.started_from(jobs.tolist()),
            np.ones(len(jobs)) if known is None else known[devices].astype(np.float64),
            partial(self.learning.alignment, jobs.tolist()), chances)

    def aggregate(self, updates: Updates | None, *, barrier: bool | None = None) -> None:
        """Aggregate these updates to a new global model, and evaluate it."""
        outcomes = self.rounds.aggregate(barrier=self.strategy.barrier if barrier is None else barrier)
        if updates is not None and len(updates.jobs):
            self.learning.aggregate(
                updates.jobs.tolist(), self.strategy.weights(updates), self.strategy.base, updates.chances)
        self.history.add(self.rounds.version, outcomes)
        self.evaluate()

    def evaluate(self) -> None:
        """Evaluate the new model in every ``learning.evaluation.every``-th round and in the last round."""
        due = self.rounds.version % self.scenario.learning.evaluation.every == 0 or self.ended()
        evaluation = self.learning.evaluate() if due else None
        if evaluation:
            self.rounds.count("accuracy", {SERVER: evaluation.accuracy})
            self.rounds.count("loss", {SERVER: evaluation.loss})
        self.history.accuracy.append(evaluation.accuracy if evaluation else math.nan)

    def stop(self) -> ProcessGenerator:
        """Abort the running jobs at the end of the run; the energy they have used counts."""
        yield self.rounds.stop()
        self.history.spend(self.rounds.stopped())

    def close(self) -> None:
        """Record the round, and report the progress of the run."""
        self.rounds.trace.close()
        self.context.closed(RunProgress(
            self.rounds.version, self.most_rounds, self.cell.now, self.history.energy_j, self.history.accuracy[-1],
            self.scenario.learning.target_accuracy if self.learning.trains else None, self.scenario.end.time))

    # The end of a run.

    @property
    def target_reached(self) -> bool:
        """True if the last evaluation met the target accuracy."""
        target = self.scenario.learning.target_accuracy
        return target is not None and any(accuracy >= target for accuracy in self.history.accuracy[-1:])

    def ended(self) -> bool:
        """Return True if the target is reached, or if no round, no time or no feasible device is left."""
        end = self.scenario.end
        return (self.target_reached or self.rounds.version >= end.rounds
                or self.rounds.ready_at >= (math.inf if end.time is None else end.time)
                or bool(self.rounds.dispatched and self.history.arrived_last == 0
                        and self.cell.infeasibility_reason(self.rule(), self.shares)))

    def refuse_infeasible(self) -> None:
        """Raise InputError if no device can ever take part, which is a mistake in the scenario."""
        reason = self.cell.infeasibility_reason(self.rule(), self.shares)
        if reason:
            raise InputError("infeasible", "population", f"no feasible device: {reason}")
