"""What netsim reads off Flower's messages: which work they ask for, how large a reply is, what it reports."""

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

LOST = 4                   # Flower's code for a reply that is not to be had
WEIGHTS = ("num-examples", "num_examples")      # as strategies call the number of samples, and as they once did
BITS_A_METRIC = 64
TRAIN, EVALUATE = "train", "evaluate"


@dataclass(frozen=True, eq=False)
class ClientAnswer:
    """What a ClientApp made of a message: a reply, and what the app left in its node's context."""

    reply: Message
    context: Context | None        # None where the app failed, and nothing of it is kept


@dataclass(eq=False)
class Sent:
    """A message of the app, on its way through the cell."""

    message: Message
    device: int
    answer: ClientAnswer | None = None      # what the ClientApp made of it
    reply: Message | None = None      # what the app gets

    @property
    def id(self) -> str:
        return str(self.message.metadata.message_id)

    @property
    def kind(self) -> str:
        """What it asks for: "train", "evaluate" or "query"; an action of the app's own follows a dot."""
        return str(self.message.metadata.message_type).partition(".")[0]

    def fail(self, reason: str) -> None:
        """It gets no reply, but an error that says why."""
        self.reply = Message(Error(LOST, reason), reply_to=self.message)

    @property
    def answered(self) -> ClientAnswer:
        """The answer that is there."""
        assert self.answer is not None
        return self.answer


def array_bits(message: Message) -> float:
    """The size of all arrays in a message's content."""
    return 8.0 * sum(_bytes(array) for record in message.content.array_records.values() for array in record.values())


def _bytes(array: Any) -> int:
    """The numbers themselves, without what wraps them; as they come where they are no numbers of numpy."""
    if array.dtype:
        return int(np.dtype(array.dtype).itemsize * math.prod(array.shape))
    try:
        return int(array.numpy().nbytes)      # clients of the old kind do not say what is in it
    except (TypeError, ValueError):
        return len(array.data)


def samples_of(message: Message) -> int | None:
    """How many samples a reply says that it is about; None where it does not."""
    for record in message.content.metric_records.values():
        for name in WEIGHTS:
            value = record.get(name)
            if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
                return int(value)
    return None


def metrics_of(message: Message) -> Iterator[tuple[str, float]]:
    """All numbers that a reply reports, by their names."""
    content = message.content
    yield from numbers_in(content.metric_records.values())
    # where clients of the old kind put theirs
    yield from numbers_in(record for name, record in content.config_records.items() if name.endswith(".metrics"))


def numbers_in(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """All numbers in some records by their names, those of a list by their places."""
    for record in records:
        for name, value in record.items():
            if name not in WEIGHTS:
                for place, number in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if isinstance(number, int | float) and not isinstance(number, bool):
                        yield (name if place is None else f"{name}[{place}]"), float(number)


def model_digest(message: Message) -> bytes:
    """Tells one model from another: of all arrays that a message carries."""
    found = hashlib.blake2b(digest_size=16)
    for record in message.content.array_records.values():
        for array in record.values():
            found.update(array.data)
    return found.digest()


def changed_sizes(sizes: JobSizes, scenario: Scenario, population: Population, some: Sequence[Sent]) -> JobSizes:
    """How large jobs are, with those of some devices as their messages and replies say."""
    if not some:
        return sizes
    devices = np.array([sent.device for sent in some], np.int64)
    return sizes.changed(devices, *np.array([_size(scenario, population, sent) for sent in some]).T)


def _size(scenario: Scenario, population: Population, sent: Sent) -> tuple[float, float, float]:
    """Bits to send, bits to receive and cycles to compute."""
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
                             hint='With samples = "auto" the scenario does not say it either: give one of them')
    return bits, download, float(cycles_of(scenario, population, np.array([device]), np.array([samples]))[0])
