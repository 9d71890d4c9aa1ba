"""An app's messages in the cell: trained, planned, played; a device that does not arrive gets an error with the reason.

Training comes first and planning after it, since only a reply says how large it is. A ServerApp that waits for all
plays rounds; for one that does not, a round ends when a model goes out that is not the one before.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np
from flwr.app import Message

from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError
from netsim.base.units import format
from netsim.cell.clock import JUST_ENOUGH
from netsim.cell.job import Job
from netsim.flower.cell_alone import cycles_of
from netsim.flower.messages import (
    BITS_A_METRIC,
    EVALUATE,
    TRAIN,
    ClientAnswer,
    Sent,
    array_bits,
    metrics_of,
    model_digest,
    samples_of,
)
from netsim.flower.reported import Reported
from netsim.server.server import Server
from netsim.server.strategy import Strategy
from netsim.trace.schema import DEADLINE, INFEASIBLE

if TYPE_CHECKING:
    from netsim.stage import Stage

T = TypeVar("T")


class AnswersMessages(Protocol):
    """What runs the ClientApps of the devices."""

    def ask(self, messages: Sequence[tuple[int, Message]]) -> list[ClientAnswer]:
        """The answers to messages, each to a device of its own, in their order; what they did is not kept yet."""

    def keep(self, device: int, done: ClientAnswer) -> None:
        """What was done counts: it is there when the device's next message comes."""


class RunOver(BaseException):
    """The run ends here, whatever the app was about to do; no ``except Exception`` of an app holds it up."""


class AppServer(Server):
    """The server's loop, driven by an app: the steps of a round are played when the app sends or waits."""

    def __init__(self, stage: Stage, clients: AnswersMessages) -> None:
        super().__init__(stage.context(), Strategy())      # the app selects and weighs
        self._population = self.cell.parts.population
        self.reported = Reported(self.rounds)
        self.expected = 0                            # rounds, if the app has said how many
        self._stage, self._clients, self._sizes = stage, clients, stage.sizes
        self._open = False                           # whether a round has begun
        self._barrier = False                        # whether it is one that waits for all
        self._outbox: list[Sent] = []                # pushed, and not yet begun
        self._flying: dict[int, Sent] = {}           # by job
        self._due: dict[int, float] = {}             # when each is to be given up
        self._ready: dict[str, Sent] = {}            # replies that were not pulled, the first to arrive first
        self._model = b""                            # that went out last
        self._renewed = False                        # whether another model has gone out since
        self._news = False                           # whether the app has had a reply since the last new model
        self._complained = False

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

    # Work that takes no simulated time.

    def is_free(self, sent: Sent) -> bool:
        """Whether a message costs nothing: only training does, and evaluation where the scenario says so."""
        flower = self.scenario.flower
        return sent.kind != TRAIN and not (sent.kind == EVALUATE and flower and flower.evaluation == "charged")

    def answer(self, free: Sequence[Sent]) -> None:
        """Messages that cost nothing: their replies are there at once."""
        for sent in self._ask(free):
            self._clients.keep(sent.device, sent.arrive())
        self._report(free)

    def _ask(self, some: Sequence[Sent]) -> list[Sent]:
        """Let the ClientApps of available devices work; returns those that have an answer."""
        for sent in some:
            reason = self.cell.unavailable_reason(sent.device)
            if reason is not None:
                sent.fail(f"{reason}: device {sent.device} is not there at {format(self.cell.now, 'time')}")
        asked = [sent for sent in some if sent.reply is None]
        for sent, done in zip(asked, self._clients.ask([(sent.device, sent.message) for sent in asked]), strict=True):
            sent.answer = done
            if done.reply.has_error():
                sent.reply = done.reply
                if not self._complained:             # the first failure is reported at once; all reach the strategy
                    print(f"the ClientApp failed on device {sent.device}: {done.reply.error.reason}", file=sys.stderr)
                    self._complained = True
        return [sent for sent in asked if sent.reply is None]

    def _report(self, some: Sequence[Sent]) -> None:
        for kind in dict.fromkeys(sent.kind for sent in some):
            self.reported.clients(kind, [sent for sent in some if sent.kind == kind and sent.reply is not None
                                         and not sent.reply.has_error()])

    # How large the jobs are.

    def _take_sizes(self, some: Sequence[Sent]) -> Ints:
        """Take over how large these devices' jobs are, as their messages and replies say; returns the devices."""
        devices = np.array([sent.device for sent in some], np.int64)
        if some:
            sizes = np.array([self._size(sent) for sent in some])
            self._sizes = self._sizes.changed(devices, *sizes.T)
        return devices

    def _size(self, sent: Sent) -> tuple[float, float, float]:
        """Bits to send, bits to receive and cycles to compute."""
        assert sent.answer is not None
        reply, device, download = sent.answer.reply, sent.device, max(1.0, array_bits(sent.message))
        bits, samples = array_bits(reply), samples_of(reply)
        if sent.kind == EVALUATE:                   # one pass, without training
            bits += BITS_A_METRIC * max(1, len(list(metrics_of(reply))))
            return bits, download, float(samples or 0) * float(self._population.cycles_per_sample[device])
        if bits == 0:
            raise InputError("wrong-answer", f"the ClientApp's reply on device {device}", "no arrays",
                             f'an ArrayRecord in the reply to "{sent.message.metadata.message_type}"',
                             "Without one there is no upload to simulate")
        if samples is None:
            samples = int(self._population.samples[device])
            if any(table.samples == "auto" for table in self.scenario.population):
                raise InputError("missing", f"num-examples in the ClientApp's reply on device {device}",
                                 hint='With samples = "auto" the scenario does not say it either: give one of them')
        trained: Floats = cycles_of(self.scenario, self._population, np.array([device]), np.array([samples]))
        return bits, download, float(trained[0])

    # Rounds that wait for all.

    def together(self, cohort: Sequence[Sent], timeout_s: float) -> None:
        """Play a cohort; all of them have a reply afterwards, be it an error with the reason."""
        if any(sent.kind == TRAIN for sent in cohort):
            self.end_round()
            self._refuse_after_the_end()
        self._open, self._barrier = True, True
        ready = self._ask(cohort)
        devices, by_device = self._take_sizes(ready), {sent.device: sent for sent in ready}
        self.rounds.select(devices)                                              # the app's choice
        agenda = self.rounds.plan(devices, self._sizes, self.rule(), self.scenario.selection.cohort)
        for device in agenda.dropped.tolist():
            by_device[device].fail(self._no_plan(device))
        for job in self._play(self.play_waves(agenda, self._after(timeout_s))):
            self._settle(by_device[job.device], job)
        for sent in (sent for sent in ready if sent.reply is None):
            sent.fail(f"{DEADLINE}: the time that the app waits was over before device {sent.device} had its turn")
        self._report(cohort)

    def _after(self, seconds: float) -> float:
        """An instant from now on; a job that ends right then is in time."""
        return self.cell.now + seconds * (1 + JUST_ENOUGH)

    def _no_plan(self, device: int) -> str:
        """That a device could not take part, and what it had."""
        left_j, deadline = float(self.cell.view().battery_j[device]), self.scenario.rounds.deadline
        limits = [f"its budget of {format(float(self._population.budget_j[device]), 'energy')}"]
        limits += [f"the {format(left_j, 'energy')} left in its battery"] if left_j < math.inf else []
        limits += [f"the deadline of {format(deadline, 'time')}"] if deadline is not None else []
        return f"{INFEASIBLE}: device {device} has no plan within {', '.join(limits)}"

    def _settle(self, sent: Sent, job: Job) -> None:
        """A job has ended."""
        self._clients.keep(sent.device, sent.arrive())
        if not job.arrived:
            sent.fail(f"{job.outcome}: device {sent.device} at {format(job.ended_at, 'time')}")

    # Messages as they come.

    def push(self, some: Sequence[Sent]) -> None:
        """Send messages; devices that are free begin before time goes on. Some may have their replies already."""
        self.answer([sent for sent in some if sent.reply is None and self.is_free(sent)])
        charged = [sent for sent in some if sent.reply is None]
        self._ready |= {sent.id: sent for sent in some if sent.reply is not None}
        for sent in charged:
            if sent.kind == TRAIN:
                self._note_model(sent)
            self._outbox.append(sent)

    def _note_model(self, sent: Sent) -> None:
        """A round ends when a device begins on another model than before, made of what has arrived."""
        model = model_digest(sent.message)
        if self._open and not self._renewed and (self._barrier or (self._news and model != self._model)):
            self._begin_jobs()
            self._renewed = True
        self._open, self._model = True, model

    def pull(self, ids: Sequence[str]) -> list[Sent]:
        """The replies that are there; if none is and some are to come, the first of them."""
        wanted = set(ids)
        while wanted.isdisjoint(self._ready) and any(
                sent.id in wanted for sent in (*self._outbox, *self._flying.values())):
            self._step(math.inf)
        found = [sent for name, sent in self._ready.items() if name in wanted]
        for sent in found:
            del self._ready[sent.id]
        self._news = self._news or bool(found)
        return found

    def gather(self, ids: Sequence[str], timeout_s: float) -> list[Sent]:
        """All of these replies, or those that are there in time; the others are given up."""
        wanted, until = set(ids), self._after(timeout_s)
        while not wanted <= self._ready.keys() and self.cell.now < until:
            self._step(until)
        self._give_up([job for job, sent in self._flying.items() if sent.id in wanted])
        for sent in [sent for sent in self._outbox if sent.id in wanted]:
            self._outbox.remove(sent)
            sent.fail(f"{DEADLINE}: device {sent.device} was busy all the time")
            self._ready[sent.id] = sent
        return self.pull(ids)

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
        running = list(self.cell.running)
        if running:
            due = min(self._due[job] for job in running)
            ended = self._play(self.next_ended(min(until, due)))
            self._take(ended)
            if not ended:
                self._give_up([job for job in running if self._due[job] <= self.cell.now])
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
            self.rounds.select(self._take_sizes(ready))
        for sent in ready:
            job = self.start_alone(sent.device, len(busy) + len(ready), self._sizes)
            if job is None:
                sent.fail(self._no_plan(sent.device))
            else:
                self._flying[job], self._due[job] = sent, self.deadline()
        self._ready |= {sent.id: sent for sent in starting.values() if sent.reply is not None}

    def _give_up(self, jobs: Sequence[int]) -> None:
        """Abort jobs whose time is up."""
        self._take(self._play(self.cancel(jobs, DEADLINE)))

    def _take(self, ended: Sequence[Job]) -> None:
        """Give the replies of jobs that have ended to the app."""
        for job in ended:
            sent = self._flying.pop(job.number)
            self._due.pop(job.number)
            self._settle(sent, job)
            self._report([sent])
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
