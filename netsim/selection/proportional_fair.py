"""Selection ``proportional-fair``: the devices whose channel is best against their own average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.selection.method import Method
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class ProportionalFair(Method):
    """The S devices with the largest ratio of the signal-to-noise ratio now to its mean over the rounds so far.

    Power and noise cancel out, so the ratio is one of channel gains. It tells devices apart only where there is fading;
    equals are taken by how long they were not used. ``state`` keeps the mean gain and the number of rounds in it.

    Source: Yang et al., Scheduling Policies for Federated Learning in Wireless Networks, IEEE Transactions on
    Communications, 2020.
    """

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        rounds = self.state.get("rounds", np.zeros(1)) + 1
        mean = self.state.get("mean_gain", np.zeros_like(view.gain))
        mean = mean + (view.gain - mean) / rounds
        self.state.update(rounds=rounds, mean_gain=mean)
        ratio = np.round(np.divide(view.gain, mean, out=np.zeros_like(mean), where=mean > 0), 9)
        there = np.flatnonzero(view.available)
        order = np.lexsort((view.last_round[there], -ratio[there]))
        return Choice(there[order[: view.cohort_size]])
