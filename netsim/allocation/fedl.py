"""`fedl`: the paper's Baseline 2, which weighs the round's energy against its length: least E + lambda T.

It keeps no budgets. For a round of T seconds a device that uploads for a time u computes for T - u, so its bandwidth
b(u) and its energy p u + W/(T - u)^2 (W = G U^2) follow from u. At a price mu of bandwidth each device takes the u at
which a second more of upload costs as much energy as it saves bandwidth, p + 2 W/(T - u)^3 = -mu b'(u), the second term
only while the CPU is above its minimum. The price is right where the band is filled. A longer round would then save a
device -mu b'(u) - p joules a second, if that is positive, and T is right where this adds up to lambda.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netsim.allocation import sao
from netsim.allocation.diagnosis import require_feasible, too_dear
from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.problem import Infeasible, Plan, Problem, fill, plan_for
from netsim.allocation.roots import first_not_positive
from netsim.base.arrays import Bools, Floats
from netsim.physics import efficiency

STEPS = 24           # rounds tried upwards from the shortest that can keep the budgets, before the tuned one is refined
NO_BUDGET_S = 1e30   # seconds of sending that a budget would pay for if there were none


Weight = Annotated[
    Annotated[float, Field(ge=0)] | Literal["tuned"], Field(alias="lambda", description='joules a second, or "tuned"')]


def solve(problem: Problem, weight: Weight = "tuned") -> Plan:
    """The plan with the least total energy plus ``weight`` joules for each second of the round.

    ``"tuned"`` stands for the largest weight whose plan keeps every budget; see :func:`tune`.
    """
    if isinstance(weight, str):
        return tune(problem)[1]
    market = Market.of(problem)
    return market.plan(problem, market.weighing(weight))


def tune(problem: Problem) -> tuple[float, Plan]:
    """The largest weight whose plan keeps every budget, and that plan; inf where even the shortest round keeps them.

    A larger weight means a shorter round, so this is the shortest round that keeps them. None that does is shorter than
    that of `sao`, and beyond the round of weight 0 nothing changes.
    """
    require_feasible(problem, InSeconds.of(problem))
    market = Market.of(problem)
    at = market.idle

    def over(round_s: float) -> float:
        nonlocal at
        at = market.balance(round_s, at)
        return float(np.max(market.energy(at) / problem.budget_j)) - 1.0

    soonest = max(sao.solve(problem).round_s, market.soonest)
    tried = np.geomspace(soonest, max(soonest, market.idle.round_s), STEPS).tolist()
    for shorter, longer in zip([soonest, *tried], tried, strict=False):
        if over(longer) <= 0.0:
            over(first_not_positive(over, shorter, longer))
            return (at.weight if at.round_s > market.soonest * (1.0 + 1e-8) else math.inf), market.plan(problem, at)
    least = market.energy(market.idle)
    dear = least > problem.budget_j
    reason = f"{too_dear(problem, least, dear)}, at the least total energy: no lambda keeps every budget"
    raise Infeasible(np.flatnonzero(dear), reason)


@dataclass(frozen=True, eq=False)
class Balance:
    """Price and spectral efficiencies at which the band is filled in a round of this length."""

    round_s: float
    nats: Floats          # s = ln(1 + J/b), which fixes a device's bandwidth and upload time
    log_price: float      # ln mu, mu in J/Hz
    weight: float         # what all devices would save by a longer round, in J/s: the lambda that leads here
    slope: float          # d weight / d round
    drift: float          # d ln mu / d round

    @property
    def bent(self) -> float:
        """weight^(-1/3)"""
        return self.weight ** (-1 / 3) if self.weight > 0.0 else math.inf


@dataclass(frozen=True, eq=False)
class Market:
    """The devices as buyers of bandwidth."""

    devices: InSeconds
    power: Floats
    work: Floats          # W
    bandwidth_hz: float

    @classmethod
    def of(cls, problem: Problem) -> Market:
        devices = replace(InSeconds.of(problem), budget=np.full(len(problem), NO_BUDGET_S))
        return cls(devices, problem.power_w, problem.compute_weight * np.square(problem.cycles), problem.bandwidth_hz)

    @cached_property
    def soonest(self) -> float:
        """The round of an infinite weight, every CPU at its fastest; a hair more, so that there is room for a price."""
        bracket = sao.Bracket.of(self.devices, self.bandwidth_hz)
        return sao.shortest_round(self.devices, self.bandwidth_hz, bracket).round_s * (1.0 + 1e-11)

    @cached_property
    def cheapest(self) -> float:
        """A price, as a logarithm, at which one device alone would take the whole band."""
        nats = np.log1p(self.devices.nats / (self.devices.limit * self.bandwidth_hz))     # ln(1 + J/B)
        return float(np.max(np.log(self.power) - _value(self.devices, nats)[0])) - 1e-6

    @cached_property
    def idle(self) -> Balance:
        """The balance of weight 0, every CPU at its slowest."""
        at = self.balance(math.inf, self._start())
        end = float(np.max(self.devices.slowest + _upload(self.devices, at.nats)))
        return replace(at, round_s=max(self.soonest, end))

    def _start(self) -> Balance:
        """A guess: equal shares, and a price at which the median device does not care."""
        nats = efficiency(self.devices.limit / self.devices.upload_time(self.bandwidth_hz / len(self.power)))
        log_price = float(np.median(np.log(self.power) - _value(self.devices, nats)[0]))
        return Balance(math.nan, nats, log_price, weight=0.0, slope=0.0, drift=0.0)

    def weighing(self, weight: float) -> Balance:
        """The balance that a weight leads to, searched on weight^(-1/3), which is nearly a straight line in T.

        By Newton where that is a small step, else by the secant of the bracket: each CPU that comes to rest at its
        slowest puts a short steep piece into the line, which Newton would take for the whole.
        """
        if weight <= 0.0:
            return self.idle
        target, low, high = weight ** (-1 / 3), None, None
        at = self.balance(1.3 * self.soonest, self._start())
        for attempt in range(200):
            low, high = (at, high) if at.weight > weight else (low, at)
            if at is high and at.round_s <= self.soonest:        # no round is short enough for such a weight
                return at
            rise = -at.slope * at.bent**4 / 3.0                  # d bent / dT
            step = (target - at.bent) / rise if 0.0 < rise < math.inf else math.nan
            if abs(step) <= 1e-10 * at.round_s:
                return at
            t = at.round_s + step
            if low is None or high is None:
                if not t > self.soonest:
                    t = self.soonest if low is None else 2.0 * low.round_s
            else:
                width = high.round_s - low.round_s
                if width <= 1e-12 * low.round_s:
                    return at
                if not (low.round_s < t < high.round_s and abs(step) <= width / 10.0):
                    straight = high.weight > 0.0 and attempt % 5 < 4
                    part = (target - low.bent) / (high.bent - low.bent) if straight else 0.5
                    t = low.round_s + width * min(max(part, 0.05), 0.95)
            at = self.balance(t, at)
        raise ArithmeticError(f"the round of weight {weight!r} did not settle")

    def compute_time(self, at: Balance) -> Floats:
        """As long as the round leaves, within what the CPU can do."""
        return np.clip(at.round_s - _upload(self.devices, at.nats), self.devices.fastest, self.devices.slowest)

    def energy(self, at: Balance) -> Floats:
        """Joules of each device."""
        return self.power * _upload(self.devices, at.nats) + self.work / np.square(self.compute_time(at))

    def plan(self, problem: Problem, at: Balance) -> Plan:
        """The plan at a balance."""
        cpu_hz = np.clip(problem.cycles / self.compute_time(at), problem.cpu_min_hz, problem.cpu_max_hz)
        return plan_for(problem, fill(_bandwidth(self.devices, at.nats), problem.bandwidth_hz), cpu_hz)

    @np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")
    def balance(self, round_s: float, start: Balance) -> Balance:
        """The price at which the devices fill the band in a round of T seconds, by Newton on its logarithm."""
        choice = Bids.of(self, round_s)
        foreseen = start.log_price + start.drift * (round_s - start.round_s)
        low, high = self.cheapest, choice.dearest + 1.0
        nats, log_price = start.nats, foreseen if low < foreseen < high else min(max(start.log_price, low), high)
        for _ in range(200):
            nats, response = choice.at(log_price, nats)
            bandwidth_hz = _bandwidth(self.devices, nats)
            total = float(bandwidth_hz.sum())
            excess = math.log(total / self.bandwidth_hz)
            slope = -float(np.dot(bandwidth_hz, response)) / total           # d ln total / d ln price
            if abs(excess) <= 1e-10 or high - low <= 1e-15 * abs(high):
                break
            if log_price >= choice.dearest and excess > 0.0:                 # no price makes them take less
                break
            low, high = (log_price, high) if excess > 0.0 else (low, log_price)
            log_price += -excess / slope if slope < 0.0 else math.nan
            if not low < log_price < high:
                log_price = (low + high) / 2.0
        return Balance(round_s, nats, log_price, *choice.weight(log_price, nats))


@dataclass(frozen=True, eq=False)
class Bids:
    """How the devices choose in a round of T seconds: by the logarithm of the price, between these marks.

    Below ``idle`` a device keeps its CPU at its slowest and has time to spare; up to ``busy`` it stays just there; then
    the CPU speeds up until, from ``spent`` on, it is at its fastest.
    """

    market: Market
    round_s: float
    slowest: Floats       # spectral efficiency that leaves the time to compute at cpu_min
    fastest: Floats       # ... at cpu_max
    idle: Floats
    busy: Floats
    spent: Floats

    @classmethod
    def of(cls, market: Market, round_s: float) -> Bids:
        devices, power = market.devices, market.power
        slowest = efficiency(devices.limit / np.maximum(round_s - devices.slowest, devices.limit))
        fastest = efficiency(devices.limit / np.maximum(round_s - devices.fastest, devices.limit))
        at_slowest, at_fastest = -_value(devices, slowest)[0], -_value(devices, fastest)[0]
        reached = slowest > 0.0                  # else the round is too short for the slowest CPU
        return cls(
            market, round_s, slowest, fastest,
            np.where(reached, np.log(power) + at_slowest, -np.inf),
            np.where(reached, np.log(power + 2.0 * market.work / devices.slowest**3) + at_slowest, -np.inf),
            np.log(power + 2.0 * market.work / devices.fastest**3) + at_fastest,
        )

    @property
    def dearest(self) -> float:
        """The price from which on every CPU is at its fastest."""
        return float(min(np.max(self.spent), 1e3))

    def at(self, log_price: float, start: Floats) -> tuple[Floats, Floats]:
        """Spectral efficiencies at a price, and how the logarithm of the bandwidth falls with that of the price."""
        idle = log_price < self.idle
        fixed = (~idle & (log_price <= self.busy)) | (log_price >= self.spent)
        low, high = np.where(idle, 0.0, self.slowest), np.where(idle, self.slowest, self.fastest)
        low = np.where(log_price >= self.spent, self.fastest, low)
        high = np.where(fixed, low, high)
        s = np.where((start > low) & (start < high), start, np.where(high < 600.0, (low + high) / 2.0, low + 1.0))
        for _ in range(100):
            cost, slope, bend = self._log_cost(s, idle)
            gap = log_price - cost
            low, high = np.where(gap > 0.0, s, low), np.where(gap < 0.0, s, high)
            guess = s + gap / slope
            good = (guess >= low) & (guess <= high)
            change = np.where(good, np.abs(guess - s), high - low)
            s = np.where(good, guess, (low + high) / 2.0)
            if (fixed | (change <= np.where(good, 1e-6, 1e-12) * s)).all():      # Newton's next step is within 1e-12
                break
        s = np.where(fixed, high, s)
        return s, np.where(fixed, 0.0, bend / slope)

    def weight(self, log_price: float, s: Floats) -> tuple[float, float, float]:
        """What all devices would save by a longer round, in J/s; its derivative as the price follows; d ln mu / dT."""
        devices, power = self.market.devices, self.market.power
        idle = log_price < self.idle
        fixed = (~idle & (log_price <= self.busy)) | (log_price >= self.spent)
        _, slope, bend = self._log_cost(s, idle)
        value, value_slope, _ = _value(devices, s)
        upload = _upload(devices, s)
        left = np.maximum(self.round_s - upload, devices.fastest)
        haste = 2.0 * self.market.work / left**3
        by_price = np.where(fixed, 0.0, 1.0 / slope)                             # ds / d ln mu
        by_time = np.where(fixed, 1.0 / (upload * (bend - 1.0 / s)), 3.0 * haste / left / (power + haste) / slope)
        by_time = np.where(idle, 0.0, by_time)                                   # ds / dT at the same price
        shrink = _bandwidth(devices, s) * bend
        moving = float(np.dot(shrink, by_price))
        drift = -float(np.dot(shrink, by_time)) / moving if moving else math.nan       # d ln mu / dT
        gross = np.where(idle, 0.0, np.exp(log_price + value))                   # p + saved
        saved = np.where(idle, 0.0, np.maximum(gross - power, 0.0))
        change = np.where(saved > 0.0, gross * (drift + value_slope * (by_time + by_price * drift)), 0.0)
        return float(saved.sum()), float(change.sum()), drift

    def _log_cost(self, s: Floats, idle: Bools) -> tuple[Floats, Floats, Floats]:
        """The price at which a device would choose s, as a logarithm; its derivative; and -d ln b / ds."""
        value, value_slope, bend = _value(self.market.devices, s)
        upload = _upload(self.market.devices, s)
        left = np.maximum(self.round_s - upload, self.market.devices.fastest)
        haste = np.where(idle, 0.0, 2.0 * self.market.work / left**3)
        cost = self.market.power + haste
        stretch = (bend - 1.0 / s) * upload                                  # d upload / ds = u (v - 1)/s
        return np.log(cost) - value, 3.0 * haste / left * stretch / cost - value_slope, bend


def _upload(devices: InSeconds, s: Floats) -> Floats:
    """Upload time at a spectral efficiency."""
    return devices.limit * np.expm1(s) / s


def _bandwidth(devices: InSeconds, s: Floats) -> Floats:
    """Bandwidth at a spectral efficiency."""
    return devices.nats / (devices.limit * np.expm1(s))


def _value(devices: InSeconds, s: Floats) -> tuple[Floats, Floats, Floats]:
    """ln(-b'(u)), the bandwidth that a second more of upload saves; its derivative in s; and -d ln b/ds = v/s.

    With y = s/(e^s - 1) and v = s + y: b = z ln 2/(limit (e^s - 1)), u = limit/y, -b' = (b/u) v/(v - 1).
    """
    grown = np.expm1(s)
    y = s / grown
    v = s + y
    rest = v - 1.0
    value = np.log(devices.nats / (devices.limit * devices.limit)) + 2.0 * np.log(y) - np.log(s * rest / v)
    slope = -(v + rest) / s - (1.0 - y * rest / s) / (v * rest)
    return value, slope, v / s
