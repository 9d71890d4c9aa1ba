"""What somebody waits for who waits for jobs."""

from __future__ import annotations

import simpy


class Replies(simpy.Event):
    """Waits until so many jobs have ended."""

    def __init__(self, env: simpy.Environment, wanted: int) -> None:
        super().__init__(env)
        self.wanted = wanted

    def one_more(self) -> bool:
        """One of them has ended; whether it was the last that was waited for."""
        self.wanted -= 1
        if self.wanted != 0 or self.triggered:
            return False
        self.succeed()
        return True

    def time_is_up(self, event: simpy.Event) -> None:
        """Whoever has not ended by now has not."""
        if not self.triggered:
            self.succeed()
