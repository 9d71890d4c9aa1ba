"""Type, size, samples and metrics of Flower messages."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message

from netsim.base.errors import InputError
from netsim.fleet.population import Population
from netsim.fleet.work import JobSizes
from netsim.flower.cell_alone import cycles_of
from netsim.scenario import Scenario

LOST = 4                   # Flower's code for an unavailable reply
WEIGHTS = ("num-examples", "num_examples")      # names of the number of samples, new and old
BITS_A_METRIC = 64
TRAIN, EVALUATE = "train", "evaluate"


@dataclass(frozen=True, eq=False)
class ClientAnswer:
    """Reply of a ClientApp, and the node's new context."""

    reply: Message
    context: Context | None        # None if the app failed


@dataclass(eq=False)
class Sent:
    """Message of the app and its state in the cell."""

    message: Message
    device: int
    answer: ClientAnswer | None = None      # of the ClientApp
    reply: Message | None = None      # to the app

    @property
    def id(self) -> str:
        return str(self.message.metadata.message_id)

    @property
    def kind(self) -> str:
        """Message type, "train", "evaluate" or "query", without the app's own suffix after a dot."""
        return str(self.message.metadata.message_type).partition(".")[0]

    def fail(self, reason: str) -> None:
        """Set an error with the reason as the reply."""
        self.reply = Message(Error(LOST, reason), reply_to=self.message)

    @property
    def answered(self) -> ClientAnswer:
        """The answer, which must be set."""
        assert self.answer is not None
        return self.answer


def array_bits(message: Message) -> float:
    """Return the size of all arrays in a message, in bits."""
    return 8.0 * sum(_bytes(array) for record in message.content.array_records.values() for array in record.values())


def _bytes(array: Any) -> int:
    """Return the bytes of an array without its encoding; of the raw data if it is no numpy array."""
    if array.dtype:
        return int(np.dtype(array.dtype).itemsize * math.prod(array.shape))
    try:
        return int(array.numpy().nbytes)      # legacy clients do not set the type
    except (TypeError, ValueError):
        return len(array.data)


def samples_of(message: Message) -> int | None:
    """Return the number of samples that a reply reports; None if it reports none."""
    for record in message.content.metric_records.values():
        for name in WEIGHTS:
            value = record.get(name)
            if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
                return int(value)
    return None


def metrics_of(message: Message) -> Iterator[tuple[str, float]]:
    """Yield names and values of the metrics of a reply."""
    content = message.content
    yield from numbers_in(content.metric_records.values())
    # metrics of legacy clients
    yield from numbers_in(record for name, record in content.config_records.items() if name.endswith(".metrics"))


def numbers_in(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield names and numbers of records; entries of a list are named by their index."""
    for record in records:
        for name, value in record.items():
            if name not in WEIGHTS:
                for place, number in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if isinstance(number, int | float) and not isinstance(number, bool):
                        yield (name if place is None else f"{name}[{place}]"), float(number)


def model_digest(message: Message) -> bytes:
    """Return a hash of all arrays of a message, to detect a new model."""
    found = hashlib.blake2b(digest_size=16)
    for record in message.content.array_records.values():
        for array in record.values():
            found.update(array.data)
    return found.digest()


def changed_sizes(sizes: JobSizes, scenario: Scenario, population: Population, some: Sequence[Sent]) -> JobSizes:
    """Return job sizes, updated by the messages and replies of some devices."""
    if not some:
        return sizes
    devices = np.array([sent.device for sent in some], np.int64)
    return sizes.changed(devices, *np.array([_size(scenario, population, sent) for sent in some]).T)


def _size(scenario: Scenario, population: Population, sent: Sent) -> tuple[float, float, float]:
    """Return upload bits, download bits and CPU cycles of a message."""
    reply, device, download = sent.answered.reply, sent.device, max(1.0, array_bits(sent.message))
    bits, samples = array_bits(reply), samples_of(reply)
    if sent.kind == EVALUATE:                   # one pass, without training
        bits += BITS_A_METRIC * max(1, len(list(metrics_of(reply))))
        return bits, download, float(samples or 0) * float(population.cycles_per_sample[device])
    if bits == 0:
        raise InputError("wrong-answer", f"the ClientApp's reply on device {device}", "no arrays",
                         f'an ArrayRecord in the reply to "{sent.message.metadata.message_type}"',
                         "Without one there is no upload to simulate")
    if samples is None:
        samples = int(population.samples[device])
        if any(table.samples == "auto" for table in scenario.population):
            raise InputError("missing", f"num-examples in the ClientApp's reply on device {device}",
                             hint='Report it, or replace samples = "auto" in the scenario')
    return bits, download, float(cycles_of(scenario, population, np.array([device]), np.array([samples]))[0])
