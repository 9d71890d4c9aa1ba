"""What stands in the way of a plan: whose budget, how much bandwidth is missing, who fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.allocation.extremes import first_not_positive
from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.methods import METHODS
from netsim.allocation.plan import Infeasible, Plan, plan_for
from netsim.allocation.problem import Problem
from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.counts import counted
from netsim.base.registry import load
from netsim.base.tolerances import ROUNDING
from netsim.base.units import format, short_up
from netsim.physics import best_hz

MOST_PARTS = 16       # of a cohort, by their channels, that are tried
BeforeIt = Callable[[Floats], Floats]      # seconds that go before there is anything to plan, by the channels' gains
LEAST_GROWTH = 1e-6   # per cent: less would be lost in the rounding of a budget


@dataclass(frozen=True, eq=False)
class Obstacles:
    """Why no plan keeps every budget, and the least change of one kind that would let one; read-only arrays."""

    need_hz: Floats             # the least bandwidth with which a device can keep its budget; inf: none is enough
    least_energy_j: Floats      # the least energy a device can spend with the whole band to itself
    hopeless: Bools             # devices that even the whole band does not help
    extra_bandwidth_hz: float   # how much more the cell needs for all; inf where no bandwidth is enough
    budget_scaling: float       # the factor on every budget that lets all take part
    cohort: Ints                # the largest part of the cohort that fits

    @property
    def in_the_way(self) -> Ints:
        """The devices without which the rest fits."""
        return np.setdiff1d(np.arange(len(self.need_hz)), self.cohort)


@np.errstate(all="ignore")
def obstacles(problem: Problem) -> Obstacles:
    """Everything that a user needs to see to mend an infeasible problem."""
    need = InSeconds.of(problem).least_bandwidth()
    order = np.argsort(need, kind="stable")
    fits = int(np.searchsorted(np.cumsum(need[order]), problem.bandwidth_hz, side="right"))
    return Obstacles(
        need_hz=need, least_energy_j=least_energy(problem, problem.bandwidth_hz), hopeless=need > problem.bandwidth_hz,
        extra_bandwidth_hz=max(0.0, float(need.sum()) - problem.bandwidth_hz),
        budget_scaling=budget_scaling(problem), cohort=np.sort(order[:fits]),
    )


def require_feasible(problem: Problem, devices: InSeconds) -> None:
    """Raise :class:`Infeasible` exactly when no plan keeps every budget: all least needs together exceed the band."""
    if not devices.least_bandwidth().sum() <= problem.bandwidth_hz:
        found = obstacles(problem)
        blamed = np.flatnonzero(found.hopeless) if found.hopeless.any() else found.in_the_way
        raise Infeasible(blamed, explain(problem, found))


def explain(problem: Problem, found: Obstacles) -> str:
    """The obstacles in a sentence or three; remedies are rounded up, so that they suffice when they are typed in."""
    if found.hopeless.any():
        first = too_dear_alone(problem, found.least_energy_j, found.hopeless)
    else:
        first = (f"{listing(problem, found.in_the_way)}: to keep every budget the cell needs "
                 f"{format(float(found.need_hz.sum()), 'frequency', up=True)}, it has "
                 f"{format(problem.bandwidth_hz, 'frequency')}")
    more, part = found.budget_scaling, f"{len(found.cohort)} of {counted(len(problem), 'device')}"
    if math.isinf(more):
        return f"{first}; the largest part of the cohort that fits has {part}"
    growth = (f"were {short_up(more)} times as large" if more >= 2.0
              else f"grew by {short_up(max(100.0 * (more - 1.0), LEAST_GROWTH), 3)} %")
    return (f"{first}; the largest part of the cohort that fits has {part}; "
            f"all fit if every budget {growth}")


def too_dear_alone(problem: Problem, least_j: Floats, dear: Bools) -> str:
    """The sentence for devices that even the whole band does not help."""
    band = format(problem.bandwidth_hz, "frequency")
    return f"{too_dear(problem, least_j, dear)}, even with the whole band of {band}"


def too_dear(problem: Problem, least_j: Floats, dear: Bools) -> str:
    """``devices 3, 7: budget below the least possible energy (device 7: 15 mJ against 17.2 mJ)``."""
    who = np.flatnonzero(dear)
    worst = int(who[np.argmax(least_j[who] / problem.budget_j[who])])
    budget, least = float(problem.budget_j[worst]), float(least_j[worst])
    digits = next((d for d in range(4, 17) if format(budget, "energy", d) != format(least, "energy", d)), 17)
    against = f"{format(budget, 'energy', digits)} against {format(least, 'energy', digits)}"
    return f"{listing(problem, who)}: budget below the least possible energy ({problem.called(worst)}: {against})"


@np.errstate(all="ignore")
def budget_scaling(problem: Problem) -> float:
    """The least factor on all budgets that makes the problem feasible; below 1 where there is room to spare.

    With an equal share of the band some device sets a factor that is enough; with the whole band each sets one that is
    necessary. The need falls with the factor, so there is one root between.
    """
    devices = InSeconds.of(problem)

    def missing(factor: float) -> float:
        scaled = devices._replace(budget=problem.budget_j * factor / problem.power_w)
        return 1.0 - problem.bandwidth_hz / float(scaled.least_bandwidth().sum())

    least = alone_scaling(problem)
    enough = float(np.max(least_energy(problem, problem.bandwidth_hz / len(problem)) / problem.budget_j))
    try:
        return first_not_positive(missing, least, enough)
    except (ArithmeticError, ValueError):                # no factor that floating point can hold
        return math.inf


def alone_scaling(problem: Problem) -> float:
    """The least factor on all budgets with which every device could take part if it had the whole band to itself."""
    return float(np.max(least_energy(problem, problem.bandwidth_hz) / problem.budget_j))


@np.errstate(all="ignore")
def largest_feasible(
    problem: Problem, method: str = "sao", *, within_s: float = math.inf, before_s: BeforeIt | None = None,
    **options: Any,
) -> Ints:
    """Positions of the largest part of the cohort that the method has a plan for, in rising order; perhaps none.

    ``within_s`` is how long its round may take. Devices are taken by rising least bandwidth (:class:`InSeconds`) in
    such a round, as many as the method accepts: for `sao` and `equal` no other choice has more. A method that does not
    care for budgets may have more that are in time in its plan for all; one that knows at once, or chooses by itself
    (`rra`), is asked whom it keeps. ``before_s`` says how long it takes, by the gains of those who take part, until
    there is anything to plan: then some parts of the cohort with the best channels are tried so, one after the other.
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
    """Devices, or those with the best channels, in the order in which they are taken."""
    devices = InSeconds.of(problem)
    if before_s is None or within_s == math.inf:
        yield np.argsort(devices.least_bandwidth(within_s), kind="stable")
        return
    best = np.argsort(-problem.gain, kind="stable")
    for count in np.unique(np.linspace(len(best), 1, MOST_PARTS).astype(int))[::-1].tolist():
        left_s = within_s - float(before_s(problem.gain[best[:count]]).max())
        if left_s > 0.0:
            need_hz = devices.least_bandwidth(left_s)[best[:count]]
            yield best[:count][np.argsort(need_hz, kind="stable")]


def in_time(
    solver: Callable[[Problem], Plan], problem: Problem, within_s: float, before_s: BeforeIt | None = None,
) -> Bools:
    """Who keeps a deadline by the method's plan for all of them; nobody where it has none."""
    try:
        plan = solver(problem)
    except Infeasible:
        return np.zeros(len(problem), bool)
    return ends_by(plan, within_s if before_s is None else within_s - before_s(problem.gain))


def ends_by(plan: Plan, within_s: float | Floats) -> Bools:
    """Who keeps a deadline; who ends right on it does."""
    return plan.compute_s + plan.upload_s <= within_s * (1.0 + ROUNDING)


def listing(problem: Problem, positions: Ints, most: int = 8) -> str:
    """``device 3``, ``devices 3, 7``, ``devices phone 0, phone 1, … and 90 more``."""
    rest = f" and {len(positions) - most} more" if len(positions) > most else ""
    called = problem.name if problem.names is None else problem.called
    shown = ", ".join(str(called(n)) for n in positions[:most])
    return f"device{'s' if len(positions) > 1 else ''} {shown}{rest}"


def least_energy(problem: Problem, bandwidth_hz: float) -> Floats:
    """What a device spends with this bandwidth, or the part of it that carries most, and its CPU at its slowest."""
    hertz = best_hz(problem.link, bandwidth_hz, problem.snr_hz)
    return plan_for(problem, hertz, problem.cpu_min_hz).device_energy_j
