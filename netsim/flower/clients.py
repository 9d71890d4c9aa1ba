"""ClientApps in worker processes: they map a message and a node's context to a reply and a new context.

Answers are stored beside an unfinished run. The variables of a ServerApp cannot be saved, but it repeats its decisions
if it receives the same replies: a resumed run starts again, with stored answers instead of training.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from flwr.app import Context, Error, Message, RecordDict

from netsim.base.checksummed import read_arrays, write_arrays
from netsim.base.errors import InputError, WorkerError
from netsim.base.files import make_folder
from netsim.base.rng import stream
from netsim.base.types import State
from netsim.flower.app_folder import FlowerApp, describe_failure, load_component
from netsim.flower.compute import Measured, clock_hz
from netsim.flower.messages import TRAIN, ClientReply, SentMessage, samples_of
from netsim.flower.runtime_environment import seed_generators
from netsim.flower.version_check import RUN_ID, identify, node_of

APP_RAISED = 2             # Flower's code for a ClientApp that raised an exception
UNKNOWN = 0
SERDE: Any = import_module("flwr.common.serde")
FOLDER = "answers"
REPEATED_S = 1.0                 # CPU seconds below which a measurement is repeated
MOST_BYTES = 4_000_000_000       # of stored answers; later ones are trained again on resume
WARM: list[bool] = []            # not empty in a worker that has run a message
T = TypeVar("T")
Asked = Sequence[tuple[int, Message, Context]]      # messages, each to a device in its context


class Clients:
    """ClientApps of the nodes, with the context of each."""

    def __init__(self, app: FlowerApp, devices: int, seed: int, pool: Executor, kept: ReplyCache) -> None:
        self._app, self._seed, self._pool, self._kept = app, seed, pool, kept
        self._contexts = [
            Context(run_id=RUN_ID, node_id=node_of(device), run_config=dict(app.config), state=RecordDict(),
                    node_config={"partition-id": device, "num-partitions": devices}) for device in range(devices)]
        self._messages = [0] * devices           # number of messages by node
        self._complained = False

    def ask(self, some: Sequence[SentMessage]) -> None:
        """Set the answers of messages to different devices; contexts are stored by :meth:`keep`."""
        if not some:
            return
        asked = [(sent.device, sent.message, self._contexts[sent.device]) for sent in some]
        counts = [self._messages[sent.device] for sent in some]
        for sent in some:
            self._messages[sent.device] += 1
        answers = self._kept.get(asked, lambda: self._run(asked, counts))
        for sent, done in zip(some, answers, strict=True):
            sent.answer = done
            if done.reply.has_error() and not self._complained:      # print the first; the strategy receives all
                print(f"the ClientApp failed on device {sent.device}: {done.reply.error.reason}", file=sys.stderr)
                self._complained = True

    def _run(self, asked: Asked, counts: Sequence[int]) -> list[ClientReply]:
        futures = [self._pool.submit(answer, self._app, message, context, self._seed, device, count)
                   for (device, message, context), count in zip(asked, counts, strict=True)]
        return ended_unexpectedly(lambda: [future.result() for future in futures])

    def keep(self, sent: SentMessage) -> None:
        """Store the context of an answer for the node's next message."""
        if sent.answered.context is not None:
            self._contexts[sent.device] = sent.answered.context


    def measure(self, sent: SentMessage) -> Measured:
        """Run an answered message again, for what it costs on this machine."""
        context, count = self._contexts[sent.device], self._messages[sent.device] - 1
        print(f"measuring the {sent.message.metadata.message_type} of one client on this machine", file=sys.stderr)
        again = self._pool.submit(measure, self._app, sent.message, context, self._seed, sent.device, count)
        cost = ended_unexpectedly(again.result)
        return Measured(samples_of(sent.answered.reply) or 1, *cost)


def ended_unexpectedly(wait: Callable[[], T]) -> T:
    """Wait for workers; raise WorkerError if one has ended."""
    try:
        return wait()
    except BrokenExecutor as error:
        raise WorkerError("a worker process of ClientApps ended unexpectedly: the app has ended it, or memory ran out; "
                          "use fewer --workers") from error


def _load(app: FlowerApp) -> Any:
    if sys.stdout is not sys.stderr:
        sys.stdout = sys.stderr               # standard output is reserved for the result of the run
        os.dup2(2, 1)                         # also for libraries and processes of the app
    if str(app.folder) not in sys.path:
        sys.path.insert(0, str(app.folder))
    return load_component(app, "clientapp")


def answer(app: FlowerApp, message: Message, context: Context, seed: int, device: int, count: int) -> ClientReply:
    """Run the ClientApp on a message in a worker, as Flower's engine does."""
    client = _load(app)
    identify(context.node_id)
    seed_generators(stream(seed, "flower client", count, device))      # independent of the worker
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)              # same order of sums for any number of workers
    config = dict(context.run_config)
    WARM[:] = [True]
    try:
        reply = client(message=message, context=context)
    except (Exception, SystemExit) as error:
        problem = Error(APP_RAISED, describe_failure(error, app))
    else:
        if context.run_config == config and isinstance(reply, Message):
            return ClientReply(reply, context)
        problem = (Error(UNKNOWN, "the app changed its run_config, which Flower does not allow")
                   if context.run_config != config else
                   Error(APP_RAISED, f"the app returned {type(reply).__name__}, expected a Message"))
    return ClientReply(Message(problem, reply_to=message), None)


def measure(
    app: FlowerApp, message: Message, context: Context, seed: int, device: int, count: int,
) -> tuple[float, float, float, float]:
    """Run a message again in a worker that has loaded its data; return the fields of ``Measured`` after samples."""
    def run() -> float:
        before = _cpu_s()
        answer(app, deepcopy(message), deepcopy(context), seed, device, count)
        return _cpu_s() - before

    if not WARM:
        run()                                 # loads code and data
    cpu_s, flop, flops_per_s = run(), 0.0, 0.0
    if cpu_s < REPEATED_S:
        cpu_s = min(cpu_s, run())
    if "torch" in sys.modules:
        flops = import_module("netsim.learning.flops")
        flop, flops_per_s = flops.counted_during(run), flops.speed_of_this_machine()
    return flop, cpu_s, flops_per_s, clock_hz()


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class ReplyCache:
    """Stored answers of a run, one file per batch of messages."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._asked = 0
        self._bytes = 0

    def get(self, asked: Asked, run: Callable[[], list[ClientReply]]) -> list[ClientReply]:
        """Return the stored answers, or those of ``run``; only answers to train messages are stored."""
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
        """Delete the stored answers of a finished run."""
        if self._folder.is_dir() and not self._folder.is_symlink():
            shutil.rmtree(self._folder)


def _read(file: Path, asked: Asked) -> list[ClientReply]:
    try:
        state = read_arrays(file)
        if bytes(state["asked"]) == _digest(asked):
            return [_answer(state, place, message, context) for place, (_, message, context) in enumerate(asked)]
    except Exception as error:      # files of another kind raise many exceptions
        raise InputError("damaged", str(file), f"no answer of this run: {error}",
                         hint="Start a new run in another --out") from None
    raise InputError(
        "other-run", str(file), hint="The app sends other messages than before the interruption; use only the "
        "generators of random, numpy and torch in it, or start a new run in another --out")


def _digest(asked: Asked) -> bytes:
    """Return a hash of devices, types and contents of messages; a shared content is hashed once."""
    found, known = hashlib.sha256(), dict[int, bytes]()
    for device, message, _ in asked:
        content = message.content
        if id(content) not in known:
            known[id(content)] = hashlib.sha256(_packed(content)).digest()
        found.update(f"{device} {message.metadata.message_type}\n".encode() + known[id(content)])
    return found.digest()


def _parts(answer: ClientReply) -> list[tuple[str, bytes]]:
    reply, context = answer.reply, answer.context
    state = [] if context is None else [("state", _packed(context.state))]
    if reply.has_error():
        return [("error", json.dumps([reply.error.code, reply.error.reason]).encode()), *state]
    return [("content", _packed(reply.content)), *state]


def _answer(kept: State, place: int, message: Message, context: Context) -> ClientReply:
    after = None
    if f"{place}.state" in kept:
        after = replace(context, state=_unpacked(kept[f"{place}.state"].tobytes()))
    if f"{place}.error" in kept:
        code, reason = json.loads(kept[f"{place}.error"].tobytes())
        return ClientReply(Message(Error(int(code), str(reason)), reply_to=message), after)
    return ClientReply(Message(_unpacked(kept[f"{place}.content"].tobytes()), reply_to=message), after)


def _packed(content: RecordDict) -> bytes:
    """Serialise as Flower does, to a format that contains data only, no code."""
    packed: bytes = SERDE.recorddict_to_proto(content).SerializeToString(deterministic=True)
    return packed


def _unpacked(content: bytes) -> RecordDict:
    return SERDE.recorddict_from_proto(type(SERDE.recorddict_to_proto(RecordDict())).FromString(content))
