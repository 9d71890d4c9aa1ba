"""The cell as a server sees it: population, channel, devices at work and recorder, bound together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import simpy

from netsim.allocation.problem import Infeasible, Problem
from netsim.allocation.waves import MOST_SCALING, Agenda, MakePlanner, Planner, Wave
from netsim.base.arrays import Bools, Floats, Ints, State
from netsim.base.errors import YourCodeError
from netsim.cell.battery import Batteries
from netsim.cell.cell import LocalTraining, SimulatedCell
from netsim.cell.channel import TimeVaryingChannel
from netsim.cell.charging import ChargedBatteries
from netsim.cell.job import Job
from netsim.cell.packet_loss import PacketLoss
from netsim.cell.schedulers import Scheduler
from netsim.cell.uplink import Uplink
from netsim.cell.wave_jobs import decided_by, jobs_of
from netsim.fleet.downlink import Downlink
from netsim.fleet.population import Population
from netsim.fleet.work import RoundProblems
from netsim.selection.view import View
from netsim.server.cell_api import Outcomes
from netsim.server.recording import (
    CLOCK,
    Ended,
    Rows,
    outcomes_of,
    record_charge,
    record_ended,
    record_left_out,
    record_packets,
)
from netsim.trace.recorder import SPAN, Recorder
from netsim.trace.schema import BATTERY_EMPTY, CELL, OFF, OVER, RELAX, SERVER
from netsim.world.channel import EVERYBODY, GainTimeline
from netsim.world.devices import STEADY, DevicesInTime

MOST_WAITS = 366   # for devices, one after the other, in which nobody turned out to be there
TOGETHER = 1e-10   # of a round: devices that end so close to each other are planned to end together
NOBODY: Ints = np.zeros(0, np.int64)


class GainsOfRound:
    """The gains in the present round."""

    def __init__(self, cell: RadioCell) -> None:
        self.cell = cell

    def gain(self, devices: Ints, t: float) -> Floats:
        return self.cell.channel.gain(devices, t, self.cell.version + 1)

    def next_change(self, t: float) -> float:
        return self.cell.channel.next_change(t)


class RadioCell:
    """One cell in one SimPy environment; a server uses it through :class:`~netsim.server.cell_api.CellAPI`."""

    def __init__(
        self, env: simpy.Environment, population: Population, channel: GainTimeline, problems: RoundProblems,
        scheduler: Scheduler, recorder: Recorder, planner: MakePlanner, believes: str = "now",
        devices: DevicesInTime = STEADY, training: LocalTraining | None = None,
        *, abort_over_budget: bool = False,
    ) -> None:
        self.env = env
        self.population = population
        self.channel = channel
        self.problems = problems
        self.recorder = recorder
        least_j = problems.least_j(channel_changes=channel.changes)
        self.batteries = Batteries(env, population.battery_j, least_j) if not devices.supplies else ChargedBatteries(
            env, population.battery_j, least_j, devices.supplies)
        self.downlink = self._download = problems.downlink
        gains = GainsOfRound(self)
        changes = gains.next_change(env.now) < math.inf         # during a round
        faults = devices.faults
        self.uplink = Uplink(
            env, problems.bandwidth_hz, scheduler, link=problems.link, abort_over_budget=abort_over_budget,
            channel=TimeVaryingChannel(env, gains, problems.noise_w_per_hz) if changes else None,
            loss=PacketLoss(faults) if faults and faults.losses else None)
        self.cell = SimulatedCell(env, self.uplink, self.batteries, devices, training=training,
                         receive_w=self.downlink.reception_w if self.downlink else 0.0)
        self._surprises = bool(changes or faults or devices.heat_limits)      # that plans do not know
        self.faults = devices.faults if devices.faults and devices.faults.presences else None
        self.believes = believes
        self._charge = self.batteries.level_j if self.batteries.any_finite else None
        self._planner_of = planner
        self.planner = self._planner(self.problem, self._charge, self.downlink)
        self._alone = bool(getattr(scheduler, "alone", False))
        self.version = 0
        self.agenda = Agenda((), NOBODY)    # the last that was planned for a whole cohort
        self._next_job = 0
        self._dispatched = 0
        self._began = env.now               # when the round began
        self._idle = False                  # whether it begins with waiting for devices
        self._waits = 0                     # how often, one after the other
        self._cause: Ints = NOBODY          # the rows that whatever comes next has to wait for
        self._followed = True               # whether something has come next
        self._played: list[Ended] = []      # of this round
        self._left_out = NOBODY
        self._decided: dict[str, Any] = {"number": NOBODY}      # columns of the last wave

    @property
    def now(self) -> float:
        return float(self.env.now)

    @property
    def alive(self) -> int:
        return self.batteries.alive

    @property
    def worked(self) -> bool:
        return self._dispatched > 0

    @property
    def there(self) -> Bools:
        """Who can be chosen now."""
        available = self.batteries.available
        return available if self.faults is None else available & self.faults.available(self.now)

    @property
    def ready_at(self) -> float:
        if self.faults is None and not self.batteries.recharge:
            return self.now if self.alive else math.inf
        if self.there.any():
            return self.now
        if self._waits >= MOST_WAITS:        # who has energy is off, and who is there has none, again and again
            return math.inf
        able = self.batteries.able_from()
        if self.faults is None:
            return float(able.min())
        return min((self.faults.back_at(device, max(self.now, float(able[device])))
                    for device in np.flatnonzero(able < math.inf).tolist()), default=math.inf)

    def ready(self) -> simpy.Event:
        seconds = self.ready_at - self.now
        self._began, self._idle = self.now if self._waits == 0 else self._began, True
        self._waits += 1
        return self.env.timeout(seconds)

    @property
    def gain(self) -> Floats:
        """Of every device's channel, now."""
        return self.channel.gain(EVERYBODY, self.now, self.version + 1)

    def problem(self, devices: Ints) -> Problem:
        """The allocation problem of these devices, as a plan believes it to be now."""
        if not self.channel.changes:
            return self.problems.of(devices)
        believed = self.channel.mean if self.believes == "mean" else self.channel.gain
        return self.problems.of(devices, believed(devices, self.now, self.version + 1))

    def view(self, **columns: Callable[[], Any]) -> View:
        return View.lazy({**self._columns, **columns})

    @cached_property
    def _columns(self) -> dict[str, Callable[[], Any]]:
        """What the cell shows to a selection method."""
        problems, batteries = self.problems, self.batteries
        return {
            "round": lambda: self.version + 1, "time_s": lambda: self.now, "population": lambda: self.population,
            "available": lambda: self.there,
            "alive": lambda: (batteries.alive if self.faults is None and not batteries.recharge
                              else int(self.there.sum())),
            "battery_j": lambda: batteries.level_j(slice(None)), "gain": lambda: self.gain,
            "bits": lambda: problems.bits, "cycles": lambda: problems.cycles,
            "bandwidth_hz": lambda: problems.bandwidth_hz, "noise_w_per_hz": lambda: problems.noise_w_per_hz,
            "link": lambda: problems.link,
        }

    def absence(self, device: int) -> str | None:
        return None if self.there[device] else OFF if self.batteries.available[device] else BATTERY_EMPTY

    def select(self, devices: Ints) -> None:
        """Say who was chosen; waiting for devices, if there was any, comes first."""
        if self._idle:
            waited = self.recorder.span("wait", SERVER, self._began, self.now, after=self._cause.tolist())
            self._cause, self._idle, self._waits = np.array([waited]), False, 0 if len(devices) else self._waits
        row = self.recorder.instant("select", SERVER, self.now, value=len(devices), after=self._cause.tolist())
        self._cause, self._followed = np.array([row]), True

    def assign(self, devices: Ints, bits: Floats, cycles: Floats, download_bits: float) -> None:
        self.problems.assign(devices, bits, cycles, download_bits)
        if self.downlink != self.problems.downlink:
            self.downlink = self.problems.downlink
            self.planner = self._planner(self.problem, self._charge, self.downlink)
        if self.batteries.any_finite:
            self.batteries.require(self.problems.least_j(channel_changes=self.channel.changes))

    def plan(self, devices: Ints, rule: str, size: int) -> Agenda:
        self._download = self.downlink
        self.agenda = self._planned(self.planner, np.sort(devices), rule, size)
        return self.agenda

    def plan_alone(self, device: int, rule: str, among: int) -> Agenda:
        self._download = self._download_among(among)
        return self._planned(self._planner_among(among, self._charge), np.array([device]), rule, 1)

    def _planned(self, planner: Planner, devices: Ints, rule: str, size: int) -> Agenda:
        try:
            return self._noted(planner.agenda(devices, rule, size), planner)
        except YourCodeError as fault:
            raise fault.in_round(self.version + 1) from None

    def _planner_among(self, among: int, charge_j: Callable[[Ints], Floats] | None) -> Planner:
        """Plans for one of so many: with its part of the band, or with all of it where one sends at a time."""
        def part(devices: Ints) -> Problem:
            whole = self.problem(devices)
            return replace(whole, bandwidth_hz=whole.bandwidth_hz / among)

        if charge_j is self._charge and (among == 1 or self._alone):
            return self.planner
        return self._planner(self.problem if among == 1 or self._alone else part, charge_j, self._download_among(among))

    def _planner(
        self, problem: Callable[[Ints], Problem], charge_j: Callable[[Ints], Floats] | None, download: Downlink | None,
    ) -> Planner:
        return self._planner_of(problem, charge_j) if download is None else self._planner_of(
            problem, charge_j, download)

    def _download_among(self, among: int) -> Downlink | None:
        """The model's way to one of so many, in as large a part of band and power as its upload has."""
        return self.downlink if self.downlink is None or self._alone else self.downlink.in_part(among)

    def _noted(self, agenda: Agenda, planner: Planner) -> Agenda:
        """Record the devices that a planner has left out, with the problem that they posed; return the agenda."""
        if agenda.relaxed != 1.0:
            self.recorder.instant(RELAX, SERVER, self.now, value=agenda.relaxed, after=self._cause.tolist())
        self._left_out = np.concatenate([self._left_out, agenda.dropped])
        if len(agenda.dropped):
            asked = planner.posed(agenda.dropped)
            columns = {name: getattr(asked, name) for name in ("gain", "cycles", "budget_j", "bits")}
            record_left_out(self.recorder, self._take_numbers(len(agenda.dropped)), agenda.dropped, self.now,
                            self.version, int(self._cause[0]), columns)
        return agenda

    def wait(self, seconds: float) -> simpy.Event:
        row = self.recorder.span("wait", SERVER, self.now, self.now + seconds, after=self._cause.tolist())
        self._cause, self._followed = np.array([row]), False       # whoever ends meanwhile is waited for beside it
        return self.env.timeout(seconds)

    def why_nobody_fits(self, rule: str, among: int = 1) -> str | None:
        batteries = self.batteries
        everybody = np.flatnonzero(batteries.able_from() < math.inf)
        # whoever has too little now may have all that its battery holds one day
        planner = self._planner_among(among, batteries.full_j if batteries.recharge else self._charge)
        if not len(everybody):
            return batteries.too_little()
        if self.channel.changes or len(planner.largest(
                planner.posed(everybody, MOST_SCALING if rule == "relax" else 1.0))):
            return None
        try:
            planner.one_wave(everybody)
        except Infeasible as reason:
            return str(reason)
        return None

    def dispatch(self, wave: Wave) -> Ints:
        allocated = self.recorder.instant(
            "allocate", SERVER, self.now, value=len(wave.devices), after=self._cause.tolist())
        self._followed = True
        first = self._take_numbers(len(wave.devices))
        self._dispatched += len(wave.devices)
        gain = self.channel.gain(wave.devices, self.now, self.version + 1)
        jobs = jobs_of(
            wave, gain, None if self._download is None else self._download.seconds(gain), self.now,
            first=first, version=self.version, cause=allocated, lasting=self._surprises)
        if self.uplink.scheduler.fixed and float(wave.plan.bandwidth_hz.max()) > self.uplink.limit_hz:
            raise ValueError(f"shares of {wave.plan.bandwidth_hz} Hz do not fit a band of "
                             f"{self.uplink.bandwidth_hz} Hz")
        self.cell.submit(jobs)
        numbers, every = np.arange(first, first + len(jobs)), np.full(len(jobs), 1)
        self._decided = {**decided_by(wave), "number": numbers, "version": every * self.version,
                         "cause": every * allocated, "t0": every * self.now}
        return numbers

    def finished(self, jobs: Iterable[int], until: float = math.inf, count: int | None = None) -> simpy.Event:
        return self.cell.wait(jobs, until, count)

    def cancel(self, jobs: Iterable[int], reason: str) -> simpy.Event:
        return self.cell.cancel(jobs, reason)

    def running(self) -> dict[int, int]:
        return {number: job.device for number, job in self.cell.running.items()}

    def collect(self, most: int | None = None) -> list[Job]:
        jobs = self.cell.collect(most)
        self._record(jobs, self.version)
        return jobs

    def aggregate(self, *, barrier: bool = True) -> Outcomes:
        if barrier:
            self.collect()
            self._record_waits()
        now, began = self.now, self._began
        waited_for = self._cause if barrier or not self._played else np.concatenate(
            [jobs.last for jobs in self._played])
        arrived = sum(int(np.count_nonzero(jobs.arrived)) for jobs in self._played)
        if isinstance(self.batteries, ChargedBatteries):
            for name, joules in self.batteries.totals().items():
                self.recorder.counter(name, CELL, now, joules)
        row = self.recorder.span("aggregate", SERVER, now, now, value=arrived, after=waited_for.tolist())
        self._cause, self._followed = np.array([row]), True
        outcomes, self._left_out = outcomes_of(self._left_out, self._played), NOBODY
        self._end_of_round, self._began = (began, now, arrived), now
        self._played = []
        self.version += 1
        return outcomes

    def stop(self) -> simpy.Event:
        return self.cell.cancel(list(self.cell.running), OVER)

    def stopped(self) -> Outcomes:
        self._record(self.cell.collect(), self.version - 1)
        outcomes, self._played = outcomes_of(NOBODY, self._played), []
        return outcomes

    def count(self, name: str, values: Mapping[int, float]) -> None:
        for device, value in values.items():
            self.recorder.counter(name, device, self.now, value)

    def close(self) -> None:
        """The round's last row; which rows are its own is read off that."""
        began, now, arrived = self._end_of_round
        self.recorder.span("round", SERVER, began, now, value=arrived)

    # What a checkpoint keeps.

    def snapshot(self) -> State:
        """Batteries, numbers, and the jobs in flight."""
        return {
            **self.batteries.snapshot(), "clock": np.array([self.now, self._began]),
            "counts": np.array([self.version, self._next_job, self._dispatched], np.int64), "cause": self._cause,
            **{f"cell.{name}": array for name, array in self.cell.snapshot().items()},
        }

    def restore(self, state: State) -> None:
        """The environment's clock must stand at ``clock[0]`` already."""
        self.batteries.restore(state)
        self.version, self._next_job, self._dispatched = (int(value) for value in state["counts"])
        self._began, self._cause = float(state["clock"][1]), state["cause"]
        self.cell.restore({name.removeprefix("cell."): array for name, array in state.items()
                           if name.startswith("cell.")})

    # What the steps lean on.

    def _take_numbers(self, count: int) -> int:
        first, self._next_job = self._next_job, self._next_job + count
        return first

    def _record(self, ended: list[Job], version: int) -> None:
        """Write down jobs that have ended; whatever comes next follows the last of them."""
        if not ended and not self.uplink.band_log:
            return
        decided = self._decided
        whole = len(ended) == len(decided["number"]) > 0 and ended[0].number == decided["number"][0]
        jobs = record_ended(self.recorder, ended, self.uplink.take_band(), version, contended=self.uplink.contended,
                            decided=decided if whole else None)
        if jobs is not None:
            self._record_more(ended, jobs.device)
            self._played.append(jobs)
            self._cause = jobs.last if self._followed else np.concatenate([self._cause, jobs.last])
            self._followed = False

    def _record_more(self, ended: list[Job], devices: Ints) -> None:
        """What became of packets and of batteries that are charged."""
        if self.uplink.loss is not None:
            record_packets(self.recorder, ended)
        if isinstance(self.batteries, ChargedBatteries):
            own = np.unique(self.batteries.on_battery(devices))
            record_charge(self.recorder, own, self.now, self.batteries.told(own))

    def _record_waits(self) -> None:
        """Everybody waits for the others: before its wave, and from its own end to that of the round."""
        now, began = self.now, self._began
        for jobs in self._played:
            rows, ended = Rows(self.recorder, jobs), jobs.values["ended_at"]
            if jobs.began[0] > began:
                early = jobs.began - began > CLOCK * np.spacing(jobs.began)
                if np.count_nonzero(early):
                    rows.add(SPAN, "wait", early, np.full(len(jobs), began), jobs.began)
            late = now - ended > max(TOGETHER * (now - began), CLOCK * math.ulp(now))
            if np.count_nonzero(late):
                rows.add(SPAN, "wait", late, ended, np.full(len(jobs), now))
            if rows.count:
                rows.record()
