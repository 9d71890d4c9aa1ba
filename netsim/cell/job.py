"""A job as data: what was decided for it, its phase, the amount left in that phase, and what it has taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from netsim.allocation.waves import Wave
from netsim.base.arrays import Floats, State
from netsim.trace.schema import ARRIVED

if TYPE_CHECKING:
    import simpy

    from netsim.cell.cell import JobsFinished
    from netsim.cell.uplink import Transmission

DOWNLOAD, COMPUTE, UPLOAD, DONE = PHASES = ("download", "compute", "upload", "done")
WAIT, OFF, THROTTLED = "wait", "off", "throttled"
SPANS = (*PHASES, WAIT, OFF, THROTTLED)                 # names of a job's segments in the trace
Segment = tuple[str, float, float, float]               # name, start and end in seconds, joules

# What a checkpoint keeps of a job as numbers, and which of them are whole; ``DERIVED`` are not set when it is restored.
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
    """Why a job's process is interrupted, as the trace names it, and what becomes of the job: a cause of an interrupt.

    ``pause`` continues the work when the device is back, ``restart`` repeats it from the start, and ``abort`` ends the
    job with the reason as its outcome. Energy already spent stays spent.
    """

    reason: str
    policy: Policy = "abort"


class JobPlan(NamedTuple):
    """What was decided for a job.

    Parameters
    ----------
    cycles, cpu_hz, compute_w : float
        CPU cycles to compute, the CPU frequency in Hz, and the power in W that the CPU draws at it.
    bits, power_w : float
        Bits to send, and the power in W that the radio draws and radiates meanwhile.
    bandwidth_hz : float
        Planned bandwidth in Hz. Schedulers that divide the band themselves ignore it.
    budget_j : float
        Energy budget in J; NaN for none.
    gain, planned_s : float
        The channel gain that the plan knew, and the seconds that it means the job to take.
    download_s : float
        Seconds that receiving the model takes, before computing.
    rate : float
        Bits per second with the planned bandwidth, where the caller knows it.
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


# Values that most jobs never change are attributes of the class, so that the creation of thousands of jobs stays cheap.

class JobWork:
    """What is left of a job's phase (seconds of download, cycles, or bits), and what the job has taken so far."""

    __slots__ = (
        "__dict__", "away", "compute_j", "compute_s", "computed_at", "hz", "left", "rate", "seconds", "sent_from",
        "since", "upload_s", "watts")

    restarts = 0
    attempts = 0                        # lost uploads
    packets = 0                         # that the upload comes to; 0 without packet loss
    download_j = 0.0
    drawn_j = 0.0                       # joules of the upload when its battery's load began
    logged_j = 0.0                      # joules in the job's segments
    computed_charge_j = ended_charge_j = math.nan       # battery level then; NaN for mains power

    def __init__(self, left: float) -> None:
        self.left = left
        self.rate = self.since = 0.0    # by how much ``left`` decreases per second, from which instant on
        self.seconds = 0.0              # length of the present stretch of work; inf while its end is not known
        self.watts = -1.0               # power drawn in it; negative while there is none
        self.hz = 0.0                   # bandwidth held now
        self.away = 0                   # whether the device is unavailable
        self.compute_s = self.compute_j = self.upload_s = 0.0
        self.computed_at = self.sent_from = math.nan    # the end of computing, and the start of the last upload

    def until_done(self) -> float:
        """Seconds until nothing is left at the present rate, from ``since`` on; inf at rate 0."""
        return self.left / self.rate if self.rate > 0.0 else math.inf


class Job:
    """One device's work: download, compute, upload.

    A device's process can begin at any phase, so a job that was saved or paused continues with what is left.

    Parameters
    ----------
    plan : JobPlan
        What was decided for it.
    snr_hz : float
        J = h p / N0 in Hz: the rate in bandwidth b is b log2(1 + J/b).
    device, number, cause : int
        Number of the device, of the job, and the trace row of its allocation.
    """

    __slots__ = (
        "__dict__", "cause", "device", "ended_at", "number", "outcome", "phase", "plan", "process", "segments", "slots",
        "snr_hz", "t0", "transmission", "waiter", "work")

    share_hz = math.nan                 # the planned bandwidth of the moment, for a job with slots
    follows: Job | None = None          # the job whose end let this one send
    upload_row = -1                     # the trace row of its upload
    process: simpy.Process | None
    transmission: Transmission | None
    waiter: JobsFinished | None
    segments: list[Segment] | None      # of jobs that did more than compute, wait and send
    slots: list[tuple[float, float]] | None             # when the planned bandwidth changes, and to what; last first

    def __init__(self, plan: JobPlan, snr_hz: float, device: int = 0, number: int = 0, cause: int = -1) -> None:
        self.plan, self.snr_hz, self.device, self.number, self.cause = plan, snr_hz, device, number, cause
        self.t0 = self.ended_at = math.nan              # instants of dispatch and of the end
        self.outcome = ""                               # "arrived", or the reason for failure
        self.process = self.transmission = self.waiter = self.segments = self.slots = None
        self.phase, self.work = COMPUTE, JobWork(plan.cycles)
        if plan.download_s:
            self.phase, self.work.left, self.segments = DOWNLOAD, plan.download_s, []

    @property
    def arrived(self) -> bool:
        """Whether the upload reached the server."""
        return self.outcome == ARRIVED

    @property
    def energy_j(self) -> float:
        """Joules taken so far."""
        return self.work.download_j + self.work.compute_j + self.upload_j

    @property
    def upload_j(self) -> float:
        """Joules of sending so far."""
        return self.plan.power_w * self.work.upload_s

    @property
    def planned_hz(self) -> float:
        """Planned bandwidth of the moment."""
        return self.plan.bandwidth_hz if self.slots is None else self.share_hz

    @property
    def follows_row(self) -> int:
        """The trace row of the upload whose end let this job send; -1 where there is none."""
        return -1 if self.follows is None else self.follows.upload_row

    def follow_slots(self, now: float) -> bool:
        """Take over the bandwidth planned for now; return whether it is another one."""
        before = self.share_hz
        while self.slots and self.slots[-1][0] <= now:
            self.share_hz = self.slots.pop()[1]
        return self.share_hz != before

    def affordable_s(self) -> float:
        """Seconds of sending that the energy budget still pays for, after what was sent until ``since``."""
        return (self.plan.budget_j - self.work.compute_j) / self.plan.power_w - self.work.upload_s

    def restart(self) -> None:
        """Lose all work, except for a model that was downloaded."""
        phase, all_of_it = (
            (DOWNLOAD, self.plan.download_s) if self.phase == DOWNLOAD else (COMPUTE, self.plan.cycles))
        if (self.phase, self.work.left) != (phase, all_of_it):
            self.phase, self.work.left = phase, all_of_it
            self.work.restarts += 1

    # Segments.

    def begin_segments(self) -> list[Segment]:
        """Keep segments from now on: computing and waiting are the first, for a job that has come so far."""
        if self.segments is None:
            self.segments, work = [], self.work
            if self.phase == UPLOAD:
                self.segments.append((COMPUTE, self.t0, work.computed_at, work.compute_j))
                work.logged_j = work.compute_j
                if work.sent_from > work.computed_at:
                    self.segments.append((WAIT, work.computed_at, work.sent_from, 0.0))
        return self.segments

    def end_segment(self, name: str, now: float) -> None:
        """Close the present segment; an empty one counts only if it is the job's first."""
        segments = self.begin_segments()
        began = segments[-1][2] if segments else self.t0
        if now > began or not segments:
            segments.append((name, began, now, max(0.0, self.energy_j - self.work.logged_j)))
            self.work.logged_j = self.energy_j


def uploaded(number: int, row: int) -> Job:
    """A job that has ended, of which only its number and the trace row of its upload are known."""
    job = Job(JobPlan(0.0, 0.0, 0.0, 0.0, 0.0), 0.0, number=number)
    job.upload_row = row
    return job


def save(jobs: Sequence[Job]) -> State:
    """Jobs as arrays, for a checkpoint."""
    texts = "\n".join(f"{job.phase}\t{job.outcome}" for job in jobs).encode()
    segments = [(job.number, SPANS.index(name), *rest) for job in jobs for name, *rest in job.segments or ()]
    slots = [(job.number, *slot) for job in jobs for slot in job.slots or ()]
    kept = [job.number for job in jobs if job.segments is not None]
    return {"numbers": np.array(list(map(attrgetter(*NUMBERS), jobs))).reshape(-1, len(NUMBERS)),
            "texts": np.frombuffer(texts, np.uint8), "segments": np.array(segments, float).reshape(-1, 5),
            "slots": np.array(slots, float).reshape(-1, 3), "with_segments": np.array(kept, np.int64)}


def restore(state: State) -> list[Job]:
    """The jobs that were saved."""
    jobs: dict[int, Job] = {}
    texts = bytes(state["texts"]).decode().split("\n")
    for row, text in zip(state["numbers"].tolist(), texts, strict=False):
        values = {name: int(value) if name in WHOLE else value for name, value in zip(NUMBERS, row, strict=True)}
        job = Job(JobPlan(**{name: values.pop(f"plan.{name}") for name in JobPlan._fields}), 0.0)
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
    """Make a job for each device of a wave; their numbers start with ``first``.

    ``gain`` is that of the channels now. ``lasting`` is whether work may take longer than the plan means it to: then a
    job that is not done after its last slot goes on with its mean bandwidth.
    """
    plan, problem = wave.plan, wave.problem
    snr_hz = gain * plan.power_w / problem.noise_w_per_hz
    columns = {**decided_by(wave), "compute_w": problem.capacitance * plan.cpu_hz**3,
               "download_s": np.zeros(len(gain)) if download_s is None else download_s,
               "rate": problem.link.rate(plan.bandwidth_hz, snr_hz)}
    plans = map(JobPlan._make, zip(*(columns[name].tolist() for name in JobPlan._fields), strict=True))
    jobs = list(map(Job, plans, snr_hz.tolist(), wave.devices.tolist(), count(first), repeat(cause)))
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
            own.append((end, job.plan.bandwidth_hz))
    for t0, _, i, hz in table[np.argsort(-table[:, 0], kind="stable")].tolist():
        slots[int(i)].append((starts + t0, hz))
    for job, own in zip(jobs, slots, strict=True):
        job.slots, job.share_hz = own, 0.0
