"""Plan a round: one wave if the cohort is feasible, else a part of it, several waves, or relaxed budgets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from netsim.allocation import METHODS, Infeasible, Plan, Problem
from netsim.allocation.infeasibility import budget_scaling, ends_by, largest_feasible, listing, single_device_scaling
from netsim.allocation.methods import check_plan
from netsim.base.errors import InputError, UserCodeError
from netsim.base.types import Floats, Ints
from netsim.base.units import format

MOST_SCALING = 1e9   # factor on budgets beyond which the budgets are not the limit


@dataclass(frozen=True, eq=False)
class Wave:
    """Devices that share the band at the same time, with their problem and its plan."""

    devices: Ints
    problem: Problem
    plan: Plan


@dataclass(frozen=True, eq=False)
class RoundPlan:
    """The waves of a round, in order, and the devices without a feasible plan."""

    waves: tuple[Wave, ...]
    dropped: Ints
    relaxed: float = 1.0          # the factor on all budgets

    @property
    def devices(self) -> Ints:
        """All devices that take part."""
        return np.concatenate([wave.devices for wave in self.waves]) if self.waves else np.zeros(0, np.int64)


class Preparation(Protocol):
    """Seconds and joules that a job takes before the planned work (a download), for gains and device numbers."""

    def seconds(self, gain: Floats, devices: Ints | None) -> Floats: ...

    def joules(self, gain: Floats, devices: Ints | None) -> Floats: ...


@dataclass(frozen=True)
class Planner:
    """An allocation method bound to a cell, with its deadline, batteries and downloads."""

    problem: Callable[[Ints], Problem]            # returns the problem of these devices
    allocate: Callable[[Problem], Plan]           # within the deadline; raises Infeasible
    largest: Callable[[Problem], Ints]            # positions of the largest part that has a plan
    charge_j: Callable[[Ints], Floats] | None = None      # charge of their batteries; None: all on mains
    before: Preparation | None = None                  # download before the planned work

    def posed(self, devices: Ints, factor: float = 1.0) -> Problem:
        """Return the problem of these devices, budgets times ``factor``, limited by their batteries."""
        problem = self.problem(devices)
        spent_j = None if self.before is None else self.before.joules(problem.gain, problem.numbers)
        if self.charge_j is None and factor == 1.0 and spent_j is None:
            return problem
        charge_j = np.array(np.inf) if self.charge_j is None else self.charge_j(devices)
        return problem.with_energy(charge_j, factor, spent_j)

    def one_wave(self, devices: Ints) -> RoundPlan:
        """Plan all devices in one wave; raise Infeasible if there is no plan."""
        problem = self.posed(devices)
        return RoundPlan((Wave(devices, problem, self.allocate(problem)),), np.zeros(0, np.int64))

    def largest_part(self, devices: Ints) -> RoundPlan:
        """Plan the largest feasible part of the devices and drop the rest.

        The budgets of the part may exceed those in the whole: downloads to fewer devices are shorter. If a heuristic
        then misses the deadline, look for a part of that part.
        """
        kept = devices
        while len(kept):
            asked, kept = len(kept), kept[np.sort(self.largest(self.posed(kept)))]
            try:
                return RoundPlan(self.one_wave(kept).waves if len(kept) else (), np.setdiff1d(devices, kept))
            except Infeasible:
                if len(kept) == asked:      # a method of a user that answers now so, now otherwise
                    break
        return RoundPlan((), devices)

    def in_waves(self, devices: Ints, size: int) -> RoundPlan:
        """Plan groups of ``size`` in sequence; of an infeasible group, its largest feasible part, then the rest."""
        waves: list[Wave] = []
        dropped: list[Ints] = []
        groups = [devices[i:i + size] for i in range(0, len(devices), size)]
        while groups:
            group = groups.pop(0)
            try:
                waves.extend(self.one_wave(group).waves)
            except Infeasible:
                part = self.largest_part(group)
                waves.extend(part.waves)
                if part.waves and len(part.dropped):
                    groups.insert(0, part.dropped)
                else:
                    dropped.append(part.dropped)      # not feasible even alone
        return RoundPlan(tuple(waves), np.concatenate(dropped) if dropped else np.zeros(0, np.int64))

    def relaxed(self, devices: Ints, size: int) -> RoundPlan:
        """Plan all devices in one wave, with all budgets raised by the least factor with which the method has a plan.

        If no factor helps, because batteries, CPUs or the band are the limit, plan the largest part that a factor
        helps.
        """
        def plan_with(factor: float) -> Wave | None:
            raised = self.posed(devices, factor)
            try:
                return Wave(devices, raised, self.allocate(raised))
            except Infeasible:
                return None

        # the factor of a device alone is the least for any method, that of `sao` the least with fixed bandwidths;
        # a billionth more, against rounding
        problem = self.problem(devices)
        if np.isinf(problem.budget_j).all():
            return self.largest_part(devices)      # no budget to raise
        low = high = single_device_scaling(problem) * (1 + 1e-9)
        wave = plan_with(high)
        if wave is None or wave.plan.over_budget.any():
            low = high = budget_scaling(problem) * (1 + 1e-9)
            wave = plan_with(high)
        while wave is None and high < MOST_SCALING:
            low, high = high, 2 * high
            wave = plan_with(high)
        if wave is None:
            kept = devices[np.sort(self.largest(self.posed(devices, MOST_SCALING)))]
            part = self.agenda(kept, "relax", size) if len(kept) < len(devices) else self.largest_part(devices)
            return replace(part, dropped=np.setdiff1d(devices, part.devices))
        while high / low > 1 + 1e-6:
            middle = (low * high) ** 0.5
            closer = plan_with(middle)
            low, high, wave = (middle, high, wave) if closer is None else (low, middle, closer)
        return RoundPlan((wave,), np.zeros(0, np.int64), relaxed=high)

    def agenda(self, devices: Ints, rule: str, size: int) -> RoundPlan:
        """Plan all devices in one wave if that is feasible, else by the scenario's rule.

        ``rule`` is "largest" (the largest part that fits), "waves", "relax" (raised budgets) or "error".
        """
        if not len(devices):
            return RoundPlan((), devices)
        try:
            return self.one_wave(devices)
        except Infeasible as reason:
            if rule == "error":
                raise InputError(
                    "infeasible", "rounds.infeasible_policy", f"a cohort without a feasible plan: {reason}", "",
                    "Raise the budgets or the bandwidth, shrink selection.cohort, or set rounds.infeasible_policy to "
                    '"largest", "waves" or "relax"') from None
        if rule == "waves":
            return self.in_waves(devices, size)
        return self.relaxed(devices, size) if rule == "relax" else self.largest_part(devices)


class PlannerFactory(Protocol):
    """Function that binds a method to a cell."""

    def __call__(
        self, problem: Callable[[Ints], Problem], charge_j: Callable[[Ints], Floats] | None = None,
        before: Preparation | None = None, /,
    ) -> Planner: ...


def planner_of(method: str, options: Mapping[str, Any], within_s: float | None = None) -> PlannerFactory:
    """Return a function that binds a method to a cell; a plan longer than ``within_s`` seconds is infeasible."""
    solve = METHODS.make(method, options)
    if method not in METHODS:
        solve = partial(_by_its_author, method, solve)
    deadline_s = math.inf if within_s is None else float(within_s)

    def planned(problem: Problem, before: Preparation | None = None) -> Plan:
        plan: Plan = solve(problem)
        if within_s is not None:
            before_s = 0.0 if before is None else before.seconds(problem.gain, problem.numbers)
            _require_in_time(plan, problem, before_s, deadline_s)
        return plan

    def bound(
        problem: Callable[[Ints], Problem], charge_j: Callable[[Ints], Floats] | None = None,
        before: Preparation | None = None, /,
    ) -> Planner:
        largest = partial(largest_feasible, method=method, within_s=deadline_s,
                          before_s=None if before is None else before.seconds, **options)
        return Planner(problem, partial(planned, before=before), largest, charge_j, before)

    return bound


def _by_its_author(method: str, solve: Callable[[Problem], Plan], problem: Problem) -> Plan:
    """Return the plan of a user's method, checked; another exception than Infeasible becomes a UserCodeError."""
    try:
        plan = solve(problem)
    except (Infeasible, InputError):
        raise
    except Exception as error:
        raise UserCodeError.of(f"allocation {method}", error) from None
    check_plan(plan, problem, method)
    return plan


def _require_in_time(plan: Plan, problem: Problem, before_s: float | Floats, deadline_s: float) -> None:
    late = np.flatnonzero(~ends_by(plan, deadline_s - before_s))
    if late.size:
        raise Infeasible(late, f"{listing(problem, late)}: done after "
                         f"{format(plan.round_s + float(np.max(before_s)), 'time')}, and the deadline is "
                         f"{format(deadline_s, 'time')}")
