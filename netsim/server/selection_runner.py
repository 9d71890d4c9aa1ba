"""Calls a selection method for cohorts, and saves its state."""

from __future__ import annotations

import numpy as np

from netsim.base.errors import InputError, UserCodeError
from netsim.base.rng import stream
from netsim.base.types import Ints, State
from netsim.selection import METHODS, Choice, Selection, View, check_choice, check_state


class SelectionRunner:
    """A selection method with its name and the seed of its random draws."""

    def __init__(self, name: str, method: Selection, seed: int) -> None:
        self.name = name
        self.method = method
        self.seed = seed

    def choose(self, view: View, again: int = 0) -> Choice:
        """Return the cohort of the view's round; ``again`` counts earlier calls in the same round."""
        try:
            choice = self.method(view, stream(self.seed, "selection", view.round, again))
        except InputError:
            raise
        except Exception as error:
            if self.name in METHODS:         # an error in a built-in method
                raise
            raise UserCodeError.of(f"round {view.round}, selection {self.name}", error) from None
        return Choice(check_choice(choice, view, self.name), choice.probability)

    def everybody(self, view: View) -> Choice:
        """Return all available devices: the cohort of a first round with every device."""
        return Choice(np.flatnonzero(view.available))

    @property
    def clusters(self) -> Ints | None:
        """Cluster of each device; None if the method has none."""
        return self.method.state.get("clusters")

    def moved(self, before: Ints | None) -> dict[int, float]:
        """Return the devices whose cluster differs from ``before``, with their new cluster."""
        after = self.clusters
        if after is None:
            return {}
        changed = np.flatnonzero(after >= 0 if before is None else after != before)
        return {device: float(after[device]) for device in changed.tolist()}

    def snapshot(self) -> State:
        return check_state(self.method.state, self.name)

    def restore(self, state: State) -> None:
        self.method.state.update(state)
