"""Selection by one simple rule: ``fedavg``, ``round-robin``, ``proportional-fair`` and ``power-of-choice``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.base.fields import Natural
from netsim.selection.method import Method, at_random, draw
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class FedAvg(Method):
    """Draw S of the available devices uniformly without replacement.

    Source: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.
    """

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        return Choice(at_random(view, rng))


@dataclass(frozen=True)
class RoundRobin(Method):
    """Take the next S available devices by number, after the last one chosen; ``state["next"]`` holds the position."""

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        there = np.flatnonzero(view.available)
        start = int(self.state.get("next", np.zeros(1))[0])
        turn = np.roll(there, -int(np.searchsorted(there, start)))[: view.cohort_size]
        if turn.size:
            self.state["next"] = (turn[-1:] + 1) % len(view.available)
        return Choice(turn)


@dataclass(frozen=True)
class ProportionalFair(Method):
    """Take the S devices with the largest ratio of the present signal-to-noise ratio to its mean so far.

    Power and noise cancel out, so the ratio is one of channel gains. Without fading all ratios are equal; ties go to
    the devices not used for longest. ``state`` keeps the mean gain and its number of rounds.

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


@dataclass(frozen=True)
class PowerOfChoice(Method):
    """Draw d candidates in proportion to their data, and take the S with the largest loss of the global model.

    d is ``candidates``, by default 2 S, and never below S.

    Source: Cho, Wang and Joshi, Towards Understanding Biased Client Selection in Federated Learning, AISTATS 2022.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"local loss"})

    candidates: Natural | None = None

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        assert view.local_loss is not None
        there = np.flatnonzero(view.available)
        count = max(self.candidates or 2 * view.cohort_size, view.cohort_size)
        candidates = np.sort(there[draw(view.population.samples[there], count, rng)])
        worst = np.argsort(-view.local_loss(candidates), kind="stable")[: view.cohort_size]
        return Choice(candidates[worst])
