"""Server ``port``: a buffer whose updates count by how fresh they are and by where they point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError
from netsim.base.fields import NotNegative, Positive
from netsim.cell.job import Job
from netsim.learning.protocol import Learning, Merge
from netsim.scenario import Scenario
from netsim.selection import Selection
from netsim.server.as_they_come import AsTheyCome, Buffer, Concurrency
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.server.server import RunProgress

Similarity = Annotated[NotNegative, Field(description="weight of where an update points")]
Freshness = Annotated[NotNegative, Field(description="weight of how fresh it is")]
Bound = Annotated[Positive, Field(description="staleness at which freshness is a half")]


class Port(AsTheyCome):
    """w <- w + sum_i p_i (x_i - w_i), with p_i as D_i (similarity (cos_i + 1) / 2 + freshness bound / (tau_i + bound)).

    The p_i sum to 1. cos_i is the cosine between a device's own step and the way that the global model has gone since
    the device started; up to a staleness of 1 it counts as 1.
    Source: Su and Li, How Asynchronous can Federated Learning Be?, IWQoS 2022; weights as in its authors' code.
    """

    def __init__(
        self, scenario: Scenario, selector: Selector, learning: Learning, history: History,
        closed: Callable[[RunProgress], None], buffer: Buffer = 10, concurrency: Concurrency = None,
        similarity: Similarity = 1.0, freshness: Freshness = 1.0, bound: Bound = 10.0,
    ) -> None:
        super().__init__(scenario, selector, learning, history, closed, buffer, concurrency)
        self.similarity = similarity
        self.freshness = freshness
        self.bound = bound

    @classmethod
    def check(cls, scenario: Scenario, selection: Selection, options: Mapping[str, Any]) -> None:
        super().check(scenario, selection, options)
        if options.get("freshness", 1.0) == 0.0:      # an update against the way of the model counts nothing, or all do
            raise InputError("server.freshness = 0: by similarity alone all updates of a buffer may count nothing; "
                             "must be greater than 0")

    def merge(self, there: list[Job], tau: Ints) -> Merge:
        jobs = [job.number for job in there]
        cosine = np.where(tau > 1, self.learning.alignment(jobs), 1.0)
        return Merge(jobs, self.shares(self.samples(there), cosine, tau), since="start")

    def shares(self, samples: Floats, cosine: Floats, tau: Ints) -> Floats:
        """How much each update counts."""
        weights = samples * (self.similarity * (cosine + 1) / 2 + self.freshness * self.bound / (tau + self.bound))
        return np.asarray(weights / weights.sum())
