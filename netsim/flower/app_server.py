"""Simulation of an app's messages in the cell; a device that fails is answered by an error with the reason.

Training precedes planning, since the size of an upload is known only from the reply. For a ServerApp that waits for all
replies, a round is one such exchange; for others, a round ends when a new model is sent.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.units import format
from netsim.cell.clock import JUST_ENOUGH
from netsim.cell.job import Job
from netsim.flower.messages import EVALUATE, TRAIN, Sent, changed_sizes, model_digest
from netsim.flower.reported import Reported
from netsim.server.server import Server
from netsim.server.strategy import Strategy
from netsim.trace.schema import DEADLINE, INFEASIBLE

if TYPE_CHECKING:
    from netsim.flower.clients import Clients
    from netsim.stage import Stage

T = TypeVar("T")


class RunOver(BaseException):
    """End of the run; a BaseException, so that no ``except Exception`` of an app catches it."""


class AppServer(Server):
    """Server driven by an app: simulated time advances when the app sends, waits or sleeps.

    ``clients`` run the ClientApps of the devices; None if every message already has its answer.
    """

    def __init__(self, stage: Stage, clients: Clients | None = None) -> None:
        super().__init__(stage.context(), Strategy())      # the app selects and aggregates
        self.reported = Reported(self.rounds)
        self.expected = 0                            # number of rounds, if the app states it
        self._stage, self._clients, self._sizes = stage, clients, stage.sizes
        charges_evaluation = self.scenario.flower is not None and self.scenario.flower.evaluation == "charged"
        self._charged = {TRAIN, EVALUATE} if charges_evaluation else {TRAIN}      # message types with time and energy
        self._open = False                           # True if a round has begun
        self._barrier = False                        # True if the round waits for all replies
        self._outbox: list[Sent] = []                # pushed, not started
        self._flying: dict[int, tuple[Sent, float]] = {}      # by job, with its deadline
        self._ready: dict[str, Sent] = {}            # replies not yet pulled, in order of arrival
        self._model = b""                            # digest of the model sent last
        self._renewed = False                        # True if a new model was sent in this round
        self._news = False                           # True if a reply was pulled since the last new model

    def _play(self, process: Generator[Any, Any, T]) -> T:
        """Advance simulated time until a process has ended; return its value."""
        event = self._stage.env.process(process)
        self._stage.advance(event)
        return cast("T", event.value)

    @property
    def idle(self) -> bool:
        """True if no job is running or waiting."""
        return not (self._outbox or self._flying)

    @property
    def began(self) -> bool:
        """True if a round has started or finished."""
        return self._open or self.rounds.version > 0

    def available(self) -> Ints:
        """Return the devices that are available and have energy for a job."""
        return np.flatnonzero(self.cell.available)

    # Answers of ClientApps.

    def _ask(self, some: Sequence[Sent]) -> list[Sent]:
        """Run the ClientApps of available devices; return the messages with a valid answer."""
        for sent in some:
            reason = self.cell.unavailable_reason(sent.device)
            if reason is not None:
                sent.fail(f"{reason}: device {sent.device} is unavailable at {format(self.cell.now, 'time')}")
        asked = [sent for sent in some if sent.reply is None]
        if self._clients:
            self._clients.ask(asked)
        for sent in asked:
            if sent.answered.reply.has_error():
                sent.reply = sent.answered.reply
        return [sent for sent in asked if sent.reply is None]

    def _answer(self, free: Sequence[Sent]) -> None:
        """Answer messages that take no simulated time."""
        for sent in self._ask(free):
            self._settle(sent)
        self.reported.clients(free)

    def _settle(self, sent: Sent, job: Job | None = None) -> None:
        """Set the reply: the ClientApp's answer, or an error if the job has failed."""
        if self._clients:
            self._clients.keep(sent)
        sent.reply = sent.answered.reply
        if job and not job.arrived:
            sent.fail(f"{job.outcome}: device {sent.device} at {format(job.ended_at, 'time')}")

    # Exchanges that wait for all replies.

    def exchange(self, some: Sequence[Sent], timeout_s: float) -> None:
        """Simulate messages until all have a reply, which may be an error with the reason."""
        until = self.cell.now + timeout_s * (1 + JUST_ENOUGH)      # a job that ends at the timeout is in time
        self._answer([sent for sent in some if sent.kind not in self._charged])
        charged = [sent for sent in some if sent.kind in self._charged]
        if charged and self.idle and len({sent.device for sent in charged}) == len(charged):
            self._together(charged, until)
        elif charged:                              # other jobs are running, or a device has two messages
            self.push(charged)
            wanted = {sent.id for sent in charged}
            while not wanted <= self._ready.keys() and self.cell.now < until:
                self._step(until)
            late = [job for job, (sent, _) in self._flying.items() if sent.id in wanted]
            self._take(self._play(self.cancel(late, DEADLINE)))
            for sent in [sent for sent in self._outbox if sent.id in wanted]:
                self._outbox.remove(sent)
                sent.fail(f"{DEADLINE}: device {sent.device} was busy until the timeout")
                self._ready[sent.id] = sent
            self.pull(list(wanted))

    def _together(self, cohort: Sequence[Sent], until: float) -> None:
        """Simulate a cohort as a round that waits for all replies."""
        if any(sent.kind == TRAIN for sent in cohort):
            self.end_round()
            self._refuse_after_the_end()
        self._open, self._barrier = True, True
        ready = self._ask(cohort)
        by_device = {sent.device: sent for sent in ready}
        devices = np.array(list(by_device), np.int64)
        self._sizes = changed_sizes(self._sizes, self.scenario, self.cell.parts.population, ready)
        self.rounds.select(devices)                                              # as selected by the app
        agenda = self.rounds.plan(devices, self._sizes, self.rule(), self.scenario.selection.cohort)
        for device in agenda.dropped.tolist():
            by_device[device].fail(_no_plan(self, device))
        for job in self._play(self.play_waves(agenda, until)):
            self._settle(by_device[job.device], job)
        for sent in (sent for sent in ready if sent.reply is None):
            sent.fail(f"{DEADLINE}: the app's timeout ended before device {sent.device} started")
        self.reported.clients(cohort)

    # Asynchronous messages.

    def push(self, some: Sequence[Sent]) -> None:
        """Send messages; idle devices start before simulated time advances. Some messages may already have replies.

        A round ends when a device starts from a new model that includes replies.
        """
        self._answer([sent for sent in some if sent.reply is None and sent.kind not in self._charged])
        charged = [sent for sent in some if sent.reply is None]
        self._ready |= {sent.id: sent for sent in some if sent.reply is not None}
        for sent in charged:
            if sent.kind == TRAIN:
                model = model_digest(sent.message)
                if self._open and not self._renewed and (self._barrier or (self._news and model != self._model)):
                    self._begin_jobs()
                    self._renewed = True
                self._open, self._model = True, model
            self._outbox.append(sent)

    def pull(self, ids: Sequence[str]) -> list[Sent]:
        """Return the available replies; if there are none, advance time to the first of the pending ones."""
        wanted = set(ids)
        while wanted.isdisjoint(self._ready) and any(
                sent.id in wanted for sent in (*self._outbox, *(sent for sent, _ in self._flying.values()))):
            self._step(math.inf)
        found = [sent for name, sent in self._ready.items() if name in wanted]
        for sent in found:
            del self._ready[sent.id]
        self._news = self._news or bool(found)
        return found

    def sleep(self, seconds: float) -> None:
        """Advance simulated time; running jobs continue."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if self._barrier:
            self.end_round()
        until = self.cell.now + seconds
        while self.cell.now < until:
            self._step(until)

    def _step(self, until: float) -> None:
        """Advance to the next end of a job, at most to ``until``."""
        self._begin_jobs()
        if self.cell.running:
            due = {job: self._flying[job][1] for job in self.cell.running}
            ended = self._play(self.next_ended(min(until, *due.values())))
            if not ended:
                late = [job for job, at in due.items() if at <= self.cell.now]
                ended = self._play(self.cancel(late, DEADLINE))
            self._take(ended)
        elif self.cell.now < until < math.inf:
            self._stage.advance(self.rounds.pause(until - self.cell.now))

    def _begin_jobs(self) -> None:
        """Start the messages of idle devices, each planned with an equal band share of all running jobs."""
        busy = {job.device for job in self.cell.running.values()}
        starting: dict[int, Sent] = {}
        for sent in list(self._outbox):
            if sent.device not in busy and sent.device not in starting:
                starting[sent.device] = sent
                self._outbox.remove(sent)
        if not starting:
            return
        self._refuse_after_the_end()
        if self._renewed:
            self.end_round()
        self._open, self._barrier = True, False
        ready = self._ask(list(starting.values()))
        if ready:
            self._sizes = changed_sizes(self._sizes, self.scenario, self.cell.parts.population, ready)
            self.rounds.select(np.array([sent.device for sent in ready], np.int64))
        for sent in ready:
            job = self.start_alone(sent.device, len(busy) + len(ready), self._sizes)
            if job is None:
                sent.fail(_no_plan(self, sent.device))
            else:
                self._flying[job] = sent, self.deadline()
        self._ready |= {sent.id: sent for sent in starting.values() if sent.reply is not None}

    def _take(self, ended: Sequence[Job]) -> None:
        """Make the replies of finished jobs available to the app."""
        for job in ended:
            sent, _ = self._flying.pop(job.number)
            self._settle(sent, job)
            self.reported.clients([sent])
            self._ready[sent.id] = sent

    # End of a round.

    def _refuse_after_the_end(self) -> None:
        end_s = self.scenario.end.time
        if end_s is not None and self.cell.now >= end_s:
            raise RunOver(f"the scenario's end.time, {format(end_s, 'time')}, is reached")

    def end_round(self, *, last: bool = False) -> None:
        """End the current round; with ``last``, abort running jobs."""
        if not self._open:
            return
        self.aggregate(None, barrier=self._barrier)
        if last:
            self._play(self.stop())
        self._open = self._barrier = self._renewed = self._news = False
        self.most_rounds = max(self.expected, self.rounds.version)
        self.close()

    def evaluate(self) -> None:
        self.history.accuracy.append(self.reported.close())


def _no_plan(server: AppServer, device: int) -> str:
    """Return the error text for a device without a feasible plan, with its limits."""
    left_j, deadline = float(server.cell.view().battery_j[device]), server.scenario.rounds.deadline
    limits = [f"its budget of {format(float(server.cell.parts.population.budget_j[device]), 'energy')}"]
    limits += [f"the {format(left_j, 'energy')} left in its battery"] if left_j < math.inf else []
    limits += [f"the deadline of {format(deadline, 'time')}"] if deadline is not None else []
    return f"{INFEASIBLE}: device {device} has no plan within {', '.join(limits)}"
