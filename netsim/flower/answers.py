"""What ClientApps have answered, kept beside an unfinished run.

A ServerApp's variables cannot be saved. But it does the same again if it hears the same again: a run that was
interrupted begins anew, and as long as answers are kept here, nobody is trained a second time.
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
from flwr.app import Context, Error, Message, RecordDict

from netsim.base.arrays import State
from netsim.base.errors import InputError
from netsim.base.files import make_folder
from netsim.base.sealed import read_arrays, write_arrays
from netsim.flower.messages import TRAIN, ClientAnswer

SERDE: Any = import_module("flwr.common.serde")
FOLDER = "answers"
MOST_BYTES = 4_000_000_000       # of all that is kept; whatever comes after is trained again


Asked = Sequence[tuple[int, Message, Context]]      # messages, each to a device in its context


class KeptAnswers:
    """The answers to a run's messages, a file for each time that some were asked for together."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._asked = 0
        self._bytes = 0

    def get(self, asked: Asked, run: Callable[[], list[ClientAnswer]]) -> list[ClientAnswer]:
        """The answers that are kept; else those that ``run`` gives, kept if they are about training: others are soon
        done again."""
        self._asked += 1
        file = self._folder / f"{self._asked:06d}.npz"
        if file.exists():
            return _read(file, asked)
        answers = run()
        trained = any(message.metadata.message_type.partition(".")[0] == TRAIN for _, message, _ in asked)
        if trained and self._bytes < MOST_BYTES:
            state: State = {"asked": np.frombuffer(_digest(asked), np.uint8)}
            for place, answer in enumerate(answers):
                state |= {f"{place}.{name}": np.frombuffer(content, np.uint8) for name, content in _parts(answer)}
            self._bytes += sum(array.nbytes for array in state.values())
            make_folder(self._folder)
            write_arrays(file, state)
        return answers

    def remove(self) -> None:
        """The run is over, and will not be resumed."""
        if self._folder.is_dir() and not self._folder.is_symlink():
            shutil.rmtree(self._folder)


def _read(file: Path, asked: Asked) -> list[ClientAnswer]:
    try:
        state = read_arrays(file)
        if bytes(state["asked"]) == _digest(asked):
            return [_answer(state, place, message, context) for place, (_, message, context) in enumerate(asked)]
    except Exception as error:      # a file that is something else fails in all sorts of ways
        raise InputError("damaged", str(file), f"no answer of this run: {error}",
                         hint="Begin a new run in another --out") from None
    raise InputError(
        "other-run", str(file), hint="The app asks for something else than when the run was interrupted; "
        "let it draw at random from random, numpy or torch alone, or begin a new run in another --out")


def _digest(asked: Asked) -> bytes:
    """Of what was asked of whom; a content that many messages share is looked at once."""
    found, known = hashlib.sha256(), dict[int, bytes]()
    for device, message, _ in asked:
        content = message.content
        if id(content) not in known:
            known[id(content)] = hashlib.sha256(_packed(content)).digest()
        found.update(f"{device} {message.metadata.message_type}\n".encode() + known[id(content)])
    return found.digest()


def _parts(answer: ClientAnswer) -> list[tuple[str, bytes]]:
    reply, context = answer.reply, answer.context
    state = [] if context is None else [("state", _packed(context.state))]
    if reply.has_error():
        return [("error", json.dumps([reply.error.code, reply.error.reason]).encode()), *state]
    return [("content", _packed(reply.content)), *state]


def _answer(kept: State, place: int, message: Message, context: Context) -> ClientAnswer:
    after = None
    if f"{place}.state" in kept:
        after = replace(context, state=_unpacked(kept[f"{place}.state"].tobytes()))
    if f"{place}.error" in kept:
        code, reason = json.loads(kept[f"{place}.error"].tobytes())
        return ClientAnswer(Message(Error(int(code), str(reason)), reply_to=message), after)
    return ClientAnswer(Message(_unpacked(kept[f"{place}.content"].tobytes()), reply_to=message), after)


def _packed(content: RecordDict) -> bytes:
    """As Flower sends it: data alone, in which no code can hide."""
    packed: bytes = SERDE.recorddict_to_proto(content).SerializeToString(deterministic=True)
    return packed


def _unpacked(content: bytes) -> RecordDict:
    return SERDE.recorddict_from_proto(type(SERDE.recorddict_to_proto(RecordDict())).FromString(content))
