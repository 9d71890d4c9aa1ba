"""What to do when a cohort has no feasible plan: who takes part, and in which waves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from netsim.allocation import METHODS, Infeasible, Plan, Problem
from netsim.allocation.diagnosis import alone_scaling, budget_scaling, ends_by, largest_feasible, listing
from netsim.allocation.methods import check_plan
from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError, YourCodeError
from netsim.base.units import format

MOST_SCALING = 1e9   # of budgets, before another obstacle must be at work


@dataclass(frozen=True, eq=False)
class Wave:
    """Devices that share the band at the same time, with the problem that they pose and its plan."""

    devices: Ints
    problem: Problem
    plan: Plan


@dataclass(frozen=True, eq=False)
class Agenda:
    """A round's waves, one after the other, and the devices that no plan could be found for."""

    waves: tuple[Wave, ...]
    dropped: Ints
    relaxed: float = 1.0          # the factor on all budgets

    @property
    def devices(self) -> Ints:
        """All devices that take part."""
        return np.concatenate([wave.devices for wave in self.waves]) if self.waves else np.zeros(0, np.int64)


class Before(Protocol):
    """What a job takes before the work that a plan is about, for devices with these channels: a download."""

    def seconds(self, gain: Floats) -> Floats: ...

    def joules(self, gain: Floats) -> Floats: ...


@dataclass(frozen=True)
class Planner:
    """An allocation method bound to a cell, and told what holds there besides the budgets."""

    problem: Callable[[Ints], Problem]            # the problem of these devices
    allocate: Callable[[Problem], Plan]           # within the deadline; raises Infeasible
    largest: Callable[[Problem], Ints]            # positions of the largest part that has a plan
    charge_j: Callable[[Ints], Floats] | None = None      # what their batteries hold; None: all on mains
    before: Before | None = None                  # what comes before the work that is planned

    def posed(self, devices: Ints, factor: float = 1.0) -> Problem:
        """The problem of these devices with so many times their budgets, and no more than their batteries hold."""
        problem = self.problem(devices)
        spent_j = None if self.before is None else self.before.joules(problem.gain)
        if self.charge_j is None and factor == 1.0 and spent_j is None:
            return problem
        charge_j = np.array(np.inf) if self.charge_j is None else self.charge_j(devices)
        return problem.with_energy(charge_j, factor, spent_j)

    def one_wave(self, devices: Ints) -> Agenda:
        """Everybody at once; raises Infeasible."""
        problem = self.posed(devices)
        return Agenda((Wave(devices, problem, self.allocate(problem)),), np.zeros(0, np.int64))

    def largest_part(self, devices: Ints) -> Agenda:
        """As many as fit; the rest is left out."""
        kept = devices[np.sort(self.largest(self.posed(devices)))]
        dropped = np.setdiff1d(devices, kept)
        return Agenda(self.one_wave(kept).waves if len(kept) else (), dropped)

    def in_waves(self, devices: Ints, size: int) -> Agenda:
        """Groups of ``size`` one after the other; where a group does not fit, what fits of it, then the rest."""
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
                    dropped.append(part.dropped)      # not even one of them fits alone
        return Agenda(tuple(waves), np.concatenate(dropped) if dropped else np.zeros(0, np.int64))

    def relaxed(self, devices: Ints, size: int) -> Agenda:
        """Everybody at once, with all budgets raised by the least factor with which the method has a plan.

        Where no factor helps, since it is not the budgets that stand in the way but batteries, clocks or the band, the
        largest part that some factor does help.
        """
        def plan_with(factor: float) -> Wave | None:
            raised = self.posed(devices, factor)
            try:
                return Wave(devices, raised, self.allocate(raised))
            except Infeasible:
                return None

        # what a device needs alone is the least that any method needs, and what `sao` needs the least with fixed bands;
        # a hair more, so that rounding does not undo it
        problem = self.problem(devices)
        low = high = alone_scaling(problem) * (1 + 1e-9)
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
        return Agenda((wave,), np.zeros(0, np.int64), relaxed=high)

    def agenda(self, devices: Ints, rule: str, size: int) -> Agenda:
        """Everybody at once if that has a plan, else by the scenario's rule.

        ``rule`` is "largest" (the largest part that fits), "waves", "relax" (raised budgets) or "error".
        """
        if not len(devices):
            return Agenda((), devices)
        try:
            return self.one_wave(devices)
        except Infeasible as reason:
            if rule == "error":
                raise InputError(
                    "infeasible", "rounds.infeasible", f"a cohort without a feasible plan: {reason}", "",
                    "Raise the budgets or the bandwidth, shrink selection.cohort, or set rounds.infeasible to "
                    '"largest", "waves" or "relax"') from None
        if rule == "waves":
            return self.in_waves(devices, size)
        return self.relaxed(devices, size) if rule == "relax" else self.largest_part(devices)


class MakePlanner(Protocol):
    """Binds a method to a cell."""

    def __call__(
        self, problem: Callable[[Ints], Problem], charge_j: Callable[[Ints], Floats] | None = None,
        before: Before | None = None, /,
    ) -> Planner: ...


def planner_of(method: str, options: Mapping[str, Any], within_s: float | None = None) -> MakePlanner:
    """A planner by an allocation method, once it is known how a cell poses problems; the method is made once.

    ``within_s`` is the deadline of a wave: a plan that takes longer is none.
    """
    solve = METHODS.make(method, options)
    own = method not in METHODS
    deadline_s = math.inf if within_s is None else float(within_s)

    def by_its_author(problem: Problem) -> Plan:
        try:
            plan: Plan = solve(problem)
        except (Infeasible, InputError):
            raise
        except Exception as error:
            raise YourCodeError.of(f"allocation {method}", error) from None
        check_plan(plan, problem, method)
        return plan

    def planned(problem: Problem, before: Before | None = None) -> Plan:
        plan: Plan = by_its_author(problem) if own else solve(problem)
        if within_s is None:
            return plan
        before_s = 0.0 if before is None else before.seconds(problem.gain)
        late = ~ends_by(plan, deadline_s - before_s)
        if late.any():
            raise Infeasible(np.flatnonzero(late), f"{listing(problem, np.flatnonzero(late))}: done after "
                             f"{format(plan.round_s + float(np.max(before_s)), 'time')}, and the deadline is "
                             f"{format(deadline_s, 'time')}")
        return plan

    def bound(
        problem: Callable[[Ints], Problem], charge_j: Callable[[Ints], Floats] | None = None,
        before: Before | None = None, /,
    ) -> Planner:
        largest = partial(largest_feasible, method=method, within_s=deadline_s,
                          before_s=None if before is None else before.seconds, **options)
        return Planner(problem, partial(planned, before=before), largest, charge_j, before)

    return bound
