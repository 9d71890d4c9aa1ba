"""A problem normalised to seconds: the form in which the spectrum methods solve it.

Divide a device's energy constraint by its power and everything is a time. Its budget pays for E = e/p seconds of
sending; computing for t seconds takes K/t^2 of them, K = G U^2/p; so a round of T seconds leaves
min(T - t, E - K/t^2) seconds to upload, and the bandwidth needed is that which sends z bits in this time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from netsim import physics
from netsim.allocation.cpu_power import HALVINGS, CpuPower
from netsim.allocation.problem import Problem
from netsim.base.types import Floats
from netsim.physics import HALF, ONE, THIRD, TINY, TWO_THIRDS, ZERO, LinkModel, Shannon

NO_BUDGET_S = 1e30   # seconds of sending that stand for an unlimited budget: no plan comes near them
INSTANT_S = 1e-80    # computing time of 0 cycles, so that K/t^2 stays defined
BLOCK = 1 << 13      # devices per block: an array of 64 kB stays in the cache and is not mapped again each time


class NormalizedProblem(NamedTuple):
    """Normalised limits of the devices, one array entry each."""

    nats: Floats          # z ln 2 over the link's efficiency: nats to send
    limit: Floats         # the upload time that no bandwidth undercuts, z ln 2 / J
    budget: Floats        # E, the sending time that the energy budget pays for; NO_BUDGET_S without one
    work: Floats          # K
    scale: Floats         # K^(1/3), in which the cubic has one parameter
    fastest: Floats       # computing time at cpu_max
    slowest: Floats       # computing time at cpu_min
    link: LinkModel
    table: TableCpus | None = None      # devices whose CPUs have tables of power

    @classmethod
    def of(cls, problem: Problem, power_w: Floats | None = None) -> NormalizedProblem:
        """Normalise a problem at its own powers, or at others; several powers per device give a row each."""
        power = problem.power_w if power_w is None else power_w
        snr_hz = problem.snr_hz if power_w is None else problem.gain * power / problem.noise_w_per_hz
        link = problem.link
        nats = problem.bits * (physics.LN2 / link.efficiency if type(link) is Shannon else physics.LN2)
        work = problem.compute_weight * np.square(problem.cycles) / power
        return cls(
            nats=nats,
            limit=nats / snr_hz,
            budget=np.minimum(problem.budget_j / power, NO_BUDGET_S),
            work=work,
            scale=np.maximum(np.cbrt(work), 1e-60),
            fastest=np.maximum(problem.cycles / problem.cpu_max_hz, INSTANT_S),
            slowest=np.maximum(problem.cycles / problem.cpu_min_hz, INSTANT_S),
            link=link,
            table=None if problem.cpu_power is None else TableCpus(problem, problem.cpu_power, power),
        )

    def blocks(self) -> list[NormalizedProblem]:
        """Return the same devices in blocks that fit the cache."""
        if len(self.nats) <= BLOCK:
            return [self]
        parts = (slice(start, start + BLOCK) for start in range(0, len(self.nats), BLOCK))
        return [NormalizedProblem._make([*(array[part] for array in self[:-2]), self.link, None]) for part in parts]

    def longest(self) -> Floats:
        """Return the round beyond which a device needs no less bandwidth: slowest CPU, budget used up."""
        return self.slowest + self.budget - self.spent(self.slowest)

    def spent(self, compute_s: Floats) -> Floats:
        """Return the seconds of sending that computing for given times costs: K/t^2, or by a table of power."""
        kappa = self.work / np.square(compute_s)
        return kappa if self.table is None else self.table.spent(compute_s, kappa)

    def compute_time(self, round_s: float | Floats) -> Floats:
        """Return the computing time that leaves most for the upload in a round of T seconds, clipped to the CPU."""
        kappa = self.clip(self.scale / self.crossing(round_s))
        if self.table is None:
            return kappa
        low, high = self.fastest.copy(), self.slowest.copy()      # T - t falls, E - spent(t) rises: where they cross
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            later = np.asarray(round_s) - middle > self.budget - self.spent(middle)
            low, high = np.where(later, middle, low), np.where(later, high, middle)
        return np.where(self.table.tabled, high, kappa)

    def clip(self, compute_s: Floats) -> Floats:
        """Clip computing times to the range of the CPU."""
        return np.minimum(np.maximum(compute_s, self.fastest), self.slowest)

    def crossing(self, round_s: float | Floats) -> Floats:
        """Return x = K^(1/3)/t for the computing time t at which time and energy leave equally long to send.

        T - t falls with t and E - K/t^2 rises, so the best t is where they cross, t^2 (t - A) = K with A = T - E (the
        cubic (23) of the paper). In units of K^(1/3) it has one parameter, x^3 + a x = 1; the start is within 1.2 % of
        the root and three Newton steps reach the last digits.
        """
        a = (np.asarray(round_s) - self.budget) / self.scale
        above = np.maximum(a, ZERO)
        below = above - a
        x: Floats = (ONE + above * (TWO_THIRDS + above * HALF)) * np.sqrt(ONE / (ONE + below * THIRD) + below)
        x /= above * x + ONE
        for _ in range(3):
            square = x * x
            cube = square * x
            x = (cube + cube + ONE) / (square + square + square + a)
        return x

    def bandwidth(self, upload_s: Floats) -> tuple[Floats, Floats]:
        """Return the bandwidth that uploads in this time (inf if none does) and its elasticity, for Shannon's link."""
        assert isinstance(self.link, Shannon)
        return self.link.need(self.nats, self.limit, np.maximum(upload_s, TINY))

    @property
    def most(self) -> float:
        """Cap on the spectral efficiency in nats/s/Hz, for Shannon's link."""
        assert isinstance(self.link, Shannon)
        return self.link.most_nats

    def needed(self, upload_s: Floats) -> Floats:
        """Return the bandwidth that uploads in this time, for any link; inf if none does."""
        if type(self.link) is Shannon:
            return self.bandwidth(upload_s)[0]
        some = upload_s > 0.0
        hz = np.full(len(upload_s), np.inf)
        if some.any():
            hz[some] = self.link.bandwidth((self.nats / physics.LN2 / upload_s)[some], (self.nats / self.limit)[some])
        return hz

    @np.errstate(all="ignore")
    def least_bandwidth(self, round_s: float = math.inf) -> Floats:
        """Return the bandwidth in Hz needed in a round of ``round_s`` seconds; inf where none is enough."""
        compute_s = self.slowest if round_s == math.inf else self.compute_time(round_s)
        upload_s = np.minimum(round_s - compute_s, self.budget - self.spent(compute_s))
        return np.where(upload_s > ZERO, self.needed(upload_s), np.inf)

    def upload_time(self, bandwidth_hz: float | Floats) -> Floats:
        """Return each device's upload time in seconds with this bandwidth, z / Q(b), for Shannon's link."""
        s = np.log1p(self.nats / (self.limit * bandwidth_hz))
        return self.nats / (bandwidth_hz * (s if self.most == math.inf else np.minimum(s, self.most)))

    def round_time(self, bandwidth_hz: float | Floats) -> Floats:
        """Return each device's shortest round with this bandwidth (a row for each of a column); inf: over budget."""
        upload_s = self.upload_time(bandwidth_hz)
        return upload_s + self.ready_time(upload_s)

    def ready_time(self, upload_s: Floats) -> Floats:
        """Return the least computing time for which such an upload leaves energy; inf where it leaves too little."""
        spare = self.budget - upload_s
        some = spare > ZERO
        least_s = np.sqrt(np.divide(self.work, spare, out=np.full(spare.shape, np.inf), where=some))
        compute_s = np.maximum(least_s, self.fastest)
        if self.table is not None:
            compute_s = np.where(self.table.tabled, self.table.least_time(spare), compute_s)
        return np.where(some & (compute_s <= self.slowest), compute_s, np.inf)


class TableCpus:
    """Devices whose CPUs have tables of power, in seconds of sending."""

    def __init__(self, problem: Problem, power: CpuPower, power_w: Floats) -> None:
        self.problem, self.power, self.power_w, self.tabled = problem, power, power_w, power.tabled

    def spent(self, compute_s: Floats, kappa: Floats) -> Floats:
        """Return the seconds of sending that computing costs; ``kappa`` are those of devices without a table."""
        return np.where(self.tabled, self.power.at(self.problem.cycles / compute_s) * compute_s / self.power_w, kappa)

    def least_time(self, spare_s: Floats) -> Floats:
        """Return the least computing time whose energy is worth at most ``spare_s`` seconds of sending."""
        problem = self.problem
        with np.errstate(divide="ignore", invalid="ignore"):
            per_cycle = np.maximum(spare_s, 0.0) * self.power_w / np.maximum(problem.cycles, TINY)
            return problem.cycles / self.power.fastest_hz(per_cycle, problem.cpu_min_hz, problem.cpu_max_hz)
