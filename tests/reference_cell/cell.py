"""The cell: jobs that download, compute and send, stepped from event to event."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netsim.base.fields import options_in
from netsim.devices.population import draw_population
from netsim.devices.workload import JobSizes, RoundProblems
from netsim.environment.availability import AvailabilityModel
from netsim.environment.channel import channel_of
from netsim.environment.energy_sources import energy_sources_of
from reference_cell.band import ROUNDING, Link, shares
from reference_cell.energy import Batteries, Heat

POLICIES = ("pause", "restart", "abort")              # the most severe last
REASONS = {"availability": "went off", "crash": "crashed"}
MOST_RESTARTS = 100


def rounding_of(at: float, since: float) -> float:
    """Seconds by which instants differ that are planned to be one."""
    return max(1e-12 * (at - since), 16 * math.ulp(at))


@dataclass(eq=False)
class Job:
    """What was decided for a job, what is left of it, and what it has taken."""

    number: int
    device: int
    version: int
    t0: float
    cycles: float
    cpu_hz: float
    compute_w: float
    bits: float
    power_w: float
    bandwidth_hz: float
    budget_j: float
    gain: float
    planned_s: float
    download_s: float
    snr_hz: float
    slots: list[tuple[float, float]] | None = None          # from when on, and how many hertz; in the order of time
    phase: str = "compute"
    away: bool = False
    left: float = 0.0                                        # seconds of download, cycles or bits
    clock_hz: float = 0.0                                    # of the present stretch of computing; 0: none
    hot_in: float = math.inf                                 # seconds until the clock falls
    on_air: bool = False
    hz: float = 0.0
    rate: float = 0.0
    attempts: int = 0
    packets_lost: bool | None = None
    restarts: int = 0
    absences: list[Any] = field(default_factory=list)       # of its device, when it was looked at last
    compute_s: float = 0.0
    upload_s: float = 0.0
    energy_j: float = 0.0
    compute_j: float = 0.0
    ended_at: float = math.nan
    outcome: str = ""
    round: int = 0
    slot_hz: float = 0.0

    @property
    def planned_hz(self) -> float:
        return self.bandwidth_hz if self.slots is None else self.slot_hz

    @property
    def affordable_s(self) -> float:
        """Seconds of sending that the budget still pays for; what was downloaded is not part of the budget."""
        return (self.budget_j - self.compute_j) / self.power_w - self.upload_s

    @property
    def limit_s(self) -> float:
        """Seconds of sending at which the budget is spent; one that suffices but for rounding suffices."""
        return (self.budget_j - self.compute_j) / self.power_w * (1.0 + ROUNDING)

    @property
    def watts(self) -> float:
        """Power of computing in the present stretch."""
        return self.compute_w * (self.clock_hz / self.cpu_hz) ** 3


@dataclass(eq=False)
class Cell:
    """Devices, band and channel of a scenario under a seed."""

    scenario: Any
    seed: int
    shaken: bool = False                                     # whether every other event is an ulp late
    now: float = 0.0
    version: int = 0
    running: list[Job] = field(default_factory=list)         # not collected yet
    done: list[Job] = field(default_factory=list)            # collected
    queue: list[Job] = field(default_factory=list)           # on the air, or waiting: in the order of joining
    numbers: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        scenario, seed, cell = self.scenario, self.seed, self.scenario.cell
        self.population = draw_population(scenario, seed, None)
        sizes = JobSizes.of(scenario, self.population, float(scenario.learning.bits))
        self.problems = RoundProblems(scenario, self.population, sizes)
        self.channel = channel_of(scenario, self.population, seed)
        self.fades = self.channel.next_change(0.0) < math.inf
        self.faults = AvailabilityModel.of(scenario, seed)
        size = len(self.population)
        supplies = energy_sources_of(scenario, seed)
        idle, harvest = (np.concatenate([getattr(each, name) for each in supplies]) if supplies else np.zeros(size)
                         for name in ("idle_w", "harvest_w"))
        self.batteries = Batteries(scenario, self.population.battery_j, idle, harvest)
        self.heat = Heat(scenario)
        given = options_in(cell.link)
        self.link = Link(float(given.get("efficiency", 1.0)), float(given.get("max_spectral_efficiency", math.inf)))
        self.rule = scenario.cell.scheduler or "planned"
        self.receives_w = 0.0 if cell.downlink is None else float(cell.downlink.receive_power or 0.0)
        self.drops = scenario.rounds.on_budget_exceeded == "abort"
        self.uploads = [0] * size
        self.at_work: dict[int, Job] = {}
        self.divided = 0.0                                   # instant of the last division of the band
        self.least_j = self.problems.least_j(channel_changes=self.channel.changes)

    # What the server does.

    def submit(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.phase, job.left = ("download", job.download_s) if job.download_s else ("compute", job.cycles)
            self.at_work[job.device] = job
            self.running.append(job)
            if job.phase == "compute":
                self.start_clock(job)
        for job in jobs:
            self.look(job)

    def cancel(self, reason: str) -> None:
        for job in self.running:
            if job.phase == "done":
                job.outcome = reason
            else:
                self.end(job, reason)

    def collect(self, most: int | None = None) -> list[Job]:
        ended = [job for job in self.running if job.phase == "done"]
        ended.sort(key=lambda job: job.number if most is None else job.ended_at)
        if most is not None and ended:                       # one: of those that end together, the first device
            soon = ended[0].ended_at + rounding_of(ended[0].ended_at, ended[0].t0)
            ended = sorted((job for job in ended if job.ended_at <= soon), key=lambda job: job.device)
        for job in ended[:most]:
            self.running.remove(job)
            job.round = self.version + 1
            self.done.append(job)
        return ended[:most]

    def play(self, until: float, enough: Callable[[], bool]) -> None:
        """Let time pass until there is enough, or until an instant, whose ends are in time."""
        self.settle()
        while not enough() and self.now < until:
            self.step(until)

    @property
    def ended(self) -> int:
        return sum(job.phase == "done" for job in self.running)

    # Events.

    def step(self, until: float) -> None:
        """Go to the next event, and let it happen."""
        self.steps += 1
        assert self.steps < 200_000, "no end in sight"
        ends = {job: self.end_of(job) for job in self.at_work.values()}
        other = [until, *(self.faults.next_change(device, self.now) for device in self.at_work)]
        for device in self.at_work:
            other.append(self.batteries.empty_at(device, self.now, self.load_w(device)))
        for device in range(len(self.population)):
            other.append(self.batteries.net_w(device, self.now, 0.0)[1])
        if self.queue and self.fades:
            other.append(self.channel.next_change(self.now))
        other += [at for job in self.at_work.values() for at, _ in job.slots or () if at > self.now]
        then = min([*ends.values(), *other])
        assert then < math.inf, "nothing will ever happen"
        if self.shaken and self.steps % 2 and self.now < then < until:
            then = math.nextafter(then, math.inf)
        fades = self.fades and self.queue and self.channel.next_change(self.now) <= then
        empty = [device for device in self.at_work if self.batteries.empty_at(
            device, self.now, self.load_w(device)) <= then]
        self.advance(then - self.now)
        self.now = then
        self.settle(ends, empty, fades=bool(fades))

    def load_w(self, device: int) -> float:
        """Power that a device's work draws."""
        job = self.at_work.get(device)
        if job is None or job.away:
            return 0.0
        if job.phase == "download":
            return self.receives_w
        return job.watts if job.phase == "compute" else job.power_w if job.on_air else 0.0

    def end_of(self, job: Job) -> float:
        """When the present stretch of a job ends, as things are."""
        if job.away:
            return math.inf
        if job.phase == "download":
            return self.now + job.left
        if job.phase == "compute":
            return self.now + min(job.left / job.clock_hz, job.hot_in)
        if not job.on_air:
            return math.inf
        return self.now + min(self.sent_in(job), max(0.0, job.limit_s - job.upload_s) if self.drops else math.inf)

    @staticmethod
    def sent_in(job: Job) -> float:
        return job.left / job.rate if job.rate > 0.0 else math.inf

    def advance(self, seconds: float) -> None:
        """Let amounts decrease."""
        for device in range(len(self.population)):
            job = self.at_work.get(device)
            computes = job is not None and not job.away and job.phase == "compute"
            load_w = self.load_w(device)
            self.batteries.advance(device, self.now, seconds, load_w)
            self.heat.advance(device, seconds, job.clock_hz if computes else 0.0)
            if job is None or job.away:
                continue
            job.energy_j += load_w * seconds
            if job.phase == "download":
                job.left -= seconds
            elif computes:
                job.left -= job.clock_hz * seconds
                job.hot_in -= seconds
                job.compute_s += seconds
                job.compute_j += load_w * seconds
            elif job.on_air:
                job.left -= job.rate * seconds
                job.upload_s += seconds

    def settle(self, ends: dict[Job, float] | None = None, empty: list[int] | None = None, *,
               fades: bool = False) -> None:
        """What happens at this instant: ends, then failures, then starts; the band is divided once."""
        ends, changed, sharing = ends or {}, fades, list(self.queue)
        for job in sorted(ends, key=lambda job: job.device):
            changed |= self.is_due(job, ends[job])
        for job in list(self.at_work.values()):
            if job.slots is not None:
                changed |= self.follow_slots(job)
        for device in empty or ():
            job = self.at_work.get(device)
            if job is not None and self.load_w(device) > 0.0 and self.end_of(job) - self.now > self.hair(job):
                self.batteries.level[device] = 0.0
                self.end(job, "battery empty")
        for job in list(self.at_work.values()):
            self.look(job)
        ready = any(job.phase == "upload" and not job.away and job not in self.queue for job in self.at_work.values())
        if changed or ready or sharing != self.queue:
            self.divide(fades=fades)

    def hair(self, job: Job) -> float:
        """Seconds that are rounding."""
        return 32 * math.ulp(self.now) + 1e-11 * (self.now - job.t0)

    def is_due(self, job: Job, end: float) -> bool:
        """Let a stretch of a job end if its end has come; return whether an upload has ended."""
        if job.phase == "upload":
            near = 16 * math.ulp(self.now) + ROUNDING * (self.now - self.divided)
            if not job.away and job.on_air and self.sent_in(job) <= near:
                return self.is_sent(job)
            if self.drops and job.on_air and job.upload_s >= job.limit_s - 16 * math.ulp(self.now):
                self.end(job, "over budget")
                return True
            return False
        if job.away or end > self.now + 4 * math.ulp(self.now):
            return False
        if job.phase == "download":
            job.phase, job.left = "compute", job.cycles
            self.start_clock(job)
        elif job.left / job.clock_hz <= job.hot_in:
            self.computed(job)
        else:
            self.heat.is_hot(job.device)
            self.start_clock(job)                            # at a lower clock from now on
        return False

    def start_clock(self, job: Job) -> None:
        job.clock_hz, job.hot_in = self.heat.clock(job.device, job.cpu_hz)

    def computed(self, job: Job) -> None:
        """A device has computed: its upload joins the queue."""
        job.phase, job.left = "upload", job.bits
        loss = self.faults.loss(job.device)
        if loss and loss.packets:
            sent, lost = self.faults.packets_sent(job.device, self.uploads[job.device])
            self.uploads[job.device] += 1
            job.left, job.packets_lost = job.bits * sent / loss.packets, lost > 0

    def is_sent(self, job: Job) -> bool:
        """The last bit is sent: it has arrived, is lost, or is sent again."""
        loss, outcome = self.faults.loss(job.device), "arrived"
        if job.packets_lost is not None:
            outcome = "lost" if job.packets_lost else "arrived"
        elif loss:
            lost = self.faults.loses(job.device, self.uploads[job.device])
            self.uploads[job.device] += 1
            job.attempts += lost
            if lost and job.attempts < loss.max_attempts:
                job.left = job.bits
                return True
            outcome = "lost" if lost else "arrived"
        self.end(job, outcome)
        return True

    def end(self, job: Job, outcome: str) -> None:
        job.phase, job.outcome, job.ended_at = "done", outcome, self.now
        self.leave(job)
        del self.at_work[job.device]

    def leave(self, job: Job) -> None:
        job.on_air, job.hz, job.rate = False, 0.0, 0.0
        if job in self.queue:
            self.queue.remove(job)

    def look(self, job: Job) -> None:
        """A device that is off pauses, restarts or aborts its job; one that is back continues it."""
        absences = self.faults.absences(job.device, self.now)
        if absences == job.absences:
            return                                         # an event of another device
        job.absences = absences
        if not absences:
            back, job.away = job.away, False
            if back and job.phase == "compute":
                self.start_clock(job)
            return
        worst = max(absences, key=lambda absence: POLICIES.index(absence.on_interrupt))
        spent = job.restarts >= MOST_RESTARTS and not job.away
        never = spent or self.faults.back_at(job.device, self.now) == math.inf
        if worst.on_interrupt == "abort" or never:
            self.end(job, REASONS[worst.why])
            return
        job.away = True
        self.leave(job)
        begin = ("download", job.download_s) if job.phase == "download" else ("compute", job.cycles)
        if worst.on_interrupt == "restart" and (job.phase, job.left) != begin:
            (job.phase, job.left), job.packets_lost = begin, None
            job.restarts += 1

    # The band.

    def follow_slots(self, job: Job) -> bool:
        hz = next((hz for at, hz in reversed(job.slots or ()) if at <= self.now + 16 * math.ulp(self.now)), 0.0)
        changed, job.slot_hz = hz != job.slot_hz, hz
        return changed

    def divide(self, *, fades: bool) -> None:
        """Let jobs that are ready join the queue, in the order of devices, and give each its share."""
        ready = [job for job in self.at_work.values()
                 if job.phase == "upload" and not job.away and job not in self.queue]
        self.queue += sorted(ready, key=lambda job: job.device)
        for job in self.queue if fades else ready if self.fades else ():
            gain = self.channel.gain(np.array([job.device]), self.now, self.version + 1)[0]
            job.snr_hz = float(gain) * job.power_w / self.problems.noise_w_per_hz
        self.queue.sort(key=lambda job: not job.on_air)       # those on the air first
        if not self.queue:
            return
        given = shares(self.rule, self.queue, self.problems.bandwidth_hz, self.link)
        for job, hz in zip(self.queue, given, strict=True):
            if hz > 0.0 and not job.on_air:
                job.on_air = True
            job.hz, job.rate = hz, self.link.rate(hz, job.snr_hz)
        self.divided = self.now
        spent = [job for job in self.queue if job.on_air and self.drops and job.limit_s <= job.upload_s]
        for job in spent:
            self.end(job, "over budget")
        if spent:
            self.divide(fades=False)
