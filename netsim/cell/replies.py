"""What a server waits for: that jobs have ended."""

from __future__ import annotations

import simpy


class Replies(simpy.Event):
    """Waits until so many jobs have ended."""

    def __init__(self, env: simpy.Environment, wanted: int) -> None:
        super().__init__(env)
        self.wanted = wanted

    def one_more(self) -> None:
        """One of them has ended."""
        self.wanted -= 1
        if self.wanted == 0 and not self.triggered:
            self.succeed()

    def time_is_up(self, event: simpy.Event) -> None:
        """Whoever has not ended by now has not."""
        if not self.triggered:
            self.succeed()
