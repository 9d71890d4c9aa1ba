"""Simulation of an app's messages in the cell; a device that fails is answered by an error with the reason.

Training precedes planning, since the size of an upload is known only from the reply. For a ServerApp that waits for all
replies, a round is one such exchange; for others, a round ends when a new model is sent.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numpy as np

from netsim.base.units import format
from netsim.cell.clock import JUST_ENOUGH
from netsim.cell.job import Job
from netsim.flower.app_round import AppRound
from netsim.flower.clients import Clients
from netsim.flower.mailbox import Mailbox
from netsim.flower.messages import TRAIN, SentMessage, model_digest
from netsim.flower.replies import Replies
from netsim.server.server import Server
from netsim.server.strategy import Strategy
from netsim.session import Session
from netsim.trace.schema import APP_FAILED, DEADLINE, INFEASIBLE, OVER

T = TypeVar("T")
LONGEST_REASON = 200      # characters of a ClientApp's error in the trace


class RunOver(BaseException):
    """End of the run; a BaseException, so that no ``except Exception`` of an app catches it."""


class AppServer(Server):
    """Server driven by an app: simulated time advances when the app sends, waits or sleeps.

    ``clients`` run the ClientApps of the devices; None if every message already has its answer.
    """

    def __init__(self, stage: Session, clients: Clients | None = None) -> None:
        super().__init__(stage.context(), Strategy())      # the app selects and aggregates
        self.expected = 0                            # number of rounds, if the app states it
        self.mail, self.replies = Mailbox(), Replies(stage, clients)
        self._stage = stage
        self._round = AppRound()
        self._exchanges: int | None = None           # of a round with several; None: a round has one

    def _play(self, process: Generator[Any, Any, T]) -> T:
        """Advance simulated time until a process has ended; return its value."""
        event = self._stage.env.process(process)
        self._stage.advance(event)
        return cast("T", event.value)

    @property
    def began(self) -> bool:
        """True if a round has started or finished."""
        return self._round.begun or bool(self._round.queried or self.mail.waiting) or self.rounds.version > 0

    def _ask_cohort(self, some: Sequence[SentMessage]) -> list[SentMessage]:
        """Run the ClientApps of messages with a cost; record the failed ones as jobs, and return the others."""
        ready = self.replies.ask(some)
        failed = [sent for sent in some if sent.answer is not None and sent.answer.reply.has_error()]
        if ready or failed or self._round.barrier:
            self.rounds.select(np.array([sent.device for sent in ready], np.int64))      # as selected by the app
        self.rounds.fail([sent.device for sent in failed], APP_FAILED,
                         [sent.answered.reply.error.reason[:LONGEST_REASON] for sent in failed])
        return ready

    # Exchanges that wait for all replies.

    def exchange(self, some: Sequence[SentMessage], timeout_s: float) -> None:
        """Simulate messages until all have a reply, which may be an error with the reason."""
        until = self.cell.now + timeout_s * (1 + JUST_ENOUGH)      # a job that ends at the timeout is in time
        pending, devices = {sent.device for sent in self.mail.pending}, {sent.device for sent in some}
        charged = [sent for sent in some if self.replies.costs(sent)]
        if len(devices) < len(some) or devices & pending or (pending and charged):
            self._in_order(some, until)            # other jobs are running, or a device has two messages
            return
        self._note_queries(some)
        self.replies.answer([sent for sent in some if not self.replies.costs(sent)])
        if charged:
            self._together(charged, until)
        self.replies.count(some)

    def _in_order(self, some: Sequence[SentMessage], until: float) -> None:
        """Simulate messages until all have a reply, each after the earlier messages to its device."""
        self.push(some)
        wanted = {sent.id for sent in some}
        while not wanted <= self.mail.replied.keys() and self.cell.now < until:
            self._step(until, wanted)
        late = [job for job, sent in self.mail.running.items() if sent.id in wanted]
        self._take(self._play(self.cancel(late, DEADLINE)))
        withdrawn = self.mail.withdraw(wanted)
        for sent in withdrawn:
            sent.fail(f"{DEADLINE}: device {sent.device} was busy until the timeout")
        self.mail.reply(withdrawn)
        self.pull(list(wanted))

    def _note_queries(self, some: Sequence[SentMessage]) -> None:
        """Begin a round for messages without training; a type that was sent before in it begins the next one."""
        types = self._round.queries_in(some)
        if types & self._round.queried:
            self._round.begin(barrier=True)
            self.end_round()
        self._round.queried |= types

    @contextmanager
    def one_round(self) -> Iterator[None]:
        """Simulate all exchanges inside the block as one round."""
        self.end_round()
        self._exchanges = 0
        try:
            yield
        finally:
            self._exchanges = None

    def _together(self, cohort: Sequence[SentMessage], until: float) -> None:
        """Simulate a cohort as a round that waits for all replies."""
        if any(sent.kind == TRAIN for sent in cohort):
            if self._exchanges is not None:
                self._exchanges += 1
                for sent in cohort:
                    sent.stage = f" {self._exchanges}"
            elif self._round.trains:
                self.end_round()
            self._refuse_after_the_end()
            self._round.trains = True
        self._round.begin(barrier=True)
        by_device = {sent.device: sent for sent in self._ask_cohort(cohort)}
        devices, sizes = np.array(list(by_device), np.int64), self.replies.sizes(list(by_device.values()))
        agenda = self.rounds.plan(devices, sizes, self.rule(), self.scenario.selection.cohort)
        for device in agenda.dropped.tolist():
            by_device[device].fail(_no_plan(self, device))
        for job in self._play(self.play_waves(agenda, until)):
            self.replies.settle(by_device[job.device], job)
        for sent in (sent for sent in by_device.values() if sent.reply is None):
            sent.fail(f"{DEADLINE}: the app's timeout ended before device {sent.device} started")
        self.replies.reported.clients(cohort)

    # Asynchronous messages.

    def push(self, some: Sequence[SentMessage]) -> None:
        """Send messages; idle devices start before simulated time advances. Some messages may already have replies.

        A device handles its messages in order, also those without a cost. A round ends when a device starts from a new
        model that includes replies.
        """
        self.mail.reply(some)
        unanswered = [sent for sent in some if sent.reply is None]
        self._note_queries(unanswered)
        for sent in unanswered:
            if sent.kind == TRAIN:
                model = model_digest(sent.message)
                if self._round.is_renewed_by(model):
                    self._begin_jobs()
                    self._round.renewed = True
                self._round.train(model)
            self.mail.waiting.append(sent)

    def pull(self, ids: Sequence[str]) -> list[SentMessage]:
        """Return the available replies; if there are none, advance time to the first of the pending ones."""
        wanted = set(ids)
        while wanted.isdisjoint(self.mail.replied) and any(sent.id in wanted for sent in self.mail.pending):
            self._step(math.inf, wanted)
        found = self.mail.take_replies(wanted)
        self._round.news = self._round.news or bool(found)
        self.replies.count(found)
        return found

    def sleep(self, seconds: float) -> None:
        """Advance simulated time; running jobs continue."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if self._round.barrier:
            self.end_round()
        until = self.cell.now + seconds
        while self.cell.now < until:
            self._step(until)

    def _step(self, until: float, wanted: Set[str] = frozenset()) -> None:
        """Advance to the next end of a job, at most to ``until``; not at all if starting jobs answers a message of
        ``wanted``."""
        before = len(self.mail.replied)
        self._begin_jobs()
        if len(self.mail.replied) > before and not wanted.isdisjoint(self.mail.replied):
            return
        if self.cell.running:
            due = {job: self.mail.running[job].deadline for job in self.cell.running}
            ended = self._play(self.next_ended(min(until, *due.values())))
            if not ended:
                late = [job for job, at in due.items() if at <= self.cell.now]
                ended = self._play(self.cancel(late, DEADLINE))
            self._take(ended)
        elif self.cell.now < until < math.inf:
            self._stage.advance(self.rounds.pause(until - self.cell.now))

    def _begin_jobs(self) -> None:
        """Answer the messages of idle devices that cost nothing, and start the others."""
        while starting := self.mail.take_next(self.replies.costs):
            if self.replies.costs(starting[0]):
                self._start(starting)
            else:
                self.replies.answer(starting)
            self.mail.reply(starting)

    def _start(self, starting: Sequence[SentMessage]) -> None:
        """Start jobs of idle devices, each planned with an equal band share of all running jobs."""
        self._refuse_after_the_end()
        if self._round.renewed:
            self.end_round()
        self._round.begin(barrier=False)
        busy = len(self.cell.running)
        ready = self._ask_cohort(starting)
        sizes = self.replies.sizes(ready)
        for sent in ready:
            job = self.start_job(sent.device, busy + len(ready), sizes)
            if job is None:
                sent.fail(_no_plan(self, sent.device))
            else:
                sent.deadline = self.deadline()
                self.mail.running[job] = sent

    def _take(self, ended: Sequence[Job]) -> None:
        """Make the replies of finished jobs available to the app."""
        for job in ended:
            sent = self.mail.running.pop(job.number)
            self.replies.settle(sent, job)
            self.replies.reported.clients([sent])
            self.mail.reply([sent])

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
        while not (early or self.replies.trained) and self.mail.pending:
            self._step(math.inf)
        self._round.begun = self._round.begun or bool(self._round.queried or self.mail.waiting)
        self.replies.count([*self.mail.replied.values(), *self.mail.pending])
        self.end_round(last=True)

    def end_round(self, *, last: bool = False) -> None:
        """End the current round; with ``last``, abort running jobs."""
        if not self._round.begun:
            return
        self.aggregate(None, barrier=self._round.barrier)
        if last:
            self._play(self.stop())
            self.rounds.fail([sent.device for sent in self.mail.waiting if self.replies.costs(sent)], OVER)
        self._round = AppRound(self._round.model)
        self.most_rounds = max(self.expected, self.rounds.version)
        self.close()

    def evaluate(self) -> None:
        self.history.accuracy.append(self.replies.reported.close())


def _no_plan(server: AppServer, device: int) -> str:
    """Return the error text for a device without a feasible plan, with its limits."""
    left_j, deadline = float(server.cell.view().battery_j[device]), server.scenario.rounds.deadline
    budget_j = float(server.cell.parts.population.budget_j[device])
    limits = [f"its budget of {format(budget_j, 'energy')}"] if budget_j < math.inf else []
    limits += [f"the {format(left_j, 'energy')} left in its battery"] if left_j < math.inf else []
    limits += [f"the deadline of {format(deadline, 'time')}"] if deadline is not None else []
    return f"{INFEASIBLE}: device {device} has no plan within {', '.join(limits)}"
