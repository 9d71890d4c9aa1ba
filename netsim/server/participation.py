"""Participation of devices and results of rounds, as selection methods see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.pluralize import pluralize
from netsim.base.types import Floats, Ints, State
from netsim.server.job_recording import Outcomes

ARRAYS = ("last_round", "times_used", "duration_s")


class Participation:
    """Arrays of shape (N,) with one entry per device, and sums over the run."""

    def __init__(self, devices: int) -> None:
        self.last_round: Ints = np.zeros(devices, np.int64)      # in which an update of the device arrived; 0: never
        self.times_used: Ints = np.zeros(devices, np.int64)
        self.duration_s: Floats = np.full(devices, np.nan)       # computing and sending in its last participation
        self.energy_j = 0.0
        self.dropped = 0
        self.arrived_last = 0                                    # arrivals in the last round
        self.accuracy: list[float] = []                          # NaN for a round that was not evaluated

    def add(self, round: int, outcomes: Outcomes) -> None:
        """Add the outcomes of a round."""
        arrived = outcomes.device[outcomes.arrived]
        self.last_round[arrived] = round
        np.add.at(self.times_used, arrived, 1)                   # a device may arrive several times in a round
        self.duration_s[arrived] = outcomes.duration_s[outcomes.arrived]
        self.arrived_last = len(arrived)
        self.dropped += len(outcomes.arrived) - len(arrived)
        self.spend(outcomes)

    def spend(self, outcomes: Outcomes) -> None:
        """Add the energy of some jobs."""
        self.energy_j += float(np.add.reduce(outcomes.energy_j))

    def columns(self) -> Mapping[str, Callable[[], Any]]:
        """Return the columns of a selection method's view, each made on request."""
        return {"last_round": lambda: self.last_round.copy(), "times_used": lambda: self.times_used.copy(),
                "duration_s": lambda: self.duration_s.copy(), "accuracy": lambda: tuple(self.accuracy)}

    def snapshot(self) -> State:
        device = np.flatnonzero(self.times_used)                 # few devices of a large population have taken part
        return {
            "device": device, **{name: getattr(self, name)[device] for name in ARRAYS},
            "energy_j": np.array(self.energy_j), "counts": np.array([self.dropped, self.arrived_last], np.int64),
            "accuracy": np.array(self.accuracy, np.float64),
        }

    def restore(self, state: State) -> None:
        device = state["device"]
        if len(device) and not 0 <= device.min() <= device.max() < len(self.last_round):
            raise ValueError(f"it is not about {pluralize(len(self.last_round), 'device')}")
        if state["accuracy"].ndim != 1:
            raise ValueError("its accuracies are not a list")
        for name in ARRAYS:
            own: NDArray[Any] = getattr(self, name)
            own[device] = state[name].astype(own.dtype, casting="safe")      # counts must not be NaN
        self.energy_j, self.accuracy = float(state["energy_j"]), state["accuracy"].tolist()
        self.dropped, self.arrived_last = (int(count) for count in state["counts"])
