"""Simulation of an app's messages in the cell; a device that fails is answered by an error with the reason.

Training precedes planning, since the size of an upload is known only from the reply. For a ServerApp that waits for all
replies, a round is one such exchange; for others, a round ends when a new model is sent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from netsim.base.types import Ints
from netsim.base.units import format
from netsim.cell.clock import JUST_ENOUGH
from netsim.cell.job import Job
from netsim.flower.compute import Compute
from netsim.flower.messages import EVALUATE, TRAIN, SentMessage, model_digest, sizes_of
from netsim.flower.metrics import ReportedMetrics
from netsim.scenario.schema import FlowerTable
from netsim.server.server import Server
from netsim.server.strategy import Strategy
from netsim.trace.schema import APP_FAILED, DEADLINE, INFEASIBLE, OVER

if TYPE_CHECKING:
    from netsim.flower.clients import Clients
    from netsim.session import Session

T = TypeVar("T")
LONGEST_REASON = 200      # characters of a ClientApp's error in the trace
MOST_FAILURES = 20        # errors of ClientApps that the summary lists


class RunOver(BaseException):
    """End of the run; a BaseException, so that no ``except Exception`` of an app catches it."""


class AppServer(Server):
    """Server driven by an app: simulated time advances when the app sends, waits or sleeps.

    ``clients`` run the ClientApps of the devices; None if every message already has its answer.
    """

    def __init__(self, stage: Session, clients: Clients | None = None) -> None:
        super().__init__(stage.context(), Strategy())      # the app selects and aggregates
        self.reported = ReportedMetrics(self.rounds)
        self.expected = 0                            # number of rounds, if the app states it
        self._stage, self._clients, self._sizes = stage, clients, stage.sizes
        self._table = self.scenario.flower or FlowerTable()
        self.compute = Compute(self.scenario, self.cell.parts.population, stage.journal.path,
                               clients.measure if clients else None)
        self.messages: Counter[tuple[str, bool]] = Counter()      # by type, and whether the app got a valid reply
        self.failures: Counter[str] = Counter()      # by the error of the ClientApp
        self._open = False                           # True if a round has begun
        self._trains = False                         # True if the round has a train message
        self._queried: set[str] = set()              # types of other messages since the last round
        self._held = False                           # True while several exchanges belong to one round
        self._stages = 0                             # exchanges of that round
        self._collects = False                       # True if the app has received a reply to a train message
        self._barrier = False                        # True if the round waits for all replies
        self._outbox: list[SentMessage] = []                # pushed, not started
        self._flying: dict[int, tuple[SentMessage, float]] = {}      # by job, with its deadline
        self._ready: dict[str, SentMessage] = {}            # replies not yet pulled, in order of arrival
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
        return self._open or bool(self._queried or self._outbox) or self.rounds.version > 0

    def totals(self) -> dict[str, Any]:
        """Return the messages that the app got a reply to, by type, and the errors of its ClientApps."""
        kinds = dict.fromkeys(kind for kind, _ in self.messages)
        return {"messages": {kind: {"sent": self.messages[kind, True] + self.messages[kind, False],
                                    "answered": self.messages[kind, True]} for kind in kinds},
                "failures": dict(self.failures.most_common(MOST_FAILURES)), "compute": self.compute.describe(),
                "accuracy_of": self.reported.accuracy_of or None}

    def _costs(self, sent: SentMessage) -> bool:
        """Return whether a message takes simulated time and energy."""
        return sent.kind == TRAIN or (
            self._table.evaluation if sent.kind == EVALUATE else self._table.queries) == "charged"

    def available(self) -> Ints:
        """Return the devices that are available and have energy for a job."""
        return np.flatnonzero(self.cell.available)

    # Answers of ClientApps.

    def _ask(self, some: Sequence[SentMessage]) -> list[SentMessage]:
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
                self.failures[str(sent.reply.error.reason)] += 1
        return [sent for sent in asked if sent.reply is None]

    def _ask_cohort(self, some: Sequence[SentMessage]) -> list[SentMessage]:
        """Run the ClientApps of messages with a cost; record failed ones as jobs, and the sizes of the others."""
        ready = self._ask(some)
        failed = [sent for sent in some if sent.answer is not None and sent.answer.reply.has_error()]
        if ready:
            self._sizes = self._sizes.changed(
                np.array([sent.device for sent in ready], np.int64),
                *np.array([(*sizes_of(sent), self.compute.cycles(sent)) for sent in ready]).T)
        if ready or failed or self._barrier:
            self.rounds.select(np.array([sent.device for sent in ready], np.int64))      # as selected by the app
        self.rounds.fail([sent.device for sent in failed], APP_FAILED,
                         [sent.answered.reply.error.reason[:LONGEST_REASON] for sent in failed])
        return ready

    def _answer(self, free: Sequence[SentMessage]) -> None:
        """Answer messages that take no simulated time."""
        for sent in self._ask(free):
            self._settle(sent)
        self.reported.clients(free)

    def _settle(self, sent: SentMessage, job: Job | None = None) -> None:
        """Set the reply: the ClientApp's answer, or an error if the job has failed."""
        if self._clients:
            self._clients.keep(sent)
        sent.reply = sent.answered.reply
        if job and not job.arrived:
            sent.fail(f"{job.outcome}: device {sent.device} at {format(job.ended_at, 'time')}")

    # Exchanges that wait for all replies.

    def exchange(self, some: Sequence[SentMessage], timeout_s: float) -> None:
        """Simulate messages until all have a reply, which may be an error with the reason."""
        until = self.cell.now + timeout_s * (1 + JUST_ENOUGH)      # a job that ends at the timeout is in time
        pending = {sent.device for sent in (*self._outbox, *(sent for sent, _ in self._flying.values()))}
        devices = {sent.device for sent in some}
        charged = [sent for sent in some if self._costs(sent)]
        if len(devices) == len(some) and devices.isdisjoint(pending) and (self.idle or not charged):
            self._note_queries(some)
            self._answer([sent for sent in some if not self._costs(sent)])
            if charged:
                self._together(charged, until)
            self._count(some)
        else:                                      # other jobs are running, or a device has two messages
            self._in_order(some, until)

    def _in_order(self, some: Sequence[SentMessage], until: float) -> None:
        """Simulate messages until all have a reply, each after the earlier messages to its device."""
        self.push(some)
        wanted = {sent.id for sent in some}
        while not wanted <= self._ready.keys() and self.cell.now < until:
            self._step(until, wanted)
        late = [job for job, (sent, _) in self._flying.items() if sent.id in wanted]
        self._take(self._play(self.cancel(late, DEADLINE)))
        for sent in [sent for sent in self._outbox if sent.id in wanted]:
            self._outbox.remove(sent)
            sent.fail(f"{DEADLINE}: device {sent.device} was busy until the timeout")
            self._ready[sent.id] = sent
        self.pull(list(wanted))

    def _note_queries(self, some: Sequence[SentMessage]) -> None:
        """Begin a round for messages without training: those of an app that never trains, or before its training.

        A type that was sent before in such a round begins the next one.
        """
        types = {str(sent.message.metadata.message_type) for sent in some}
        if some and not self._trains and not any(sent.kind == TRAIN for sent in some):
            if types & self._queried:
                self._open = self._barrier = True
                self.end_round()
            self._queried |= types

    @contextmanager
    def one_round(self) -> Iterator[None]:
        """Simulate all exchanges inside the block as one round."""
        self.end_round()
        self._held, self._stages = True, 0
        try:
            yield
        finally:
            self._held = False

    def _together(self, cohort: Sequence[SentMessage], until: float) -> None:
        """Simulate a cohort as a round that waits for all replies."""
        if any(sent.kind == TRAIN for sent in cohort):
            if self._trains and not self._held:
                self.end_round()
            if self._held:
                self._stages += 1
                for sent in cohort:
                    sent.stage = f" {self._stages}"
            self._refuse_after_the_end()
            self._trains = True
        self._open, self._barrier = True, True
        ready = self._ask_cohort(cohort)
        by_device = {sent.device: sent for sent in ready}
        devices = np.array(list(by_device), np.int64)
        agenda = self.rounds.plan(devices, self._sizes, self.rule(), self.scenario.selection.cohort)
        for device in agenda.dropped.tolist():
            by_device[device].fail(_no_plan(self, device))
        for job in self._play(self.play_waves(agenda, until)):
            self._settle(by_device[job.device], job)
        for sent in (sent for sent in ready if sent.reply is None):
            sent.fail(f"{DEADLINE}: the app's timeout ended before device {sent.device} started")
        self.reported.clients(cohort)

    # Asynchronous messages.

    def push(self, some: Sequence[SentMessage]) -> None:
        """Send messages; idle devices start before simulated time advances. Some messages may already have replies.

        A device handles its messages in order, also those without a cost. A round ends when a device starts from a new
        model that includes replies.
        """
        self._ready |= {sent.id: sent for sent in some if sent.reply is not None}
        unanswered = [sent for sent in some if sent.reply is None]
        self._note_queries(unanswered)
        for sent in unanswered:
            if sent.kind == TRAIN:
                model = model_digest(sent.message)
                if self._open and not self._renewed and (self._barrier or (self._news and model != self._model)):
                    self._begin_jobs()
                    self._renewed = True
                self._open, self._trains, self._model = True, True, model
            self._outbox.append(sent)

    def pull(self, ids: Sequence[str]) -> list[SentMessage]:
        """Return the available replies; if there are none, advance time to the first of the pending ones."""
        wanted = set(ids)
        while wanted.isdisjoint(self._ready) and any(
                sent.id in wanted for sent in (*self._outbox, *(sent for sent, _ in self._flying.values()))):
            self._step(math.inf, wanted)
        found = [sent for name, sent in self._ready.items() if name in wanted]
        for sent in found:
            del self._ready[sent.id]
        self._news = self._news or bool(found)
        self._count(found)
        return found

    def _count(self, some: Sequence[SentMessage]) -> None:
        """Count the replies that the app receives."""
        self._collects = self._collects or any(sent.kind == TRAIN for sent in some)
        self.messages.update((sent.kind, sent.reply is not None and not sent.reply.has_error()) for sent in some)

    def sleep(self, seconds: float) -> None:
        """Advance simulated time; running jobs continue."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if self._barrier:
            self.end_round()
        until = self.cell.now + seconds
        while self.cell.now < until:
            self._step(until)

    def _step(self, until: float, wanted: Set[str] = frozenset()) -> None:
        """Advance to the next end of a job, at most to ``until``; not at all if starting jobs answers a message of
        ``wanted``."""
        before = len(self._ready)
        self._begin_jobs()
        if len(self._ready) > before and not wanted.isdisjoint(self._ready):
            return
        if self.cell.running:
            due = {job: self._flying[job][1] for job in self.cell.running}
            ended = self._play(self.next_ended(min(until, *due.values())))
            if not ended:
                late = [job for job, at in due.items() if at <= self.cell.now]
                ended = self._play(self.cancel(late, DEADLINE))
            self._take(ended)
        elif self.cell.now < until < math.inf:
            self._stage.advance(self.rounds.pause(until - self.cell.now))

    def _next_messages(self) -> list[SentMessage]:
        """Return the next message of each idle device with messages: those without a cost first, if there are any."""
        busy = {job.device for job in self.cell.running.values()}
        first: dict[int, SentMessage] = {}
        for sent in self._outbox:
            if sent.device not in busy:
                first.setdefault(sent.device, sent)
        free = [sent for sent in first.values() if not self._costs(sent)]
        return free or list(first.values())

    def _begin_jobs(self) -> None:
        """Answer the messages of idle devices that cost nothing, and start the others."""
        while starting := self._next_messages():
            started = {id(sent) for sent in starting}
            self._outbox = [sent for sent in self._outbox if id(sent) not in started]
            if self._costs(starting[0]):
                self._start(starting)
            else:
                self._answer(starting)
            self._ready |= {sent.id: sent for sent in starting if sent.reply is not None}

    def _start(self, starting: Sequence[SentMessage]) -> None:
        """Start jobs of idle devices, each planned with an equal band share of all running jobs."""
        self._refuse_after_the_end()
        if self._renewed:
            self.end_round()
        self._open, self._barrier = True, False
        busy = len(self.cell.running)
        ready = self._ask_cohort(starting)
        for sent in ready:
            job = self.start_job(sent.device, busy + len(ready), self._sizes)
            if job is None:
                sent.fail(_no_plan(self, sent.device))
            else:
                self._flying[job] = sent, self.deadline()

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

    def finish(self, *, early: bool = False) -> None:
        """End the last round: running jobs are aborted, and messages that have not started are recorded as such.

        If the app has never received a reply to a train message, it relies on the effect of its messages on the
        devices: unless the run ends ``early``, all of them are simulated to their end.
        """
        while not (early or self._collects or self.idle):
            self._step(math.inf)
        self._open = self._open or bool(self._queried or self._outbox)
        self._count([*self._ready.values(), *self._outbox, *(sent for sent, _ in self._flying.values())])
        self.end_round(last=True)

    def end_round(self, *, last: bool = False) -> None:
        """End the current round; with ``last``, abort running jobs."""
        if not self._open:
            return
        self.aggregate(None, barrier=self._barrier)
        if last:
            self._play(self.stop())
            self.rounds.fail([sent.device for sent in self._outbox if self._costs(sent)], OVER)
        self._open = self._trains = self._barrier = self._renewed = self._news = False
        self._queried.clear()
        self.most_rounds = max(self.expected, self.rounds.version)
        self.close()

    def evaluate(self) -> None:
        self.history.accuracy.append(self.reported.close())


def _no_plan(server: AppServer, device: int) -> str:
    """Return the error text for a device without a feasible plan, with its limits."""
    left_j, deadline = float(server.cell.view().battery_j[device]), server.scenario.rounds.deadline
    budget_j = float(server.cell.parts.population.budget_j[device])
    limits = [f"its budget of {format(budget_j, 'energy')}"] if budget_j < math.inf else []
    limits += [f"the {format(left_j, 'energy')} left in its battery"] if left_j < math.inf else []
    limits += [f"the deadline of {format(deadline, 'time')}"] if deadline is not None else []
    return f"{INFEASIBLE}: device {device} has no plan within {', '.join(limits)}"
