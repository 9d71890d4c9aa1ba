"""An app's messages in the cell: trained, planned, played; a device that does not arrive gets an error with the reason.

Training comes first and planning after it, since only a reply says how large it is. A ServerApp that waits for all
plays rounds; for one that does not, a round ends when a model goes out that is not the one before.
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
    """The run ends here, whatever the app was about to do; no ``except Exception`` of an app holds it up."""


class AppServer(Server):
    """The server's loop, driven by an app: the steps of a round are played when the app sends or waits.

    ``clients`` run the ClientApps of the devices; None where every message comes with its answer.
    """

    def __init__(self, stage: Stage, clients: Clients | None = None) -> None:
        super().__init__(stage.context(), Strategy())      # the app selects and weighs
        self.reported = Reported(self.rounds)
        self.expected = 0                            # rounds, if the app has said how many
        self._stage, self._clients, self._sizes = stage, clients, stage.sizes
        charges_evaluation = self.scenario.flower is not None and self.scenario.flower.evaluation == "charged"
        self._charged = {TRAIN, EVALUATE} if charges_evaluation else {TRAIN}      # what takes time and energy
        self._open = False                           # whether a round has begun
        self._barrier = False                        # whether it is one that waits for all
        self._outbox: list[Sent] = []                # pushed, and not yet begun
        self._flying: dict[int, tuple[Sent, float]] = {}      # by job, with when it is to be given up
        self._ready: dict[str, Sent] = {}            # replies that were not pulled, the first to arrive first
        self._model = b""                            # that went out last
        self._renewed = False                        # whether another model has gone out since
        self._news = False                           # whether the app has had a reply since the last new model

    def _play(self, process: Generator[Any, Any, T]) -> T:
        """Let simulated time pass until a process has ended; returns what it does."""
        event = self._stage.env.process(process)
        self._stage.advance(event)
        return cast("T", event.value)

    @property
    def idle(self) -> bool:
        """Whether no device is at work."""
        return not (self._outbox or self._flying)

    @property
    def began(self) -> bool:
        """Whether a round has begun, or one is over."""
        return self._open or self.rounds.version > 0

    def available(self) -> Ints:
        """Which devices are available and have the energy for a job."""
        return np.flatnonzero(self.cell.available)

    # What ClientApps answer.

    def _ask(self, some: Sequence[Sent]) -> list[Sent]:
        """Let the ClientApps of available devices work; returns those that have an answer."""
        for sent in some:
            reason = self.cell.unavailable_reason(sent.device)
            if reason is not None:
                sent.fail(f"{reason}: device {sent.device} is not there at {format(self.cell.now, 'time')}")
        asked = [sent for sent in some if sent.reply is None]
        if self._clients:
            self._clients.ask(asked)
        for sent in asked:
            if sent.answered.reply.has_error():
                sent.reply = sent.answered.reply
        return [sent for sent in asked if sent.reply is None]

    def _answer(self, free: Sequence[Sent]) -> None:
        """Messages that cost nothing: their replies are there at once."""
        for sent in self._ask(free):
            self._settle(sent)
        self.reported.clients(free)

    def _settle(self, sent: Sent, job: Job | None = None) -> None:
        """The app gets the ClientApp's answer, unless the job that it took has failed."""
        if self._clients:
            self._clients.keep(sent)
        sent.reply = sent.answered.reply
        if job and not job.arrived:
            sent.fail(f"{job.outcome}: device {sent.device} at {format(job.ended_at, 'time')}")

    # Messages that are waited for.

    def exchange(self, some: Sequence[Sent], timeout_s: float) -> None:
        """Play messages until all have a reply, be it an error with the reason."""
        until = self.cell.now + timeout_s * (1 + JUST_ENOUGH)      # a job that ends right then is in time
        self._answer([sent for sent in some if sent.kind not in self._charged])
        charged = [sent for sent in some if sent.kind in self._charged]
        if charged and self.idle and len({sent.device for sent in charged}) == len(charged):
            self._together(charged, until)
        elif charged:                              # other devices are at work, or one is to do two things
            self.push(charged)
            wanted = {sent.id for sent in charged}
            while not wanted <= self._ready.keys() and self.cell.now < until:
                self._step(until)
            late = [job for job, (sent, _) in self._flying.items() if sent.id in wanted]
            self._take(self._play(self.cancel(late, DEADLINE)))
            for sent in [sent for sent in self._outbox if sent.id in wanted]:
                self._outbox.remove(sent)
                sent.fail(f"{DEADLINE}: device {sent.device} was busy all the time")
                self._ready[sent.id] = sent
            self.pull(list(wanted))

    def _together(self, cohort: Sequence[Sent], until: float) -> None:
        """Play a cohort as a round that waits for all."""
        if any(sent.kind == TRAIN for sent in cohort):
            self.end_round()
            self._refuse_after_the_end()
        self._open, self._barrier = True, True
        ready = self._ask(cohort)
        by_device = {sent.device: sent for sent in ready}
        devices = np.array(list(by_device), np.int64)
        self._sizes = changed_sizes(self._sizes, self.scenario, self.cell.parts.population, ready)
        self.rounds.select(devices)                                              # the app's choice
        agenda = self.rounds.plan(devices, self._sizes, self.rule(), self.scenario.selection.cohort)
        for device in agenda.dropped.tolist():
            by_device[device].fail(_no_plan(self, device))
        for job in self._play(self.play_waves(agenda, until)):
            self._settle(by_device[job.device], job)
        for sent in (sent for sent in ready if sent.reply is None):
            sent.fail(f"{DEADLINE}: the time that the app waits was over before device {sent.device} had its turn")
        self.reported.clients(cohort)

    # Messages as they come.

    def push(self, some: Sequence[Sent]) -> None:
        """Send messages; devices that are free begin before time goes on. Some may have their replies already.

        A round ends when a device begins on another model than before, made of what has arrived.
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
        """The replies that are there; if none is and some are to come, the first of them."""
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
        """Let time pass while the server does nothing; devices at work go on."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if self._barrier:
            self.end_round()
        until = self.cell.now + seconds
        while self.cell.now < until:
            self._step(until)

    def _step(self, until: float) -> None:
        """Until the next job has ended, but not beyond ``until``."""
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
        """Let free devices begin, each in its share of the band among all that are at work."""
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
        """Give the replies of jobs that have ended to the app."""
        for job in ended:
            sent, _ = self._flying.pop(job.number)
            self._settle(sent, job)
            self.reported.clients([sent])
            self._ready[sent.id] = sent

    # Where rounds end.

    def _refuse_after_the_end(self) -> None:
        end_s = self.scenario.end.time
        if end_s is not None and self.cell.now >= end_s:
            raise RunOver(f"the scenario's end.time, {format(end_s, 'time')}, is reached")

    def end_round(self, *, last: bool = False) -> None:
        """The round that has begun is over; with the last, jobs under way end."""
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
    """That a device could not take part, and what it had."""
    left_j, deadline = float(server.cell.view().battery_j[device]), server.scenario.rounds.deadline
    limits = [f"its budget of {format(float(server.cell.parts.population.budget_j[device]), 'energy')}"]
    limits += [f"the {format(left_j, 'energy')} left in its battery"] if left_j < math.inf else []
    limits += [f"the deadline of {format(deadline, 'time')}"] if deadline is not None else []
    return f"{INFEASIBLE}: device {device} has no plan within {', '.join(limits)}"
