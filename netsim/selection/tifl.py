"""Selection ``tifl``: each round a cohort of devices that are about equally fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netsim.base.arrays import Floats, Ints
from netsim.base.fields import Natural
from netsim.selection.method import Method, draw, equal_share_s
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class TiFL(Method):
    """Draws a latency tier, then S random devices of it.

    Tiers of equal size are made once, by the time of a round with an equal share of the band. A draw costs its tier
    one of its ``credits``; a tier without takes no part until all have spent theirs and get new ones. At first all
    tiers are equally likely. Every ``interval`` rounds the global model's mean loss in each tier is measured; if that
    of the tier drawn last has not fallen, tiers are ranked by loss: of m, the worst gets the probability (m - 1) / D,
    the next (m - 2) / D and so on to 0, D = m (m - 1) / 2. (The source ranks by accuracy on the devices' test data.) A
    tier too small for a cohort is filled up from its neighbours.

    Source: Chai et al., TiFL: A Tier-based Federated Learning System, HPDC 2020.
    """

    barrier: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"local loss"})

    tiers: Annotated[int, Field(ge=2)] = 5
    credits: Natural = 100
    interval: Natural = 20

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        state, count = self.state, min(self.tiers, len(view.available))
        if not state:
            state["tier"] = tiers_by_time(equal_share_s(view), count)
            state["credits"] = np.full(count, self.credits)
            state["probability"] = np.full(count, 1 / count)
            state["loss"] = np.full(count, np.nan)
            state["drawn"] = np.zeros(1, dtype=np.int64)
        if view.round % self.interval == 0:
            self._measure(view)
        tier = self._draw_tier(view, rng)
        there = rng.permutation(np.flatnonzero(view.available))
        near = np.argsort(np.abs(state["tier"][there] - tier), kind="stable")     # its own first, then neighbours
        return Choice(there[near[: view.cohort_size]])

    def _measure(self, view: View) -> None:
        """Look at each tier's loss, and rank the tiers anew when the last one drawn has made no progress."""
        assert view.local_loss is not None
        there = np.flatnonzero(view.available)
        each = view.local_loss(there)
        before, drawn = self.state["loss"], self.state["drawn"][0]
        tiers = [each[self.state["tier"][there] == tier] for tier in range(len(before))]
        loss = np.array([own.mean() if own.size else -np.inf for own in tiers])      # a tier that is gone ranks last
        if loss[drawn] >= before[drawn]:
            self.state["probability"] = by_rank(loss)
        self.state["loss"] = loss

    def _draw_tier(self, view: View, rng: np.random.Generator) -> int:
        """A tier that has devices and credit, by its probability; it pays."""
        state = self.state
        credit = state["credits"]
        alive = np.isin(np.arange(len(credit)), state["tier"][view.available])
        if not (alive & (credit > 0)).any():
            credit = np.full_like(credit, self.credits)
        ready = alive & (credit > 0)
        tier = int(draw(ready * (state["probability"] + 1e-9), 1, rng)[0])     # the least likely, if only it is ready
        state["credits"] = credit - (np.arange(len(credit)) == tier)
        state["drawn"] = np.array([tier])
        return tier


def tiers_by_time(time_s: Floats, count: int) -> Ints:
    """The tier of each device: 0 for the fastest 1/count of them, and so on."""
    rank = np.argsort(np.argsort(time_s, kind="stable"), kind="stable")
    return rank * count // len(time_s)


def by_rank(loss: Floats) -> Floats:
    """Probabilities that fall with the rank, the largest loss first: (m - 1, m - 2, ..., 0) / D."""
    rank = np.argsort(np.argsort(-loss, kind="stable"), kind="stable")
    weight: Floats = (len(loss) - 1 - rank).astype(np.float64)
    return weight / max(float(weight.sum()), 1.0)
