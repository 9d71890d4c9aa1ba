"""Messages between an app and its nodes: a device handles its messages in the order in which they were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from netsim.flower.messages import SentMessage


class Mailbox:
    """Messages by state: waiting for their device, running as a job, or replied and not yet pulled."""

    def __init__(self) -> None:
        self.waiting: list[SentMessage] = []
        self.running: dict[int, SentMessage] = {}      # by job
        self.replied: dict[str, SentMessage] = {}      # by id, in order of arrival

    @property
    def pending(self) -> list[SentMessage]:
        """Messages without a reply."""
        return [*self.waiting, *self.running.values()]

    def take_next(self, costs: Callable[[SentMessage], bool]) -> list[SentMessage]:
        """Remove and return the next message of each idle device: those without a cost first, if there are any."""
        busy = {sent.device for sent in self.running.values()}
        first: dict[int, SentMessage] = {}
        for sent in self.waiting:
            if sent.device not in busy:
                first.setdefault(sent.device, sent)
        found = [sent for sent in first.values() if not costs(sent)] or list(first.values())
        self._remove(found)
        return found

    def withdraw(self, wanted: Set[str]) -> list[SentMessage]:
        """Remove and return messages with these ids that have not started."""
        found = [sent for sent in self.waiting if sent.id in wanted]
        self._remove(found)
        return found

    def _remove(self, some: list[SentMessage]) -> None:
        gone = set(map(id, some))
        self.waiting = [sent for sent in self.waiting if id(sent) not in gone]

    def reply(self, some: Iterable[SentMessage]) -> None:
        """Make the replies of messages available to the app, as far as they have one."""
        self.replied |= {sent.id: sent for sent in some if sent.reply is not None}

    def take_replies(self, wanted: Set[str]) -> list[SentMessage]:
        """Remove and return the messages with these ids that have a reply, in order of arrival."""
        return [self.replied.pop(name) for name in list(self.replied) if name in wanted]
