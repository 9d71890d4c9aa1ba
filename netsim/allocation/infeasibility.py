"""Infeasible problems: the devices whose budgets are too small, the missing bandwidth, the largest feasible cohort."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.allocation.methods import METHODS
from netsim.allocation.normalized import NO_BUDGET_S, NormalizedProblem
from netsim.allocation.numerics import first_not_positive
from netsim.allocation.plan import Infeasible, Plan, plan_for
from netsim.allocation.problem import Problem
from netsim.base.pluralize import pluralize
from netsim.base.registry import load
from netsim.base.tolerances import ROUNDING
from netsim.base.types import Bools, Floats, Ints
from netsim.base.units import format, short_up
from netsim.physics import best_hz

MOST_PARTS = 16       # sizes of a cohort, ordered by channel gain, that are tried
BeforeIt = Callable[[Floats, Ints | None], Floats]      # seconds before the work, for gains and device numbers
LEAST_GROWTH = 1e-6   # per cent: less would be lost in the rounding of a budget


@dataclass(frozen=True, eq=False)
class Infeasibility:
    """Reasons why no plan keeps every budget, and the smallest single changes that would help; read-only arrays.

    Parameters
    ----------
    need_hz : array of float, shape (S,)
        Least bandwidth in Hz with which a device keeps its budget; inf if none is enough.
    least_energy_j : array of float, shape (S,)
        Least energy in J of a device that has the whole band.
    hopeless : array of bool, shape (S,)
        Devices that cannot keep their budget even with the whole band.
    extra_bandwidth_hz : float
        Additional bandwidth in Hz with which all devices keep their budgets; inf if none is enough.
    budget_scaling : float
        Factor on every budget with which all devices take part.
    cohort : array of int
        Positions of the largest part of the cohort that is feasible.
    """

    need_hz: Floats
    least_energy_j: Floats
    hopeless: Bools
    extra_bandwidth_hz: float
    budget_scaling: float
    cohort: Ints

    @property
    def blocking_devices(self) -> Ints:
        """Positions of the devices without which the rest is feasible."""
        return np.setdiff1d(np.arange(len(self.need_hz)), self.cohort)


@np.errstate(all="ignore")
def find_infeasibility(problem: Problem) -> Infeasibility:
    """Diagnose an infeasible problem.

    Parameters
    ----------
    problem : Problem
        Devices and band of one round.

    Returns
    -------
    Infeasibility
        Missing bandwidth, factor on the budgets, and the largest feasible cohort.
    """
    need = NormalizedProblem.of(problem).least_bandwidth()
    order = np.argsort(need, kind="stable")
    fits = int(np.searchsorted(np.cumsum(need[order]), problem.bandwidth_hz, side="right"))
    return Infeasibility(
        need_hz=need, least_energy_j=least_energy(problem, problem.bandwidth_hz), hopeless=need > problem.bandwidth_hz,
        extra_bandwidth_hz=max(0.0, float(need.sum()) - problem.bandwidth_hz),
        budget_scaling=budget_scaling(problem), cohort=np.sort(order[:fits]),
    )


def require_feasible(problem: Problem, devices: NormalizedProblem) -> None:
    """Raise :class:`Infeasible` if and only if the least bandwidths of all devices exceed the band together."""
    if not devices.least_bandwidth().sum() <= problem.bandwidth_hz:
        found = find_infeasibility(problem)
        blamed = np.flatnonzero(found.hopeless) if found.hopeless.any() else found.blocking_devices
        raise Infeasible(blamed, explain(problem, found))


def explain(problem: Problem, found: Infeasibility) -> str:
    """Return the reasons in up to three sentences; remedies are rounded up, so that they suffice when typed in."""
    if found.hopeless.any():
        first = over_budget_with_whole_band(problem, found.least_energy_j, found.hopeless)
    else:
        first = (f"{listing(problem, found.blocking_devices)}: to keep every budget the cell needs "
                 f"{format(float(found.need_hz.sum()), 'frequency', up=True)}, it has "
                 f"{format(problem.bandwidth_hz, 'frequency')}")
    more, part = found.budget_scaling, f"{len(found.cohort)} of {pluralize(len(problem), 'device')}"
    if math.isinf(more):
        return f"{first}; the largest part of the cohort that fits has {part}"
    growth = (f"were {short_up(more)} times as large" if more >= 2.0
              else f"grew by {short_up(max(100.0 * (more - 1.0), LEAST_GROWTH), 3)} %")
    return (f"{first}; the largest part of the cohort that fits has {part}; "
            f"all fit if every budget {growth}")


def over_budget_with_whole_band(problem: Problem, least_j: Floats, dear: Bools) -> str:
    """Return the sentence on devices that cannot keep their budget even with the whole band."""
    band = format(problem.bandwidth_hz, "frequency")
    return f"{over_budget(problem, least_j, dear)}, even with the whole band of {band}"


def over_budget(problem: Problem, least_j: Floats, dear: Bools) -> str:
    """Return ``devices 3, 7: budget below the least possible energy (device 7: 15 mJ against 17.2 mJ)``."""
    who = np.flatnonzero(dear)
    worst = int(who[np.argmax(least_j[who] / problem.budget_j[who])])
    budget, least = float(problem.budget_j[worst]), float(least_j[worst])
    digits = next((d for d in range(4, 17) if format(budget, "energy", d) != format(least, "energy", d)), 17)
    against = f"{format(budget, 'energy', digits)} against {format(least, 'energy', digits)}"
    return f"{listing(problem, who)}: budget below the least possible energy ({problem.called(worst)}: {against})"


@np.errstate(all="ignore")
def budget_scaling(problem: Problem) -> float:
    """Return the least factor on all budgets that makes the problem feasible.

    With equal bandwidths, the worst device gives an upper bound of the factor; with the whole band for each, a lower
    one. The bandwidth needed decreases with the factor, so there is one root between.

    Parameters
    ----------
    problem : Problem
        Devices and band of one round.

    Returns
    -------
    float
        Factor; below 1 if the budgets have room to spare, inf if no factor helps.
    """
    devices = NormalizedProblem.of(problem)

    def missing(factor: float) -> float:
        scaled = devices._replace(budget=np.minimum(problem.budget_j * factor / problem.power_w, NO_BUDGET_S))
        return 1.0 - problem.bandwidth_hz / float(scaled.least_bandwidth().sum())

    least = single_device_scaling(problem)
    enough = float(np.max(least_energy(problem, problem.bandwidth_hz / len(problem)) / problem.budget_j))
    try:
        return first_not_positive(missing, least, enough)
    except (ArithmeticError, ValueError):                # no factor that floating point can hold
        return math.inf


def single_device_scaling(problem: Problem) -> float:
    """Return the least factor on all budgets with which each device could take part if it had the whole band."""
    return float(np.max(least_energy(problem, problem.bandwidth_hz) / problem.budget_j))


@np.errstate(all="ignore")
def largest_feasible(
    problem: Problem, method: str = "sao", *, within_s: float = math.inf, before_s: BeforeIt | None = None,
    **options: Any,
) -> Ints:
    """Return the largest part of the cohort for which a method has a plan.

    Devices are taken in ascending order of the least bandwidth that they need, as many as the method
    accepts; for `sao` and `equal` no other choice has more. Under a deadline, the devices that meet it in the
    method's plan for all are tried too. Methods that choose devices themselves (`rra`, `tdma`) return their own choice.

    Parameters
    ----------
    problem : Problem
        Devices and band of one round.
    method : str
        Allocation method.
    within_s : float
        Deadline of the round in seconds.
    before_s : callable, optional
        Returns the seconds before the planned work starts (a download) for gains and device numbers. The devices with
        the best channels are then tried in up to 16 cohort sizes.
    **options : Any
        Options of the method.

    Returns
    -------
    array of int
        Positions in ascending order; may be empty.
    """
    solver = METHODS.make(method, options)

    def accepts(some: Ints) -> bool:
        return len(some) > 0 and bool(in_time(solver, problem.subset(np.sort(some)), within_s, before_s).all())

    own = METHODS[method].keeps if method in METHODS else None
    if own:
        kept: Ints = load(own)(problem, **METHODS.options(method, options))
        if within_s == math.inf or accepts(kept):
            return kept
    largest: Ints = np.zeros(0, np.int64)
    for order in _orders(problem, within_s, before_s):
        fits, fails = len(largest), len(order) + 1
        if fits and not accepts(order[:fits + 1]):
            continue
        while fails - fits > 1:
            middle = (fits + fails) // 2
            fits, fails = (middle, fails) if accepts(order[:middle]) else (fits, middle)
        largest = order[:fits] if fits > len(largest) else largest
    if within_s < math.inf:
        punctual = np.flatnonzero(in_time(solver, problem, within_s, before_s))
        if len(punctual) > len(largest) and accepts(punctual):
            return punctual
    return np.sort(largest)


def _orders(problem: Problem, within_s: float, before_s: BeforeIt | None) -> Iterator[Ints]:
    """Yield devices, or those with the best channels, in the order in which they are taken."""
    devices = NormalizedProblem.of(problem)
    if before_s is None or within_s == math.inf:
        yield np.argsort(devices.least_bandwidth(within_s), kind="stable")
        return
    best = np.argsort(-problem.gain, kind="stable")
    for count in np.unique(np.linspace(len(best), 1, MOST_PARTS).astype(int))[::-1].tolist():
        numbers = None if problem.numbers is None else problem.numbers[best[:count]]
        left_s = within_s - float(before_s(problem.gain[best[:count]], numbers).max())
        if left_s > 0.0:
            need_hz = devices.least_bandwidth(left_s)[best[:count]]
            yield best[:count][np.argsort(need_hz, kind="stable")]


def in_time(
    solver: Callable[[Problem], Plan], problem: Problem, within_s: float, before_s: BeforeIt | None = None,
) -> Bools:
    """Return a mask of the devices that meet a deadline in the method's plan for all; all False without a plan."""
    try:
        plan = solver(problem)
    except Infeasible:
        return np.zeros(len(problem), bool)
    return ends_by(plan, within_s if before_s is None else within_s - before_s(problem.gain, problem.numbers))


def ends_by(plan: Plan, within_s: float | Floats) -> Bools:
    """Return a mask of the devices that end by a deadline, inclusive."""
    return plan.compute_s + plan.upload_s <= within_s * (1.0 + ROUNDING)


def listing(problem: Problem, positions: Ints, most: int = 8) -> str:
    """Return ``device 3``, ``devices 3, 7``, or ``devices phone 0, phone 1, ... and 90 more``."""
    rest = f" and {len(positions) - most} more" if len(positions) > most else ""
    called = problem.name if problem.names is None else problem.called
    shown = ", ".join(str(called(n)) for n in positions[:most])
    return f"device{'s' if len(positions) > 1 else ''} {shown}{rest}"


def least_energy(problem: Problem, bandwidth_hz: float) -> Floats:
    """Return each device's energy in J at its lowest CPU frequency, with the best bandwidth up to this limit."""
    hertz = best_hz(problem.link, bandwidth_hz, problem.snr_hz)
    return plan_for(problem, hertz, problem.cpu_min_hz).device_energy_j
