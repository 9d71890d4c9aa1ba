"""Shadow prices: derivatives of the shortest round with respect to bandwidth, budgets, CPU limits and powers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netsim.allocation.methods import METHODS
from netsim.allocation.normalized import NormalizedProblem
from netsim.allocation.plan import Plan
from netsim.allocation.problem import KEPT_BACK, Problem
from netsim.allocation.sao import Need
from netsim.base.registry import load
from netsim.base.tolerances import ROUNDING
from netsim.base.types import Floats, frozen
from netsim.physics import Shannon, rate_slope

KINK = 1e-10     # relative: nearer to the end of a CPU's range, a device is at the kink itself
ON_TIME = 1e-4   # relative to a deadline: `relax` raises budgets by a millionth too much, which may shorten a round
STEP = 1e-6      # relative step of finite differences


@dataclass(frozen=True, eq=False)
class ShadowPrices:
    """Derivatives of the round's length; negative where more of a resource shortens the round.

    At a kink they are right-hand derivatives (a little more of the resource). NaN where no device can use a longer
    round, inf where a little more leaves no plan. Arrays have shape (S,).

    Parameters
    ----------
    bandwidth_s_per_hz : float
        dT/dB.
    budget_s_per_j : array of float
        dT/de_n.
    cpu_max_s_per_hz, cpu_min_s_per_hz : array of float
        Derivatives with respect to the CPU limits.
    power_s_per_w : array of float
        With respect to the transmit power, or to its maximum for methods that choose the power.
    battery_s_per_j : array of float
        With respect to the charge of a battery, where that is below the budget.
    deadline_s_per_s : float
        1 if the round ends at its deadline, else 0.
    """

    bandwidth_s_per_hz: float
    budget_s_per_j: Floats
    cpu_max_s_per_hz: Floats
    cpu_min_s_per_hz: Floats
    power_s_per_w: Floats
    battery_s_per_j: Floats
    deadline_s_per_s: float = 0.0

    @classmethod
    def of(cls, bandwidth: float, *arrays: Floats) -> ShadowPrices:
        """Make arrays read-only, without negative zeros."""
        budget, fastest, slowest, power = (frozen(array + 0.0) for array in arrays)
        return cls(float(bandwidth), budget, fastest, slowest, power, battery_s_per_j=frozen(np.zeros(len(budget))))

    def within_limits(self, budget_j: Floats, charge_j: Floats, round_s: float, deadline_s: float) -> ShadowPrices:
        """Return the prices at a plan that is also limited by the charge of batteries and by a deadline.

        The scarcer of budget and battery has the price of energy; where both are equally scarce, neither alone has one.
        """
        most_j = charge_j * (1.0 - KEPT_BACK)
        of_budget, of_battery = budget_j < most_j * (1.0 - KINK), most_j < budget_j * (1.0 - KINK)
        return replace(
            self, budget_s_per_j=frozen(np.where(of_budget, self.budget_s_per_j, 0.0)),
            battery_s_per_j=frozen(np.where(of_battery, self.budget_s_per_j * (1.0 - KEPT_BACK), 0.0)),
            deadline_s_per_s=1.0 if round_s >= deadline_s * (1.0 - ON_TIME) else 0.0)


def prices_of(problem: Problem, plan: Plan, method: str = "sao") -> ShadowPrices | None:
    """Return the shadow prices at a method's plan.

    Parameters
    ----------
    problem : Problem
        Devices and band of one round.
    plan : Plan
        The method's plan for it.
    method : str
        Allocation method.

    Returns
    -------
    ShadowPrices or None
        None if the method has no prices, the link is not Shannon's, or a CPU has a table of power.
    """
    plain = type(problem.link) is Shannon and problem.cpu_power is None
    place = METHODS[method].prices if method in METHODS and plain else None
    found: ShadowPrices | None = load(place)(problem, plan) if place else None
    return found


@np.errstate(all="ignore")
def shadow_prices(problem: Problem, plan: Plan) -> ShadowPrices:
    """Return the prices at the plan of `sao`, by the implicit function theorem on sum b_n(T, limits of n) = B.

    Of each additional second of the round a device turns the part ``gained`` into upload, and of each additional second
    of sending that its budget covers the rest. With more power it needs less bandwidth for the same upload, b/p times
    the elasticity less 1, but its budget covers a shorter one. At the ends of a CPU's range these change: a resource
    that shortens the round uses the values of a shorter round.
    """
    need = Need.at(plan.round_s, NormalizedProblem.of(problem))
    shorter, longer = _sides(need)
    falls, rises = need.per_second * shorter, need.per_second * longer
    fall, rise = float(falls.sum()), float(rises.sum())
    if not fall > 0.0:                                                     # no device can use a longer round
        return ShadowPrices.of(np.nan, *(np.full(len(problem), np.nan) for _ in range(4)))
    devices, power = need.devices, problem.power_w
    at_most = need.crossing_s < devices.fastest * (1.0 - KINK)
    at_least = need.crossing_s >= devices.slowest * (1.0 - KINK)
    sooner = np.where(at_most, problem.cycles / np.square(problem.cpu_max_hz), 0.0)
    dearer = np.where(at_least, 2.0 * problem.compute_weight * problem.cpu_min_hz / power, 0.0)
    louder = need.bandwidth_hz / power * (1.0 - need.per_second * need.upload_s / need.bandwidth_hz * longer)
    own = np.where(louder < 0.0, fall - falls + rises, rise)
    return ShadowPrices.of(
        -1.0 / fall, -need.per_second * (1.0 - shorter) / power / fall, -need.per_second * sooner / fall,
        np.where(dearer > 0.0, need.per_second * dearer / rise, 0.0), louder / own)


def _sides(need: Need) -> tuple[Floats, Floats]:
    """Return the upload time gained per second of round, in a slightly shorter and a slightly longer round."""
    devices = need.devices
    quickest = np.abs(need.crossing_s / devices.fastest - 1.0) <= KINK
    slowest = np.abs(need.crossing_s / devices.slowest - 1.0) <= KINK
    between = 1.0 - need.delayed
    shorter = np.where(quickest, 1.0, np.where(slowest, between, need.gained))
    longer = np.where(slowest, 0.0, np.where(quickest, between, need.gained))
    return shorter, longer


@np.errstate(all="ignore")
def equal_prices(problem: Problem, plan: Plan) -> ShadowPrices:
    """Return the prices at the plan of `equal`: those of the last device; of several last ones, only the band's."""
    share, snr = plan.bandwidth_hz, problem.snr_hz
    rate = problem.bits / plan.upload_s
    slower = plan.cpu_hz < problem.cpu_max_hz * (1.0 - KINK)              # its budget holds the CPU back
    per_joule = np.where(slower, plan.compute_s / (2.0 * plan.compute_energy_j), 0.0)
    by_upload = 1.0 + problem.power_w * per_joule                         # an upload that is shorter also saves energy
    assert isinstance(problem.link, Shannon)
    capped, reached = np.log1p(snr / share) > problem.link.most_nats, problem.link.efficiency
    slope = np.where(capped, rate / share, reached * rate_slope(share, snr))
    per_band = -plan.upload_s * slope / rate / len(problem) * by_upload
    per_rate = np.where(capped, 0.0, reached * snr / problem.power_w / (1.0 + snr / share) / np.log(2.0) / rate)
    per_power = -plan.upload_s * per_rate * by_upload + plan.upload_s * per_joule
    per_clock = np.where(slower, 0.0, -plan.compute_s / problem.cpu_max_hz)
    total = plan.compute_s + plan.upload_s
    last = total >= plan.round_s * (1.0 - ROUNDING)
    alone = int(last.sum()) == 1

    def of_last(prices: Floats) -> Floats:
        return np.where(last, prices if alone else np.maximum(prices, 0.0), 0.0)

    return ShadowPrices.of(float(per_band[last].max()), of_last(-per_joule), of_last(per_clock), np.zeros(len(problem)),
                           of_last(per_power))


def common_power_prices(problem: Problem, plan: Plan) -> ShadowPrices:
    """Return the prices at the plan of `sao-common-power`: those of `sao` at its power, which itself has none."""
    prices = shadow_prices(problem.with_power(plan.power_w), plan)
    at_most = plan.power_w >= problem.power_range_w[1] * (1.0 - KINK)
    return replace(prices, power_s_per_w=frozen(np.where(at_most, np.minimum(prices.power_s_per_w, 0.0), 0.0)))


@np.errstate(all="ignore")
def joint_prices(problem: Problem, plan: Plan) -> ShadowPrices:
    """Return the prices at the plan of `sao-joint`, by finite differences of the bandwidth that each device needs."""
    from netsim.allocation.power import Devices

    def need(round_s: float = plan.round_s, **changed: Any) -> Floats:
        return Devices.of(replace(problem, **changed)).need(round_s).bandwidth_hz

    now = need()
    fall = float((need(plan.round_s * (1.0 - STEP)) - now).sum()) / (STEP * plan.round_s)

    def price(name: str, limit: Floats) -> Floats:
        more: Any = {name: limit * (1.0 + STEP)}
        found = (need(**more) - now) / (STEP * limit) / fall
        return np.where(np.abs(found) * limit > 1e-9 * plan.round_s, found, 0.0)       # the rest is rounding

    slowest = np.where(plan.cpu_hz <= problem.cpu_min_hz * (1.0 + KINK), 1.0, 0.0)
    room = np.maximum(problem.cpu_max_hz, problem.cpu_min_hz * (1.0 + STEP))
    faster = (need(cpu_min_hz=problem.cpu_min_hz * (1.0 + STEP), cpu_max_hz=room) - now) / STEP / problem.cpu_min_hz
    return ShadowPrices.of(-1.0 / fall, price("budget_j", problem.budget_j), price("cpu_max_hz", problem.cpu_max_hz),
                           slowest * faster / fall, price("power_max_w", problem.power_range_w[1]))


@dataclass(frozen=True)
class Saving:
    """Seconds that a change saves, from a second plan."""

    change: str
    seconds: float


def savings(problem: Problem, plan: Plan, prices: ShadowPrices, method: str, options: dict[str, Any]) -> list[Saving]:
    """Return the seconds saved by 1 MHz of band, and by 1 mJ and 100 MHz more for the device of the lowest price."""
    solve = METHODS.make(method, options)
    wider = replace(problem, bandwidth_hz=problem.bandwidth_hz + 1e6)
    found = [Saving("1 MHz more", plan.round_s - solve(wider).round_s)]
    for what, name, price, step in (("1 mJ more on", "budget_j", prices.budget_s_per_j, 1e-3),
                                    ("100 MHz more CPU on", "cpu_max_hz", prices.cpu_max_s_per_hz, 1e8)):
        best = int(np.argmin(price))
        if price[best] < 0.0:
            more = getattr(problem, name) + step * (np.arange(len(problem)) == best)
            round_s = solve(replace(problem, **{name: more})).round_s
            found.append(Saving(f"{what} {problem.called(best)}", plan.round_s - round_s))
    return found
