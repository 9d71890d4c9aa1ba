"""ClientApps in worker processes: a message and a node's context go in, a reply and the context come back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor
from typing import Any

from flwr.app import Context, Error, Message, RecordDict

from netsim.base.errors import WorkerError
from netsim.flower.answers import KeptAnswers
from netsim.flower.app_folder import FlowerApp, load_component, told_of
from netsim.flower.library import RUN_ID, identify
from netsim.flower.messages import ClientAnswer
from netsim.flower.surroundings import seed_client

APP_RAISED = 2             # Flower's code for a ClientApp that raised an exception
UNKNOWN = 0


class Clients:
    """The nodes' ClientApps, with what each of them remembers."""

    def __init__(self, app: FlowerApp, nodes: Sequence[int], seed: int, pool: Executor, kept: KeptAnswers) -> None:
        self._app, self._seed, self._pool, self._kept = app, seed, pool, kept
        self._contexts = [
            Context(run_id=RUN_ID, node_id=node, node_config={"partition-id": device, "num-partitions": len(nodes)},
                    state=RecordDict(), run_config=app.run_config) for device, node in enumerate(nodes)]
        self._messages = [0] * len(nodes)        # that each node has had

    def ask(self, messages: Sequence[tuple[int, Message]]) -> list[ClientAnswer]:
        """The answers to messages, each to a device of its own, in their order; what they did is not kept yet."""
        if not messages:
            return []
        asked = [(device, message, self._contexts[device]) for device, message in messages]
        counts = [self._messages[device] for device, _ in messages]
        for device, _ in messages:
            self._messages[device] += 1
        answers = self._kept.take(asked)
        if answers is None:
            answers = self._run(asked, counts)
            self._kept.keep(asked, answers)
        return answers

    def _run(self, asked: Sequence[tuple[int, Message, Context]], counts: Sequence[int]) -> list[ClientAnswer]:
        futures = [self._pool.submit(answer, self._app, message, context, self._seed, device, count)
                   for (device, message, context), count in zip(asked, counts, strict=True)]
        try:
            return [future.result() for future in futures]
        except BrokenExecutor as error:
            raise WorkerError("a process in which ClientApps ran has ended, most often for want of memory; "
                              "take fewer --workers") from error

    def keep(self, device: int, done: ClientAnswer) -> None:
        """What the app left in a node's context is there when its next message comes."""
        if done.context is not None:
            self._contexts[device] = done.context


def answer(app: FlowerApp, message: Message, context: Context, seed: int, device: int, count: int) -> ClientAnswer:
    """In a worker: run the ClientApp on a message, as Flower's engine would."""
    sys.stdout = sys.stderr                   # standard output is for the result of the run alone
    if str(app.folder) not in sys.path:
        sys.path.insert(0, str(app.folder))   # a worker that was not forked
    client: Any = load_component(app, "clientapp")
    identify(context.node_id)
    seed_client(seed, device, count)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)              # sums in the same order, however many workers there are
    config = dict(context.run_config)
    try:
        reply = client(message=message, context=context)
    except (Exception, SystemExit) as error:
        return ClientAnswer(Message(Error(APP_RAISED, told_of(error, app)), reply_to=message), None)
    if context.run_config != config:
        reason = "the app changed its run_config, which Flower does not allow"
        return ClientAnswer(Message(Error(UNKNOWN, reason), reply_to=message), None)
    if not isinstance(reply, Message):
        reason = f"the app answered with {type(reply).__name__}, which is no Message"
        return ClientAnswer(Message(Error(APP_RAISED, reason), reply_to=message), None)
    return ClientAnswer(reply, context)
