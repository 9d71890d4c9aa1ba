"""A problem told in seconds: the form in which the spectrum methods solve it.

Divide a device's energy constraint by its power and everything is a time. Its budget pays for E = e/p seconds of
sending; computing for t seconds takes K/t^2 of them, K = G U^2/p; so a round of T seconds leaves
min(T - t, E - K/t^2) seconds to upload, and the bandwidth needed is what sends z bits in that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from netsim import physics
from netsim.allocation.problem import Problem
from netsim.base.arrays import Floats

INSTANT_S = 1e-80    # stands for "no time" where a device has nothing to compute, so that K/t^2 stays defined
BLOCK = 1 << 13      # devices worked on at once: 64 kB an array stays in the cache and is not mapped afresh each time


@dataclass(frozen=True, eq=False)
class InSeconds:
    """What the devices can do, one array entry each."""

    nats: Floats          # z ln 2, what is to be sent
    limit: Floats         # the upload time that no bandwidth undercuts, z ln 2 / J
    budget: Floats        # E, the sending time that the energy budget pays for
    work: Floats          # K
    scale: Floats         # K^(1/3), in which the cubic has one parameter
    fastest: Floats       # computing time at cpu_max
    slowest: Floats       # computing time at cpu_min

    @classmethod
    def of(cls, problem: Problem) -> InSeconds:
        nats = problem.bits * physics.LN2
        work = problem.compute_weight * np.square(problem.cycles) / problem.power_w
        return cls(
            nats=nats,
            limit=nats / problem.snr_hz,
            budget=problem.budget_j / problem.power_w,
            work=work,
            scale=np.maximum(np.cbrt(work), 1e-60),
            fastest=np.maximum(problem.cycles / problem.cpu_max_hz, INSTANT_S),
            slowest=np.maximum(problem.cycles / problem.cpu_min_hz, INSTANT_S),
        )

    def blocks(self) -> Iterator[InSeconds]:
        """The same devices in pieces small enough for the cache."""
        for start in range(0, len(self.nats), BLOCK):
            part = slice(start, start + BLOCK)
            yield InSeconds(self.nats[part], self.limit[part], self.budget[part], self.work[part],
                            self.scale[part], self.fastest[part], self.slowest[part])

    def compute_time(self, round_s: float) -> Floats:
        """The computing time that leaves most for the upload in a round of T seconds.

        T - t falls with t and E - K/t^2 rises, so the best t is where they cross, t^2 (t - A) = K with A = T - E
        (the cubic (23) of the paper), clipped to what the CPU can do. In units of K^(1/3) it has one
        parameter; the start is within 1.2 % of the root and three Newton steps reach 2e-14.
        """
        a = (round_s - self.budget) / self.scale
        above = np.maximum(a, 0.0)
        below = above - a
        t = above + 1.0 / ((1.0 + above * (2.0 / 3.0 + above / 2.0)) * np.sqrt(1.0 / (1.0 + below / 3.0) + below))
        for _ in range(3):
            rest = t + t - a
            t = (t * t * rest + 1.0) / (t * (rest + t - a))
        return np.minimum(np.maximum(t * self.scale, self.fastest), self.slowest)

    def bandwidth(self, upload_s: Floats) -> tuple[Floats, Floats]:
        """The bandwidth that uploads in this time (inf if none does), and its elasticity -(db/b) / (dt/t).

        With y = limit/t and s the spectral efficiency, b = z ln 2 / (t s) and the elasticity is v/(v - 1), v = s + y.
        """
        upload_s = np.maximum(upload_s, 1e-300)
        fraction = self.limit / upload_s
        s = physics.efficiency(fraction)
        v = s + fraction
        return self.nats / (upload_s * s), v / (v - 1.0)

    def least_bandwidth_ever(self) -> Floats:
        """The bandwidth needed if the round may last for ever: the CPU at its slowest, what is left to send."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.bandwidth(self.budget - self.work / np.square(self.slowest))[0]

    def upload_time(self, bandwidth_hz: float) -> Floats:
        """Each device's upload with this bandwidth: z / Q(b)."""
        return self.nats / (bandwidth_hz * np.log1p(self.nats / (self.limit * bandwidth_hz)))

    def round_time(self, bandwidth_hz: float) -> Floats:
        """Each device's shortest round with this bandwidth; inf where its budget does not allow one."""
        upload_s = self.upload_time(bandwidth_hz)
        spare = self.budget - upload_s
        with np.errstate(divide="ignore", invalid="ignore"):
            compute_s = np.maximum(np.sqrt(self.work / spare), self.fastest)
        return np.where((spare > 0.0) & (compute_s <= self.slowest), upload_s + compute_s, np.inf)
