"""Server ``fedasync``: every arrival makes a new model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from netsim.base.arrays import Ints
from netsim.cell.job import Job
from netsim.learning.protocol import Learning, Merge
from netsim.scenario import Scenario
from netsim.server.as_they_come import AsTheyCome, Concurrency
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.server.server import RunProgress
from netsim.server.staleness import POLYNOMIAL, ByStaleness

Mixing = Annotated[float, Field(gt=0, le=1, description="how much a fresh update counts against the present model")]


class FedAsync(AsTheyCome):
    """w <- (1 - a) w + a x with a = mixing s(staleness), for the model x of each device that arrives.

    Source: Xie, Koyejo and Gupta, Asynchronous Federated Optimization, arXiv 1903.03934. Its local training has a
    proximal term: ``learning.proximal``.
    """

    def __init__(
        self, scenario: Scenario, selector: Selector, learning: Learning, history: History,
        closed: Callable[[RunProgress], None], mixing: Mixing = 0.6, staleness: ByStaleness = POLYNOMIAL,
        concurrency: Concurrency = None,
    ) -> None:
        super().__init__(scenario, selector, learning, history, closed, 1, concurrency)
        self.mixing = mixing
        self.staleness = staleness

    def merge(self, there: list[Job], tau: Ints) -> Merge:
        return Merge([job.number for job in there], self.mixing * self.staleness.weights(tau), since="now")
