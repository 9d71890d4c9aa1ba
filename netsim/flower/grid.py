"""Flower's Grid on the cell: messages of a ServerApp take simulated time."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid

from netsim.base.errors import InputError, WorkerError
from netsim.base.pluralize import pluralize
from netsim.flower.app_server import AppServer, RunOver
from netsim.flower.messages import SentMessage
from netsim.flower.version_check import FIRST_NODE, RUN_ID, SUPERLINK, node_of

NO_SUCH_NODE = 5           # Flower's code for an unknown node
MOST_ASKED = 100           # calls without effect (node ids, empty pulls) before a deadlock is assumed
COME_BACK = ("availability", "crash", "harvest_power", "charging")      # keys by which devices return
MOST_ASKED_IN_TIME = 100_000      # the same limit with such keys


class AppError(BaseException):
    """Wrapper of an InputError or WorkerError that no ``except Exception`` of an app catches."""


class CellGrid(Grid):  # type: ignore[misc]
    """Grid that simulates an app's messages in the cell."""

    def __init__(self, server: AppServer) -> None:
        self._server = server
        self._thread = threading.get_ident()       # of the app: other threads may only read node ids
        self._sent = 0
        self._idle_calls = 0
        self._nodes = self._there()                # last result of get_node_ids

    # Flower's Grid interface.

    def set_run(self, run: Any) -> None:
        """Do nothing: there is only one run."""

    @property
    def run(self) -> Any:
        return SimpleNamespace(run_id=RUN_ID)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id=dst_node_id, message_type=message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes of devices that are available and have energy for a job, in device order."""
        if threading.get_ident() != self._thread:
            return list(self._nodes)
        with self._door():
            self._nodes = self._there()
            self._count_idle_call("the app waits for more nodes")
        return list(self._nodes)

    def _there(self) -> list[int]:
        return [node_of(device) for device in np.flatnonzero(self._server.cell.available).tolist()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        with self._door():
            sent = self._stamped(messages)
            self._server.push(sent)
            return [each.id for each in sent]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the available replies in order of arrival; if there are none, advance time to the first."""
        with self._door():
            found = self._server.pull(list(message_ids))
            if found:
                self._idle_calls = 0
            else:
                self._count_idle_call("the app pulls replies to messages without a running job")
            return _replies(found)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Return all replies in the order of the messages; an error with the reason for each device that failed or did
        not reply within ``timeout`` simulated seconds."""
        with self._door():
            sent = self._stamped(messages)
            self._server.exchange([each for each in sent if each.reply is None],
                                  math.inf if timeout is None else float(timeout))
            return _replies(sent)

    # Simulated time, and deadlock detection.

    def sleep(self, seconds: float) -> None:
        """Advance simulated time by ``seconds``."""
        with self._door():
            self._server.sleep(seconds)

    def _count_idle_call(self, what: str) -> None:
        """Count a call without effect; raise if no further call can have one."""
        self._idle_calls += 1
        server, scenario = self._server, self._server.scenario
        in_time = any(getattr(table, key) is not None for table in scenario.population for key in COME_BACK)
        if self._idle_calls <= (MOST_ASKED_IN_TIME if in_time else MOST_ASKED) or server.mail.pending:
            return
        there, size = len(self._there()), pluralize(scenario.size, "device")
        whole = f"the scenario has {size}, of which {there} can do a job now"
        if not server.began:
            raise InputError("more-than-devices", "the app", what, hint=f"T{whole[1:]}; lower min_available_nodes and "
                             "its like in the app, or give the scenario more devices")
        raise RunOver(f"{what}, and no more will arrive: {whole}")

    @contextmanager
    def _door(self) -> Iterator[None]:
        """Refuse other threads than the app's; wrap errors so that the app cannot catch them."""
        try:
            if threading.get_ident() != self._thread:
                raise InputError("unsupported", "the app", "messages from several threads",
                                 "all messages from the thread of the ServerApp",
                                 "Their order would differ from run to run: send them together")
            yield
        except (InputError, WorkerError) as error:
            raise AppError(error) from None

    def _stamped(self, messages: Iterable[Message]) -> list[SentMessage]:
        """Set sender and id of messages; one to an unknown node is answered by an error."""
        sent = []
        for message in messages:
            self._sent += 1
            message.metadata.__dict__.update(
                _run_id=RUN_ID, _src_node_id=SUPERLINK, _message_id=f"netsim-{self._sent}")
            device = message.metadata.dst_node_id - FIRST_NODE
            each = SentMessage(message, device)
            if not 0 <= device < self._server.scenario.size:
                each.reply = Message(Error(NO_SUCH_NODE, f"unknown node {message.metadata.dst_node_id}"),
                                     reply_to=message)
            sent.append(each)
        if sent:
            self._idle_calls = 0
        return sent


def _replies(sent: Sequence[SentMessage]) -> list[Message]:
    """Return the replies for the app, each with its own id."""
    replies = []
    for each in sent:
        assert each.reply is not None
        each.reply.metadata.__dict__["_message_id"] = f"{each.id}-reply"
        replies.append(each.reply)
    return replies
