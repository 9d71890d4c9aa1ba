"""The jobs that a wave's plan stands for."""

from __future__ import annotations

from itertools import count, repeat

import numpy as np

from netsim.allocation.waves import Wave
from netsim.base.arrays import Floats, State
from netsim.cell.job import Job


def jobs_of(
    wave: Wave, gain: Floats, download_s: Floats | None = None, now: float = 0.0, *,
    first: int = 0, cause: int = -1, lasting: bool = False,
) -> list[Job]:
    """Make a job for each device of a wave; their numbers start with ``first``.

    ``gain`` is that of the channels now. ``lasting`` is whether work may take longer than the plan means it to: then a
    job that is not done after its last slot goes on with its mean bandwidth.
    """
    plan, problem = wave.plan, wave.problem
    snr_hz = gain * plan.power_w / problem.noise_w_per_hz
    columns = [
        problem.cycles, plan.cpu_hz, problem.capacitance * plan.cpu_hz**3, problem.bits, plan.power_w,
        snr_hz, plan.bandwidth_hz, problem.budget_j, wave.devices, problem.gain, plan.end_s,
        np.zeros(len(gain)) if download_s is None else download_s, problem.link.rate(plan.bandwidth_hz, snr_hz)]
    jobs = list(map(Job, *(column.tolist() for column in columns), count(first), repeat(cause)))
    if plan.slots is not None:
        starts = now + (0.0 if download_s is None else float(download_s.max()))
        _give_slots(jobs, plan.slots.table(), starts, lasting=lasting)
    return jobs


def decided_by(wave: Wave) -> State:
    """What a wave's plan decided for its jobs, in columns as the trace has them."""
    plan, problem = wave.plan, wave.problem
    return {"device": wave.devices, "gain": problem.gain, "bits": problem.bits,
            "cycles": problem.cycles, "budget_j": problem.budget_j, "cpu_hz": plan.cpu_hz, "power_w": plan.power_w,
            "bandwidth_hz": plan.bandwidth_hz, "planned_s": plan.end_s}


def _give_slots(jobs: list[Job], table: Floats, starts: float, *, lasting: bool) -> None:
    """Let the planned bandwidth of each job change at the instants of its slots; until the first it is 0."""
    slots: list[list[tuple[float, float]]] = [[] for _ in jobs]
    if lasting:
        last = np.zeros(len(jobs))
        np.maximum.at(last, table[:, 2].astype(np.int64), table[:, 1])
        for own, job, end in zip(slots, jobs, (starts + last * (1 + 1e-9)).tolist(), strict=True):
            own.append((end, job.bandwidth_hz))
    for t0, _, i, hz in table[np.argsort(-table[:, 0], kind="stable")].tolist():
        slots[int(i)].append((starts + t0, hz))
    for job, own in zip(jobs, slots, strict=True):
        job.slots, job.share_hz = own, 0.0
