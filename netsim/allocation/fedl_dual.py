"""The dual problem of `fedl`: the devices' choice at a price of bandwidth, and the price that fills the band.

For a round of T seconds a device that uploads for a time u computes for T - u, so its bandwidth b(u) and its energy
p u + W/(T - u)^2 (W = G U^2) follow from u. At a price mu of bandwidth each device takes the u at which a second more
of upload costs as much energy as it saves bandwidth, p + 2 W/(T - u)^3 = -mu b'(u), the second term only while the CPU
is above its minimum. The price is right where the band is filled. A longer round would then save a device -mu b'(u) - p
joules a second, if that is positive, and T is right where this adds up to lambda.

Values that depend on T or on the price have a row for each of several T, so that many rounds cost little more than one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from netsim.allocation import sao
from netsim.allocation.normalized import NO_BUDGET_S, NormalizedProblem
from netsim.allocation.numerics import first_not_positive, root
from netsim.allocation.plan import Plan, fill, plan_for
from netsim.allocation.problem import Problem
from netsim.base.tolerances import AMPLE
from netsim.base.types import Bools, Floats, Ints
from netsim.physics import efficiency

ALIKE = 1e-9         # relative difference of rounds below which prices are compared instead
LEAST_PART = 1 / 512 # of the wanted weight: smaller ones would distort the search


class Balance(NamedTuple):
    """Price and spectral efficiencies at which the band is filled in rounds of these lengths, a row each."""

    rounds: Floats        # columns, but for nats
    nats: Floats          # s = ln(1 + J/b), which fixes a device's bandwidth and upload time
    log_price: Floats     # ln mu, mu in J/Hz
    weights: Floats       # J/s that all devices would save by a longer round: the lambda of this balance

    def rows(self, which: slice | Ints | Bools) -> Balance:
        return Balance(*(column[which] for column in self))

    def row(self, k: int) -> Balance:
        return self.rows(slice(k, k + 1))

    def then(self, other: Balance) -> Balance:
        """Return these rounds followed by others."""
        return Balance(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    # Values of the first round:

    @property
    def round_s(self) -> float:
        return float(self.rounds[0, 0])

    @property
    def weight(self) -> float:
        return float(self.weights[0, 0])

    def dearer_than(self, other: Balance) -> bool:
        return bool(self.log_price[0, 0] > other.log_price[0, 0])


@dataclass(frozen=True, eq=False)
class FedlDual:
    devices: NormalizedProblem
    power: Floats
    work: Floats          # W
    bandwidth_hz: float

    @classmethod
    def of(cls, problem: Problem) -> FedlDual:
        devices = NormalizedProblem.of(problem)._replace(budget=np.full(len(problem), NO_BUDGET_S))
        band_hz = min(problem.bandwidth_hz, AMPLE * float(problem.snr_hz.sum()))
        return cls(devices, problem.power_w, problem.compute_weight * np.square(problem.cycles), band_hz)

    @cached_property
    def soonest(self) -> float:
        """Round of an infinite weight, every CPU at its maximum; 1e-11 longer, so that a price exists."""
        with np.errstate(all="ignore"):
            bracket = sao.Bracket.of(self.devices, self.bandwidth_hz)
            shortest = sao.shortest_round(self.devices, self.bandwidth_hz, bracket).round_s
        if not shortest < NO_BUDGET_S / 2.0:
            raise ArithmeticError(f"no round is shorter than {NO_BUDGET_S:g} s")
        return shortest * (1.0 + 1e-11)

    @cached_property
    def cheapest(self) -> float:
        """Logarithm of a price at which one device alone would take the whole band."""
        nats = np.log1p(self.devices.nats / (self.devices.limit * self.bandwidth_hz))     # ln(1 + J/B)
        return float(np.max(np.log(self.power) - _value(self.devices, nats)[0])) - 1e-6

    @cached_property
    def idle(self) -> Balance:
        """Balance of weight 0, every CPU at its minimum."""
        at = self.balance(math.inf, self._start())
        end = float(np.max(self.devices.slowest + _upload(self.devices, at.nats)))
        return at._replace(rounds=np.array([[max(self.soonest, end)]]))

    def _start(self) -> Balance:
        """Return an initial guess: equal bandwidths, and the price at which the median device is indifferent."""
        nats = efficiency(self.devices.limit / self.devices.upload_time(self.bandwidth_hz / len(self.power)))
        log_price = float(np.median(np.log(self.power) - _value(self.devices, nats)[0]))
        return Balance(np.array([[math.nan]]), nats[None, :], np.array([[log_price]]), np.array([[0.0]]))

    def weighing(self, weight: float) -> Balance:
        """Return the balance for a weight, searched on weight^(-1/3), which is nearly linear in T.

        Each CPU that reaches its minimum adds a short steep segment. Such a segment may be nearly vertical, rounds of
        one length and many weights; there prices are searched.
        """
        if weight <= 0.0:
            return self.idle
        at = self._start()

        def too_short(round_s: float) -> float:
            nonlocal at
            at = self.balance(round_s, at)
            if not (at.weight >= 0.0 and round_s < math.inf):
                raise ArithmeticError(f"the round of weight {weight!r} did not settle")
            return 1.0 - math.pow(max(at.weight / weight, LEAST_PART), -1 / 3)

        high = 1.3 * self.soonest
        while too_short(high) > 0.0:
            high *= 2.0
        first_not_positive(too_short, self.soonest, high)            # ends with the balance of this round
        if at.round_s <= self.soonest or abs(at.weight - weight) <= 1e-10 * weight:
            return at
        return self._weighing_about(at, weight) or at

    def _weighing_about(self, at: Balance, weight: float) -> Balance | None:
        """Return the balance for a weight if its round equals this one but for the last digits."""
        low, high = self.about(at)
        if not (low.weight > weight > high.weight and low.dearer_than(high)):
            return None

        def over(log_price: float) -> float:
            return self.priced(log_price, low, high).weight - weight

        prices = float(high.log_price[0, 0]), float(low.log_price[0, 0])
        return self.priced(root(over, *prices), low, high) if over(prices[0]) < 0.0 < over(prices[1]) else None

    def about(self, at: Balance) -> tuple[Balance, Balance]:
        """Return the balances of a slightly shorter and a slightly longer round."""
        t = at.round_s
        return self.balance(max(t * (1.0 - ALIKE), self.soonest), at), self.balance(t * (1.0 + ALIKE), at)

    @np.errstate(all="ignore")
    def priced(self, log_price: float, low: Balance, high: Balance) -> Balance:
        """Return the balance at a price between those of two rounds: of the length in which it fills the band."""
        price = np.array([[log_price]])

        def taken(t: float) -> float:
            nats, _ = DeviceChoices.of(self, np.array([[t]])).at(price, low.nats)
            return math.log(float(_bandwidth(self.devices, nats).sum()) / self.bandwidth_hz)

        ends = [low.round_s, high.round_s]
        if taken(ends[0]) > 0.0 > taken(ends[1]):
            ends = [root(taken, *ends)]
        bids = DeviceChoices.of(self, np.array([[min(ends, key=lambda t: abs(taken(t)))]]))
        nats, _ = bids.at(price, low.nats)
        return Balance(bids.rounds, nats, price, bids.weight(price, nats))

    def compute_time(self, at: Balance) -> Floats:
        """Return the computing time that the round leaves, clipped to the CPU's range."""
        return self.devices.clip(at.rounds - _upload(self.devices, at.nats))

    def energy(self, at: Balance, nats: Floats | None = None) -> Floats:
        """Return the joules of each device, optionally at other spectral efficiencies and the same computing time."""
        upload_s = _upload(self.devices, at.nats if nats is None else nats)
        energy: Floats = self.power * upload_s + self.work / np.square(self.compute_time(at))
        return energy

    def plan(self, problem: Problem, at: Balance) -> Plan:
        """Return the plan at the balance of one round."""
        bandwidth_hz = fill(_bandwidth(self.devices, at.nats[0]), problem.bandwidth_hz)
        return plan_for(problem, bandwidth_hz, problem.cpu_for(self.compute_time(at)[0]))

    @np.errstate(all="ignore")
    def least_energy(self, shorter: Floats, at: Balance) -> Floats:
        """Return a lower bound on each device's energy in J in rounds between ``shorter`` and those of a balance.

        In a longer round bandwidth is wanted less, so its price falls with T. A device uploads for longer in a longer
        round and at a higher price, and computes for longer in a longer round and at a lower price. So between two
        rounds no upload is shorter than in the shorter round at the price of the longer, and no computing longer than
        in the longer round at its own price.
        """
        return self.energy(at, DeviceChoices.of(self, shorter).at(at.log_price, at.nats)[0])

    @np.errstate(all="ignore")
    def balance(self, rounds: float | Floats, start: Balance) -> Balance:
        """Return the price at which the devices fill the band in a round of T seconds, by Newton on its logarithm."""
        rounds = np.reshape(np.asarray(rounds, dtype=np.float64), (-1, 1))
        bids = DeviceChoices.of(self, rounds)
        low, high = np.full_like(rounds, self.cheapest), bids.dearest + 1.0
        log_price = np.clip(start.log_price, low, high)
        log_price = np.where(np.isnan(log_price), (low + high) / 2.0, log_price)          # no equal share is of use
        nats = start.nats
        for _ in range(200):
            nats, response = bids.at(log_price, nats)
            bandwidth_hz = _bandwidth(self.devices, nats)
            total = bandwidth_hz.sum(axis=1, keepdims=True)
            excess = np.log(total / self.bandwidth_hz)
            slope = -(bandwidth_hz * response).sum(axis=1, keepdims=True) / total           # d ln total / d ln price
            step = np.where(slope < 0.0, -excess / slope, np.nan)
            done = (np.abs(excess) <= 1e-13) | (high - low <= 1e-15 * np.abs(high)) | (
                np.abs(step) <= 4e-16 * np.abs(log_price))
            done |= (log_price >= bids.dearest) & (excess > 0.0)             # no price makes them take less
            done |= np.isnan(excess + log_price)                             # values too far apart
            if done.all():
                break
            low, high = np.where(excess > 0.0, log_price, low), np.where(excess > 0.0, high, log_price)
            guess = log_price + step
            guess = np.where((low < guess) & (guess < high), guess, (low + high) / 2.0)
            log_price = np.where(done, log_price, guess)
        return Balance(rounds, nats, log_price, bids.weight(log_price, nats))


@dataclass(frozen=True, eq=False)
class DeviceChoices:
    """Choices of the devices in a round of T seconds, by ranges of the logarithm of the price.

    Below ``idle`` a device keeps its CPU at its minimum and has time to spare; up to ``busy`` it stays at that point;
    then the CPU speeds up until, above ``spent``, it is at its maximum.
    """

    market: FedlDual
    rounds: Floats        # a column; the others have a row for each of its rounds
    slowest: Floats       # spectral efficiency that leaves the time to compute at cpu_min
    fastest: Floats       # ... at cpu_max
    idle: Floats
    busy: Floats
    spent: Floats

    @classmethod
    def of(cls, market: FedlDual, rounds: Floats) -> DeviceChoices:
        devices, power = market.devices, market.power
        slowest = efficiency(devices.limit / np.maximum(rounds - devices.slowest, devices.limit))
        fastest = efficiency(devices.limit / np.maximum(rounds - devices.fastest, devices.limit))
        at_slowest, at_fastest = -_value(devices, slowest)[0], -_value(devices, fastest)[0]
        reached = slowest > 0.0                  # else the round is too short for the slowest CPU
        return cls(
            market, rounds, slowest, fastest,
            np.where(reached, np.log(power) + at_slowest, -np.inf),
            np.where(reached, np.log(power + 2.0 * market.work / devices.slowest**3) + at_slowest, -np.inf),
            np.log(power + 2.0 * market.work / devices.fastest**3) + at_fastest,
        )

    @property
    def dearest(self) -> Floats:
        """Logarithm of the price above which every CPU is at its maximum."""
        return np.asarray(np.minimum(self.spent.max(axis=1, keepdims=True), 1e3))

    def at(self, log_price: Floats, start: Floats) -> tuple[Floats, Floats]:
        """Return spectral efficiencies at a price, and the elasticity of the bandwidth with respect to the price."""
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
            if (fixed | (change <= np.where(good, 1e-8, 1e-14) * s)).all():      # Newton's next step is within 1e-16
                break
        s = np.where(fixed, high, s)
        return s, np.where(fixed, 0.0, bend / slope)

    def weight(self, log_price: Floats, s: Floats) -> Floats:
        """Return the energy that all devices would save by a longer round, in J/s."""
        devices = self.market.devices
        idle = log_price < self.idle
        left = np.maximum(self.rounds - _upload(devices, s), devices.fastest)
        haste = 2.0 * self.market.work / left**3
        gross = np.exp(log_price + _value(devices, s)[0])                        # p + saved
        # a CPU within its range saves what its haste costs: the difference loses digits where that is little
        exact = (log_price > self.busy) & (log_price < self.spent) & (haste * self.rounds < gross * left)
        saved = np.where(idle, 0.0, np.where(exact, haste, np.maximum(gross - self.market.power, 0.0)))
        return np.asarray(saved.sum(axis=1, keepdims=True))

    def _log_cost(self, s: Floats, idle: Bools) -> tuple[Floats, Floats, Floats]:
        """Return the logarithm of the price at which a device would choose s, its derivative, and -d ln b / ds."""
        value, value_slope, bend = _value(self.market.devices, s)
        upload = _upload(self.market.devices, s)
        left = np.maximum(self.rounds - upload, self.market.devices.fastest)
        haste = np.where(idle, 0.0, 2.0 * self.market.work / left**3)
        cost = self.market.power + haste
        stretch = _rest(s, s / np.expm1(s)) / s * upload                     # d upload / ds = u (v - 1)/s
        return np.log(cost) - value, 3.0 * haste / left * stretch / cost - value_slope, bend


def _upload(devices: NormalizedProblem, s: Floats) -> Floats:
    """Return the upload time in seconds at a spectral efficiency."""
    return devices.limit * np.expm1(s) / s


def _bandwidth(devices: NormalizedProblem, s: Floats) -> Floats:
    """Return the bandwidth in Hz at a spectral efficiency."""
    return devices.nats / (devices.limit * np.expm1(s))


def _rest(s: Floats, y: Floats) -> Floats:
    """Return v - 1 = s + y - 1, by series where it cancels."""
    return np.where(s < 1e-2, s * (0.5 + s * (1 / 12 - s * s / 720)), s + y - 1.0)


def _value(devices: NormalizedProblem, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ln(-b'(u)), the bandwidth that a second more of upload saves; its derivative in s; and -d ln b/ds = v/s.

    With y = s/(e^s - 1) and v = s + y: b = z ln 2/(limit (e^s - 1)), u = limit/y, -b' = (b/u) v/(v - 1).
    """
    grown = np.expm1(s)
    y = s / grown
    v = s + y
    rest = _rest(s, y)
    value = np.log(devices.nats / (devices.limit * devices.limit)) + 2.0 * np.log(y) - np.log(s * rest / v)
    slope = -(v + rest) / s - (1.0 - y * rest / s) / (v * rest)
    return value, slope, v / s
