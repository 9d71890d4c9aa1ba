"""The cell as a server sees it: the devices at work, with their population, channel and plans; it knows no rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from netsim.allocation.problem import Infeasible, Problem
from netsim.allocation.waves import MOST_SCALING, Agenda, MakePlanner, Planner, Wave, planner_of
from netsim.base.arrays import Bools, Floats, Ints, State
from netsim.cell.battery import Batteries
from netsim.cell.cell import SimulatedCell
from netsim.cell.channel import PacketLoss, TimeVaryingChannel
from netsim.cell.device import LocalTraining
from netsim.cell.job import Job, jobs_of
from netsim.cell.schedulers import SCHEDULERS, Scheduler
from netsim.cell.uplink import Uplink
from netsim.fleet.link_model import Downlink
from netsim.fleet.population import Population
from netsim.fleet.work import JobSizes, RoundProblems
from netsim.selection.view import View
from netsim.trace.schema import BATTERY_EMPTY, OFF
from netsim.world.channel import EVERYBODY, GainTimeline, channel_of
from netsim.world.faults import DevicesInTime

if TYPE_CHECKING:
    from netsim.scenario import Scenario

Charges = Callable[[Ints], Floats]       # joules in the batteries of some devices


@dataclass(frozen=True, eq=False)
class CellParts:
    """What a cell is put together from: the devices, their world, and the rules of plans and of the band."""

    population: Population
    channel: GainTimeline
    problems: RoundProblems
    scheduler: Scheduler
    planner: MakePlanner
    believes: str                 # what a plan takes for the gain of a channel
    devices: DevicesInTime        # who goes off, what comes into batteries, whose clocks fall
    abort_over_budget: bool       # whether an upload ends when its budget is spent

    @classmethod
    def of(cls, scenario: Scenario, seed: int, population: Population, sizes: JobSizes) -> CellParts:
        """As described, with jobs of these sizes."""
        allocation, rounds = scenario.allocation, scenario.rounds
        return cls(
            population, channel_of(scenario, population, seed),
            RoundProblems(scenario, population, sizes), SCHEDULERS.make(allocation.sharing or "planned", {}),
            planner_of(allocation.method, allocation.options, rounds.deadline),
            allocation.channel or "now", DevicesInTime.of(scenario, seed), rounds.over_budget == "drop")


class ChannelOfRound:
    """The channel in the present round: gains by time alone."""

    def __init__(self, channel: GainTimeline, round_now: Callable[[], int]) -> None:
        self.channel, self.round_now = channel, round_now
        self.changes, self.next_change = channel.changes, channel.next_change

    def gain(self, devices: Ints | slice, t: float) -> Floats:
        return self.channel.gain(devices, t, self.round_now())

    def mean(self, devices: Ints | slice, t: float) -> Floats:
        return self.channel.mean(devices, t, self.round_now())


class RadioCell(SimulatedCell):
    """One cell of a SimPy environment: what servers select, plan and dispatch, and wait for as in any cell."""

    def __init__(
        self, env: simpy.Environment, parts: CellParts, round_now: Callable[[], int],
        training: LocalTraining | None = None,
    ) -> None:
        self.parts, self.problems = parts, parts.problems
        self.channel = channel = ChannelOfRound(parts.channel, round_now)
        devices, faults, problems = parts.devices, parts.devices.faults, parts.problems
        battery_j, least_j = parts.population.battery_j, problems.least_j(channel_changes=channel.changes)
        changes = channel.next_change(env.now) < math.inf         # during a round
        self._downlink = self._download = problems.downlink()
        uplink = Uplink(
            env, problems.bandwidth_hz, parts.scheduler, link=problems.link, abort_over_budget=parts.abort_over_budget,
            channel=TimeVaryingChannel(env, channel, problems.noise_w_per_hz) if changes else None,
            loss=PacketLoss(faults) if faults and faults.losses else None)
        super().__init__(
            env, uplink, Batteries(env, battery_j, least_j, devices.supplies), devices, training=training,
            receive_w=self._downlink.reception_w if self._downlink else 0.0)
        self._surprises = bool(changes or faults or devices.heat_limits)      # that plans do not know
        self._faults = faults if faults and faults.presences else None
        self._charge = self.batteries.level_j if self.batteries.any_finite else None
        self._whole_band = bool(getattr(parts.scheduler, "alone", False))     # whether one job has it all
        self.planner = self.last_planner = parts.planner(self.problem, self._charge, self._downlink)

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float(self.env.now)

    # Which devices can be selected.

    @property
    def available(self) -> Bools:
        """Which devices can be selected now: available, with the energy for a job."""
        available = self.batteries.available
        return available if self._faults is None else available & self._faults.available(self.now)

    @property
    def next_available_time(self) -> float:
        """When a device can be selected: now, later where all are off, or never (inf)."""
        batteries, faults = self.batteries, self._faults
        if faults is None and not batteries.recharge:
            return self.now if batteries.alive else math.inf
        if self.available.any():
            return self.now
        able = batteries.able_from()
        if faults is None:
            return float(able.min())
        return min((faults.back_at(device, max(self.now, float(able[device])))
                    for device in np.flatnonzero(able < math.inf).tolist()), default=math.inf)

    def unavailable_reason(self, device: int) -> str | None:
        """Why a device cannot be selected now; None where it can."""
        return None if self.available[device] else OFF if self.batteries.available[device] else BATTERY_EMPTY

    def view(self, **columns: Callable[[], Any]) -> View:
        """What a selection method may see; each column, the server's own among them, is made when it is asked for."""
        return View.lazy({**self._columns, **columns})

    @cached_property
    def _columns(self) -> dict[str, Callable[[], Any]]:
        """What the cell shows to a selection method."""
        batteries, always = self.batteries, self._faults is None and not self.batteries.recharge
        return {
            "time_s": lambda: self.now, "population": lambda: self.parts.population,
            "available": lambda: self.available,
            "alive": lambda: batteries.alive if always else int(self.available.sum()),
            "battery_j": lambda: batteries.level_j(slice(None)),
            "gain": lambda: self.channel.gain(EVERYBODY, self.now),
            "bits": lambda: self.problems.sizes.upload_bits, "cycles": lambda: self.problems.sizes.cycles,
            "bandwidth_hz": lambda: self.problems.bandwidth_hz, "noise_w_per_hz": lambda: self.problems.noise_w_per_hz,
            "link": lambda: self.problems.link,
        }

    # Plans.

    def problem(self, devices: Ints) -> Problem:
        """The allocation problem of these devices, as a plan believes it to be now."""
        if not self.channel.changes:
            return self.problems.of(devices)
        believed = self.channel.mean if self.parts.believes == "mean" else self.channel.gain
        return self.problems.of(devices, believed(devices, self.now))

    def plan(self, devices: Ints, sizes: JobSizes, rule: str, size: int, shares: int = 1) -> Agenda:
        """Bandwidth, CPU frequency and power for the devices that fit, in waves of ``size`` where they need several.

        ``shares`` is the number of equal band shares of which these devices have one; ``rule`` says what becomes of
        devices without a plan (``rounds.infeasible``).
        """
        if sizes is not self.problems.sizes:
            self.problems = self.problems.with_sizes(sizes)
            if self.batteries.any_finite:
                self.batteries.require(self.problems.least_j(channel_changes=self.channel.changes))
        if self.problems.has_downlink and len(devices) and (
                downlink := self.problems.downlink(devices)) != self._downlink:
            self._downlink = downlink
            self.planner = self.parts.planner(self.problem, self._charge, downlink)
        self._download = self._download_in(shares)
        self.last_planner = self._planner_in(shares, self._charge)
        return self.last_planner.agenda(np.sort(devices), rule, size)

    def _planner_in(self, shares: int, charge_j: Charges | None) -> Planner:
        """Plans in one of so many shares of the band, or in all of it where one job sends at a time."""
        def part(devices: Ints) -> Problem:
            whole = self.problem(devices)
            return replace(whole, bandwidth_hz=whole.bandwidth_hz / shares)

        in_all = shares == 1 or self._whole_band
        if charge_j is self._charge and in_all:
            return self.planner
        return self.parts.planner(self.problem if in_all else part, charge_j, self._download_in(shares))

    def _download_in(self, shares: int) -> Downlink | None:
        """The model's way to a device, in as large a part of band and power as its upload has."""
        return self._downlink if self._downlink is None or self._whole_band else self._downlink.in_part(shares)

    def infeasibility_reason(self, rule: str, shares: int = 1) -> str | None:
        """Why no device can ever take part again under a rule; None where one may."""
        batteries = self.batteries
        able = np.flatnonzero(batteries.able_from() < math.inf)
        # a battery with too little now may be full one day
        planner = self._planner_in(shares, batteries.capacity_j.take if batteries.recharge else self._charge)
        if not len(able):
            return batteries.too_little()
        if self.channel.changes or len(planner.largest(
                planner.posed(able, MOST_SCALING if rule == "relax" else 1.0))):
            return None
        try:
            planner.one_wave(able)
        except Infeasible as reason:
            return str(reason)
        return None

    def dispatch(self, wave: Wave, first: int = 0, cause: int = -1) -> list[Job]:
        """Let the devices of a wave begin their jobs, numbered from ``first``; ``cause`` is a row of the trace."""
        gain = self.channel.gain(wave.devices, self.now)
        jobs = jobs_of(wave, gain, None if self._download is None else self._download.seconds(gain),
                       self.now, first=first, cause=cause, lasting=self._surprises)
        if self.uplink.scheduler.fixed and float(wave.plan.bandwidth_hz.max()) > self.uplink.limit_hz:
            raise ValueError(f"shares of {wave.plan.bandwidth_hz} Hz do not fit a band of "
                             f"{self.uplink.bandwidth_hz} Hz")
        self.submit(jobs)
        return jobs

    def snapshot(self) -> State:
        """Batteries, the clock, and the jobs in flight."""
        return {**self.batteries.snapshot(), **super().snapshot(), "clock": np.array([self.now])}

    def restore(self, state: State) -> None:
        """The environment's clock must stand at ``clock`` already."""
        self.batteries.restore(state)
        super().restore(state)
