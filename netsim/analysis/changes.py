"""What could have been otherwise in a round: changes of one limit, of the band, of the cohort, of the method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from netsim.allocation import Infeasible, Problem
from netsim.allocation.prices import Prices, prices_of
from netsim.allocation.waves import Wave, planner_of
from netsim.analysis.replay import Played, Replay, Replays
from netsim.base import units
from netsim.base.arrays import Bools, Floats
from netsim.base.errors import InputError
from netsim.base.tolerances import CONSTRAINT
from netsim.cell.schedulers import SCHEDULERS
from netsim.trace.schema import ARRIVED

WITHOUT, CPU, BUDGET, POWER, BAND, METHOD = "without", "cpu_max", "budget", "power", "bandwidth", "method"
BATTERY, DEADLINE = "battery", "deadline"          # limits that bind, but that no change is made of
RAISED = (CPU, BUDGET, POWER)                      # the limits of a device that can be raised
FIELDS = {CPU: "cpu_max_hz", BUDGET: "budget_j", POWER: "power_w", BAND: "bandwidth_hz"}
UNITS = {CPU: "frequency", BUDGET: "energy", POWER: "power", BAND: "frequency"}
CHOOSE_POWER = frozenset({"sao-joint", "sao-common-power", "algorithm6"})      # by them the range's top is raised
FREE = 1e3           # times as much of a limit stands for no limit
BEYOND = 1e-6        # relative: a limit that would have to be raised by less does not bind


@dataclass(frozen=True)
class Change:
    """One thing otherwise: ``factor`` times a limit, of a device or of the cell; another method; a device less."""

    key: str
    device: int | None = None
    factor: float | None = None
    method: str | None = None          # of allocation
    sharing: str | None = None         # or the scheduler by which the band is shared
    to_the_point: bool = False         # raised just so far that it no longer binds

    def problem(self, problem: Problem, own_method: str) -> Problem:
        """The round's problem with the change."""
        if self.key == METHOD:
            return problem
        if self.key == WITHOUT:
            return problem.subset(~_at(problem, self.device))
        if self.key == BAND:
            return replace(problem, bandwidth_hz=problem.bandwidth_hz * (self.factor or 1.0))
        return raised(problem, self.key, _at(problem, self.device), self.factor or 1.0, own_method)

    def words(self, names: dict[int, str], now: float | None) -> str:
        """The change for people; ``now`` is the limit as it is."""
        whose = f"{names[self.device]}'s " if self.device is not None else ""
        if self.key == METHOD:
            return f"allocation method {self.method}" if self.method else f"sharing the band by {self.sharing}"
        if self.key == WITHOUT or now is None or self.factor is None:
            return f"without {names[self.device or 0]}"
        much = units.format(now * self.factor, UNITS[self.key])
        how = ("where it no longer binds" if self.to_the_point else
               f"x{self.factor:g}" if self.factor >= 2 else f"+{100 * (self.factor - 1):.3g} %")
        what = {CPU: "CPU up to", BUDGET: "budget of", POWER: "power of", BAND: "a band of"}[self.key]
        return f"{whose}{what} {much}{', ' if self.to_the_point else ' ('}{how}{'' if self.to_the_point else ')'}"


def raised(problem: Problem, key: str, which: Bools, factor: float, method: str) -> Problem:
    """The problem with so many times a limit of some devices.

    ``power`` is the power given, by the methods that take it as it is; by those that choose it, the top of its range.
    """
    name, (_, top) = FIELDS[key], problem.power_range_w
    if key == POWER and method in CHOOSE_POWER:
        return replace(problem, power_max_w=np.where(which, top * factor, top))
    more = np.where(which, getattr(problem, name) * factor, getattr(problem, name))
    if key == POWER:
        return replace(problem, power_w=more, power_max_w=np.maximum(top, more))
    return replace(problem, **{name: more})


def limit_now(problem: Problem, change: Change, method: str) -> float | None:
    """The limit that a change is about, as it is; None where it is about none of the problem's."""
    if change.key == BAND:
        return problem.bandwidth_hz
    if change.key not in RAISED:
        return None
    power_top = change.key == POWER and method in CHOOSE_POWER
    values = problem.power_range_w[1] if power_top else getattr(problem, FIELDS[change.key])
    return float(values[_at(problem, change.device)][0])


@dataclass(frozen=True, eq=False)
class Laboratory:
    """A round as it was, beside which changed ones are played."""

    replays: Replays
    replay: Replay
    _known: dict[Change, float | None] = field(default_factory=dict)      # seconds that changes save

    @classmethod
    def of(cls, replays: Replays, number: int) -> Laboratory:
        return cls(replays, replays.replay(number))

    @cached_property
    def was(self) -> Played:
        """The round without a change, checked: it takes as long as it took."""
        return self.replays.as_it_was(self.replay)

    @property
    def round_s(self) -> float:
        """How long the round took."""
        return self.replays.lengths[self.replay.number]

    @property
    def method(self) -> str:
        return self.replays.method

    def played(self, change: Change) -> Played | None:
        """The round with the change; None where it has no plan, or one that keeps fewer devices or breaks budgets."""
        problem = self.replay.problem
        if change.key == WITHOUT and len(problem) == 1:
            return None
        try:
            planner = self.replays.planner(change.method) if change.method else None
            scheduler = SCHEDULERS.make(change.sharing, {}) if change.sharing else None
            found = self.replay.play(change.problem(problem, self.method), planner, scheduler)
        except (Infeasible, InputError):
            return None
        if change.key == METHOD:
            arrived, over_budget = self._recorded
            if not found.over_budget <= over_budget or not found.arrived >= arrived:
                return None
        return found

    @cached_property
    def _recorded(self) -> tuple[frozenset[int], frozenset[int]]:
        """The devices that arrived, and those that spent more than they may, by the trace."""
        jobs = self.replays.jobs[self.replay.number]
        over = jobs.filter(pl.col("energy_j") > pl.col("budget_j") * (1 + CONSTRAINT))
        arrived = jobs.filter(pl.col("outcome") == ARRIVED)
        return frozenset(arrived["device"].to_list()), frozenset(over["device"].to_list())

    def saves(self, change: Change) -> float | None:
        """The seconds that a change saves; None where it has no plan."""
        if self._of_no_use(change):
            return 0.0
        if change not in self._known:
            found = self.played(change)
            self._known[change] = None if found is None else self.round_s - found.round_s
        return self._known[change]

    def saves_next(self, change: Change) -> float | None:
        """What so many times a limit saves; a battery may be one too."""
        if change.key != BATTERY:
            return self.saves(change)
        charge_j = self.replay.charge_j * np.where(
            _at(self.replay.problem, change.device), change.factor or 1.0, 1.0)
        return self.round_s - replace(self.replay, charge_j=charge_j).play().round_s

    def charge_j(self, device: int | None) -> float:
        """What a device's battery held when the round began."""
        return float(self.replay.charge_j[_at(self.replay.problem, device)][0])

    def left_out_by_deadline(self) -> frozenset[int]:
        """Devices without a plan that would have had one if there were no deadline."""
        out = self.was.agenda.dropped
        if not len(out) or self.replay.deadline_s == math.inf:
            return frozenset()
        return frozenset(out.tolist()) & frozenset(self.unhurried.agenda.devices.tolist())

    @cached_property
    def unhurried(self) -> Played:
        """The round as it would be without a deadline."""
        planner = planner_of(self.method, self.replays.scenario.allocation.options)
        return replace(self.replay, deadline_s=math.inf, planner=planner).play()

    def prices(self) -> list[Prices | None]:
        """What a little more would bring, wave by wave; None by a method that has no prices, or with other shares."""
        if not self.replays.as_planned:
            return [None for _ in self.was.agenda.waves]
        return [self._prices(wave) for wave in self.was.agenda.waves]

    def _prices(self, wave: Wave) -> Prices | None:
        """Those of a wave: energy is worth something where it is scarcer, in the budget or in the battery."""
        found = prices_of(wave.problem, wave.plan, self.method)
        if found is None:
            return None
        whole = self.replay.problem
        own_j = whole.budget_j[np.searchsorted(np.asarray(whole.numbers), wave.devices)] * self.was.agenda.relaxed
        return found.told(own_j, self.replay.charge_of(wave.devices), wave.plan.round_s, self.replay.deadline_s)

    def _of_no_use(self, change: Change) -> bool:
        """Whether it is plain that more changes nothing: an optimum whose limit is not reached."""
        found = self.was.place(change.device) if change.key in (CPU, BUDGET) and change.device is not None else None
        if found is None or self.method not in ("sao", "equal") or not self.replays.as_planned:
            return False
        wave, n = found
        whole = self.replay.problem
        if len(wave.devices) < len(whole) or self.was.agenda.relaxed != 1.0:
            return False                            # who fits, and what budgets are relaxed to, depends on all of them
        if change.key == CPU:
            return bool(wave.plan.cpu_hz[n] < wave.problem.cpu_max_hz[n] * (1 - BEYOND))
        return bool(wave.plan.device_energy_j[n] < wave.problem.budget_j[n] * (1 - BEYOND))

    def candidates(self) -> list[int]:
        """The devices whose changes are worth a look: all of a small cohort, else those with the dearest limits."""
        problem = self.replay.problem
        numbers = [int(problem.name(n)) for n in range(len(problem))]
        most = self.replays.most_devices
        if len(numbers) <= most:
            return numbers
        jobs = self.replays.jobs[self.replay.number]
        weight: dict[int, float] = dict(zip(jobs["device"], jobs["t1"] - jobs["t0"], strict=True))
        for wave, prices in zip(self.was.agenda.waves, self.prices(), strict=True):
            if prices:
                weight.update(zip(wave.devices.tolist(), _worth(wave.problem, prices).tolist(), strict=True))
        return sorted(sorted(numbers, key=lambda device: -weight[device])[:most])

    def standing(self) -> Iterator[Change]:
        """The changes that mean the same in every round."""
        for factor in (1.1, 2.0):
            yield Change(BAND, factor=factor)
        for method in self.replays.other_methods:
            yield Change(METHOD, method=method)
        for sharing in SCHEDULERS:
            if sharing != self.replays.sharing:
                yield Change(METHOD, sharing=sharing)
        for device in self.candidates():
            yield Change(WITHOUT, device)
            for key in RAISED:
                yield Change(key, device, 2.0)

    def to_the_point(self, key: str, device: int) -> Change | None:
        """A limit of a device raised just so far that it no longer binds: as far as it is used where there is none."""
        problem = self.replay.problem
        free = Change(key, device, FREE)
        try:
            found = self.replay.play(free.problem(problem, self.method))
        except (Infeasible, InputError):
            return None
        place = found.place(device)
        if place is None or key not in (CPU, BUDGET):
            return None
        wave, n = place
        used = float(wave.plan.cpu_hz[n] if key == CPU else wave.plan.device_energy_j[n])
        factor = used / (limit_now(problem, free, self.method) or used)
        return Change(key, device, factor, to_the_point=True) if 1 + BEYOND < factor < FREE / 2 else None


def _worth(problem: Problem, prices: Prices) -> Floats:
    """What a little more of all its limits is worth at each device, as parts of the limits."""
    energy = prices.budget_s_per_j + prices.battery_s_per_j
    found: Floats = np.nan_to_num(
        np.maximum(-prices.cpu_max_s_per_hz * problem.cpu_max_hz, 0.0)
        + np.maximum(-energy * problem.budget_j, 0.0) + np.abs(prices.power_s_per_w * problem.power_w))
    return found


def _at(problem: Problem, device: int | None) -> Bools:
    """Where a device stands in the problem."""
    return np.asarray(problem.numbers == device)
