"""Metrics that an app reports, as counters of the trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from netsim.flower.messages import EVALUATE, TRAIN, SentMessage, metrics_of, numbers_in, samples_of
from netsim.server.round_recorder import RoundRecorder
from netsim.trace.schema import SERVER

LONGEST = 100              # characters of a counter's name
KNOWN = {"accuracy": "acc", "loss": "loss"}      # columns of tables, and the part of metric names that identifies them


class ReportedMetrics:
    """Metrics of a round as counters.

    ``train NAME`` and ``evaluate NAME`` are recorded by device, and as the mean weighted by samples for the server;
    ``server NAME`` is the server's own evaluation. Accuracy and loss of the round are the last reported ones.
    """

    def __init__(self, rounds: RoundRecorder) -> None:
        self._rounds = rounds
        self._known: dict[str, float] = {}
        self.any = False           # True if a metric was reported
        self._of_server: set[str] = set()      # known values of this round that the server has evaluated itself
        self.accuracy_of = ""      # origin of the last accuracy: "server" or "clients"

    def clients(self, some: Sequence[SentMessage]) -> None:
        """Record the metrics in the replies to messages."""
        for kind in dict.fromkeys(sent.kind for sent in some):
            values: dict[str, dict[int, float]] = {}
            samples: dict[int, float] = {}
            for sent in some:
                if sent.kind == kind and sent.reply is not None and not sent.reply.has_error():
                    samples[sent.device] = float(samples_of(sent.reply) or 0)
                    for name, value in metrics_of(sent.reply):
                        values.setdefault(name, {})[sent.device] = value
            self.any = self.any or (bool(values) and kind in (TRAIN, EVALUATE))
            for name, by_device in values.items():
                mean = _mean(list(by_device.values()), [samples[device] for device in by_device])
                self._rounds.count(f"{kind} {name}"[:LONGEST], {**by_device, SERVER: mean})
                if kind == EVALUATE:
                    self._know(name, mean, "clients")

    def server(self, round: int, metrics: Any) -> None:
        """Record the server's own evaluation; round 0 evaluates the initial model."""
        for name, value in numbers_in([metrics]):
            self.any = True
            self._rounds.count(f"{'server' if round else 'initial'} {name}"[:LONGEST], {SERVER: value})
            if round:
                self._know(name, value, "server")

    def _know(self, name: str, value: float, origin: str) -> None:
        for known, word in KNOWN.items():
            if word in name.lower() and (origin == "server" or known not in self._of_server):
                self._known[known] = value
                self._of_server |= {known} if origin == "server" else set()
                self.accuracy_of = origin if known == "accuracy" else self.accuracy_of

    def close(self) -> float:
        """End the round; return its accuracy, NaN if none was reported."""
        for name, value in self._known.items():
            self._rounds.count(name, {SERVER: value})
        accuracy, self._known, self._of_server = self._known.get("accuracy", math.nan), {}, set()
        return accuracy


def _mean(values: list[float], samples: list[float]) -> float:
    """Return the mean weighted by samples; unweighted if all are 0."""
    whole = math.fsum(samples)
    if whole <= 0.0:
        return math.fsum(values) / len(values)
    return math.fsum(value * count / whole for value, count in zip(values, samples, strict=True))
