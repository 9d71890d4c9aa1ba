"""An app's messages in the cell: trained, planned, played; who does not arrive is told why.

Training comes first and planning after it, since only a reply says how large it is. A ServerApp that waits for all
plays rounds; for one that does not, a round ends when a model goes out that is not the one before.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from flwr.app import Message

from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError
from netsim.base.units import format
from netsim.cell.job import Job
from netsim.fleet.work import samples_trained
from netsim.flower.client_answer import ClientAnswer
from netsim.flower.messages import (
    BITS_A_METRIC,
    EVALUATE,
    TRAIN,
    Sent,
    array_bits,
    metrics_of,
    model_digest,
    samples_of,
)
from netsim.flower.reported import Reported
from netsim.server.cell_api import CellAPI
from netsim.server.server import RunProgress
from netsim.stage import Stage
from netsim.trace.schema import DEADLINE, INFEASIBLE

if TYPE_CHECKING:
    from netsim.scenario import Scenario

HAIR = 1 + 1e-12           # who ends right on a deadline is in time


class AnswersMessages(Protocol):
    """Whoever runs the ClientApps of the devices."""

    def ask(self, messages: Sequence[tuple[int, Message]]) -> list[ClientAnswer]:
        """The answers to messages, each to a device of its own, in their order; what they did is not kept yet."""

    def keep(self, device: int, done: ClientAnswer) -> None:
        """What was done counts: it is there when the device's next message comes."""


class RunOver(BaseException):
    """The run ends here, whatever the app was about to do; no ``except Exception`` of an app holds it up."""


class AppRounds:
    """The rounds that an app plays in a cell."""

    def __init__(self, stage: Stage, scenario: Scenario, clients: AnswersMessages) -> None:
        self.cell: CellAPI = stage.cell
        self.scenario = scenario
        self._population = stage.cell.population
        self.reported = Reported(stage.cell)
        self.expected = 0                            # rounds, if the app has said how many
        self._stage, self._clients = stage, clients
        self._open = False                           # whether a round has begun
        self._barrier = False                        # whether it is one that waits for all
        self._outbox: list[Sent] = []                # pushed, and not yet begun
        self._flying: dict[int, Sent] = {}           # by job
        self._due: dict[int, float] = {}             # when each is to be given up
        self._ready: dict[str, Sent] = {}            # replies that nobody has pulled, the first to arrive first
        self._model = b""                            # that went out last
        self._renewed = False                        # whether another model has gone out since
        self._news = False                           # whether the app has had a reply since the last new model
        self._complained = False
        everybody = np.arange(scenario.size)
        self.cell.assign(everybody, np.ones(scenario.size), self._cycles(everybody, np.ones(scenario.size)),
                         download_bits=1.0)

    @property
    def idle(self) -> bool:
        """Whether nobody is at work."""
        return not (self._outbox or self._flying)

    @property
    def began(self) -> bool:
        """Whether a round has begun, or one is over."""
        return self._open or self.cell.version > 0

    def available(self) -> Ints:
        """Who is there and has the energy for a job."""
        return np.flatnonzero(self.cell.view().available)

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
        """Let the ClientApps of those who are there work; returns those that have an answer."""
        for sent in some:
            reason = self.cell.absence(sent.device)
            if reason is not None:
                sent.fail(f"{reason}: device {sent.device} is not there at {format(self.cell.now, 'time')}")
        asked = [sent for sent in some if sent.reply is None]
        for sent, done in zip(asked, self._clients.ask([(sent.device, sent.message) for sent in asked]), strict=True):
            sent.answer = done
            if done.reply.has_error():
                sent.reply = done.reply
                self._complain(sent.device, str(done.reply.error.reason))
        return [sent for sent in asked if sent.reply is None]

    def _complain(self, device: int, reason: str) -> None:
        """The first failure of a ClientApp is told at once; all reach the strategy."""
        if not self._complained:
            print(f"the ClientApp failed on device {device}: {reason}", file=sys.stderr)
            self._complained = True

    def _report(self, some: Sequence[Sent]) -> None:
        for kind in dict.fromkeys(sent.kind for sent in some):
            self.reported.clients(kind, [sent for sent in some if sent.kind == kind and sent.reply is not None
                                         and not sent.reply.has_error()])

    # How much work it is.

    def _assign(self, some: Sequence[Sent]) -> Ints:
        """Tell the cell what these devices have to do; returns them."""
        devices = np.array([sent.device for sent in some])
        work = np.array([self._work(sent) for sent in some])
        self.cell.assign(devices, work[:, 0], work[:, 1], max(1.0, *(array_bits(sent.message) for sent in some)))
        return devices

    def _work(self, sent: Sent) -> tuple[float, float]:
        """Bits to send and cycles to compute, as a reply has them."""
        assert sent.answer is not None
        reply, device = sent.answer.reply, np.array([sent.device])
        bits, samples = array_bits(reply), samples_of(reply)
        if sent.kind == EVALUATE:                   # one pass, without training
            bits += BITS_A_METRIC * max(1, len(list(metrics_of(reply))))
            passes: Floats = np.array([float(samples or 0)])
            return bits, float((passes * self._population.cycles_per_sample[device])[0])
        if bits == 0:
            raise InputError(f"the ClientApp's reply to \"{sent.message.metadata.message_type}\" on device "
                             f"{sent.device} has no arrays, so there is no upload to simulate: let it reply with an "
                             "ArrayRecord")
        if samples is None:
            samples = int(self._population.samples[sent.device])
            if any(table.samples == "auto" for table in self.scenario.population):
                raise InputError(f"the ClientApp's reply on device {sent.device} does not say num-examples, and with "
                                 'samples = "auto" the scenario does not either: give one of them')
        return bits, float(self._cycles(device, np.array([samples]))[0])

    def _cycles(self, devices: Ints, samples: Floats | Ints) -> Floats:
        trained = samples_trained(self.scenario, np.maximum(1, samples).astype(np.int64))
        return trained * self._population.cycles_per_sample[devices]

    # Rounds that wait for all.

    def together(self, cohort: Sequence[Sent], timeout_s: float) -> None:
        """Play a cohort; all of them have a reply afterwards, be it an error with the reason."""
        if any(sent.kind == TRAIN for sent in cohort):
            self.close()
            self._refuse_after_the_end()
        self._open, self._barrier = True, True
        ready = self._ask(cohort)
        self._play(ready, self.cell.now + timeout_s * HAIR)
        self._report(cohort)

    def _play(self, ready: Sequence[Sent], until: float) -> None:
        cell, rounds = self.cell, self.scenario.rounds
        by_device = {sent.device: sent for sent in ready}
        devices = self._assign(ready) if ready else np.zeros(0, np.int64)
        cell.select(devices)                                                     # who: the app's word
        agenda = cell.plan(devices, rounds.infeasible, self.scenario.selection.cohort)
        for device in agenda.dropped.tolist():
            by_device[device].fail(self._no_plan(device))
        patience_s = math.inf if rounds.deadline is None else rounds.deadline * HAIR
        for wave in agenda.waves:
            if cell.now < until:
                self._stage.advance(cell.finished(
                    cell.dispatch(wave).tolist(), until=min(until, cell.now + patience_s)))
            for job in [*cell.collect(), *self._cancel(cell.running())]:
                self._settle(by_device[job.device], job)
        for sent in (sent for sent in ready if sent.reply is None):
            sent.fail(f"{DEADLINE}: the time that the app waits was over before device {sent.device} had its turn")
        if not agenda.waves:
            self._stage.advance(cell.wait(rounds.wait_s))                        # nobody fits

    def _cancel(self, jobs: Iterable[int]) -> list[Job]:
        """Abort jobs whose time is up."""
        self._stage.advance(self.cell.cancel(jobs, DEADLINE))
        return self.cell.collect()

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
        """Send messages; whoever is free begins, before time goes on."""
        free = [sent for sent in some if self.is_free(sent)]
        self.answer(free)
        self._ready |= {sent.id: sent for sent in free}
        for sent in some:
            if not self.is_free(sent):
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

    def returned(self, sent: Sent) -> None:
        """A message that goes nowhere has its reply already."""
        self._ready[sent.id] = sent

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

    def wait_for(self, ids: Sequence[str], timeout_s: float) -> list[Sent]:
        """All of these replies, or those that are there in time; the others are given up."""
        wanted, until = set(ids), self.cell.now + timeout_s * HAIR
        while not wanted <= self._ready.keys() and self.cell.now < until:
            self._step(until)
        self._take(self._cancel([job for job, sent in self._flying.items() if sent.id in wanted]))
        for sent in [sent for sent in self._outbox if sent.id in wanted]:
            self._outbox.remove(sent)
            sent.fail(f"{DEADLINE}: device {sent.device} was busy all the time")
            self._ready[sent.id] = sent
        return self.pull(ids)

    def sleep(self, seconds: float) -> None:
        """Let time pass while the server does nothing; those at work go on."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if self._barrier:
            self.close()
        until = self.cell.now + seconds
        while self.cell.now < until:
            self._step(until)

    def _step(self, until: float) -> None:
        """Until the next job has ended, but not beyond ``until``."""
        self._begin_jobs()
        running = self.cell.running()
        if running:
            due = min((self._due[job] for job in running), default=math.inf)
            self._stage.advance(self.cell.finished(running, until=min(until, due), count=1))
            ended = self.cell.collect(1)
            self._take(ended or self._cancel([job for job in running if self._due[job] <= self.cell.now]))
        elif self.cell.now < until < math.inf:
            self._stage.advance(self.cell.wait(until - self.cell.now))

    def _begin_jobs(self) -> None:
        """Let those begin whose devices are free, each as one of all who share the band now."""
        cell, busy = self.cell, set(self.cell.running().values())
        starting: dict[int, Sent] = {}
        for sent in list(self._outbox):
            if sent.device not in busy and sent.device not in starting:
                starting[sent.device] = sent
                self._outbox.remove(sent)
        if not starting:
            return
        self._refuse_after_the_end()
        if self._renewed:
            self.close()
        self._open, self._barrier = True, False
        ready = self._ask(list(starting.values()))
        if ready:
            cell.select(self._assign(ready))
        deadline = self.scenario.rounds.deadline
        for sent in ready:
            agenda = cell.plan_alone(sent.device, self.scenario.rounds.infeasible, len(busy) + len(ready))
            for wave in agenda.waves:
                [job] = cell.dispatch(wave).tolist()
                self._flying[job], self._due[job] = sent, math.inf if deadline is None else cell.now + deadline * HAIR
            if not agenda.waves:
                sent.fail(self._no_plan(sent.device))
        self._ready |= {sent.id: sent for sent in starting.values() if sent.reply is not None}

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

    def close(self, *, last: bool = False) -> None:
        """The round that has begun is over; with the last, jobs under way end."""
        if not self._open:
            return
        history = self._stage.history
        outcomes = self.cell.aggregate(barrier=self._barrier)
        history.add(self.cell.version, outcomes)
        history.accuracy.append(self.reported.close())
        if last:
            self._stage.advance(self.cell.stop())
            history.spend(self.cell.stopped())
        self.cell.close()
        self._open = self._barrier = self._renewed = self._news = False
        self._stage.closed(RunProgress(
            self.cell.version, max(self.expected, self.cell.version), self.cell.now, history.energy_j,
            history.accuracy[-1], None))
