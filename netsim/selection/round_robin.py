"""Selection ``round-robin``: the devices in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.selection.method import Method
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class RoundRobin(Method):
    """The next S available devices by number, starting after the last one chosen; ``state["next"]`` says where."""

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        there = np.flatnonzero(view.available)
        start = int(self.state.get("next", np.zeros(1))[0])
        turn = np.roll(there, -int(np.searchsorted(there, start)))[: view.cohort_size]
        if turn.size:
            self.state["next"] = (turn[-1:] + 1) % len(view.available)
        return Choice(turn)
