"""Small worlds for servers: devices with known cycle times, and a model that is one number."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import simpy

from netsim.allocation.plan import plan_for
from netsim.allocation.planner import RoundPlan, Wave
from netsim.allocation.problem import Problem
from netsim.cell.schedulers import Planned
from netsim.devices.workload import JobSizes
from netsim.environment.availability import STEADY
from netsim.physics import SHANNON
from netsim.selection import Choice
from netsim.server.participation import Participation
from netsim.server.radio_cell import CellParts
from netsim.server.round_recorder import RoundRecorder
from netsim.server.server import ServerContext
from netsim.trace.recorder import Recorder

BAND_HZ, NOISE, POWER_W = 30e6, 1e-20, 0.5
GAIN = NOISE * 1e6 / POWER_W      # in 1 MHz: SNR J = b in Q(b) = b log2(1 + J/b), so 1 Mbit/s


class Scalar:
    """A learning whose model is one number: device n adds ``updates[n]`` to the model that its job started from."""

    trains = False
    samples = None

    def __init__(self, updates: dict[int, float]) -> None:
        self.updates = updates
        self.w = 0.0
        self.jobs: dict[int, tuple[float, float]] = {}
        self.models: list[float] = []
        self.log: list[tuple[Any, ...]] = []

    def columns(self) -> dict[str, Any]:
        return {}

    def prepare(self, jobs: Any, version: int, round: int | None = None) -> None:
        assert version >= len(self.models)       # more where an aggregation had nothing to take
        self.log.append(("prepare", round, list(jobs.values())))
        self.jobs |= {job: (self.w, self.w + self.updates.get(device, 1.0)) for job, device in jobs.items()}

    def start(self, jobs: Any) -> None:
        self.log.append(("start", [job.device for job in jobs]))

    def drop(self, jobs: Any) -> None:
        for job in jobs:
            self.jobs.pop(job.number, None)

    def aggregate(self, jobs: Any, weights: Any, base: str = "start", chances: Any = None) -> None:
        now, weights = self.w, np.full(len(jobs), 1 / len(jobs)) if weights is None else weights
        self.log.append(("aggregate", jobs))
        for job, share in zip(jobs, weights.tolist(), strict=True):
            start, learned = self.jobs.pop(job)
            self.w += share * (learned - (start if base == "start" else now))
        self.models.append(self.w)

    def alignment(self, jobs: Any) -> Any:
        return np.zeros(len(jobs))

    def evaluate(self) -> None:
        return None


@dataclass
class Methods:
    """Stands for selection and allocation: the idle devices in order, with their seconds and their bits."""

    compute_s: Any                        # of a device, at its k-th job
    bits: Any
    clusters: None = None
    done: dict[int, int] = field(default_factory=dict)

    def choose(self, view: Any, again: int = 0) -> Choice:
        return Choice(np.flatnonzero(view.available)[: view.cohort_size])

    def moved(self, before: Any) -> dict[int, float]:
        return {}

    def agenda(self, devices: Any, rule: str, size: int) -> RoundPlan:
        seconds = []
        for device in devices.tolist():
            self.done[device] = self.done.get(device, 0) + 1
            seconds.append(self.compute_s(device, self.done[device] - 1))
        count = len(devices)
        problem = Problem(
            bits=np.array([self.bits(device) for device in devices.tolist()]), cycles=np.array(seconds) * 1e9,
            capacitance=1e-27, gain=np.full(count, GAIN), power_w=POWER_W, budget_j=100.0, cpu_min_hz=1e9,
            cpu_max_hz=1e9, bandwidth_hz=BAND_HZ, noise_w_per_hz=NOISE)
        return RoundPlan((Wave(devices, problem, plan_for(problem, np.full(count, 1e6), np.full(count, 1e9))),),
                      np.zeros(0, np.int64))


def open_rounds(
    env: Any, recorder: Recorder, methods: Any, learning: Any, battery_j: Any, scheduler: Any = None,
    gain: float = GAIN, band_hz: float = BAND_HZ,
) -> RoundRecorder:
    """A cell with these devices' batteries, in which ``methods`` plans."""
    devices = len(battery_j)
    sizes = JobSizes(np.full(devices, 1e6), np.full(devices, 1e6), np.ones(devices))
    population: Any = SimpleNamespace(battery_j=battery_j, radiated=None)
    channel: Any = SimpleNamespace(gain=lambda some, t, round: np.full(devices, gain)[some], changes=True,
                                   next_change=lambda t: np.inf)
    problems: Any = SimpleNamespace(sizes=sizes, bandwidth_hz=band_hz, noise_w_per_hz=NOISE, link=SHANNON,
                                    has_downlink=False, least_j=lambda channel_changes: None, downlink=lambda: None)
    parts = CellParts(population, channel, problems, scheduler or Planned(), lambda *_: methods,
                      "now", STEADY, False)
    return RoundRecorder(env, recorder, parts, learning)


def play(
    kind: Any, compute_s: Any, bits: Any = lambda device: 1e6, updates: dict[int, float] | None = None, *,
    devices: int = 3, rounds: int = 5, battery_j: float = float("inf"), scheduler: Any = None, **options: Any,
) -> SimpleNamespace:
    """Let a server of this kind work with devices that compute so many seconds and then send so many bits."""
    env, recorder, learning = simpy.Environment(), Recorder(), Scalar(updates or {})
    methods = Methods(compute_s if callable(compute_s) else lambda device, job: compute_s[device], bits)
    scenario: Any = SimpleNamespace(
        rounds=SimpleNamespace(first="cohort", infeasible_policy="largest", deadline=None, wait_s=0.25),
        end=SimpleNamespace(rounds=rounds, time=None), selection=SimpleNamespace(cohort=devices),
        learning=SimpleNamespace(target_accuracy=None, evaluation=SimpleNamespace(every=1)))
    opened = open_rounds(env, recorder, methods, learning, np.full(devices, battery_j), scheduler)
    history, strategy = Participation(devices), kind(**options)
    context = ServerContext(scenario, opened, opened.cell.problems.sizes, learning, history, lambda at: None,
                      methods)
    env.run(until=env.process(strategy.loop(context, strategy).run()))
    part = recorder.take()
    rows, jobs = ([dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
                  for table in (part.rows, part.jobs))
    return SimpleNamespace(rows=rows, jobs=jobs, learning=learning, history=history, cell=opened.cell,
                           links=part.links)
