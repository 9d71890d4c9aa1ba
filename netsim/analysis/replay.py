"""The rounds of a run, planned and played again: as they were, or with something changed.

A round is rebuilt from the table of jobs (gain, bits, cycles, budget as its plan saw them), the devices (what CPUs and
radios can do) and the scenario (band, noise, allocation method, rules), and played without a simulation
(:mod:`netsim.analysis.playing`), so that thousands of changed rounds can be. Where a plan alone does not say how a
round goes, it is played in the cell (:mod:`netsim.analysis.in_cell`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from netsim.allocation import METHODS, SHANNON, Problem
from netsim.allocation.methods import takes_link
from netsim.allocation.prices import ON_TIME
from netsim.allocation.problem import KEPT_BACK
from netsim.allocation.waves import Agenda, MakePlanner, Wave, planner_of
from netsim.analysis.playing import play_wave
from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError
from netsim.base.tolerances import CONSTRAINT
from netsim.cell.schedulers import SCHEDULERS, Scheduler

if TYPE_CHECKING:
    from netsim.run import Run
    from netsim.server.again import Again

OF_DEVICES = ("capacitance", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz", "power_min_w", "power_max_w")
OF_JOBS = ("bits", "cycles", "gain")
DEAR = {"sao-common-power": 40, "algorithm6": 40, "sao-joint": 10, "fedl": 10,
        "sao-adaptive": 2_000}      # plans of `sao` that one costs
IN_CELL = 20       # and that a round costs which is played in the cell
AGREES = 1e-6      # seconds, or parts of a longer round: a plan made anew that differs by more is another plan


@dataclass(frozen=True, eq=False)
class Played:
    """A round as it goes by a plan."""

    round_s: float
    agenda: Agenda
    arrived: frozenset[int]
    spent_j: Mapping[int, float]  # by device
    longest_s: float              # of its waves, as planned or as played
    on_deadline: int              # waves that end on the deadline

    @property
    def over_budget(self) -> frozenset[int]:
        """The devices that spend more than they may."""
        return frozenset(
            device for wave in self.agenda.waves
            for device, may_j in zip(wave.devices.tolist(), wave.problem.budget_j.tolist(), strict=True)
            if self.spent_j[device] > may_j * (1 + CONSTRAINT))

    def place(self, device: int) -> tuple[Wave, int] | None:
        """The wave that a device is in, and its position there; None where it has no plan."""
        for wave in self.agenda.waves:
            found = np.flatnonzero(wave.devices == device)
            if found.size:
                return wave, int(found[0])
        return None


@dataclass(frozen=True, eq=False)
class Replay:
    """One round: the problem of its whole cohort, and the rules by which it is planned and played."""

    number: int
    began: float
    problem: Problem              # the devices by rising number, with their own budgets
    charge_j: Floats              # what each battery held when the round began; inf on mains
    rule: str                     # for a cohort that has no plan
    size: int                     # of waves
    deadline_s: float             # of a wave; inf where there is none
    wait_s: float                 # how long it takes if nobody fits
    planner: MakePlanner          # of the run's own allocation method
    scheduler: Scheduler

    def agenda(self, problem: Problem | None = None, planner: MakePlanner | None = None) -> Agenda:
        """The plans of this problem by this method, told what batteries hold; raises InputError by the rule "error"."""
        posed = self.problem if problem is None else problem
        devices = numbers_of(posed)
        made = (planner or self.planner)(lambda some: posed.subset(np.searchsorted(devices, some)), self.charge_of)
        return made.agenda(devices, self.rule, self.size)

    def play(
        self, problem: Problem | None = None, planner: MakePlanner | None = None, scheduler: Scheduler | None = None,
    ) -> Played:
        """The round of this problem, by this method; raises InputError where it has no plan and that is an error."""
        agenda = self.agenda(problem, planner)
        band_hz, patience_s = (problem or self.problem).bandwidth_hz, self.deadline_s * (1 + 1e-12)
        round_s = longest_s = 0.0 if agenda.waves else self.wait_s
        arrived, spent_j, on_deadline = set[int](), dict[int, float](), 0
        for wave in agenda.waves:
            done = play_wave(wave, self.charge_of(wave.devices), patience_s, scheduler or self.scheduler, band_hz,
                             self.began + round_s)
            round_s += done.seconds
            longest_s = max(longest_s, done.seconds, wave.plan.round_s)
            arrived.update(wave.devices[done.arrived].tolist())
            spent_j.update(zip(wave.devices.tolist(), done.energy_j.tolist(), strict=True))
            on_deadline += done.seconds >= self.deadline_s * (1 - ON_TIME)
        return Played(round_s, agenda, frozenset(arrived), spent_j, longest_s, on_deadline)

    def charge_of(self, devices: Ints) -> Floats:
        """What the batteries of some devices held when the round began."""
        return self.charge_j[np.searchsorted(numbers_of(self.problem), devices)]


class Replays:
    """The rounds of one run, each rebuilt when it is asked for."""

    def __init__(self, run: Run, *, allow_import: bool = False, methods: bool = True) -> None:
        if run.jobs.is_empty():
            raise InputError(f"{run.path}: no job is recorded, so there is nothing to explain"
                             + ("" if run.last_round else "; no round is complete yet"))
        self.run = run
        self.scenario = run.scenario
        METHODS.permit(self.method, allow_import=allow_import)
        SCHEDULERS.permit(self.sharing, allow_import=allow_import)
        self._planners: dict[str, MakePlanner] = {}
        self.again = self._play_again(allow_import=allow_import)
        self.link = SHANNON if self.again is None else self.again.parts.problems.link
        self.other_methods = [each for each, method in METHODS.items()                          # to be tried
                              if methods and each != self.method and not method.dear
                              and takes_link(method.links, self.link)]

    def _play_again(self, *, allow_import: bool) -> Again | None:
        """The rounds to be played in the cell; None where their plans say how they go."""
        server = self.scenario.server
        if self.scenario.living is None and (server is None or server.kind == "synchronous"):
            if not self.run.in_rounds:
                raise InputError(f"{self.run.path}: jobs reach from one round into the next, and only rounds that wait "
                                 "for their devices can be explained; breakdown and critical-path show where the time "
                                 "went")
            return None
        from netsim.analysis.in_cell import play_again  # simulates, and so SimPy

        cohorts = {number: jobs["device"].to_numpy() for number, jobs in self.jobs.items()}
        return play_again(self.run, cohorts, allow_import=allow_import)

    @property
    def as_planned(self) -> bool:
        """Whether rounds go as their plans say, but for batteries and deadlines."""
        return self.again is None and self.sharing == "planned"

    @property
    def dear(self) -> int:
        """How many plans of `sao` a round planned and played anew costs."""
        return DEAR.get(self.method, 1) + (0 if self.again is None else IN_CELL)

    @property
    def method(self) -> str:
        return self.scenario.allocation.method

    @property
    def sharing(self) -> str:
        """The scheduler of the run."""
        return self.scenario.allocation.sharing or "planned"

    @property
    def deadline_s(self) -> float:
        """How long a wave may take."""
        deadline = self.scenario.rounds.deadline
        return math.inf if deadline is None else float(deadline)

    def planner(self, method: str) -> MakePlanner:
        """A method bound to its options: those of the run for its own, the defaults for any other."""
        options: Mapping[str, Any] = self.scenario.allocation.options if method == self.method else {}
        if method not in self._planners:
            self._planners[method] = planner_of(method, options, self.scenario.rounds.deadline)
        return self._planners[method]

    @cached_property
    def lengths(self) -> dict[int, float]:
        """How long each round took."""
        return dict(self.run.rounds.select("round", "round_s").iter_rows())

    @cached_property
    def planned(self) -> list[int]:
        """The rounds in which some device had a plan."""
        return sorted(self.run.jobs.filter(pl.col("cpu_hz").is_not_nan())["round"].unique().to_list())

    @property
    def slowest(self) -> int:
        """The longest round in which a device had a plan; of several, the first."""
        return max(self.planned or self.lengths, key=lambda number: (self.lengths[number], -number))

    @cached_property
    def jobs(self) -> dict[int, pl.DataFrame]:
        """The jobs of each round by rising device, with what the device had spent before."""
        spent = pl.col("energy_j").cum_sum().over("device") - pl.col("energy_j")
        rounds = self.run.jobs.sort("t0", "device").with_columns(spent_j=spent).sort("round", "device")
        return {int(key[0]): jobs for key, jobs in rounds.partition_by("round", as_dict=True).items()}

    @cached_property
    def _devices(self) -> dict[str, Floats]:
        wanted = ("battery_j", *OF_DEVICES)
        table = self.run.devices.sort("device")
        missing = [name for name in wanted if name not in table.columns]
        if missing:
            raise InputError(f"{self.run.path / 'devices.parquet'}: has no column {missing[0]}, without which no "
                             "round can be planned again")
        return {name: table[name].to_numpy() for name in wanted}

    def replay(self, number: int) -> Replay:
        """One round, checked: planned again, it takes as long as it took."""
        jobs = self._jobs_of(number)
        who, rounds = jobs["device"].to_numpy(), self.scenario.rounds
        devices = {name: column[who] for name, column in self._devices.items()}
        if jobs["device"].is_duplicated().any():
            raise InputError(f"round {number} has two jobs of one device: only rounds that wait for their devices can "
                             "be explained")
        arrays: dict[str, Any] = {**{name: jobs[name].to_numpy() for name in OF_JOBS},
                                  **{name: devices[name] for name in OF_DEVICES}}
        problem = Problem(
            **arrays,
            bandwidth_hz=float(self.scenario.cell.bandwidth), noise_w_per_hz=self.scenario.cell.noise_w_per_hz,
            numbers=who, link=self.link)
        first = number == 1 and rounds.first == "all"
        found = Replay(
            number, float(jobs["t0"].to_numpy().min()), problem, charge_j=_charge(jobs, devices),
            rule=rounds.first_infeasible if first else rounds.infeasible, size=self.scenario.selection.cohort,
            deadline_s=self.deadline_s, wait_s=rounds.wait_s, planner=self.planner(self.method),
            scheduler=self.scheduler(self.sharing))
        if self.again is None:
            return found
        from netsim.analysis.in_cell import ReplayInCell

        charge_j = self.again.begin(number).batteries.level_j(who)
        return ReplayInCell(**{**vars(found), "charge_j": charge_j}, again=self.again)

    def scheduler(self, name: str) -> Scheduler:
        """How the band is shared."""
        found: Scheduler = SCHEDULERS.make(name, {})
        return found

    def as_it_was(self, replay: Replay) -> Played:
        """The round planned and played again without a change; it has to take as long as it took."""
        played, took = replay.play(), self.lengths[replay.number]
        if abs(played.round_s - took) > AGREES * max(1.0, took):
            raise InputError(
                f"round {replay.number} took {took:.6g} s, but its plan made anew takes {played.round_s:.6g} s: the "
                f"run is of another version of netsim, of its methods or of a server that does more than wait for a "
                "round's devices, and cannot be explained")
        return played

    def _jobs_of(self, number: int) -> pl.DataFrame:
        last = self.run.last_round
        if number not in self.lengths:
            raise InputError(f"no round {number} in this run; it has rounds 1 to {last}")
        if number not in self.jobs:
            with_jobs = sorted(self.jobs)
            raise InputError(f"round {number} has no jobs, so there is nothing to explain; rounds with jobs: "
                             f"{', '.join(map(str, with_jobs[:8]))}{', …' if len(with_jobs) > 8 else ''}")
        return self.jobs[number]


def _charge(jobs: pl.DataFrame, devices: dict[str, Floats]) -> Floats:
    """What the batteries held: to the last digit where the plan was told, which a sum of what was spent is not."""
    told_j = jobs["budget_j"].to_numpy()
    found: Floats = np.where(told_j < devices["budget_j"], told_j / (1.0 - KEPT_BACK),
                             devices["battery_j"] - jobs["spent_j"].to_numpy())
    return found


def numbers_of(problem: Problem) -> Ints:
    assert problem.numbers is not None
    return problem.numbers
