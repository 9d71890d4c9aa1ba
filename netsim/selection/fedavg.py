"""Selection ``fedavg``: a uniformly random cohort."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.selection.method import Method, at_random
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class FedAvg(Method):
    """S of the available devices, drawn uniformly without replacement.

    Source: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.
    """

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        return Choice(at_random(view, rng))
