"""Selection ``fedcs``: as many devices as fit a deadline, the quickest to add first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.base.fields import Natural, Time
from netsim.selection.method import Method, compute_s, typical_s, upload_s
from netsim.selection.view import Choice, View


@dataclass(frozen=True)
class FedCS(Method):
    """Of random candidates repeatedly the one that adds least time to the round, while it fits the deadline.

    The schedule: all compute at once at their highest frequency, and upload one after the other over the full band, so
    a device adds its upload and, if it is not done computing by then, the wait for it. The cohort is as large as the
    deadline allows, at most S; when not even one device fits, the quickest goes alone. Without a ``deadline`` it is the
    median time that devices need with an equal share of the band. ``candidates`` is how many devices are asked for
    their times, by default all.

    Source: Nishio and Yonetani, Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge,
    ICC 2019.
    """

    barrier: ClassVar[bool] = True
    varies: ClassVar[bool] = True

    deadline: Time | None = None
    candidates: Natural | None = None

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        there = np.flatnonzero(view.available)
        left = np.sort(rng.permutation(there)[: self.candidates])
        compute, upload = compute_s(view), upload_s(view, view.bandwidth_hz)
        deadline = self.deadline or typical_s(view)
        chosen: list[int] = []
        end_s = 0.0
        while left.size and len(chosen) < view.cohort_size:
            adds = upload[left] + np.maximum(0.0, compute[left] - end_s)
            best = int(np.argmin(adds))
            end_s += adds[best]
            if chosen and end_s > deadline:
                break
            chosen.append(int(left[best]))
            left = np.delete(left, best)
        return Choice(np.array(chosen, dtype=np.int64))
