"""Selection ``rra``: devices worth their energy before a deadline; ``rra-as-run``: as in the paper's experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.allocation.problem import Problem
from netsim.allocation.rra import rra_alternation, rra_shares
from netsim.base.fields import Energy, Time
from netsim.base.types import Floats, Ints
from netsim.selection.method import Method, equal_share_s, typical_s
from netsim.selection.view import Choice, View

TURNS = 2     # iterations of the published algorithm in rra-as-run


@dataclass(frozen=True)
class Rra(Method):
    """Select the devices that the optimum of sending energy less a reward for each device takes.

    All devices compute at their maximum frequency and upload until the ``deadline``, by default three times the median
    time with an equal share of the band. ``weight`` is the reward in joules: it determines the size of the cohort,
    which varies and does not depend on S. A device of which the relaxed optimum takes half or more is selected. If
    there is none, the fastest takes part alone. Without fading the set stays the same from round to round. (In the
    calibrated ``paper`` scenario the defaults take about 56 of 100 devices, and ``rra-as-run`` about 40.)

    Source: Zeng et al., Energy-Efficient Radio Resource Allocation for Federated Edge Learning, ICC Workshops 2020; the
    optimum itself is computed in ``netsim.allocation.rra``.
    """

    barrier: ClassVar[bool] = True
    varies: ClassVar[bool] = True
    links: ClassVar[str] = "uncapped"

    deadline: Time | None = None
    weight: Energy = 1e-3

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        reached = np.flatnonzero(view.available & (view.gain > 0))
        if reached.size:
            deadline_s = self.deadline or 3 * typical_s(view)
            taken = reached[self.parts(problem_of(view, reached), deadline_s, rng) >= 0.5]
            if taken.size:
                return Choice(taken)
        there = np.flatnonzero(view.available)
        return Choice(there[np.argmin(equal_share_s(view)[there])][None])

    def parts(self, problem: Problem, deadline_s: float, rng: np.random.Generator) -> Floats:
        """Return the part of each device that the relaxed problem takes, in [0, 1]."""
        return rra_shares(problem, deadline_s, self.weight).beta


@dataclass(frozen=True)
class RraAsRun(Rra):
    """Select like ``rra``, but after two iterations of the published algorithm from parts drawn uniformly in [0, 1].

    Half of the devices start below one half and few recover in two iterations, so the set changes from round to round
    even without fading: that fits the paper's report on RRA, about 45 of 100 devices.
    """

    def parts(self, problem: Problem, deadline_s: float, rng: np.random.Generator) -> Floats:
        beta = rng.random(len(problem))
        for _ in range(TURNS):
            beta = rra_alternation(problem, deadline_s, self.weight, beta)
        return beta


def problem_of(view: View, devices: Ints) -> Problem:
    kinds = view.population
    return Problem(
        bits=np.broadcast_to(view.bits, view.cycles.shape)[devices], cycles=view.cycles[devices],
        capacitance=kinds.capacitance[devices],
        gain=view.gain[devices], power_w=kinds.power_w[devices], budget_j=kinds.budget_j[devices],
        cpu_min_hz=kinds.cpu_min_hz[devices], cpu_max_hz=kinds.cpu_max_hz[devices],
        bandwidth_hz=view.bandwidth_hz, noise_w_per_hz=view.noise_w_per_hz, link=view.link)
