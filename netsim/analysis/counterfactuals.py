"""Counterfactual changes of a round: one limit of a device, the bandwidth, the cohort, the allocation method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from netsim.allocation import Infeasible, Problem
from netsim.allocation.sensitivities import ShadowPrices, prices_of
from netsim.analysis.replay import DEAR, MOST_DEAR, RoundReplays, RoundStart, SimulatedRound
from netsim.base import units
from netsim.base.errors import InputError
from netsim.base.types import Bools, Floats
from netsim.cell.schedulers import SCHEDULERS

WITHOUT, CPU, BUDGET, POWER, BAND, METHOD = "without", "cpu_max", "budget", "power", "bandwidth", "method"
BATTERY, DEADLINE = "battery", "deadline"          # limits that can bind, but have no what-if
RAISED = (CPU, BUDGET, POWER)                      # limits of a device that a change can raise
LIMITS = {CPU: ("cpu_max_hz", "frequency", "maximum CPU frequency"), BUDGET: ("budget_j", "energy", "energy budget"),
          POWER: ("power_w", "power", "transmit power"), BAND: ("bandwidth_hz", "frequency", "the bandwidth")}
CHOOSE_POWER = frozenset({"sao-joint", "sao-common-power", "algorithm6"})      # methods that choose the power
# The largest values that are proposed: the fastest cores of phones and laptops stay below 5 GHz; 26 dBm is the power
# class 2 of 3GPP TS 38.101-1, rounded up so that twice 23 dBm (class 3) is part of it; ten times an energy budget.
REALISTIC = {CPU: 5e9, POWER: 0.4}
MOST_TIMES = 10.0
FREE = 1e3           # factor on a limit that stands for no limit
BEYOND = 1e-6        # relative: a limit that would have to be raised by less does not bind


@dataclass(frozen=True)
class Change:
    """One change: ``factor`` times a limit of a device or of the cell, another method, or one device removed."""

    key: str
    device: int | None = None
    factor: float | None = None
    method: str | None = None          # another allocation method
    sharing: str | None = None         # another scheduler
    smallest_sufficient: bool = False         # raised to the value from which it no longer binds

    def problem(self, problem: Problem, own_method: str) -> Problem:
        """Return the round's problem with the change; ``own_method`` is the allocation method that will plan it."""
        factor, at = self.factor or 1.0, _at(problem, self.device)
        if self.key == WITHOUT:
            return problem.subset(~at)
        if self.key == BAND:
            return replace(problem, bandwidth_hz=problem.bandwidth_hz * factor)
        if self.key not in RAISED:
            return problem
        now = _limits(problem, self.key, own_method)
        more: Any = np.where(at, now * factor, now)
        if self.key != POWER:
            return replace(problem, **{LIMITS[self.key][0]: more})
        if own_method in CHOOSE_POWER:
            return replace(problem, power_max_w=more)
        gain = problem.gain * now / more if getattr(problem.link, "measured", False) else problem.gain
        return replace(problem, power_w=more, power_max_w=np.maximum(problem.power_range_w[1], more), gain=gain)

    def words(self, names: dict[int, str], now: float | None) -> str:
        """Return the change as the subject of a sentence; ``now`` is the current limit in SI units.

        Examples: "doubling phone 3's energy budget (to 20 mJ)", "leaving out phone 3", "allocation method tdma".
        """
        whose = f"{names[self.device]}'s " if self.device is not None else ""
        if self.key == METHOD:
            return f"allocation method {self.method}" if self.method else f"scheduler {self.sharing}"
        if self.key == WITHOUT or now is None or self.factor is None:
            return f"leaving out {names[self.device or 0]}"
        _, dimension, what = LIMITS[self.key]
        much = units.format(now * self.factor, dimension)
        if self.smallest_sufficient:
            return f"raising {whose}{what} to {much}, where it no longer binds"
        if self.factor == 2.0:
            return f"doubling {whose}{what} (to {much})"
        by = f"times {self.factor:g}" if self.factor > 2.0 else f"+{100 * (self.factor - 1):.3g} %"
        return f"raising {whose}{what} to {much} ({by})"


def _limits(problem: Problem, key: str, method: str) -> Floats:
    """Return the limit of each device, in SI units, shape (N,).

    The limit on power is the given power; for methods that choose the power, the maximum of its range.
    """
    found: Floats = (problem.power_range_w[1] if key == POWER and method in CHOOSE_POWER else
                     getattr(problem, LIMITS[key][0]))
    return found


def realistic_factor(key: str, now: float | None) -> float:
    """Return the largest realistic factor on a limit that is ``now`` (SI units); at least 1."""
    return max(1.0, REALISTIC[key] / now) if key in REALISTIC and now else MOST_TIMES


def limit_now(problem: Problem, change: Change, method: str) -> float | None:
    """Return the current value of the limit that a change raises; None if it raises no limit of the problem."""
    if change.key == BAND:
        return problem.bandwidth_hz
    if change.key not in RAISED:
        return None
    return float(_limits(problem, change.key, method)[_at(problem, change.device)][0])


def changes_of_cell(replays: RoundReplays, most_cost: float) -> Iterator[Change]:
    """Yield more bandwidth, other allocation methods up to a cost in plans of `sao`, and other schedulers."""
    for factor in (1.1, 2.0):
        yield Change(BAND, factor=factor)
    for method in replays.other_methods:
        if DEAR.get(method, 1) <= most_cost:
            yield Change(METHOD, method=method)
    for sharing in SCHEDULERS:
        if sharing != replays.sharing:
            yield Change(METHOD, sharing=sharing)


def raised_limits(device: int, limit: Callable[[Change], float | None]) -> Iterator[Change]:
    """Yield each limit of a device, doubled as far as that is realistic; ``limit`` returns its current value."""
    for key in RAISED:
        factor = min(2.0, realistic_factor(key, limit(Change(key, device))))
        if factor > 1.0 + BEYOND:
            yield Change(key, device, factor)


@dataclass(frozen=True, eq=False)
class WhatIfAnalysis(RoundStart):
    """The changes of one round, each simulated from the state in which the round began."""

    _known: dict[Change, float | None] = field(default_factory=dict, init=False)      # seconds that changes save

    def limit(self, change: Change) -> float | None:
        """Return the current value of the limit that a change raises; None if it raises none."""
        if change.key == BATTERY:
            return float(self.charge_j[_at(self.problem, change.device)][0])
        return limit_now(self.problem, change, self.method)

    def words(self, change: Change) -> str:
        return change.words(self.replays.names, self.limit(change))

    def concerns(self, change: Change) -> bool:
        """Return True if a change is one of the cell, or of a device of the cohort."""
        return change.device is None or bool(_at(self.problem, change.device).any())

    def played(self, change: Change) -> SimulatedRound | None:
        """Return the round with the change; None without a plan.

        Another method must also deliver every device that arrived, and exceed no budget that was kept.
        """
        if change.key == WITHOUT and len(self.problem) == 1:
            return None
        there = self if change.key != BATTERY else replace(
            self, charge_j=np.where(_at(self.problem, change.device), change.factor or 1.0, 1.0) * self.charge_j)
        try:
            found = there.play(change.problem(self.problem, self.method), change.method, change.sharing)
        except (Infeasible, InputError):
            return None
        if change.key == METHOD:
            arrived, over_budget = self.recorded
            if not found.over_budget <= over_budget or not found.arrived >= arrived:
                return None
        return found

    def saves(self, change: Change) -> float | None:
        """Return the seconds by which a change shortens the round; None without a plan."""
        if self._cannot_help(change):
            return 0.0
        if change not in self._known:
            found = self.played(change)
            self._known[change] = None if found is None else self.round_s - found.round_s
        return self._known[change]

    def prices(self) -> list[ShadowPrices | None]:
        """Return the sensitivities of each wave; None for methods without them, and if rounds do not follow the plan.

        Energy has the sensitivity of the smaller limit, budget or battery.
        """
        whole, found = self.problem, []
        for wave in self.was.agenda.waves:
            prices = prices_of(wave.problem, wave.plan, self.method) if self.replays.engine.as_planned else None
            if prices is not None:
                own_j = whole.budget_j[np.searchsorted(np.asarray(whole.numbers), wave.devices)]
                prices = prices.within_limits(own_j * self.was.agenda.relaxed, self.charge_of(wave.devices),
                                              wave.plan.round_s, self.deadline_s)
            found.append(prices)
        return found

    def _cannot_help(self, change: Change) -> bool:
        """Return True if raising the limit cannot help: the plan is optimal and does not reach the limit."""
        if change.key not in (CPU, BUDGET) or self.method not in ("sao", "equal") or not self.replays.engine.as_planned:
            return False
        found = None if change.device is None else self.was.place(change.device)
        if found is None or len(found[0].devices) < len(self.problem) or self.was.agenda.relaxed != 1.0:
            return False            # the feasible part and the relaxed budgets depend on all devices
        wave, n = found
        if change.key == CPU:
            return bool(wave.plan.cpu_hz[n] < wave.problem.cpu_max_hz[n] * (1 - BEYOND))
        return bool(wave.plan.device_energy_j[n] < wave.problem.budget_j[n] * (1 - BEYOND))

    def candidates(self) -> list[int]:
        """Return the devices whose changes are simulated: a small cohort, or the devices with the largest prices."""
        numbers: list[int] = np.asarray(self.problem.numbers).tolist()
        most = self.replays.most_devices(len(numbers))
        if len(numbers) <= most:
            return numbers
        jobs = self.replays.jobs[self.number]
        weight: dict[int, float] = dict(zip(jobs["device"], jobs["t1"] - jobs["t0"], strict=True))
        for wave, prices in zip(self.was.agenda.waves, self.prices(), strict=True):
            if prices:
                weight.update(zip(wave.devices.tolist(), _worth(wave.problem, prices).tolist(), strict=True))
        return sorted(sorted(numbers, key=lambda device: -weight[device])[:most])

    def standing(self) -> Iterator[Change]:
        """Yield the changes that are tried in every round."""
        yield from changes_of_cell(self.replays, MOST_DEAR / len(self.problem))
        for device in self.candidates():
            yield Change(WITHOUT, device)
            yield from raised_limits(device, self.limit)

    def most_factor(self, key: str, device: int | None) -> float:
        """Return the largest realistic factor on a limit; at least 1."""
        return realistic_factor(key, self.limit(Change(key, device)))

    def smallest_sufficient(self, key: str, device: int) -> Change | None:
        """Return the change that raises a limit to the value from which it no longer binds.

        Where that value is not realistic, return the change to the largest realistic value; None if it is not more than
        twice the limit.
        """
        free = Change(key, device, FREE)
        found = self.played(free)
        place = None if found is None else found.place(device)
        if place is None:
            return None
        wave, n = place
        used = float(wave.plan.cpu_hz[n] if key == CPU else wave.plan.device_energy_j[n])
        factor = used / (self.limit(free) or used)
        most = self.most_factor(key, device)
        if factor > most:
            return Change(key, device, most) if most > 2.0 else None
        return Change(key, device, factor, smallest_sufficient=True) if factor > 1 + BEYOND else None


def _worth(problem: Problem, prices: ShadowPrices) -> Floats:
    """Return the seconds per relative increase of all limits of each device, shape (N,)."""
    energy = prices.budget_s_per_j + prices.battery_s_per_j
    budget_j = np.where(energy < 0.0, problem.budget_j, 0.0)      # inf without a budget, which has no price
    found: Floats = np.nan_to_num(
        np.maximum(-prices.cpu_max_s_per_hz * problem.cpu_max_hz, 0.0)
        + np.maximum(-energy * budget_j, 0.0) + np.abs(prices.power_s_per_w * problem.power_w))
    return found


def _at(problem: Problem, device: int | None) -> Bools:
    return np.asarray(problem.numbers == device)
