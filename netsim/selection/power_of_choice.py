"""Selection ``power-of-choice``: of a few candidates, those that the global model serves worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.base.fields import Natural
from netsim.selection.method import Method, draw
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class PowerOfChoice(Method):
    """Draws d candidates by the size of their data, and takes the S with the largest loss of the global model.

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
