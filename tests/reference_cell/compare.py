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

    A time deviates by its difference in seconds, or in parts of the clock beyond 1 s; an energy and a decided value by
    the part of the larger one.
    """
    rows, jobs, worst, found = run.jobs.sort("job").to_dicts(), reference.jobs, 0.0, []
    if len(rows) != len(jobs):
        found.append(f"{len(rows)} jobs, the reference has {len(jobs)}")
    for row, job in zip(rows, jobs, strict=False):
        other = {"t1": job.ended_at, **{name: getattr(job, name) for name in (
            "t0", "compute_s", "upload_s", "energy_j", *SAME, *DECIDED)}}
        wrong = [name for name in SAME if row[name] != other[name]]
        off = {name: deviation(row[name], other[name], 1.0 if name in TIMES else 0.0, row["t1"])
               for name in (*TIMES, "energy_j", *DECIDED)}
        worst = max(worst, *off.values())
        wrong += [name for name, each in off.items() if not each <= 1e-8]
        if wrong:
            found.append(f"job {row['job']}: " + ", ".join(f"{name} {row[name]!r}, reference {other[name]!r}"
                                                           for name in wrong))
    return len(rows), worst, found


def deviation(one: float, other: float, least: float, clock: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return 0.0 if math.isnan(one) and math.isnan(other) else math.inf
    scale = max(least, clock) if least else max(abs(one), abs(other))
    return abs(one - other) / scale if scale else 0.0
