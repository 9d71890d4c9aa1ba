"""ClientApps of the nodes: worker processes of this machine, or of a cluster, run them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, TypeVar

from flwr.app import Context, RecordDict

from netsim.executors.cluster import ClusterExecutor
from netsim.executors.workers import result_of
from netsim.flower.app_folder import FlowerApp
from netsim.flower.client_task import ClientTask, answer, measure
from netsim.flower.compute import Measured
from netsim.flower.messages import SentMessage, samples_of
from netsim.flower.reply_cache import ReplyCache
from netsim.flower.shipping import AppFiles, run_shipped, shipped
from netsim.flower.version_check import RUN_ID, node_of

T = TypeVar("T")
ENDED = ("a worker process of ClientApps ended unexpectedly: the app has ended it, or memory ran out; use fewer "
         "--workers")


class Clients:
    """ClientApps of the nodes, with the context of each."""

    def __init__(self, app: FlowerApp, devices: int, seed: int, pool: Executor, kept: ReplyCache) -> None:
        self._app, self._seed, self._pool, self._kept = app, seed, pool, kept
        if isinstance(pool, ClusterExecutor):
            files = AppFiles.of(app)
            self._app = replace(app, files_sha256=files.sha256)
            pool.provide(files.sha256, files)
        self._contexts = [
            Context(run_id=RUN_ID, node_id=node_of(device), run_config=dict(app.config), state=RecordDict(),
                    node_config={"partition-id": device, "num-partitions": devices}) for device in range(devices)]
        self._messages = [0] * devices           # number of messages by node
        self._complained = False

    def ask(self, some: Sequence[SentMessage]) -> None:
        """Set the answers of messages to different devices; contexts are stored by :meth:`keep`."""
        if not some:
            return
        tasks = [self._task(sent, self._messages[sent.device]) for sent in some]
        for sent in some:
            self._messages[sent.device] += 1
        answers = self._kept.get(tasks, lambda: self._run(answer, tasks))
        for sent, done in zip(some, answers, strict=True):
            sent.answer = done
            if done.reply.has_error() and not self._complained:      # print the first; the strategy receives all
                print(f"the ClientApp failed on device {sent.device}: {done.reply.error.reason}", file=sys.stderr)
                self._complained = True

    def _task(self, sent: SentMessage, count: int) -> ClientTask:
        return ClientTask(self._app, sent.message, self._contexts[sent.device], self._seed, sent.device, count)

    def _run(self, run: Callable[[ClientTask], T], tasks: Sequence[ClientTask]) -> list[T]:
        """Run tasks in the workers; return their results in the order of the tasks."""
        packed: dict[int, Any] = {}
        if isinstance(self._pool, ClusterExecutor):
            futures = [self._pool.submit(run_shipped, run, *shipped(task, packed)) for task in tasks]
        else:
            futures = [self._pool.submit(run, task) for task in tasks]
        return [result_of(future, ENDED) for future in futures]

    def keep(self, sent: SentMessage) -> None:
        """Store the context of an answer for the node's next message."""
        if sent.answered.context is not None:
            self._contexts[sent.device] = sent.answered.context

    def measure(self, sent: SentMessage) -> Measured:
        """Run an answered message again, for what it costs on the machine of a worker."""
        print(f"measuring the {sent.message.metadata.message_type} of one client on "
              f"{'a worker' if isinstance(self._pool, ClusterExecutor) else 'this machine'}", file=sys.stderr)
        [cost] = self._run(measure, [self._task(sent, self._messages[sent.device] - 1)])
        return Measured(samples_of(sent.answered.reply) or 1, *cost)
