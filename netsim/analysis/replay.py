"""Replay of the rounds of a run on the simulated cell, unchanged or with a change."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import polars as pl

from netsim.allocation import METHODS, Infeasible, Plan, Problem
from netsim.allocation.methods import takes_link
from netsim.allocation.planner import Planner, PlannerFactory, Preparation, RoundPlan, Wave, planner_of
from netsim.allocation.problem import CELL, DEVICE
from netsim.allocation.sensitivities import ON_TIME
from netsim.analysis.breakdown import counters
from netsim.analysis.device_names import device_names
from netsim.base.errors import InputError
from netsim.base.tolerances import CONSTRAINT
from netsim.base.types import Floats, Ints
from netsim.cell.schedulers import SCHEDULERS
from netsim.run import Run
from netsim.server import SERVERS
from netsim.server.replay import RecordedRound, ReplayedRound, RunReplay
from netsim.trace.schema import ARRIVED, INFEASIBLE
from netsim.validation import user_objects

DEAR = {"sao-common-power": 40, "algorithm6": 40, "sao-joint": 10, "fedl": 10,
        "sao-adaptive": 2_000}      # cost of a plan, in plans of `sao`
MOST_DEAR = 20_000                  # such costs times jobs of a round up to which a method is tried
PLAYED, IN_TIME = 3, 20             # cost of simulating a round: as planned, and in a time-varying environment
MOST_DEVICES = 32    # devices of a cohort whose changes are simulated: those with the largest prices,
MOST_IN_TIME = 16    # or, where rounds do not follow the plan, those that finished last;
MOST_JOBS = 16_000   # fewer of a large cohort: jobs, times devices that are tried, at one play each,
FEWEST = 4           # but at least this many devices
AGREES = 1e-6        # seconds, or relative for rounds over 1 s: largest accepted difference between replay and trace

Report = Callable[[str, int, int], None]      # progress: what is simulated again, number of it done, number in all


@dataclass(frozen=True, eq=False)
class SimulatedRound:
    """A simulated round with its plan."""

    round_s: float
    agenda: RoundPlan
    arrived: frozenset[int]
    spent_j: Mapping[int, float]  # by device
    longest_s: float              # of its waves, as planned or as played
    on_deadline: int              # waves that end on the deadline

    @property
    def over_budget(self) -> frozenset[int]:
        return frozenset(
            device for wave in self.agenda.waves
            for device, may_j in zip(wave.devices.tolist(), wave.problem.budget_j.tolist(), strict=True)
            if self.spent_j[device] > may_j * (1 + CONSTRAINT))

    def place(self, device: int) -> tuple[Wave, int] | None:
        """Return the wave of a device and its position there; None without a plan."""
        for wave in self.agenda.waves:
            found = np.flatnonzero(wave.devices == device)
            if found.size:
                return wave, int(found[0])
        return None

    @classmethod
    def of(cls, found: ReplayedRound, deadline_s: float) -> SimulatedRound:
        device, t0, t1, outcome, energy_j = (
            found.part.column("jobs", name) for name in ("device", "t0", "t1", "outcome", "energy_j"))
        waves: dict[float, float] = {}         # when each began, and how long it took
        for began, ended, reason in zip(t0, t1, outcome, strict=True):
            if reason != INFEASIBLE:
                waves[began] = max(waves.get(began, 0.0), ended - began)
        planned_s = [wave.plan.round_s for wave in found.agenda.waves]
        return cls(
            found.round_s, found.agenda,
            frozenset(one for one, reason in zip(device, outcome, strict=True) if reason == ARRIVED),
            dict(zip(device, energy_j, strict=True)), max([*waves.values(), *planned_s], default=found.round_s),
            sum(seconds >= deadline_s * (1 - ON_TIME) for seconds in waves.values()))

    @classmethod
    def of_waves(cls, agenda: RoundPlan, waves: Sequence[SimulatedRound]) -> SimulatedRound:
        """Return the round of these independent waves, one after another."""
        return cls(
            math.fsum(each.round_s for each in waves), agenda, frozenset().union(*(each.arrived for each in waves)),
            {device: joules for each in waves for device, joules in each.spent_j.items()},
            max(each.longest_s for each in waves), sum(each.on_deadline for each in waves))


def fingerprint(problem: Problem) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name in (*DEVICE, *CELL, "numbers"):
        digest.update(np.asarray(getattr(problem, name), np.float64).tobytes())
    return digest.digest()


def solve_once(make: PlannerFactory, known: dict[bytes, Plan | Infeasible]) -> PlannerFactory:
    """Return the same planner with a cache: under a change of one device, most waves have the same problem."""
    def bound(
        problem: Callable[[Ints], Problem], charge_j: Callable[[Ints], Floats] | None = None,
        before: Preparation | None = None, /,
    ) -> Planner:
        planner = make(problem, charge_j, before)

        def allocate(posed: Problem) -> Plan:
            key = fingerprint(posed)
            if key not in known:
                try:
                    known[key] = planner.allocate(posed)
                except Infeasible as reason:
                    known[key] = reason
            if isinstance(found := known[key], Infeasible):
                raise found
            return found

        return planner if before is not None else replace(planner, allocate=allocate)

    return bound


class RoundReplays:
    """The rounds of one run, each rebuilt on demand."""

    def __init__(
        self, run: Run, *, allow_import: bool = False, methods: bool = True, report: Report = lambda *_: None,
    ) -> None:
        if run.jobs.is_empty():
            raise InputError("empty", str(run.path / "jobs"), hint="No job is recorded, so there is nothing to explain"
                             + ("" if run.last_round else "; no round is complete yet"))
        self.run, self.allow_import, self.report = run, allow_import, report
        self.scenario = run.scenario
        METHODS.permit(self.method, allow_import=allow_import)
        for registry, name, _ in user_objects(self.scenario):
            registry.permit(name, allow_import=allow_import)
        self._methods = methods
        self._planners: dict[tuple[str, bool], PlannerFactory] = {}
        self._plans: dict[tuple[str, bool], dict[bytes, Plan | Infeasible]] = {}      # of the last round replayed
        self._waves: tuple[int, dict[tuple[Any, ...], SimulatedRound]] = (0, {})              # of the same round

    def waves_of(self, number: int) -> dict[tuple[Any, ...], SimulatedRound]:
        """Return the waves of a round that were played so far; those of other rounds are forgotten."""
        if self._waves[0] != number:
            self._waves = number, {}
            for plans in self._plans.values():
                plans.clear()
        return self._waves[1]

    @cached_property
    def other_methods(self) -> list[str]:
        """The allocation methods to try."""
        link = self.engine.parts.problems.link
        return [each for each, method in METHODS.items() if self._methods and each != self.method and not method.dear
                and takes_link(method.links, link) and (method.links == "any" or not self.scenario.has_cpu_tables)]

    def check_rounds(self) -> None:
        """Raise InputError for a run whose rounds are not independent."""
        server = self.scenario.server
        if self.asynchronous or not (self.run.in_rounds or server):
            raise InputError(
                "unsupported", "server.kind" if server else str(self.run.path), f'"{server.kind}"' if server else None,
                "rounds that wait for their jobs", "Jobs reach from one aggregation into the next, so that none of "
                "them can be changed alone; breakdown and critical-path show what each waited for")

    @property
    def asynchronous(self) -> bool:
        """True if jobs reach from one aggregation into the next."""
        server = self.scenario.server
        return server is not None and not getattr(SERVERS.find(server.kind), "waits", True)

    @cached_property
    def engine(self) -> RunReplay:
        """The replay engine, with the state of each round at its start from the trace."""
        began = dict(self.run.rounds.select("round", "t0").iter_rows())
        dispatched, found = 0, {}
        for number, jobs in self.jobs.items():
            found[number] = RecordedRound(jobs["device"].to_numpy(), began[number], int(jobs["job"].to_numpy().min()),
                                          dispatched, partial(self._levels, number))
            dispatched += int(jobs["cpu_hz"].is_not_nan().sum())
        devices = self.run.devices.sort("device")
        if "cycles_per_sample" not in devices.columns:
            raise InputError("damaged", str(self.run.path / "devices.parquet"), "no column cycles_per_sample")
        samples, cycles = devices["samples"].to_numpy().astype(np.int64), devices["cycles_per_sample"].to_numpy()
        return RunReplay(self.scenario, int(self.run.info["seed"]), (samples, cycles),
                         float(self.run.jobs["bits"][0]), found)

    def _levels(self, number: int) -> Floats:
        """Return the charge of all batteries in J when a round began, shape (N,)."""
        level_j: Floats = self.engine.parts.population.battery_j.copy()
        last = self._charges.filter(pl.col("round") < number).group_by("device").agg(pl.col("value").last())
        level_j[last["device"].to_numpy()] = last["value"].to_numpy()
        return level_j

    @cached_property
    def _charges(self) -> pl.DataFrame:
        return counters(self.run, "battery").filter(pl.col("device") >= 0)

    def most_devices(self, jobs: int) -> int:
        """Return the number of devices whose changes are played in a round of ``jobs`` jobs."""
        most = MOST_DEVICES if self.engine.as_planned else MOST_IN_TIME
        return max(FEWEST, min(most, MOST_JOBS * most // MOST_DEVICES // jobs))

    @property
    def dear(self) -> int:
        """Cost of a round that is planned and played again, in plans of `sao`."""
        return DEAR.get(self.method, 1) + (PLAYED if self.scenario.living is None else IN_TIME)

    @property
    def method(self) -> str:
        return self.scenario.allocation.method

    @property
    def sharing(self) -> str:
        """The scheduler of the run."""
        return self.scenario.cell.scheduler or "planned"

    def planner(self, method: str, *, hurried: bool) -> PlannerFactory:
        """Return a method bound to the deadline and its options: those of the run, or the defaults of other methods."""
        if (method, hurried) not in self._planners:
            options: Mapping[str, Any] = self.scenario.allocation.options if method == self.method else {}
            self._planners[method, hurried] = solve_once(
                planner_of(method, options, self.scenario.rounds.deadline if hurried else None),
                self._plans.setdefault((method, hurried), {}))
        return self._planners[method, hurried]

    @cached_property
    def lengths(self) -> dict[int, float]:
        """Duration of each round in s."""
        return dict(self.run.rounds.select("round", "round_s").iter_rows())

    @cached_property
    def names(self) -> dict[int, str]:
        return dict(device_names(self.run.devices).iter_rows())

    @cached_property
    def planned(self) -> list[int]:
        """The rounds in which a device had a plan."""
        return sorted(self.run.jobs.filter(pl.col("cpu_hz").is_not_nan())["round"].unique().to_list())

    @property
    def slowest(self) -> int:
        """The longest round in which a device had a plan; of several, the first."""
        return max(self.planned or self.lengths, key=lambda number: (self.lengths[number], -number))

    @cached_property
    def jobs(self) -> dict[int, pl.DataFrame]:
        """The jobs of each round, by rising device number."""
        rounds = self.run.jobs.sort("round", "device")
        return {int(key[0]): jobs for key, jobs in rounds.partition_by("round", as_dict=True).items()}

    def jobs_of(self, number: int) -> pl.DataFrame:
        """Return the jobs of a round, one per device; raise InputError if there is no such round."""
        if number not in self.lengths:
            raise InputError("out-of-range", "round", str(number), f"1 to {self.run.last_round}")
        if number not in self.jobs:
            with_jobs = sorted(self.jobs)
            raise InputError("empty", f"round {number}", hint="It has no jobs, so there is nothing to explain; rounds "
                             f"with jobs: {', '.join(map(str, with_jobs[:8]))}{', …' if len(with_jobs) > 8 else ''}")
        if self.jobs[number]["device"].is_duplicated().any():
            raise InputError("unsupported", f"round {number}", "two jobs of one device",
                             "rounds that wait for their devices")
        return self.jobs[number]


@dataclass(frozen=True, eq=False)
class RoundStart:
    """One round with the state in which it began; simulates it again from there."""

    replays: RoundReplays
    number: int
    problem: Problem              # of the whole cohort: devices by rising number, with their own budgets
    charge_j: Floats              # charge of each battery when the round began; inf on mains
    deadline_s: float             # of a wave; inf without a deadline

    @classmethod
    def of(cls, replays: RoundReplays, number: int) -> Self:
        jobs = replays.jobs_of(number)
        who, cell = jobs["device"].to_numpy(), replays.engine.begin(number)
        problem = cell.problem(who)
        if replays.run.app is not None:             # a Flower app sets the work and the upload size of its clients
            problem = replace(problem, bits=jobs["bits"].to_numpy(), cycles=jobs["cycles"].to_numpy())
        within_s = replays.scenario.rounds.deadline
        deadline_s = math.inf if within_s is None else float(within_s)
        return cls(replays, number, problem, cell.batteries.level_j(who), deadline_s)

    def play(
        self, problem: Problem | None = None, method: str | None = None, sharing: str | None = None,
    ) -> SimulatedRound:
        """Simulate the round with this problem, method and scheduler.

        Raises InputError if it has no plan and ``rounds.infeasible_policy`` makes that an error.
        """
        posed, waves = self.problem if problem is None else problem, self.replays.waves_of(self.number)
        numbers = np.asarray(posed.numbers)
        planner = self.replays.planner(method or self.method, hurried=self.deadline_s < math.inf)
        agenda = (self.replays.engine.plan(self.number, posed, self.charge_of(numbers), planner)
                  if self._in_independent_waves else None)
        if agenda is None or len(agenda.waves) < 2:
            return self._play(posed, planner, sharing)
        played = []
        for wave in agenda.waves:
            part = posed.subset(np.searchsorted(numbers, wave.devices))
            key = method, sharing, self.deadline_s, fingerprint(part), self.charge_of(wave.devices).tobytes()
            if key not in waves:
                waves[key] = self._play(part, planner, sharing)
            played.append(waves[key])
        return SimulatedRound.of_waves(agenda, played)

    def _play(self, problem: Problem, planner: PlannerFactory, sharing: str | None) -> SimulatedRound:
        scheduler = SCHEDULERS.make(sharing or self.replays.sharing, {})
        found = self.replays.engine.play(self.number, problem, self.charge_of(np.asarray(problem.numbers)), planner,
                                         scheduler, hurried=self.deadline_s < math.inf)
        return SimulatedRound.of(found, self.deadline_s)

    @cached_property
    def _in_independent_waves(self) -> bool:
        """True if a round of several waves is the sum of its waves: equal waves are then played once."""
        return (self.replays.engine.waves_independent
                and self.replays.jobs[self.number].filter(pl.col("cpu_hz").is_not_nan())["t0"].n_unique() > 1)

    def charge_of(self, devices: Ints) -> Floats:
        """Return the charge in J of the batteries of some devices when the round began."""
        return self.charge_j[np.searchsorted(np.asarray(self.problem.numbers), devices)]

    @property
    def round_s(self) -> float:
        """Duration of the round in the trace."""
        return self.replays.lengths[self.number]

    @property
    def method(self) -> str:
        return self.replays.method

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

    @cached_property
    def recorded(self) -> tuple[frozenset[int], frozenset[int]]:
        """Devices that arrived, and devices that exceeded their budget, in the trace."""
        jobs = self.replays.jobs[self.number]
        over = jobs.filter(pl.col("energy_j") > pl.col("budget_j") * (1 + CONSTRAINT))
        arrived = jobs.filter(pl.col("outcome") == ARRIVED)
        return frozenset(arrived["device"].to_list()), frozenset(over["device"].to_list())

    @cached_property
    def without_deadline(self) -> SimulatedRound:
        return replace(self, deadline_s=math.inf).play()

    def left_out_by_deadline(self) -> frozenset[int]:
        """Return the devices without a plan that have one without the deadline."""
        out = self.was.agenda.dropped
        if not len(out) or self.deadline_s == math.inf:
            return frozenset()
        return frozenset(out.tolist()) & frozenset(self.without_deadline.agenda.devices.tolist())
