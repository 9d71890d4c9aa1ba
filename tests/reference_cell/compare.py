"""How far a run of netsim is from the reference."""

from __future__ import annotations

import math
from typing import Any

from reference_cell.cell import Job
from reference_cell.server import Server

TIMES = ("t0", "t1", "compute_s", "upload_s")
SAME = ("round", "version", "device", "outcome")
DECIDED = ("cpu_hz", "power_w", "bandwidth_hz", "budget_j", "gain", "cycles", "bits")
# Where plans follow on charges that are nearly empty, each job multiplies the rounding of the one before: in world 162
# of seed 41 a unit in the last place of the clock grows to 6.4e-7 over 430 jobs in the reference alone, and netsim
# deviates by 1e-7; in world 427 of seed 84 it grows to 0.2 over 200 jobs, and netsim deviates by 0.03.
ROUNDINGS = 2.0          # by which two programs that both round may differ more than one that rounds otherwise
MOST_ROUNDING = 2e-6     # beyond it, what follows depends on rounding, and is not compared
Row = dict[str, Any]


def compare(run: Any, reference: Server) -> tuple[int, float, list[str]]:
    """Number of jobs compared, the largest deviation, and what differs beyond 1e-8.

    A time deviates by its difference in seconds; an energy by its part of the larger one, or of 1 uJ; a decided value
    by its part of the larger one. Where jobs follow on each other for long, a unit in the last place of the clock grows
    beyond 1e-8: there the limit is ``ROUNDINGS`` times what that unit changes in the reference itself, and from the
    job on in which this grows beyond ``MOST_ROUNDING``, jobs are not compared.
    """
    rows = run.jobs.sort("job").to_dicts()
    own = [values(job) for job in reference.jobs]
    found, worst = differences(rows, own, [1e-8] * len(own))
    if found or len(rows) != len(own):
        shaken = [values(job) for job in Server(reference.scenario, reference.cell.seed, shaken=True).run().jobs]
        limits = rounding(own, shaken)
        found, worst = differences(rows[:len(limits)], own[:len(limits)], limits)
        if len(limits) == len(own) != len(rows):
            found.insert(0, f"{len(rows)} jobs, the reference has {len(own)}")
        return min(len(limits), len(rows)), worst, found
    return len(rows), worst, found


def values(job: Job) -> dict[str, Any]:
    return {"t1": job.ended_at, **{name: getattr(job, name) for name in (
        "t0", "compute_s", "upload_s", "energy_j", *SAME, *DECIDED)}}


def differences(rows: list[Row], others: list[Row], limits: list[float]) -> tuple[list[str], float]:
    """What differs in each job beyond its limit, and the largest deviation."""
    worst, found = 0.0, []
    for number, (row, other, limit) in enumerate(zip(rows, others, limits, strict=False)):
        off = deviations(row, other)
        worst = max(worst, *off.values())
        wrong = [name for name in SAME if row[name] != other[name]]
        wrong += [name for name, each in off.items() if not each <= limit]
        if wrong:
            found.append(f"job {number}: " + ", ".join(f"{name} {row[name]!r}, reference {other[name]!r}"
                                                       for name in wrong))
    return found, worst


def rounding(own: list[Row], shaken: list[Row]) -> list[float]:
    """Limits of the jobs that rounding leaves to be compared: what it has grown to, as two references differ."""
    grown, limits = 0.0, []
    for row, other in zip(own, shaken, strict=False):
        if any(row[name] != other[name] for name in SAME):
            break                                          # rounding that decides an outcome excuses nothing
        before, grown = grown, max(grown, *deviations(row, other).values())
        if ROUNDINGS * grown > MOST_ROUNDING >= ROUNDINGS * before > 1e-8:     # step by step, not in one job
            return limits
        limits.append(max(1e-8, min(ROUNDINGS * grown, MOST_ROUNDING)))
    return limits + [1e-8] * (len(own) - len(limits))


def deviations(row: Row, other: Row) -> dict[str, float]:
    return {name: deviation(row[name], other[name], scale(name)) for name in (*TIMES, "energy_j", *DECIDED)}


def scale(name: str) -> float:
    """What a value is measured by at least."""
    return 1.0 if name in TIMES else 1e-6 if name.endswith("_j") else 0.0


def deviation(one: float, other: float, least: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return 0.0 if math.isnan(one) and math.isnan(other) else math.inf
    larger = least if least >= 1.0 else max(abs(one), abs(other), least)
    return abs(one - other) / larger if larger else 0.0
