"""Replies to an app's messages: the answers of ClientApps, their cost, and what they report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.base.units import format
from netsim.cell.job import Job
from netsim.devices.workload import JobSizes
from netsim.flower.clients import Clients
from netsim.flower.compute import Compute
from netsim.flower.messages import EVALUATE, TRAIN, SentMessage, content_bits
from netsim.flower.metrics import ReportedMetrics
from netsim.scenario.schema import FlowerTable
from netsim.session import Session

MOST_FAILURES = 20        # errors of ClientApps that the summary lists


class Replies:
    """Replies of devices; ``clients`` run their ClientApps, and are None if every message already has its answer."""

    def __init__(self, stage: Session, clients: Clients | None) -> None:
        self._cell, self._clients, self._sizes = stage.rounds.cell, clients, stage.sizes
        self._table = stage.scenario.flower or FlowerTable()
        self._compute = Compute(stage.scenario, self._cell.parts.population, stage.journal.path,
                                clients.measure if clients else None)
        self.reported = ReportedMetrics(stage.rounds)
        self.trained = False                                         # True if the app has a reply to a train message
        self._messages: Counter[tuple[str, bool]] = Counter()        # by type, and whether the app got a valid reply
        self._failures: Counter[str] = Counter()                     # by the error of the ClientApp

    def costs(self, sent: SentMessage) -> bool:
        """Return whether a message takes simulated time and energy."""
        return sent.kind == TRAIN or (
            self._table.evaluation if sent.kind == EVALUATE else self._table.queries) == "charged"

    def ask(self, some: Sequence[SentMessage]) -> list[SentMessage]:
        """Run the ClientApps of available devices; return the messages with a valid answer."""
        for sent in some:
            reason = self._cell.unavailable_reason(sent.device)
            if reason is not None:
                sent.fail(f"{reason}: device {sent.device} is unavailable at {format(self._cell.now, 'time')}")
        asked = [sent for sent in some if sent.reply is None]
        if self._clients:
            self._clients.ask(asked)
        for sent in asked:
            if sent.answered.reply.has_error():
                sent.reply = sent.answered.reply
                self._failures[str(sent.reply.error.reason)] += 1
        return [sent for sent in asked if sent.reply is None]

    def answer(self, free: Sequence[SentMessage]) -> None:
        """Answer messages that take no simulated time."""
        for sent in self.ask(free):
            self.settle(sent)
        self.reported.clients(free)

    def sizes(self, ready: Sequence[SentMessage]) -> JobSizes:
        """Return the sizes of jobs, those of these answered messages among them."""
        if ready:
            self._sizes = self._sizes.changed(
                np.array([sent.device for sent in ready], np.int64),
                *np.array([(content_bits(sent.answered.reply), content_bits(sent.message), self._compute.cycles(sent))
                           for sent in ready]).T)
        return self._sizes

    def settle(self, sent: SentMessage, job: Job | None = None) -> None:
        """Set the reply: the ClientApp's answer, or an error if the job has failed."""
        if self._clients:
            self._clients.keep(sent)
        sent.reply = sent.answered.reply
        if job and not job.arrived:
            sent.fail(f"{job.outcome}: device {sent.device} at {format(job.ended_at, 'time')}")

    def count(self, some: Sequence[SentMessage]) -> None:
        """Count the replies that the app receives."""
        self.trained = self.trained or any(sent.kind == TRAIN for sent in some)
        self._messages.update((sent.kind, sent.reply is not None and not sent.reply.has_error()) for sent in some)

    def totals(self) -> dict[str, Any]:
        """Return the messages that the app got a reply to, by type, and the errors of its ClientApps."""
        kinds = dict.fromkeys(kind for kind, _ in self._messages)
        return {"messages": {kind: {"sent": self._messages[kind, True] + self._messages[kind, False],
                                    "answered": self._messages[kind, True]} for kind in kinds},
                "failures": dict(self._failures.most_common(MOST_FAILURES)), "compute": self._compute.describe(),
                "accuracy_of": self.reported.accuracy_of or None}
