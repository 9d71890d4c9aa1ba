"""ClientApps in worker processes: a message and a node's context go in, a reply and the context come back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor
from typing import Any

from flwr.app import Context, Error, Message, RecordDict

from netsim.base.errors import WorkerError
from netsim.base.streams import stream
from netsim.flower.answers import Asked, KeptAnswers
from netsim.flower.app_folder import FlowerApp, load_component, told_of
from netsim.flower.library import RUN_ID, identify, node_of
from netsim.flower.messages import ClientAnswer, Sent
from netsim.flower.surroundings import seed_generators

APP_RAISED = 2             # Flower's code for a ClientApp that raised an exception
UNKNOWN = 0


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
