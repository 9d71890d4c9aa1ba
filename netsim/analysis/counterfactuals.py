"""Counterfactual changes of a round: one limit of a device, the bandwidth, the cohort, the allocation method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from netsim.allocation import Infeasible, Problem
from netsim.allocation.sensitivities import ShadowPrices, prices_of
from netsim.analysis.replay import DEAR, MOST_DEAR, RoundReplays, SimulatedRound, fingerprint
from netsim.base import units
from netsim.base.errors import InputError
from netsim.base.tolerances import CONSTRAINT
from netsim.base.types import Bools, Floats, Ints
from netsim.cell.schedulers import SCHEDULERS
from netsim.trace.schema import ARRIVED

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
AGREES = 1e-6        # seconds, or relative for rounds over 1 s: largest accepted difference between replay and trace


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


@dataclass(frozen=True, eq=False)
class WhatIfAnalysis:
    """One round with the state in which it began; simulates it again, unchanged or with a change."""

    replays: RoundReplays
    number: int
    problem: Problem              # of the whole cohort: devices by rising number, with their own budgets
    charge_j: Floats              # charge of each battery when the round began; inf on mains
    deadline_s: float             # of a wave; inf without a deadline
    _known: dict[Change, float | None] = field(default_factory=dict, init=False)      # seconds that changes save

    @classmethod
    def of(cls, replays: RoundReplays, number: int) -> WhatIfAnalysis:
        """Return the round of this number."""
        jobs = replays.jobs_of(number)
        who, cell = jobs["device"].to_numpy(), replays.engine.begin(number)
        problem = cell.problem(who)
        if replays.run.app is not None:             # a Flower app sets the work and the upload size of its clients
            problem = replace(problem, bits=jobs["bits"].to_numpy(), cycles=jobs["cycles"].to_numpy())
        within_s = replays.scenario.rounds.deadline
        deadline_s = math.inf if within_s is None else float(within_s)
        return cls(replays, number, problem, cell.batteries.level_j(who), deadline_s)

    def play(self, problem: Problem | None = None, method: str | None = None,
             sharing: str | None = None) -> SimulatedRound:
        """Simulate the round with this problem, method and scheduler.

        Raises InputError if it has no plan and ``rounds.infeasible_policy`` makes that an error.
        """
        posed, hurried = self.problem if problem is None else problem, self.deadline_s < math.inf
        known, engine = self.replays.waves_of(self.number), self.replays.engine
        if not self._in_independent_waves:
            return self._play(posed, method, sharing)
        agenda = engine.plan(self.number, posed, self.charge_of(np.asarray(posed.numbers)),
                             self.replays.planner(method or self.method, hurried=hurried))
        if len(agenda.waves) < 2:
            return self._play(posed, method, sharing)
        numbers, played = np.asarray(posed.numbers), []
        for wave in agenda.waves:
            part = posed.subset(np.searchsorted(numbers, wave.devices))
            key = method, sharing, hurried, fingerprint(part), self.charge_of(wave.devices).tobytes()
            if key not in known:
                known[key] = self._play(part, method, sharing)
            played.append(known[key])
        return SimulatedRound.of_waves(agenda, played)

    def _play(self, problem: Problem, method: str | None, sharing: str | None) -> SimulatedRound:
        hurried = self.deadline_s < math.inf
        found = self.replays.engine.play(
            self.number, problem, self.charge_of(np.asarray(problem.numbers)),
            self.replays.planner(method or self.method, hurried=hurried),
            SCHEDULERS.make(sharing or self.replays.sharing, {}), hurried=hurried)
        return SimulatedRound.of(found, self.deadline_s)

    @cached_property
    def _in_independent_waves(self) -> bool:
        """True if a round of several waves is the sum of its waves: equal waves are then played once."""
        return (self.replays.engine.waves_independent
                and self.replays.jobs[self.number].filter(pl.col("cpu_hz").is_not_nan())["t0"].n_unique() > 1)

    def charge_of(self, devices: Ints) -> Floats:
        """Return the charge in J of the batteries of some devices when the round began."""
        return self.charge_j[np.searchsorted(np.asarray(self.problem.numbers), devices)]

    @cached_property
    def was(self) -> SimulatedRound:
        """The round without a change; raises InputError if its duration differs from the trace."""
        known = self.replays.engine.unchanged(self.number)
        played = self.play() if known is None else SimulatedRound.of(known, self.deadline_s)
        if abs(played.round_s - self.round_s) > AGREES * max(1.0, self.round_s):
            raise InputError(
                "other-version", f"round {self.number}", f"{self.round_s:.6g} s",
                f"{played.round_s:.6g} s, as it takes now",
                "Another version of netsim or of its methods wrote the run, so it cannot be explained")
        return played

    @property
    def round_s(self) -> float:
        """Duration of the round in the trace."""
        return self.replays.lengths[self.number]

    @property
    def method(self) -> str:
        return self.replays.method

    def limit(self, change: Change) -> float | None:
        """Return the current value of the limit that a change raises; None if it raises none."""
        if change.key == BATTERY:
            return float(self.charge_j[_at(self.problem, change.device)][0])
        return limit_now(self.problem, change, self.method)

    def words(self, change: Change) -> str:
        return change.words(self.replays.names, self.limit(change))

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
            arrived, over_budget = self._recorded
            if not found.over_budget <= over_budget or not found.arrived >= arrived:
                return None
        return found

    @cached_property
    def _recorded(self) -> tuple[frozenset[int], frozenset[int]]:
        """Devices that arrived, and devices that exceeded their budget, in the trace."""
        jobs = self.replays.jobs[self.number]
        over = jobs.filter(pl.col("energy_j") > pl.col("budget_j") * (1 + CONSTRAINT))
        arrived = jobs.filter(pl.col("outcome") == ARRIVED)
        return frozenset(arrived["device"].to_list()), frozenset(over["device"].to_list())

    def saves(self, change: Change) -> float | None:
        """Return the seconds by which a change shortens the round; None without a plan."""
        if self._cannot_help(change):
            return 0.0
        if change not in self._known:
            found = self.played(change)
            self._known[change] = None if found is None else self.round_s - found.round_s
        return self._known[change]

    def left_out_by_deadline(self) -> frozenset[int]:
        """Return the devices without a plan that have one without the deadline."""
        out = self.was.agenda.dropped
        if not len(out) or self.deadline_s == math.inf:
            return frozenset()
        return frozenset(out.tolist()) & frozenset(self.without_deadline.agenda.devices.tolist())

    @cached_property
    def without_deadline(self) -> SimulatedRound:
        """The round without the deadline."""
        return replace(self, deadline_s=math.inf).play()

    def prices(self) -> list[ShadowPrices | None]:
        """Return the sensitivities of each wave; None for methods without them, and if rounds do not follow the plan.

        Energy has the sensitivity of the smaller limit, budget or battery.
        """
        whole, found = self.problem, []
        for wave in self.was.agenda.waves:
            prices = prices_of(wave.problem, wave.plan, self.method) if self.replays.as_planned else None
            if prices is not None:
                own_j = whole.budget_j[np.searchsorted(np.asarray(whole.numbers), wave.devices)]
                prices = prices.within_limits(own_j * self.was.agenda.relaxed, self.charge_of(wave.devices),
                                              wave.plan.round_s, self.deadline_s)
            found.append(prices)
        return found

    def _cannot_help(self, change: Change) -> bool:
        """Return True if raising the limit cannot help: the plan is optimal and does not reach the limit."""
        if change.key not in (CPU, BUDGET) or self.method not in ("sao", "equal") or not self.replays.as_planned:
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
        for factor in (1.1, 2.0):
            yield Change(BAND, factor=factor)
        for method in self.replays.other_methods:
            if DEAR.get(method, 1) * len(self.problem) <= MOST_DEAR:
                yield Change(METHOD, method=method)
        for sharing in SCHEDULERS:
            if sharing != self.replays.sharing:
                yield Change(METHOD, sharing=sharing)
        for device in self.candidates():
            yield Change(WITHOUT, device)
            for key in RAISED:
                factor = min(2.0, self.most_factor(key, device))
                if factor > 1.0 + BEYOND:
                    yield Change(key, device, factor)

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
