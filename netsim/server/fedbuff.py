"""Server ``fedbuff``: a buffer of updates makes a new model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from netsim.base.arrays import Ints
from netsim.base.fields import Positive
from netsim.cell.job import Job
from netsim.learning.protocol import Learning, Merge
from netsim.scenario import Scenario
from netsim.server.as_they_come import AsTheyCome, Buffer, Concurrency
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.server.server import RunProgress
from netsim.server.staleness import POLYNOMIAL, ByStaleness

Rate = Annotated[Positive, Field(description="of the server: how far it goes along the mean step")]
Normalise = Annotated[Literal["count", "weights"], Field(
    description="what the sum is divided by: the number of updates, or what they count together")]


class FedBuff(AsTheyCome):
    """w <- w + rate (1/K) sum_i s(staleness_i) (x_i - w_i), w_i the model that device i started from.

    With ``normalise = "weights"`` the sum is divided by that of the s instead of by the number of updates, so that a
    stale buffer takes as large a step as a fresh one.
    Source: Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, arXiv 2106.06639.
    """

    def __init__(
        self, scenario: Scenario, selector: Selector, learning: Learning, history: History,
        closed: Callable[[RunProgress], None], buffer: Buffer = 10, concurrency: Concurrency = None,
        rate: Rate = 1.0, staleness: ByStaleness = POLYNOMIAL, normalise: Normalise = "count",
    ) -> None:
        super().__init__(scenario, selector, learning, history, closed, buffer, concurrency)
        self.rate = rate
        self.staleness = staleness
        self.normalise = normalise

    def merge(self, there: list[Job], tau: Ints) -> Merge:
        weights = self.staleness.weights(tau)
        whole = len(there) if self.normalise == "count" else weights.sum()
        return Merge([job.number for job in there], self.rate * weights / whole, since="start")
