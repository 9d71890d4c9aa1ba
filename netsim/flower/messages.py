"""Type, size, samples and metrics of Flower messages."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message

LOST = 4                   # Flower's code for an unavailable reply
WEIGHTS = ("num-examples", "num_examples")      # names of the number of samples, new and old
BYTES_A_NUMBER = 8
TRAIN, EVALUATE = "train", "evaluate"


@dataclass(frozen=True, eq=False)
class ClientReply:
    reply: Message
    context: Context | None        # None if the app failed


@dataclass(eq=False)
class SentMessage:
    """Message of the app and its state in the cell."""

    message: Message
    device: int
    answer: ClientReply | None = None      # of the ClientApp
    reply: Message | None = None      # to the app
    stage: str = ""                # of a round with several exchanges
    deadline: float = math.inf     # of its job, in simulated seconds

    @property
    def id(self) -> str:
        return str(self.message.metadata.message_id)

    @property
    def kind(self) -> str:
        return kind_of(self.message)

    def fail(self, reason: str) -> None:
        """Set an error with the reason as the reply."""
        self.reply = Message(Error(LOST, reason), reply_to=self.message)

    @property
    def answered(self) -> ClientReply:
        assert self.answer is not None
        return self.answer


def kind_of(message: Message) -> str:
    """Return the message type, "train", "evaluate" or "query", without the app's own suffix after a dot."""
    return str(message.metadata.message_type).partition(".")[0]


def content_bits(message: Message) -> float:
    """Return the size of all records of a message in bits, without their names and encoding; at least 1.

    An array has the size of its data, a number of a MetricRecord or ConfigRecord 64 bits, text and bytes their length.
    """
    content = message.content
    values = [value for records in (content.metric_records, content.config_records)
              for record in records.values() for value in record.values()]
    arrays = sum(_bytes(array) for record in content.array_records.values() for array in record.values())
    return max(1.0, 8.0 * (arrays + sum(map(_plain_bytes, values))))


def _plain_bytes(value: Any) -> int:
    """Return the bytes of a value of a MetricRecord or ConfigRecord."""
    if isinstance(value, list):
        return sum(map(_plain_bytes, value))
    if isinstance(value, str | bytes):
        return len(value.encode() if isinstance(value, str) else value)
    return BYTES_A_NUMBER


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
    """Return a hash of all arrays of a message, or of its configuration without arrays, to detect a new model."""
    found, content = hashlib.blake2b(digest_size=16), message.content
    for record in content.array_records.values():
        for array in record.values():
            found.update(array.data)
    if not content.array_records:
        for record in content.config_records.values():
            found.update(repr(list(record.items())).encode())
    return found.digest()
