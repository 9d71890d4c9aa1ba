"""Servers: who works when, what is waited for, and when a run is over."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.allocation import Infeasible
from netsim.allocation.planner import MOST_SCALING, planner_of
from netsim.base.rng import stream
from netsim.base.units import parse
from netsim.selection import METHODS, View
from reference_cell.cell import Cell, Job, rounding_of

MOST_WAITS = 366
MOST_FAILURES = 100
WAITS = ("synchronous", "first-k")


class Download:
    """Seconds and joules of receiving the model: a broadcast at the worst rate, or an equal part of the band each."""

    def __init__(self, cell: Cell, parts: int) -> None:
        table, scenario = cell.scenario.cell.downlink, cell.scenario
        self.bits = float(scenario.learning.bits if table.bits is None else table.bits) * parts
        self.hz = float(scenario.cell.bandwidth if table.bandwidth is None else table.bandwidth)
        self.watts, self.noise, self.each = float(table.power), cell.problems.noise_w_per_hz, table.mode == "unicast"
        self.link, self.receives_w = cell.link, cell.receives_w

    def seconds(self, gain: Any, _devices: Any = None) -> Any:
        rates = np.array([self.link.rate(self.hz, h * self.watts / self.noise) for h in gain.tolist()])
        return self.bits * len(gain) / rates if self.each else np.full(len(gain), self.bits / rates.min())

    def joules(self, gain: Any, _devices: Any = None) -> Any:
        return self.receives_w * self.seconds(gain)


class Server:
    """One run of a scenario under a seed; ``jobs`` has all of its jobs in the end.

    In a ``shaken`` one every other event is a unit in the last place of the clock late: to see what rounding does.
    """

    def __init__(self, scenario: Any, seed: int, *, shaken: bool = False) -> None:
        self.scenario, self.cell = scenario, Cell(scenario, seed, shaken)
        self.kind = scenario.server.kind if scenario.server else "synchronous"
        self.options = dict(scenario.server.options) if scenario.server else {}
        rounds = scenario.rounds
        method, options = scenario.allocation.method, scenario.allocation.options
        self.make_planner = planner_of(method, options, rounds.deadline)
        self.select = METHODS.make(scenario.selection.method, scenario.selection.options)
        self.waits, self.began = 0, 0.0
        size = len(self.cell.population)
        self.last_round = np.zeros(size, np.int64)
        self.arrived_last, self.worked = 0, False
        self.round_arrived: list[int] = []
        self.left_out: list[Job] = []
        self.ends: list[float] = []                                          # of rounds
        self.concurrency = (1 if self.kind in WAITS else
                            self.options.get("concurrency") or scenario.selection.cohort)
        self.surprises = bool(self.cell.fades or self.cell.faults or any(self.cell.heat.limit))

    @property
    def jobs(self) -> list[Job]:
        return sorted([*self.cell.done, *self.left_out], key=lambda job: job.number)

    # Who is there.

    def level_j(self, devices: Any) -> Any:
        return np.array([self.cell.batteries.level[device] for device in np.arange(len(self.last_round))[devices]])

    def there(self) -> Any:
        cell = self.cell
        return (self.level_j(slice(None)) > cell.least_j) & cell.faults.available(cell.now)

    def ready_at(self) -> float:
        cell = self.cell
        if self.there().any():
            return cell.now
        if self.waits >= MOST_WAITS:
            return math.inf
        return min((cell.faults.back_at(device, able) for device in range(len(self.last_round))
                    if (able := cell.batteries.able_at(device, cell.now, cell.least_j[device])) < math.inf),
                   default=math.inf)

    def wait_for_devices(self) -> None:
        self.waits += 1
        self.cell.play(self.ready_at(), lambda: False)

    def over(self) -> bool:
        end = self.scenario.end
        return (self.cell.version >= end.rounds or self.ready_at() >= (math.inf if end.time is None else end.time)
                or self.stuck())

    def stuck(self) -> bool:
        """Whether no device arrived in the last round, and none has a plan, nor ever will."""
        cell = self.cell
        if not self.worked or self.arrived_last:
            return False
        able = [cell.batteries.able_at(device, cell.now, cell.least_j[device]) < math.inf
                for device in range(len(self.last_round))]
        if not any(able):
            return True
        if cell.channel.changes:
            return False
        planner = self.planner(full=cell.batteries.in_time)
        everybody = np.flatnonzero(able)
        if len(planner.largest(planner.posed(everybody, MOST_SCALING if self.infeasible() == "relax" else 1.0))):
            return False
        try:
            planner.one_wave(everybody)
        except Infeasible:
            return True
        return False

    # Plans.

    def problem(self, devices: Any) -> Any:
        cell = self.cell
        if not cell.channel.changes:
            posed = cell.problems.of(devices)
        else:
            believed = cell.channel.mean if self.scenario.allocation.channel_estimate == "mean" else cell.channel.gain
            posed = cell.problems.of(devices, believed(devices, cell.now, cell.version + 1))
        return posed if self.parts == 1 else replace(posed, bandwidth_hz=posed.bandwidth_hz / self.parts)

    @property
    def parts(self) -> int:
        """Equal parts of the band, one of which a job is planned with."""
        return 1 if self.cell.rule == "tdma" else self.concurrency

    def planner(self, *, full: bool = False) -> Any:
        batteries = self.cell.batteries
        capacity = np.array(batteries.capacity)
        charge: Callable[[Any], Any] | None = (lambda devices: capacity[devices]) if full else self.level_j
        if not np.isfinite(capacity).any():
            charge = None
        if self.scenario.cell.downlink is None:
            return self.make_planner(self.problem, charge)
        return self.make_planner(self.problem, charge, Download(self.cell, self.parts))

    def infeasible(self) -> str:
        rounds = self.scenario.rounds
        return rounds.first_round_policy if self.is_first() else rounds.infeasible_policy

    def is_first(self) -> bool:
        return self.kind in WAITS and self.cell.version == 0 and self.scenario.rounds.first == "all"

    def replanned(self, wave: Any) -> Any:
        """A later wave as it starts: with the gains and charges of now, if all of it still has a plan."""
        if not self.cell.fades and not self.cell.batteries.in_time:
            return wave
        try:
            return self.planner().one_wave(wave.devices).waves[0]
        except Infeasible:
            return wave

    def plan(self, devices: Any, size: int) -> Any:
        planner = self.planner()
        agenda = planner.agenda(devices, self.infeasible(), size)
        if len(agenda.dropped):
            asked = planner.posed(agenda.dropped)
            for place, device in enumerate(agenda.dropped.tolist()):
                nothing = dict.fromkeys(("cpu_hz", "compute_w", "power_w", "bandwidth_hz", "planned_s", "snr_hz"),
                                        math.nan)
                self.left_out.append(Job(
                    self.next_number(), device, self.cell.version, self.cell.now, float(asked.cycles[place]),
                    bits=float(asked.bits[place]),
                    budget_j=float(asked.budget_j[place]), gain=float(asked.gain[place]), download_s=0.0,
                    outcome="infeasible", phase="done", ended_at=self.cell.now, round=self.cell.version + 1,
                    **nothing))
        return agenda

    def next_number(self) -> int:
        self.cell.numbers += 1
        return self.cell.numbers - 1

    def dispatch(self, wave: Any) -> list[Job]:
        """Jobs of a wave, as planned, on the channels of this instant."""
        cell, plan, problem, devices = self.cell, wave.plan, wave.problem, wave.devices
        gain = cell.channel.gain(devices, cell.now, cell.version + 1)
        receives = (np.zeros(len(devices)) if self.scenario.cell.downlink is None
                    else Download(cell, self.parts).seconds(gain))
        jobs = [Job(self.next_number(), device, cell.version, cell.now, float(problem.cycles[i]),
                    float(plan.cpu_hz[i]), float(problem.capacitance[i] * plan.cpu_hz[i] ** 3),
                    float(problem.bits[i]), float(plan.power_w[i]),
                    float(plan.bandwidth_hz[i]), float(problem.budget_j[i]), float(problem.gain[i]),
                    float(plan.end_s[i]), float(receives[i]), float(gain[i] * plan.power_w[i] / problem.noise_w_per_hz))
                for i, device in enumerate(devices.tolist())]
        if plan.slots is not None:
            self.give_slots(jobs, plan.slots, cell.now + receives.max())
        self.worked = True
        cell.submit(jobs)
        return jobs

    def give_slots(self, jobs: list[Job], slots: Any, starts: float) -> None:
        """Shares that change in time; a job that is late goes on with its mean share, where work may be late."""
        for place, job in enumerate(jobs):
            own = np.flatnonzero(slots.device == place)
            job.slots = [(starts + float(slots.t0_s[i]), float(slots.hertz[i])) for i in own]
            if self.surprises:
                job.slots.append((starts + float(slots.t1_s[own].max()) * (1 + 1e-9), job.bandwidth_hz))

    # Rounds.

    def run(self) -> Server:
        if self.kind in WAITS:
            self.run_rounds()
        elif self.kind == "window":
            self.run_windows()
        else:
            self.run_asynchronously()
        return self

    def choose(self, cohort: int, available: Any, again: int = 0) -> Any:
        cell = self.cell
        view = View.lazy({
            "round": lambda: cell.version + 1, "available": lambda: available, "alive": lambda: int(available.sum()),
            "cohort_size": lambda: cohort, "population": lambda: cell.population,
            "gain": lambda: cell.channel.gain(slice(None), cell.now, cell.version + 1),
            "last_round": lambda: self.last_round.copy()})
        devices = self.select(view, stream(cell.seed, "selection", cell.version + 1, again)).devices
        self.waits = 0 if len(devices) else self.waits
        return np.asarray(devices)

    def aggregate(self, arrived: list[Job]) -> None:
        self.ends.append(self.cell.now)
        self.cell.version += 1
        self.arrived_last = len(arrived)
        for job in arrived:
            self.last_round[job.device] = self.cell.version

    def run_rounds(self) -> None:
        cell, rounds, cohort = self.cell, self.scenario.rounds, self.scenario.selection.cohort
        while not self.over():
            if self.ready_at() > cell.now:
                self.wait_for_devices()
                continue
            available = self.there()
            devices = np.flatnonzero(available) if self.is_first() else self.choose(cohort, available)
            self.waits = 0 if len(devices) else self.waits
            agenda, arrived = self.plan(np.sort(devices), cohort), []
            for wave in agenda.waves:
                again = wave if wave is agenda.waves[0] else self.replanned(wave)
                arrived += [job for job in self.play_wave(self.dispatch(again)) if job.outcome == "arrived"]
            if not agenda.waves:
                cell.play(cell.now + rounds.wait_s, lambda: False)
            self.aggregate(arrived)

    def play_wave(self, jobs: list[Job]) -> list[Job]:
        """All jobs, or the first so many that arrive, until the deadline."""
        cell, until = self.cell, math.inf
        if self.scenario.rounds.deadline is not None:
            until = cell.now + float(self.scenario.rounds.deadline)
            until += rounding_of(until, cell.now)
        wanted = self.options["buffer"] if self.kind == "first-k" and not self.is_first() else len(jobs)

        def arrived() -> int:
            return sum(job.outcome == "arrived" for job in jobs)

        cell.play(until, lambda: cell.ended == len(jobs) or arrived() >= wanted)
        if self.kind == "first-k":
            self.wait_for_ties()
            while cell.ended and wanted > 0:
                wanted -= cell.collect(1)[0].outcome == "arrived"
        reason = "too late" if self.kind == "first-k" and wanted <= 0 else "deadline"
        if self.kind != "first-k":
            cell.collect()
        cell.cancel(reason)
        cell.collect()
        return jobs

    def wait_for_ties(self) -> None:
        """Let all uploads end that end now but for rounding."""
        cell = self.cell
        while any(cell.end_of(job) - cell.now <= rounding_of(cell.now, job.t0) for job in cell.queue):
            cell.step(math.inf)

    # Servers that do not wait.

    def fill(self) -> None:
        """Let devices start while there are places."""
        cell = self.cell
        while (free := self.concurrency - len(cell.running)) > 0:
            idle = self.there()
            idle[[*(job.device for job in cell.running), *self.aside]] = False
            if not idle.any():
                return
            devices, self.asked = self.choose(free, idle, self.asked), self.asked + 1
            for device in devices.tolist():
                agenda = self.plan(np.array([device]), 1)
                for wave in agenda.waves:
                    self.dispatch(wave)
                if not agenda.waves:
                    self.aside.append(device)

    def reset(self) -> None:
        self.aside, self.asked, self.failed, self.buffer = [], 0, 0, []

    def take(self, ended: list[Job]) -> None:
        arrived = [job for job in ended if job.outcome == "arrived"]
        self.buffer += arrived
        self.failed = len(ended) - len(arrived) + (0 if arrived else self.failed)

    def complete(self) -> bool:
        end = self.scenario.end.time
        wanted = 1 if self.kind == "fedasync" else self.options.get("buffer", 10)
        late = end is not None and self.cell.now >= end and not self.buffer
        return len(self.buffer) >= wanted or self.failed >= MOST_FAILURES or late

    def run_asynchronously(self) -> None:
        cell = self.cell
        self.reset()
        while not self.over():
            if self.ready_at() > cell.now and not cell.running:
                self.wait_for_devices()
                continue
            self.fill()
            if not cell.running:
                cell.play(cell.now + self.scenario.rounds.wait_s, lambda: False)
            while not self.complete() and cell.running:
                cell.play(math.inf, lambda: cell.ended > 0)
                self.wait_for_ties()
                self.take(cell.collect(1))
                if not self.complete():
                    self.fill()
            self.close()

    def run_windows(self) -> None:
        cell, period = self.cell, parse(self.options["period"], "time")
        self.reset()
        while not self.over():
            self.fill()
            cell.play((cell.version + 1) * period, lambda: False)
            self.wait_for_ties()
            self.take(cell.collect())
            self.close()

    def close(self) -> None:
        """Aggregate; with the last aggregation the jobs under way end."""
        self.aggregate(self.buffer)
        self.reset()
        if self.over():
            self.cell.cancel("run over")
            for job in self.cell.collect():
                job.round -= 1
