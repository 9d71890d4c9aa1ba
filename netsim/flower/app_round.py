"""The current round of an app: its messages tell where a round begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from netsim.flower.messages import TRAIN, SentMessage


@dataclass
class AppRound:
    """State of a round; the next one begins with ``model`` alone."""

    model: bytes = b""                 # digest of the model sent last
    begun: bool = False
    barrier: bool = False              # True if the round waits for all replies
    trains: bool = False               # True if the round has a train message
    queried: set[str] = field(default_factory=set)      # types of messages before its training
    news: bool = False                 # True if a reply was pulled
    renewed: bool = False              # True if a model was sent that includes replies: it starts the next round

    def begin(self, *, barrier: bool) -> None:
        """Begin the round unless it has begun; set whether it waits for all replies."""
        self.begun, self.barrier = True, barrier

    def train(self, model: bytes) -> None:
        self.begun, self.trains, self.model = True, True, model

    def is_renewed_by(self, model: bytes) -> bool:
        """Return whether a train message starts from the first new model that includes replies of this round."""
        return self.begun and not self.renewed and (self.barrier or (self.news and model != self.model))

    def queries_in(self, some: Sequence[SentMessage]) -> set[str]:
        """Return the types of messages if they belong to no training: the app never trains, or has not begun to."""
        if self.trains or any(sent.kind == TRAIN for sent in some):
            return set()
        return {str(sent.message.metadata.message_type) for sent in some}
