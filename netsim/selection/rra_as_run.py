"""Selection ``rra-as-run``: RRA's iteration cut short, which leaves a random set, as in the paper's comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.allocation.problem import Problem
from netsim.allocation.rra import rra_alternation
from netsim.base.arrays import Floats
from netsim.selection.rra import Rra

TURNS = 2


@dataclass(frozen=True)
class RraAsRun(Rra):
    """As ``rra``, but two turns of the published iteration from parts drawn uniformly in [0, 1], not the optimum.

    Half of the devices start below one half and few recover in two turns, so the set changes from round to round also
    without fading: that fits what the paper reports of RRA, about 45 of 100 devices.
    """

    def parts(self, problem: Problem, deadline_s: float, rng: np.random.Generator) -> Floats:
        beta = rng.random(len(problem))
        for _ in range(TURNS):
            beta = rra_alternation(problem, deadline_s, self.weight, beta)
        return beta
