"""The rounds of a run, planned and played again: as they were, or with something changed.

A round is rebuilt from the table of jobs (gain, bits, cycles, budget as its plan saw them), the devices (what CPUs and
radios can do) and the scenario (band, noise, allocation method, rules). Everything in it has a closed form, so that
thousands of changed rounds can be played without a simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from netsim.allocation import METHODS, Problem
from netsim.allocation.sharing import Share, share_out
from netsim.allocation.waves import Agenda, Planner, Wave, planner_of
from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.errors import InputError
from netsim.cell.disciplines import DISCIPLINES

if TYPE_CHECKING:
    from netsim.trace.stored_run import StoredRun

OF_DEVICES = ("capacitance", "power_w", "cpu_min_hz", "cpu_max_hz", "power_min_w", "power_max_w")
OF_JOBS = ("bits", "cycles", "gain")
AGREES = 1e-6      # seconds, or parts of a longer round: a plan made anew that differs by more is another plan

MakePlanner = Callable[[Callable[[Ints], Problem]], Planner]


@dataclass(frozen=True, eq=False)
class Played:
    """A round as it goes by a plan."""

    round_s: float
    agenda: Agenda
    arrived: frozenset[int]

    @property
    def over_budget(self) -> bool:
        """Whether the plan lets a device spend more than its budget."""
        return any(bool(wave.plan.over_budget.any()) for wave in self.agenda.waves)

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
    problem: Problem              # the devices by rising number
    charge_j: Floats              # what each battery held when the round began; inf on mains
    rule: str                     # for a cohort that has no plan
    size: int                     # of waves
    patience_s: float             # how long a wave may take
    planner: MakePlanner          # of the run's own allocation method
    share: Share | None = None    # how those who send share the band; None: as planned

    def play(self, problem: Problem | None = None, planner: MakePlanner | None = None) -> Played:
        """The round of this problem, by this method; raises Infeasible or InputError where it has no plan."""
        posed = self.problem if problem is None else problem
        devices = _numbers(posed)
        made = (planner or self.planner)(lambda some: posed.subset(np.searchsorted(devices, some)))
        agenda = made.agenda(devices, self.rule, self.size)
        round_s, arrived = 0.0, set[int]()
        for wave in agenda.waves:
            wave_s, there = self._wave(wave)
            round_s += wave_s
            arrived.update(wave.devices[there].tolist())
        return Played(round_s, agenda, frozenset(arrived))

    def _wave(self, wave: Wave) -> tuple[float, Bools]:
        """How long a wave takes, and who arrives: until its battery is empty or patience ends, each does as planned."""
        plan = wave.plan
        charge_j = self.charge_j[np.searchsorted(_numbers(self.problem), wave.devices)]
        left_j = charge_j - plan.compute_energy_j
        with np.errstate(divide="ignore", invalid="ignore"):
            compute_w = wave.problem.capacitance * plan.cpu_hz**3
            dies = np.where(left_j < 0.0, charge_j / compute_w, plan.start_s + left_j / plan.power_w)
        if self.share is None:
            ends, done = np.minimum(plan.end_s, dies), plan.end_s <= dies
        else:
            lasts = np.where(left_j < 0.0, dies, plan.compute_s + left_j / plan.power_w)
            shared = share_out(wave.problem, plan, self.share, lasts)
            ends, done = shared.end_s, shared.done
        return min(float(ends.max()), self.patience_s), done & (ends <= self.patience_s)

    def ends_s(self, wave: Wave) -> Floats:
        """When each device of a wave would have sent its last bit, with time and charge enough."""
        if self.share is None:
            return wave.plan.end_s
        return share_out(wave.problem, wave.plan, self.share).end_s


class Replays:
    """The rounds of one run, each rebuilt when it is asked for."""

    def __init__(self, run: StoredRun, *, allow_import: bool = False) -> None:
        if run.jobs.is_empty():
            raise InputError(f"{run.path}: no job is recorded, so there is nothing to explain"
                             + ("" if run.last_round else "; no round is complete yet"))
        self.run = run
        self.scenario = run.scenario
        self._refuse_what_cannot_be_played()
        METHODS.permit(self.method, allow_import=allow_import)
        sharing = self.scenario.allocation.sharing or "planned"
        DISCIPLINES.permit(sharing, allow_import=allow_import)
        self.share: Share | None = None if sharing == "planned" else DISCIPLINES.find(sharing)().bandwidth
        self._planners: dict[str, MakePlanner] = {}

    def _refuse_what_cannot_be_played(self) -> None:
        """Only synchronous rounds of devices that are always there can be played without a simulation."""
        server = self.scenario.server
        if server and server.kind != "synchronous":
            raise InputError(f'{self.run.path}: a run with server.kind = "{server.kind}" can\'t be explained yet, only '
                             "synchronous rounds; breakdown and critical-path show where its time went")
        for table in self.scenario.population:
            for name in ("availability", "crash", "loss"):
                if getattr(table, name) is not None:
                    raise InputError(f"{self.run.path}: a run in which {table.name} has {name} can't be explained yet; "
                                     "breakdown and critical-path show where its time went")

    @property
    def method(self) -> str:
        return self.scenario.allocation.method

    def planner(self, method: str) -> MakePlanner:
        """A method bound to its options: those of the run for its own, the defaults for any other."""
        options: Mapping[str, Any] = self.scenario.allocation.options if method == self.method else {}
        if method not in self._planners:
            self._planners[method] = planner_of(method, options)
        return self._planners[method]

    @cached_property
    def lengths(self) -> dict[int, float]:
        """How long each round took."""
        return dict(self.run.rounds.select("round", "round_s").iter_rows())

    @property
    def slowest(self) -> int:
        """The longest round; of several, the first."""
        return max(self.lengths, key=lambda number: (self.lengths[number], -number))

    @cached_property
    def jobs(self) -> dict[int, pl.DataFrame]:
        """The jobs of each round by rising device, with what the device had spent before."""
        spent = pl.col("energy_j").cum_sum().over("device") - pl.col("energy_j")
        rounds = self.run.jobs.sort("t0", "device").with_columns(spent_j=spent).sort("round", "device")
        return {int(key[0]): jobs for key, jobs in rounds.partition_by("round", as_dict=True).items()}

    @cached_property
    def _devices(self) -> dict[str, Floats]:
        wanted = ("budget_j", "battery_j", *OF_DEVICES)
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
        problem = Problem(
            **{name: jobs[name].to_numpy() for name in OF_JOBS}, **{name: devices[name] for name in OF_DEVICES},
            budget_j=np.minimum(jobs["budget_j"].to_numpy(), devices["budget_j"]),     # a relaxed one is raised anew
            bandwidth_hz=float(self.scenario.cell.bandwidth), noise_w_per_hz=self.scenario.cell.noise_w_per_hz,
            numbers=who)
        first = number == 1 and rounds.first == "all"
        return Replay(
            number, problem, charge_j=devices["battery_j"] - jobs["spent_j"].to_numpy(),
            rule=rounds.first_infeasible if first else rounds.infeasible, size=self.scenario.selection.cohort,
            patience_s=math.inf if rounds.deadline is None else float(rounds.deadline) * (1 + 1e-12),
            planner=self.planner(self.method), share=self.share)

    def as_it_was(self, replay: Replay) -> Played:
        """The round planned and played again without a change; it has to take as long as it took."""
        played, took = replay.play(), self.lengths[replay.number]
        if abs(played.round_s - took) > AGREES * max(1.0, took):
            raise InputError(
                f"round {replay.number} took {took:.6g} s, but its plan made anew takes {played.round_s:.6g} s: the "
                "run is of another version of netsim or of its allocation method, and cannot be explained")
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


def _numbers(problem: Problem) -> Ints:
    assert problem.numbers is not None
    return problem.numbers
