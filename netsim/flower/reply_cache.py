"""Stored answers of ClientApps, beside an unfinished run.

The variables of a ServerApp cannot be saved, but it repeats its decisions if it receives the same replies: a resumed
run starts again, with stored answers instead of training.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Error, Message, RecordDict

from netsim.base.checksummed import read_arrays, write_arrays
from netsim.base.errors import InputError
from netsim.base.files import make_folder
from netsim.base.types import State
from netsim.flower.client_task import ClientTask
from netsim.flower.messages import TRAIN, ClientReply, kind_of

SERDE: Any = import_module("flwr.common.serde")
FOLDER = "answers"
MOST_BYTES = 4_000_000_000       # of stored answers; later ones are trained again on resume


class ReplyCache:
    """Stored answers of a run, one file per batch of messages."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._asked = 0
        self._bytes = 0

    def get(self, tasks: Sequence[ClientTask], run: Callable[[], list[ClientReply]]) -> list[ClientReply]:
        """Return the stored answers, or those of ``run``; only answers to train messages are stored."""
        self._asked += 1
        file = self._folder / f"{self._asked:06d}.npz"
        if file.exists():
            return _read(file, tasks)
        answers = run()
        trained = any(kind_of(task.message) == TRAIN for task in tasks)
        if trained and self._bytes < MOST_BYTES:
            state: State = {"asked": np.frombuffer(_digest(tasks), np.uint8)}
            for place, answer in enumerate(answers):
                state |= {f"{place}.{name}": np.frombuffer(content, np.uint8) for name, content in _parts(answer)}
            self._bytes += sum(array.nbytes for array in state.values())
            make_folder(self._folder)
            write_arrays(file, state)
        return answers

    def remove(self) -> None:
        """Delete the stored answers of a finished run."""
        if self._folder.is_dir() and not self._folder.is_symlink():
            shutil.rmtree(self._folder)


def _read(file: Path, tasks: Sequence[ClientTask]) -> list[ClientReply]:
    try:
        state = read_arrays(file)
        if bytes(state["asked"]) == _digest(tasks):
            return [_answer(state, place, task) for place, task in enumerate(tasks)]
    except Exception as error:      # files of another kind raise many exceptions
        raise InputError("damaged", str(file), f"no answer of this run: {error}",
                         hint="Start a new run in another --out") from None
    raise InputError(
        "other-run", str(file), hint="The app sends other messages than before the interruption; use only the "
        "generators of random, numpy, torch and TensorFlow in it, or start a new run in another --out")


def _digest(tasks: Sequence[ClientTask]) -> bytes:
    """Return a hash of devices, types and contents of messages; a shared content is hashed once."""
    found, known = hashlib.sha256(), dict[int, bytes]()
    for task in tasks:
        content, kind = task.message.content, task.message.metadata.message_type
        if id(content) not in known:
            known[id(content)] = hashlib.sha256(_packed(content)).digest()
        found.update(f"{task.device} {kind}\n".encode() + known[id(content)])
    return found.digest()


def _parts(answer: ClientReply) -> list[tuple[str, bytes]]:
    reply, context = answer.reply, answer.context
    state = [] if context is None else [("state", _packed(context.state))]
    if reply.has_error():
        return [("error", json.dumps([reply.error.code, reply.error.reason]).encode()), *state]
    return [("content", _packed(reply.content)), *state]


def _answer(kept: State, place: int, task: ClientTask) -> ClientReply:
    after = None
    if f"{place}.state" in kept:
        after = replace(task.context, state=_unpacked(kept[f"{place}.state"].tobytes()))
    if f"{place}.error" in kept:
        code, reason = json.loads(kept[f"{place}.error"].tobytes())
        return ClientReply(Message(Error(int(code), str(reason)), reply_to=task.message), after)
    return ClientReply(Message(_unpacked(kept[f"{place}.content"].tobytes()), reply_to=task.message), after)


def _packed(content: RecordDict) -> bytes:
    """Serialise as Flower does, to a format that contains data only, no code."""
    packed: bytes = SERDE.recorddict_to_proto(content).SerializeToString(deterministic=True)
    return packed


def _unpacked(content: bytes) -> RecordDict:
    return SERDE.recorddict_from_proto(type(SERDE.recorddict_to_proto(RecordDict())).FromString(content))
