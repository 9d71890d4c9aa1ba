"""Replay of the rounds of a run on the simulated cell, unchanged or with a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from netsim.allocation import METHODS
from netsim.allocation.methods import takes_link
from netsim.allocation.prices import ON_TIME
from netsim.allocation.waves import Agenda, MakePlanner, Wave, planner_of
from netsim.analysis.names import device_names
from netsim.base.arrays import Floats
from netsim.base.errors import InputError
from netsim.base.tolerances import CONSTRAINT
from netsim.prepare import brought
from netsim.server import SERVERS
from netsim.server.replay import RecordedRound, ReplayedRound, RunReplay
from netsim.trace.schema import ARRIVED, INFEASIBLE

if TYPE_CHECKING:
    from netsim.run import Run

DEAR = {"sao-common-power": 40, "algorithm6": 40, "sao-joint": 10, "fedl": 10,
        "sao-adaptive": 2_000}      # cost of a plan, in plans of `sao`
PLAYED, IN_TIME = 3, 20             # cost of simulating a round: as planned, and in a time-varying environment
MOST_DEVICES = 32    # devices of a cohort whose changes are simulated: those with the largest prices,
MOST_IN_TIME = 16    # or, where rounds do not follow the plan, those that finished last


@dataclass(frozen=True, eq=False)
class Played:
    """A simulated round with its plan."""

    round_s: float
    agenda: Agenda
    arrived: frozenset[int]
    spent_j: Mapping[int, float]  # by device
    longest_s: float              # of its waves, as planned or as played
    on_deadline: int              # waves that end on the deadline

    @property
    def over_budget(self) -> frozenset[int]:
        """The devices that exceed their budget."""
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
    def of(cls, found: ReplayedRound, deadline_s: float) -> Played:
        """Summarize the jobs of a replayed round."""
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


class Replays:
    """The rounds of one run, each rebuilt on demand."""

    def __init__(self, run: Run, *, allow_import: bool = False, methods: bool = True) -> None:
        if run.jobs.is_empty():
            raise InputError("empty", str(run.path / "jobs"), hint="No job is recorded, so there is nothing to explain"
                             + ("" if run.last_round else "; no round is complete yet"))
        self.run = run
        self.scenario = run.scenario
        METHODS.permit(self.method, allow_import=allow_import)
        for registry, name, _ in brought(self.scenario):
            registry.permit(name, allow_import=allow_import)
        self._check_server()
        self._methods = methods
        self._planners: dict[tuple[str, bool], MakePlanner] = {}

    @cached_property
    def other_methods(self) -> list[str]:
        """The allocation methods to try."""
        link = self.engine.parts.problems.link
        return [each for each, method in METHODS.items() if self._methods and each != self.method and not method.dear
                and takes_link(method.links, link)]

    def _check_server(self) -> None:
        """Raise InputError for a run whose rounds are not independent."""
        server = self.scenario.server
        waits = server is None or getattr(SERVERS.find(server.kind), "waits", True)
        if not waits or not (self.run.in_rounds or server):
            raise InputError(
                "unsupported", "server.kind" if server else str(self.run.path), f'"{server.kind}"' if server else None,
                "rounds that wait for their jobs", "Jobs reach from one aggregation into the next, so that none of "
                "them can be changed alone; breakdown and critical-path show what each waited for")

    @cached_property
    def engine(self) -> RunReplay:
        """The replay engine, with the state of each round at its start from the trace."""
        began = dict(self.run.rounds.select("round", "t0").iter_rows())
        dispatched, found = 0, {}
        for number, jobs in self.jobs.items():
            found[number] = RecordedRound(jobs["device"].to_numpy(), began[number], int(jobs["job"].to_numpy().min()),
                                          dispatched, partial(self._levels, number))
            dispatched += int(jobs["cpu_hz"].is_not_nan().sum())
        samples = self.run.devices.sort("device")["samples"].to_numpy().astype(np.int64)
        return RunReplay(self.scenario, int(self.run.info["seed"]), samples, float(self.run.jobs["bits"][0]), found)

    def _levels(self, number: int) -> Floats:
        """Return the charge of all batteries in J when a round began, shape (N,)."""
        level_j: Floats = self.engine.parts.population.battery_j.copy()
        last = self._charges.filter(pl.col("round") < number).group_by("device").agg(pl.col("value").last())
        level_j[last["device"].to_numpy()] = last["value"].to_numpy()
        return level_j

    @cached_property
    def _charges(self) -> pl.DataFrame:
        return self.run.collect(self.run.scan().filter(
            (pl.col("kind") == "counter") & (pl.col("name") == "battery") & (pl.col("device") >= 0))
            .select("round", "device", "value"))

    @property
    def as_planned(self) -> bool:
        """True if rounds follow their plans, except for batteries and deadlines."""
        return self.engine.as_planned

    @property
    def most_devices(self) -> int:
        """Number of devices of a cohort whose changes are played."""
        return MOST_DEVICES if self.as_planned else MOST_IN_TIME

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
        return self.scenario.allocation.sharing or "planned"

    def planner(self, method: str, *, hurried: bool) -> MakePlanner:
        """Return a method bound to the deadline and its options: those of the run, or the defaults of other methods."""
        if (method, hurried) not in self._planners:
            options: Mapping[str, Any] = self.scenario.allocation.options if method == self.method else {}
            self._planners[method, hurried] = planner_of(
                method, options, self.scenario.rounds.deadline if hurried else None)
        return self._planners[method, hurried]

    @cached_property
    def lengths(self) -> dict[int, float]:
        """Duration of each round in s."""
        return dict(self.run.rounds.select("round", "round_s").iter_rows())

    @cached_property
    def names(self) -> dict[int, str]:
        """Names of the devices."""
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
