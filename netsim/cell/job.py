"""A job as data: its plan, its phase, the work left in that phase, and the time and energy it has used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import count, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

import numpy as np

from netsim.allocation.planner import Wave
from netsim.base.errors import InputError
from netsim.base.types import Floats, State
from netsim.trace.schema import ARRIVED

if TYPE_CHECKING:
    import simpy

    from netsim.cell.cell import JobsFinished
    from netsim.cell.transmission import Transmission

DOWNLOAD, COMPUTE, UPLOAD, DONE = PHASES = ("download", "compute", "upload", "done")
WAIT, OFF, THROTTLED = "wait", "off", "throttled"
SPANS = (*PHASES, WAIT, OFF, THROTTLED)                 # names of a job's segments in the trace
Segment = tuple[str, float, float, float]               # name, start and end in seconds, joules
MOST_CHANGES = 50_000      # of channel or availability in a job: 1,000 s at a coherence time of 20 ms; 10 s of CPU time
LOOK_AFTER = 1_000         # changes between two estimates of the progress of a job
ENDLESS = 1e9 * MOST_CHANGES      # changes ahead at the current rate: no fade is so deep, the signal is too weak

# The numbers of a job in a checkpoint, and the integers among them; ``DERIVED`` ones are not set when it is restored.
NUMBERS = (
    "number", "device", "plan.cycles", "plan.cpu_hz", "plan.compute_w", "plan.bits", "plan.power_w",
    "plan.bandwidth_hz", "snr_hz", "plan.gain", "plan.budget_j", "plan.planned_s", "t0", "cause", "work.left",
    "work.rate", "work.since", "work.seconds", "work.watts", "work.hz", "work.away", "work.restarts", "work.attempts",
    "work.packets", "plan.download_s", "work.compute_s", "work.upload_s", "work.download_j", "work.compute_j",
    "upload_j", "work.computed_at", "work.sent_from", "ended_at", "work.computed_charge_j", "work.ended_charge_j",
    "follows_row", "upload_row", "work.logged_j", "work.drawn_j", "plan.rate", "share_hz")
WHOLE = ("number", "device", "cause", "work.restarts", "work.attempts", "work.packets", "upload_row")
DERIVED = ("upload_j", "follows_row")

Policy = Literal["pause", "restart", "abort"]


@dataclass(frozen=True)
class Interruption:
    """Cause of a SimPy interrupt of a job's process.

    Energy already used is not returned under any policy.

    Parameters
    ----------
    reason : str
        Reason, as the trace names it; the outcome of an aborted job.
    policy : {"pause", "restart", "abort"}
        Continue the work when the device is available, repeat it from the start, or end the job.
    """

    reason: str
    policy: Policy = "abort"


@dataclass(slots=True, eq=False)
class JobPlan:
    """Work, resources and energy budget of a job.

    Parameters
    ----------
    cycles, cpu_hz, compute_w : float
        CPU cycles to compute, the CPU frequency in Hz, and the power in W that the CPU draws at it.
    bits, power_w : float
        Bits to send, and the transmit power in W, which is also the power drawn.
    bandwidth_hz : float
        Planned bandwidth in Hz. Schedulers that divide the band themselves ignore it.
    budget_j : float
        Energy budget in J; NaN for none.
    gain, planned_s : float
        Channel gain assumed by the plan, and planned duration in s from the start of computing.
    download_s : float
        Seconds of receiving the model, before computing.
    rate : float
        Bits per second with the planned bandwidth; NaN if the uplink has to compute it.
    """

    cycles: float
    cpu_hz: float
    compute_w: float
    bits: float
    power_w: float
    bandwidth_hz: float = math.nan
    budget_j: float = math.nan
    gain: float = math.nan
    planned_s: float = math.nan
    download_s: float = 0.0
    rate: float = math.nan


PLAN_FIELDS = tuple(field.name for field in fields(JobPlan))


# Values that most jobs never change are attributes of the class, so that creating thousands of jobs is fast.

class JobWork:
    """Work left in a job's phase (seconds of download, cycles or bits), and time and energy used so far."""

    __slots__ = (
        "__dict__", "away", "compute_j", "compute_s", "computed_at", "hz", "left", "rate", "seconds", "sent_from",
        "since", "upload_s", "watts")

    restarts = 0
    attempts = 0                        # lost uploads
    packets = 0                         # packets of the upload with retransmissions; 0 without packet loss
    download_j = 0.0
    drawn_j = 0.0                       # joules of the upload before the battery's current load
    logged_j = 0.0                      # joules in the job's segments
    computed_charge_j = ended_charge_j = math.nan       # battery level at that instant; NaN for mains power

    def __init__(self, left: float) -> None:
        self.left = left
        self.rate = self.since = 0.0    # decrease of ``left`` per second, and the instant from which it holds
        self.seconds = 0.0              # length of the current segment of work; inf while its end is not known
        self.watts = -1.0               # power drawn in it; negative if there is none
        self.hz = 0.0                   # current bandwidth
        self.away = 0                   # 1 while the device is unavailable
        self.compute_s = self.compute_j = self.upload_s = 0.0
        self.computed_at = self.sent_from = math.nan    # the end of computing, and the start of the last upload

    def until_done(self) -> float:
        """Return the seconds from ``since`` until nothing is left at the current rate; inf at rate 0."""
        return self.left / self.rate if self.rate > 0.0 else math.inf


class Job:
    """One job of a device: download, compute, upload.

    A device's process can start in any phase, so a job that was saved or paused continues with the work left.

    Parameters
    ----------
    plan : JobPlan
        Work, resources and energy budget.
    snr_hz : float
        J = h p / N0 in Hz: the Shannon rate in bandwidth b is b log2(1 + J/b).
    device, number, cause : int
        Number of the device, number of the job, and trace row of its allocation (-1 for none).

    Attributes
    ----------
    phase : {"download", "compute", "upload", "done"}
        Current phase.
    outcome : str
        "arrived", or the reason for failure; empty while the job runs.
    t0, ended_at : float
        Instants of dispatch and end in seconds; NaN before.
    work : JobWork
        Work left in the phase, and time and energy used so far.
    """

    __slots__ = (
        "__dict__", "cause", "device", "ended_at", "number", "outcome", "phase", "plan", "process", "segments", "slots",
        "snr_hz", "t0", "transmission", "waiter", "work")

    share_hz = math.nan                 # current planned bandwidth of a job with slots
    follows: Job | None = None          # the job whose end released the bandwidth for this one
    upload_row = -1                     # trace row of its upload
    process: simpy.Process | None
    transmission: Transmission | None
    waiter: JobsFinished | None
    segments: list[Segment] | None      # None for a job that only computes, waits and sends
    slots: list[tuple[float, float]] | None             # instant and Hz of each planned bandwidth; last first

    def __init__(self, plan: JobPlan, snr_hz: float, device: int = 0, number: int = 0, cause: int = -1) -> None:
        self.plan, self.snr_hz, self.device, self.number, self.cause = plan, snr_hz, device, number, cause
        self.t0 = self.ended_at = math.nan
        self.outcome = ""
        self.process = self.transmission = self.waiter = self.segments = self.slots = None
        self.phase, self.work = COMPUTE, JobWork(plan.cycles)
        if plan.download_s:
            self.phase, self.work.left, self.segments = DOWNLOAD, plan.download_s, []

    @property
    def arrived(self) -> bool:
        """True if the upload reached the server."""
        return self.outcome == ARRIVED

    @property
    def energy_j(self) -> float:
        """Energy used so far, in J."""
        return self.work.download_j + self.work.compute_j + self.upload_j

    @property
    def upload_j(self) -> float:
        """Energy used for sending so far, in J."""
        return self.plan.power_w * self.work.upload_s

    @property
    def planned_hz(self) -> float:
        """Current planned bandwidth in Hz."""
        return self.plan.bandwidth_hz if self.slots is None else self.share_hz

    @property
    def follows_row(self) -> int:
        """Trace row of the upload whose end released the bandwidth for this job; -1 for none."""
        return -1 if self.follows is None else self.follows.upload_row

    def follow_slots(self, now: float) -> bool:
        """Set the bandwidth that is planned for the instant ``now`` (s); return True if it has changed."""
        before = self.share_hz
        while self.slots and self.slots[-1][0] <= now:
            self.share_hz = self.slots.pop()[1]
        return self.share_hz != before

    def affordable_s(self, tolerance: float = 0.0) -> float:
        """Return the seconds of sending, from ``work.since`` on, that the energy budget allows; NaN without a budget.

        All sending of the job may last longer by the fraction ``tolerance``.
        """
        paid_s = (self.plan.budget_j - self.work.compute_j) / self.plan.power_w
        return paid_s * (1.0 + tolerance) - self.work.upload_s

    def restart(self) -> None:
        """Discard all work except a completed download."""
        phase, all_of_it = (
            (DOWNLOAD, self.plan.download_s) if self.phase == DOWNLOAD else (COMPUTE, self.plan.cycles))
        if (self.phase, self.work.left) != (phase, all_of_it):
            self.phase, self.work.left = phase, all_of_it
            self.work.restarts += 1

    # Segments.

    def begin_segments(self) -> list[Segment]:
        """Record segments from now on, also those of a finished computation and wait; return the list."""
        if self.segments is None:
            self.segments, work = [], self.work
            if self.phase == UPLOAD:
                self.segments.append((COMPUTE, self.t0, work.computed_at, work.compute_j))
                work.logged_j = work.compute_j
                if work.sent_from > work.computed_at:
                    self.segments.append((WAIT, work.computed_at, work.sent_from, 0.0))
        return self.segments

    def end_segment(self, name: str, now: float) -> None:
        """End the current segment; an empty one is recorded only if it is the job's first."""
        segments = self.begin_segments()
        began = segments[-1][2] if segments else self.t0
        if now > began or not segments:
            segments.append((name, began, now, max(0.0, self.energy_j - self.work.logged_j)))
            self.work.logged_j = self.energy_j


def check_progress(job: Job, changes: int, what: str, now: float, hint: str, left_s: float = 0.0) -> None:
    """Raise InputError for an upload or a computation whose changes would take hours of CPU time.

    ``left_s`` are the seconds that are left at the current rate.
    """
    total, work = (job.plan.bits, "bits sent") if job.phase == UPLOAD else (job.plan.cycles, "cycles computed")
    done = 1.0 - job.work.left / total if total and job.phase != DOWNLOAD else 0.0
    hopeless = changes % LOOK_AFTER == 0 and (
        0.0 < done * 10 * MOST_CHANGES < changes or ENDLESS * (now - job.t0) < left_s * changes < math.inf)
    if hopeless or changes > MOST_CHANGES:
        raise InputError("too-large", f"the {job.phase} of device {job.device}", f"{changes - 1:,} {what} until "
                         f"{now:.6g} s, with {done:.2g} of its {work}", hint=hint)


def uploaded(number: int, row: int) -> Job:
    """Return an ended job of which only the number and the trace row of its upload are known."""
    job = Job(JobPlan(0.0, 0.0, 0.0, 0.0, 0.0), 0.0, number=number)
    job.upload_row = row
    return job


def save(jobs: Sequence[Job]) -> State:
    """Return jobs as arrays, for a checkpoint."""
    texts = "\n".join(f"{job.phase}\t{job.outcome}" for job in jobs).encode()
    segments = [(job.number, SPANS.index(name), *rest) for job in jobs for name, *rest in job.segments or ()]
    slots = [(job.number, *slot) for job in jobs for slot in job.slots or ()]
    kept = [job.number for job in jobs if job.segments is not None]
    return {"numbers": np.array(list(map(attrgetter(*NUMBERS), jobs))).reshape(-1, len(NUMBERS)),
            "texts": np.frombuffer(texts, np.uint8), "segments": np.array(segments, float).reshape(-1, 5),
            "slots": np.array(slots, float).reshape(-1, 3), "with_segments": np.array(kept, np.int64)}


def restore(state: State) -> list[Job]:
    """Return the jobs that were saved in a checkpoint."""
    jobs: dict[int, Job] = {}
    texts = bytes(state["texts"]).decode().split("\n")
    for row, text in zip(state["numbers"].tolist(), texts, strict=False):
        values = {name: int(value) if name in WHOLE else value for name, value in zip(NUMBERS, row, strict=True)}
        job = Job(JobPlan(*(values.pop(f"plan.{name}") for name in PLAN_FIELDS)), 0.0)
        job.follows = uploaded(-1, int(values["follows_row"])) if values["follows_row"] >= 0 else None
        for name in values.keys() - set(DERIVED):
            part, _, attribute = name.rpartition(".")
            setattr(getattr(job, part) if part else job, attribute, values[name])
        job.phase, job.outcome = text.split("\t")
        job.slots = None if math.isnan(job.share_hz) else []
        job.segments = None
        jobs[job.number] = job
    for number in state["with_segments"].tolist():
        jobs[number].segments = []
    for number, name, *rest in state["segments"].tolist():
        jobs[int(number)].begin_segments().append((SPANS[int(name)], *rest))
    for number, at, hz in state["slots"].tolist():
        jobs[int(number)].slots.append((at, hz))        # type: ignore[union-attr]
    return list(jobs.values())


def jobs_of(
    wave: Wave, gain: Floats, download_s: Floats | None = None, now: float = 0.0, *,
    first: int = 0, cause: int = -1, lasting: bool = False,
) -> list[Job]:
    """Return one job per device of a wave, numbered from ``first``; ``gain`` holds the current channel gains.

    With ``lasting``, work may take longer than planned: a job that is not done after its last slot continues with its
    mean bandwidth.
    """
    plan, problem = wave.plan, wave.problem
    snr_hz = gain * plan.power_w / problem.noise_w_per_hz
    columns = {**decided_by(wave), "compute_w": problem.compute_w(plan.cpu_hz),
               "download_s": np.zeros(len(gain)) if download_s is None else download_s,
               "rate": problem.link.rate(plan.bandwidth_hz, snr_hz)}
    plans = map(JobPlan, *(columns[name].tolist() for name in PLAN_FIELDS))
    jobs = list(map(Job, plans, snr_hz.tolist(), wave.devices.tolist(), count(first), repeat(cause)))
    if plan.slots is not None:
        starts = now + (0.0 if download_s is None else float(download_s.max()))
        _give_slots(jobs, plan.slots.table(), starts, lasting=lasting)
    return jobs


def decided_by(wave: Wave) -> State:
    """Return the planned values of a wave's jobs as columns with the names of the trace."""
    plan, problem = wave.plan, wave.problem
    return {"device": wave.devices, "gain": problem.gain, "bits": problem.bits,
            "cycles": problem.cycles, "budget_j": problem.budget_j, "cpu_hz": plan.cpu_hz, "power_w": plan.power_w,
            "bandwidth_hz": plan.bandwidth_hz, "planned_s": plan.end_s}


def _give_slots(jobs: list[Job], table: Floats, starts: float, *, lasting: bool) -> None:
    """Set the instants and bandwidths of each job's slots; before the first slot the bandwidth is 0."""
    slots: list[list[tuple[float, float]]] = [[] for _ in jobs]
    if lasting:
        last = np.zeros(len(jobs))
        np.maximum.at(last, table[:, 2].astype(np.int64), table[:, 1])
        for own, job, end in zip(slots, jobs, (starts + last * (1 + 1e-9)).tolist(), strict=True):
            own.append((end, job.plan.bandwidth_hz))
    for t0, _, i, hz in table[np.argsort(-table[:, 0], kind="stable")].tolist():
        slots[int(i)].append((starts + t0, hz))
    for job, own in zip(jobs, slots, strict=True):
        job.slots, job.share_hz = own, 0.0
