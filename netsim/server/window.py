"""Server ``window``: every so many seconds, what has arrived makes a new model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from simpy.events import ProcessGenerator

from netsim.base.arrays import Ints
from netsim.base.fields import Natural, Time
from netsim.cell.job import Job
from netsim.learning.protocol import Learning, Merge
from netsim.scenario import Scenario
from netsim.server.as_they_come import AsTheyCome, Concurrency
from netsim.server.cell_api import CellAPI
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.server.server import RunProgress
from netsim.server.staleness import POLYNOMIAL, ByStaleness

Period = Annotated[Time, Field(description="length of a window")]
Stalest = Annotated[Natural | None, Field(description="what is staler counts nothing")]


class Window(AsTheyCome):
    """Rounds of a fixed length with the late kept: who is not done by the end joins the round in which it arrives.

    w <- w + sum_i p_i (x_i - w_i) with p_i as D_i s(staleness_i), summing to 1; an update staler than ``stalest``
    counts nothing. Those who have arrived wait for the end of the window, and their places are filled then.
    """

    barrier = True

    def __init__(
        self, scenario: Scenario, selector: Selector, learning: Learning, history: History,
        closed: Callable[[RunProgress], None], period: Period, concurrency: Concurrency = None,
        staleness: ByStaleness = POLYNOMIAL, stalest: Stalest = None,
    ) -> None:
        super().__init__(scenario, selector, learning, history, closed, 1, concurrency)
        self.period_s = float(period)
        self.staleness = staleness
        self.stalest = stalest

    @classmethod
    def idle(cls, scenario: Scenario, options: Mapping[str, Any]) -> Mapping[str, str]:
        return {**super().idle(scenario, options),
                "rounds.wait": "goes on after its period, whoever fits; leave it out"}

    def run(self, cell: CellAPI) -> ProcessGenerator:
        """All windows that are still to come; each ends at a multiple of the period."""
        self.refuse_a_dead_cell(cell)
        while not self.ended(cell):
            self.fill(cell)
            yield cell.wait((cell.version + 1) * self.period_s - cell.now)
            yield cell.finished((), until=cell.now, count=1)             # a job that ends at this instant is in time
            self.take(cell.collect())
            self.aggregate(cell)
            yield from self.stop(cell)
            self.close(cell)

    def merge(self, there: list[Job], tau: Ints) -> Merge:
        weights = self.samples(there) * self.staleness.weights(tau)
        if self.stalest is not None:
            weights = np.where(tau > self.stalest, 0.0, weights)
        return Merge([job.number for job in there], weights / (weights.sum() or 1.0), since="start")
