"""`rra`: radio resource allocation for a deadline, which selects devices by their energy and divides the band.

Each device computes at cpu_max and sends at just the power that ends its upload at the deadline. With T_k seconds left
to upload, a share g of the band and a part x of the device taken, that costs (g B T_k N0 / h)(2^(x z / (g B T_k)) - 1)
joules. The method minimises cost less a reward of ``weight`` joules for each device, x relaxed to [0, 1], then rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import lambertw

from netsim.allocation import sao
from netsim.allocation.infeasibility import largest_feasible, listing
from netsim.allocation.numerics import root, within_floats
from netsim.allocation.plan import Infeasible, Plan, fill, plan_for
from netsim.allocation.problem import Problem
from netsim.base.fields import Joules, Seconds, key
from netsim.base.types import Bools, Floats, Ints, frozen
from netsim.base.units import format
from netsim.physics import LN2, Shannon

NOTHING = 1e-9       # a smaller part of a device counts as 0
MOST_NATS = 700.0    # nats a symbol at an equal share beyond which the energy leaves the floating-point range

Deadline = Annotated[Seconds | None, key('a time, such as "300 ms"; by default the shortest possible round')]
Reward = Annotated[Joules, key('an energy, such as "1 mJ": what a device is worth; by default any')]


@dataclass(frozen=True, eq=False)
class Shares:
    """The relaxed optimum and its rounded selection; read-only arrays with one entry for each device."""

    beta: Floats          # how much of a device is taken, in [0, 1]
    selected: Bools       # beta >= 1/2
    gamma: Floats         # shares of the band among those selected; 0 for the others
    objective: float      # joules less rewards at the relaxed optimum


@within_floats
def solve(problem: Problem, deadline: Deadline = None, weight: Reward = math.inf) -> Plan:
    """Return the plan with which all devices meet the deadline at the least sending energy.

    ``deadline`` is in seconds; None is the shortest possible round, that of `sao`. :class:`Infeasible` names devices
    that the method excludes (no time left to upload, or not worth ``weight`` joules each). Budgets and power ranges are
    no constraints here.
    """
    round_s = sao.solve(problem).round_s if deadline is None else deadline
    shares = rra_shares(problem, round_s, weight)
    left = _time_left(problem, round_s)
    if deadline is None and (left <= 0.0).any():       # though `sao` has a plan
        raise ArithmeticError("uploads are shorter than the rounding of the round")
    if not shares.selected.all():
        out = np.flatnonzero(~shares.selected)
        why = (f"no time to upload before the deadline of {format(round_s, 'time')}" if (left[out] <= 0.0).any()
               else f"not worth {format(weight, 'energy')} each at a deadline of {format(round_s, 'time')}")
        raise Infeasible(out, f"{listing(problem, out)}: left out by rra, {why}")
    bandwidth_hz = fill(shares.gamma, problem.bandwidth_hz)
    nats = _to_send(problem) / (bandwidth_hz * left)
    power_w = problem.noise_w_per_hz * bandwidth_hz / problem.gain * np.expm1(nats)
    return plan_for(problem, bandwidth_hz, problem.cpu_max_hz, power_w)


def kept(problem: Problem, deadline: Deadline = None, weight: Reward = math.inf) -> Ints:
    """Return the devices that the method keeps; with the deadline of `sao`, those that `sao` can serve."""
    if deadline is None:
        return largest_feasible(problem, "sao")
    return np.flatnonzero(rra_shares(problem, deadline, weight).selected)


@within_floats
def rra_shares(problem: Problem, deadline_s: float, weight: float) -> Shares:
    """Return the exact optimum of the relaxed problem.

    Cost and need of a device are proportional to the part of it that is taken, so at a price nu of the band it is taken
    whole or not at all, depending on whether nu is below the price nu_k that it can pay. A lower nu admits more devices
    and gives each more, so one price fills the band; a device that exactly pays it may be taken in part.
    """
    full, scale, reach = _terms(problem, deadline_s)
    nats = _worthwhile(problem, weight)
    payable = np.where(reach & (nats > 0.0), np.inf, 0.0)          # nu_k: where its marginal cost is the weight
    finite = (payable > 0.0) & (nats < MOST_NATS)
    payable[finite] = scale[finite] * _ratio(nats[finite])
    beta = _taken(full, scale, payable)
    shares = _shares(full, scale, beta)
    selected = beta >= 0.5
    return Shares(
        beta=frozen(beta), selected=frozen(selected, dtype=np.bool_),
        gamma=frozen(_shares(full, scale, selected.astype(np.float64))),
        objective=_cost(full, scale, beta, shares) - (weight * float(beta.sum()) if beta.any() else 0.0),
    )


def _taken(full: Floats, scale: Floats, payable: Floats) -> Floats:
    """Return how much of each device is taken at the price of the band that fills it, given the price that it pays."""
    beta = np.zeros(len(payable))
    prices = np.unique(payable[payable > 0.0])
    first, last = 0, len(prices)                         # the first price at which devices that pay more fit the band
    while first < last:
        middle = (first + last) // 2
        if math.isinf(prices[middle]) or _demand(full, scale, payable > prices[middle], prices[middle]) <= 1.0:
            last = middle
        else:
            first = middle + 1
    if len(prices):
        beta[payable > prices[first]] = 1.0
        tied = payable == prices[first]
        beta[tied] = 1.0
        if math.isfinite(prices[first]):
            richer = _demand(full, scale, payable > prices[first], prices[first])
            beta[tied] = min(1.0, (1.0 - richer) / _demand(full, scale, tied, prices[first]))
    return beta


def rra_alternation(problem: Problem, deadline_s: float, weight: float, beta: Floats) -> Floats:
    """Perform one iteration of the published algorithm: best shares for these parts, then best parts for those."""
    full, scale, reach = _terms(problem, deadline_s)
    gamma = _shares(full, scale, np.where(reach, beta, 0.0))
    return np.clip(gamma / full * _worthwhile(problem, weight), 0.0, 1.0)


def _worthwhile(problem: Problem, weight: float) -> Floats:
    """Return the nats per symbol at which a device's marginal cost is ``weight`` joules; inf without a limit."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.log(weight * problem.gain / (problem.noise_w_per_hz * _to_send(problem))))


def _to_send(problem: Problem) -> Floats:
    """Return the nats to send: z ln 2 over the efficiency of the link."""
    assert isinstance(problem.link, Shannon)
    return problem.bits * (LN2 / problem.link.efficiency)


def _time_left(problem: Problem, deadline_s: float) -> Floats:
    """Return T_k, the seconds to upload after computing at cpu_max."""
    return deadline_s - problem.cycles / problem.cpu_max_hz


def _terms(problem: Problem, deadline_s: float) -> tuple[Floats, Floats, Bools]:
    """Return nats per symbol with the whole band, z ln2 / (B T_k); its joules, B T_k N0 / h; and the mask in time."""
    left = _time_left(problem, deadline_s)
    whole = problem.bandwidth_hz * np.where(left > 0.0, left, 1.0)
    full = _to_send(problem) / whole
    reach = (left > 0.0) & (full * len(problem) < MOST_NATS)
    return full, whole * problem.noise_w_per_hz / problem.gain, reach


def _ratio(nats: Floats) -> Floats:
    """Return e^a (a - 1) + 1, the saving of a device by more band in units of its ``scale``; by series near 0."""
    series = nats * nats * (1 / 2 + nats * (1 / 3 + nats * (1 / 8 + nats / 30)))
    return np.where(nats < 1e-3, series, nats * np.exp(nats) - np.expm1(nats))


def _nats(ratio: Floats) -> Floats:
    """Invert :func:`_ratio`: 1 + W_0((ratio - 1)/e), polished by Newton away from the branch point of W."""
    q = np.sqrt(2.0 * ratio)
    near = q * (1.0 - q * (1 / 3 - q * (11 / 72 - q * (43 / 540 - q * 769 / 17280))))
    a = np.where(q < 1e-2, near, 1.0 + lambertw((ratio - 1.0) / math.e).real)
    return np.where(q < 1e-2, a, a - (_ratio(a) - ratio) / (a * np.exp(a)))


def _demand(full: Floats, scale: Floats, who: Bools, price: float) -> float:
    """Return the share of the band that these devices, taken whole, want at a price."""
    return float(np.sum(full[who] / _nats(price / scale[who])))


def _shares(full: Floats, scale: Floats, beta: Floats) -> Floats:
    """Return the shares, which sum to 1, at which these parts cost least: beta full / a(nu) for the one price nu."""
    gamma = np.zeros(len(beta))
    on = beta > NOTHING
    if not on.any():
        return gamma
    need, scale = full[on] * beta[on], scale[on]
    equal = np.minimum(need * len(need), MOST_NATS)                # nats a symbol at an equal share
    log_price = np.log(scale) + np.log(_ratio(equal))              # enough for some, too much for others

    def excess(x: float) -> float:
        return math.log(np.sum(need / _nats(np.exp(x) / scale)))       # nearly a straight line

    low, high = float(log_price.min()) - 1e-9, float(log_price.max()) + 1e-9
    gamma[on] = need / _nats(math.exp(root(excess, low, high)) / scale)
    gamma /= gamma.sum()
    return gamma


def _cost(full: Floats, scale: Floats, beta: Floats, gamma: Floats) -> float:
    """Return the joules to send these parts with these shares."""
    on = beta > NOTHING
    return float(np.sum(scale[on] * gamma[on] * np.expm1(full[on] * beta[on] / gamma[on])))
