"""ClientApps in worker processes: a message and a node's context go in, a reply and the context come back.

Their answers are kept beside an unfinished run. A ServerApp's variables cannot be saved, but it does the same again if
it hears the same again: a run that was interrupted begins again, and what was answered before is not trained twice.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, RecordDict

from netsim.base.arrays import State
from netsim.base.errors import InputError, WorkerError
from netsim.base.files import make_folder
from netsim.base.sealed import read_arrays, write_arrays
from netsim.base.streams import stream
from netsim.flower.app_folder import FlowerApp, load_component, told_of
from netsim.flower.library import RUN_ID, identify, node_of
from netsim.flower.messages import TRAIN, ClientAnswer, Sent
from netsim.flower.surroundings import seed_generators

APP_RAISED = 2             # Flower's code for a ClientApp that raised an exception
UNKNOWN = 0
SERDE: Any = import_module("flwr.common.serde")
FOLDER = "answers"
MOST_BYTES = 4_000_000_000       # of all that is kept; whatever comes after is trained again
Asked = Sequence[tuple[int, Message, Context]]      # messages, each to a device in its context


class Clients:
    """The nodes' ClientApps, with what each of them remembers."""

    def __init__(self, app: FlowerApp, devices: int, seed: int, pool: Executor, kept: KeptAnswers) -> None:
        self._app, self._seed, self._pool, self._kept = app, seed, pool, kept
        self._contexts = [
            Context(run_id=RUN_ID, node_id=node_of(device), run_config=dict(app.config), state=RecordDict(),
                    node_config={"partition-id": device, "num-partitions": devices}) for device in range(devices)]
        self._messages = [0] * devices           # that each node has had
        self._complained = False

    def ask(self, some: Sequence[Sent]) -> None:
        """Have messages answered, each to a device of its own; what the apps left in their contexts is not kept yet."""
        if not some:
            return
        asked = [(sent.device, sent.message, self._contexts[sent.device]) for sent in some]
        counts = [self._messages[sent.device] for sent in some]
        for sent in some:
            self._messages[sent.device] += 1
        answers = self._kept.get(asked, lambda: self._run(asked, counts))
        for sent, done in zip(some, answers, strict=True):
            sent.answer = done
            if done.reply.has_error() and not self._complained:      # the first at once; all reach the strategy
                print(f"the ClientApp failed on device {sent.device}: {done.reply.error.reason}", file=sys.stderr)
                self._complained = True

    def _run(self, asked: Asked, counts: Sequence[int]) -> list[ClientAnswer]:
        futures = [self._pool.submit(answer, self._app, message, context, self._seed, device, count)
                   for (device, message, context), count in zip(asked, counts, strict=True)]
        try:
            return [future.result() for future in futures]
        except BrokenExecutor as error:
            raise WorkerError("a process in which ClientApps ran has ended, most often for want of memory; "
                              "take fewer --workers") from error

    def keep(self, sent: Sent) -> None:
        """What the app left in a node's context is there when its next message comes."""
        if sent.answered.context is not None:
            self._contexts[sent.device] = sent.answered.context


def answer(app: FlowerApp, message: Message, context: Context, seed: int, device: int, count: int) -> ClientAnswer:
    """In a worker: run the ClientApp on a message, as Flower's engine would."""
    sys.stdout = sys.stderr                   # standard output is for the result of the run alone
    if str(app.folder) not in sys.path:
        sys.path.insert(0, str(app.folder))   # a worker that was not forked
    client: Any = load_component(app, "clientapp")
    identify(context.node_id)
    seed_generators(stream(seed, "flower client", count, device))      # whichever worker runs it
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)              # sums in the same order, however many workers there are
    config = dict(context.run_config)
    try:
        reply = client(message=message, context=context)
    except (Exception, SystemExit) as error:
        problem = Error(APP_RAISED, told_of(error, app))
    else:
        if context.run_config == config and isinstance(reply, Message):
            return ClientAnswer(reply, context)
        problem = (Error(UNKNOWN, "the app changed its run_config, which Flower does not allow")
                   if context.run_config != config else
                   Error(APP_RAISED, f"the app answered with {type(reply).__name__}, which is no Message"))
    return ClientAnswer(Message(problem, reply_to=message), None)


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
