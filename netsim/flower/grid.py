"""Flower's Grid over the cell: what a ServerApp sends and receives is played in simulated time."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid

from netsim.base.counts import counted
from netsim.base.errors import InputError, WorkerError
from netsim.flower.app_server import AppServer, RunOver
from netsim.flower.library import FIRST_NODE, RUN_ID, SUPERLINK, node_of
from netsim.flower.messages import Sent

NO_SUCH_NODE = 5           # Flower's code for a node that is not there
MOST_ASKED = 100           # times that an app may ask who is there, or pull nothing, without anything that could change
COME_BACK = ("availability", "crash", "harvest", "charging")      # why a device may be there again
MOST_ASKED_IN_TIME = 100_000      # the same where devices come and go


class AtFault(BaseException):
    """An input is at fault, which the app cannot mend: no ``except Exception`` of its own holds it up."""


class CellGrid(Grid):  # type: ignore[misc]
    """Plays an app's messages in the cell."""

    def __init__(self, server: AppServer) -> None:
        self._server = server
        self._thread = threading.get_ident()       # the app's own: others may only ask
        self._sent = 0
        self._in_vain = 0
        self._nodes = self._there()                # the last answer

    # What Flower wants of a grid.

    def set_run(self, run: Any) -> None:
        """There is only one."""

    @property
    def run(self) -> Any:
        return SimpleNamespace(run_id=RUN_ID)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id=dst_node_id, message_type=message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Who is there and has the energy for a job, by rising number of the device."""
        if threading.get_ident() != self._thread:
            return list(self._nodes)
        with self._door():
            self._nodes = self._there()
            self._once_more_in_vain("the app waits for more nodes")
        return list(self._nodes)

    def _there(self) -> list[int]:
        return [node_of(device) for device in self._server.available().tolist()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        with self._door():
            sent = self._stamped(messages)
            self._server.push(sent)
            return [each.id for each in sent]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that are there, in the order of their arrival; if none is, time goes on to the first."""
        with self._door():
            found = self._server.pull(list(message_ids))
            if found:
                self._in_vain = 0
            else:
                self._once_more_in_vain("the app pulls replies to messages that nobody is at work on")
            return _replies(found)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """All replies, in the order of the messages; who has not arrived within ``timeout`` simulated seconds, or not
        at all, has an error with the reason in its place."""
        with self._door():
            sent = self._stamped(messages)
            self._server.exchange([each for each in sent if each.reply is None],
                                  math.inf if timeout is None else float(timeout))
            return _replies(sent)

    # Simulated time, and deadlock detection.

    def sleep(self, seconds: float) -> None:
        """Simulated seconds pass."""
        with self._door():
            self._server.sleep(seconds)

    def _once_more_in_vain(self, what: str) -> None:
        """Count what changes nothing, and end the run when nothing will."""
        self._in_vain += 1
        server, scenario = self._server, self._server.scenario
        in_time = any(getattr(table, key) is not None for table in scenario.population for key in COME_BACK)
        if self._in_vain <= (MOST_ASKED_IN_TIME if in_time else MOST_ASKED) or not server.idle:
            return
        there = len(server.available())
        whole = f"the scenario has {counted(scenario.size, 'device')}, of which {there} can do a job now"
        if not server.began:
            raise InputError("more-than-devices", "the app", what, hint=f"T{whole[1:]}; lower min_available_nodes and "
                             "its like in the app, or give the scenario more devices")
        raise RunOver(f"{what}, and no more will come: {whole}")

    @contextmanager
    def _door(self) -> Iterator[None]:
        """Only the app's own thread comes in, and what is at fault goes out past all that it catches."""
        try:
            if threading.get_ident() != self._thread:
                raise InputError("unsupported", "the app", "messages from several threads",
                                 "all messages from the thread of the ServerApp",
                                 "Their order would be another one each time: send them together")
            yield
        except (InputError, WorkerError) as error:
            raise AtFault(error) from None

    def _stamped(self, messages: Iterable[Message]) -> list[Sent]:
        """The messages with the marks of a sender; one to a node that there is none of has its reply already."""
        sent = []
        for message in messages:
            self._sent += 1
            message.metadata.__dict__.update(
                _run_id=RUN_ID, _src_node_id=SUPERLINK, _message_id=f"netsim-{self._sent}")
            device = message.metadata.dst_node_id - FIRST_NODE
            each = Sent(message, device)
            if not 0 <= device < self._server.scenario.size:
                each.reply = Message(Error(NO_SUCH_NODE, f"there is no node {message.metadata.dst_node_id}"),
                                     reply_to=message)
            sent.append(each)
        if sent:
            self._in_vain = 0
        return sent


def _replies(sent: Sequence[Sent]) -> list[Message]:
    """What the app gets, each with a mark of its own."""
    replies = []
    for each in sent:
        assert each.reply is not None
        each.reply.metadata.__dict__["_message_id"] = f"{each.id}-reply"
        replies.append(each.reply)
    return replies
