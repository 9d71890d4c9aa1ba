"""Explanation of an asynchronous run: what delayed an aggregation, and the changes that speed updates up.

Jobs reach from one aggregation into the next, so a change cannot be limited to one aggregation. Each change therefore
applies from the start of the run, which is simulated again up to the same number of aggregations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from netsim.allocation import Infeasible, Problem
from netsim.analysis.counterfactuals import METHOD, Change, changes_of_cell, limit_now, raised_limits
from netsim.analysis.replay import AGREES, RoundReplays
from netsim.base import units
from netsim.base.errors import InputError
from netsim.base.pluralize import pluralize
from netsim.base.tolerances import CONSTRAINT
from netsim.cell.schedulers import SCHEDULERS
from netsim.server import strategy_of
from netsim.trace.schema import ARRIVED

CONCURRENCY = "concurrency"
MOST_DEVICES = 8          # devices whose limits are raised: those that worked longest in all
MOST_JOBS = 30_000        # jobs of all replays together; a longer run is simulated again up to an earlier aggregation


@dataclass(frozen=True, eq=False)
class WholeRun:
    """An asynchronous run up to one of its aggregations; simulates it again with changes."""

    replays: RoundReplays
    number: int                    # the aggregation that is explained

    @cached_property
    def problem(self) -> Problem:
        return self.replays.engine.parts.problems.whole

    @cached_property
    def changes(self) -> list[Change]:
        jobs, found = self.replays.run.jobs, list(changes_of_cell(self.replays, 1.0))
        if 2 * self.concurrency <= len(self.problem):
            found.append(Change(CONCURRENCY, factor=2.0))
        busy = jobs.group_by("device").agg((pl.col("t1") - pl.col("t0")).sum()).sort("t1", "device", descending=True)
        for device in busy["device"].head(MOST_DEVICES).to_list():
            found += raised_limits(device, self.limit)
        return found

    @property
    def concurrency(self) -> int:
        return int(strategy_of(self.replays.scenario).concurrency or self.replays.scenario.selection.cohort)

    @cached_property
    def last(self) -> int:
        """The last aggregation that is simulated again: ``number``, or an earlier one of a long run."""
        until = self.replays.run.jobs.group_by("round").len().sort("round").with_columns(pl.col("len").cum_sum())
        few = until.filter(pl.col("len") * len(self.changes) <= MOST_JOBS)["round"]
        return min(self.number, int(few.max())) if few.len() else 1      # type: ignore[arg-type]

    def limit(self, change: Change) -> float | None:
        """Return the current value of the limit that a change raises; None if it raises none."""
        return float(self.concurrency) if change.key == CONCURRENCY else limit_now(
            self.problem, change, self.replays.method)

    def words(self, change: Change) -> str:
        if change.key == CONCURRENCY:
            return f"doubling the devices that work at a time (to {2 * self.concurrency})"
        return change.words(self.replays.names, self.limit(change))

    def time_s(self, change: Change | None = None) -> float | None:
        """Return the time in s of the last aggregation with a change; None without a plan."""
        replays, options = self.replays, dict[str, Any]()
        if change is not None and change.key == CONCURRENCY:
            options["concurrency"] = 2 * self.concurrency
        change = change or Change("none")
        problem = change.problem(self.problem, replays.method)
        try:
            ends, part = replays.engine.play_from_start(
                problem, replays.planner(change.method or replays.method, hurried=False),
                SCHEDULERS.make(change.sharing or replays.sharing, {}), self.last,
                allow_import=replays.allow_import, **options)
        except (Infeasible, InputError):
            return None
        spent_j, budget_j = (np.array(part.column("jobs", name)) for name in ("energy_j", "budget_j"))
        if change.key == METHOD and (spent_j > budget_j * (1 + CONSTRAINT)).any() and not self._over_budget:
            return None                    # another method must keep the budgets that the run has kept
        return ends[self.last - 1] if len(ends) >= self.last else None

    @cached_property
    def _over_budget(self) -> bool:
        jobs = self.replays.run.jobs
        return jobs.filter(pl.col("energy_j") > pl.col("budget_j") * (1 + CONSTRAINT)).height > 0

    def check(self) -> float:
        """Return the time in s of the last aggregation; raise InputError if its replay differs from the trace."""
        was = float(self.replays.run.rounds["t1"][self.last - 1])
        again = self.time_s()
        if again is None or abs(again - was) > AGREES * max(1.0, was):
            raise InputError(
                "other-version", f"aggregation {self.last}", f"{was:.6g} s",
                "nothing, as a replay gives now" if again is None else f"{again:.6g} s, as a replay gives now",
                "Its selection depends on learning, or another version of netsim wrote the run")
        return was


def held_up(replays: RoundReplays, number: int) -> tuple[str, ...]:
    """Return what an aggregation waited for, in sentences."""
    run = replays.run
    row = run.rounds.filter(pl.col("round") == number).row(0, named=True)
    jobs = run.jobs.filter(pl.col("round") == number)
    arrived = jobs.filter(pl.col("outcome") == ARRIVED).sort("t1")
    period_s = strategy_of(replays.scenario).period_s
    took = units.duration(row["round_s"])
    if period_s is not None:
        return (f"Aggregation {number} came after {took} with {pluralize(arrived.height, 'update')}: server.period "
                "decides, whatever devices do.",)
    said = [f"Aggregation {number} came after {took}, with {pluralize(arrived.height, 'update')}."]
    if arrived.height:
        said.append(_last_update(arrived, row["t0"], replays.names))
        slow = arrived.filter(pl.col("t0") < row["t0"]).height
        if slow:
            said.append(f"{slow} of the updates began before the previous aggregation.")
    if jobs.height > arrived.height:
        said.append(f"{pluralize(jobs.height - arrived.height, 'job')} failed in this time.")
    return tuple(said)


def _last_update(arrived: pl.DataFrame, began: float, names: dict[int, str]) -> str:
    """Return a sentence on the last of the arrived jobs, in a round that ``began`` at this instant."""
    final = arrived.row(-1, named=True)
    parts = ", ".join(f"{part} {units.duration(final[f'{part}_s'], 3)}"
                      for part in ("compute", "wait", "upload") if final[f"{part}_s"] > 0.0)
    gap_s = final["t1"] - (arrived["t1"][-2] if arrived.height > 1 else began)
    since = "the update before it" if arrived.height > 1 else "the aggregation before it"
    return (f"The last update came from {names[final['device']]}, {units.duration(gap_s, 3)} after "
            f"{since}; its job took {units.duration(final['t1'] - final['t0'], 3)} ({parts}).")


def savings(there: WholeRun) -> tuple[float, dict[Change, float]]:
    """Return the time in s of the last aggregation that is simulated again, and the seconds that each change saves."""
    was, found = there.check(), dict[Change, float]()
    for done, change in enumerate(there.changes):
        there.replays.report("whole run", done, len(there.changes))
        with_it = there.time_s(change)
        if with_it is not None and math.isfinite(with_it):
            found[change] = was - with_it
    return was, found

