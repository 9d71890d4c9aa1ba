"""How far a run of netsim is from the reference."""

from __future__ import annotations

import math
from typing import Any

from reference_cell.server import Server

TIMES = ("t0", "t1", "compute_s", "upload_s")
SAME = ("round", "version", "device", "outcome")
DECIDED = ("cpu_hz", "power_w", "bandwidth_hz", "budget_j", "gain", "cycles", "bits")


def compare(run: Any, reference: Server) -> tuple[int, float, list[str]]:
    """Number of jobs, the largest deviation, and what differs beyond 1e-8.

    A time deviates by its difference in seconds, or in parts of the clock beyond 1 s; an energy by its part of the
    larger one, or of 1 uJ; a decided value by its part of the larger one.
    """
    rows, jobs, worst, found = run.jobs.sort("job").to_dicts(), reference.jobs, 0.0, []
    if len(rows) != len(jobs):
        found.append(f"{len(rows)} jobs, the reference has {len(jobs)}")
    for row, job in zip(rows, jobs, strict=False):
        other = {"t1": job.ended_at, **{name: getattr(job, name) for name in (
            "t0", "compute_s", "upload_s", "energy_j", *SAME, *DECIDED)}}
        wrong = [name for name in SAME if row[name] != other[name]]
        off = {name: deviation(row[name], other[name], scale(name, row)) for name in (*TIMES, "energy_j", *DECIDED)}
        worst = max(worst, *off.values())
        wrong += [name for name, each in off.items() if not each <= 1e-8]
        if wrong:
            found.append(f"job {row['job']}: " + ", ".join(f"{name} {row[name]!r}, reference {other[name]!r}"
                                                           for name in wrong))
    return len(rows), worst, found


def scale(name: str, row: dict[str, Any]) -> float:
    """What a value is measured by at least."""
    return max(1.0, row["t1"]) if name in TIMES else 1e-6 if name.endswith("_j") else 0.0


def deviation(one: float, other: float, least: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return 0.0 if math.isnan(one) and math.isnan(other) else math.inf
    larger = least if least >= 1.0 else max(abs(one), abs(other), least)
    return abs(one - other) / larger if larger else 0.0
