"""The cell as a server uses it: availability, channel, plans and jobs of the population, independent of rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from netsim.allocation.plan import Infeasible
from netsim.allocation.planner import MOST_SCALING, Planner, PlannerFactory, RoundPlan, Wave, planner_of
from netsim.allocation.problem import Problem
from netsim.base.types import Bools, Floats, Ints, State
from netsim.cell.battery import Batteries
from netsim.cell.cell import SimulatedCell
from netsim.cell.channel import PacketLoss, TimeVaryingChannel
from netsim.cell.device import LocalTraining
from netsim.cell.job import Job, jobs_of
from netsim.cell.schedulers import SCHEDULERS, Scheduler
from netsim.cell.uplink import Uplink
from netsim.devices.link_model import Downlink
from netsim.devices.population import Population
from netsim.devices.workload import JobSizes, RoundProblems
from netsim.environment.availability import DeviceDynamics
from netsim.environment.channel import EVERYBODY, GainTimeline, channel_of
from netsim.selection.view import View
from netsim.trace.schema import BATTERY_EMPTY, OFF

if TYPE_CHECKING:
    from netsim.scenario import Scenario

Charges = Callable[[Ints], Floats]       # battery levels of some devices in J


@dataclass(frozen=True, eq=False)
class CellParts:
    """Parts of a cell: devices, time-varying environment, planner and scheduler."""

    population: Population
    channel: GainTimeline
    problems: RoundProblems
    scheduler: Scheduler
    planner: PlannerFactory
    believes: str                 # channel gain that plans assume: "instantaneous" or "mean"
    devices: DeviceDynamics        # availability, energy sources and thermal limits
    abort_over_budget: bool       # whether an upload is aborted when its energy budget is spent

    @classmethod
    def of(cls, scenario: Scenario, seed: int, population: Population, sizes: JobSizes) -> CellParts:
        """Return the parts of a scenario's cell, for jobs of these sizes."""
        allocation, rounds = scenario.allocation, scenario.rounds
        return cls(
            population, channel_of(scenario, population, seed),
            RoundProblems(scenario, population, sizes), SCHEDULERS.make(scenario.cell.scheduler or "planned", {}),
            planner_of(allocation.method, allocation.options, rounds.deadline),
            allocation.channel_estimate or "instantaneous", DeviceDynamics.of(scenario, seed),
            rounds.on_budget_exceeded == "abort")


class RoundChannel:
    """The channel in the current round: gains as a function of time."""

    def __init__(self, channel: GainTimeline, round_now: Callable[[], int], radiated: Floats | None = None) -> None:
        self.channel, self.round_now, self.radiated = channel, round_now, radiated
        self.changes, self.next_change = channel.changes, channel.next_change

    def gain(self, devices: Ints | slice, t: float) -> Floats:
        return self._over_drawn(self.channel.gain(devices, t, self.round_now()), devices)

    def mean(self, devices: Ints | slice, t: float) -> Floats:
        return self._over_drawn(self.channel.mean(devices, t, self.round_now()), devices)

    def _over_drawn(self, gain: Floats, devices: Ints | slice) -> Floats:
        """Return received over drawn power, where a radio draws more than it radiates."""
        return gain if self.radiated is None else gain * self.radiated[devices]


class RadioCell(SimulatedCell):
    """A scenario's cell in a SimPy environment: availability of devices, views for selection, plans and jobs.

    ``round_now`` returns the number of the current round, from 1.
    """

    def __init__(
        self, env: simpy.Environment, parts: CellParts, round_now: Callable[[], int],
        training: LocalTraining | None = None,
    ) -> None:
        self.parts, self.problems, self._round_now = parts, parts.problems, round_now
        self.channel = channel = RoundChannel(parts.channel, round_now, parts.population.radiated)
        devices, faults, problems = parts.devices, parts.devices.faults, parts.problems
        least_j = problems.least_j(channel_changes=channel.changes)
        changes = channel.next_change(env.now) < math.inf         # gains change during a round
        self._downlink = self._download = problems.downlink()
        uplink = Uplink(
            env, problems.bandwidth_hz, parts.scheduler, link=problems.link, abort_over_budget=parts.abort_over_budget,
            channel=TimeVaryingChannel(env, channel, problems.noise_w_per_hz) if changes else None,
            loss=PacketLoss(faults) if faults and faults.losses else None)
        batteries = Batteries(env, parts.population.battery_j, least_j, devices.supplies)
        receive_w = self._downlink.reception_w if self._downlink else 0.0
        super().__init__(env, uplink, batteries, devices, receive_w=receive_w, training=training)
        self._surprises = bool(changes or faults or devices.heat_limits or devices.variation)    # work may last longer
        self._faults = faults if faults and faults.presences else None
        self._charge = batteries.level_j if batteries.any_finite else None
        self._whole_band = bool(getattr(parts.scheduler, "alone", False))     # whether one job has it all
        self.planner = self.last_planner = parts.planner(self.problem, self._charge, self._downlink)

    @property
    def now(self) -> float:
        """Simulated time in seconds."""
        return float(self.env.now)

    # Availability.

    @property
    def available(self) -> Bools:
        """Mask of the devices that can be selected now: available, with the energy for a job; shape (N,)."""
        available = self.batteries.available
        return available if self._faults is None else available & self._faults.available(self.now)

    @property
    def next_available_time(self) -> float:
        """First instant in seconds at which a device can be selected: now, later, or inf for never."""
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
        """Return the reason why a device cannot be selected now; None if it can."""
        return None if self.available[device] else OFF if self.batteries.available[device] else BATTERY_EMPTY

    def view(self, **columns: Callable[[], Any]) -> View:
        """Return the view of a selection method, with more ``columns`` of the server; each is made on request."""
        return View.lazy({**self._columns, **columns})

    @cached_property
    def _columns(self) -> dict[str, Callable[[], Any]]:
        """Columns of the cell in a selection method's view."""
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
        """Return the allocation problem of these devices, with the gains that plans assume now."""
        if not self.channel.changes:
            return self.problems.of(devices)
        believed = self.channel.mean if self.parts.believes == "mean" else self.channel.gain
        return self.problems.of(devices, believed(devices, self.now))

    def plan(self, devices: Ints, sizes: JobSizes, rule: str, size: int, shares: int = 1) -> RoundPlan:
        """Plan bandwidth, CPU frequency and power of devices, in waves of at most ``size`` devices.

        ``rule`` is the policy for devices without a feasible plan (``rounds.infeasible_policy``). With ``shares``, plan
        for one of this many equal shares of the band.
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
        """Return a planner for one of ``shares`` equal shares of the band, or for all of it under TDMA."""
        def part(devices: Ints) -> Problem:
            whole = self.problem(devices)
            return replace(whole, bandwidth_hz=whole.bandwidth_hz / shares)

        in_all = shares == 1 or self._whole_band
        if charge_j is self._charge and in_all:
            return self.planner
        return self.parts.planner(self.problem if in_all else part, charge_j, self._download_in(shares))

    def _download_in(self, shares: int) -> Downlink | None:
        """Return the downlink with the same share of band and power as the upload."""
        return self._downlink if self._downlink is None or self._whole_band else self._downlink.in_part(shares)

    def infeasibility_reason(self, rule: str, shares: int = 1) -> str | None:
        """Return the reason why no device can take part again under a policy; None if one may."""
        batteries = self.batteries
        able = np.flatnonzero(batteries.able_from() < math.inf)
        # a battery with too little energy now may be charged later
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
        """Start the jobs of a wave, numbered from ``first``; ``cause`` is the trace row of their allocation."""
        gain, variation = self.channel.gain(wave.devices, self.now), self.parts.devices.variation
        if variation is not None:                # jobs take more or less work than planned
            compute, upload = variation.factors(wave.devices, self._round_now())
            wave = replace(wave, problem=replace(
                wave.problem, cycles=wave.problem.cycles * compute, bits=wave.problem.bits * upload))
        download_s = None if self._download is None else self._download.seconds(gain, wave.devices)
        jobs = jobs_of(wave, gain, download_s, self.now, first=first, cause=cause, lasting=self._surprises)
        if self.uplink.scheduler.fixed and float(wave.plan.bandwidth_hz.max()) > self.uplink.limit_hz:
            raise ValueError(f"shares of {wave.plan.bandwidth_hz} Hz do not fit a band of "
                             f"{self.uplink.bandwidth_hz} Hz")
        self.submit(jobs)
        return jobs

    def snapshot(self) -> State:
        """Return batteries, clock and running jobs as named arrays."""
        return {**self.batteries.snapshot(), **super().snapshot(), "clock": np.array([self.now])}

    def restore(self, state: State) -> None:
        """Restore a checkpoint; the environment's time must equal its ``clock``."""
        self.batteries.restore(state)
        super().restore(state)
