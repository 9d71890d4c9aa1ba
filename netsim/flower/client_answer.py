"""What a ClientApp made of a message."""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import Context, Message


@dataclass(frozen=True, eq=False)
class ClientAnswer:
    """A reply, and what the app left in its node's context."""

    reply: Message
    context: Context | None        # None where the app failed, and nothing of it is kept
