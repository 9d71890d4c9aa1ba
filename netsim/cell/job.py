"""A job as data: what was decided for it, its phase, the amount left in that phase, and what it has taken."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, repeat
from typing import TYPE_CHECKING, Literal

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

NUMBERS = (                                             # attributes of a job that a checkpoint keeps as numbers
    "number", "device", "cycles", "cpu_hz", "compute_w", "bits", "power_w", "bandwidth_hz", "snr_hz", "gain",
    "budget_j", "planned_s", "t0", "cause", "left", "rate", "since", "seconds", "watts", "hz", "away",
    "restarts", "attempts", "packets", "download_s", "compute_s", "upload_s", "download_j", "compute_j", "upload_j",
    "computed_at", "sent_from", "ended_at", "computed_charge_j", "ended_charge_j", "follows_row", "upload_row",
    "logged_j", "drawn_j", "planned_rate", "share_hz")
WHOLE = ("number", "device", "cause", "restarts", "attempts", "packets", "follows_row", "upload_row")

Policy = Literal["pause", "restart", "abort"]


@dataclass(frozen=True)
class Interruption:
    """Why a job's process is interrupted, as the trace names it, and what becomes of the job: a cause of an interrupt.

    ``pause`` continues the work when the device is back, ``restart`` repeats it from the start, and ``abort`` ends the
    job with the reason as its outcome. Energy already spent stays spent.
    """

    reason: str
    policy: Policy = "abort"


class Job:
    """One device's work: download, compute, upload.

    A device's process can begin at any phase, so a job that was saved or paused continues with what is ``left`` of its
    phase: seconds of download, cycles, or bits, which decrease at ``rate`` per second from the instant ``since`` on.

    Parameters
    ----------
    cycles, cpu_hz, compute_w : float
        CPU cycles to compute, the CPU frequency in Hz, and the power in W that the CPU draws at it.
    bits, power_w : float
        Bits to send, and the power in W that the radio draws and radiates meanwhile.
    bandwidth_hz : float
        Planned bandwidth in Hz. Schedulers that divide the band themselves ignore it.
    snr_hz : float
        J = h p / N0 in Hz: the rate in bandwidth b is b log2(1 + J/b).
    budget_j : float
        Energy budget in J; NaN for none.
    device : int
        Number of the device.
    gain, planned_s : float
        The channel gain that the plan knew, and the seconds that it means the job to take.
    download_s : float
        Seconds that receiving the model takes, before computing.
    planned_rate : float
        Bits per second with the planned bandwidth, where the caller knows it.
    number, cause : int
        Number of the job, and trace row of its allocation.
    """

    # State that most jobs never leave: class attributes, so that the creation of thousands of jobs stays cheap.
    away = 0                            # whether the device is unavailable
    restarts = 0
    attempts = 0                        # lost uploads
    packets = 0                         # that the upload comes to; 0 without packet loss
    download_s = download_j = 0.0
    computed_charge_j = ended_charge_j = math.nan       # battery level then; NaN for mains power
    drawn_j = 0.0                       # joules of the upload when its battery's load began
    logged_j = 0.0                      # joules in ``segments``
    segments: list[Segment] | None = None               # of jobs that did more than compute, wait and send
    slots: list[tuple[float, float]] | None = None      # when the planned bandwidth changes, and to what; last first
    share_hz = math.nan                 # the planned bandwidth of the moment, for a job with slots
    follows: Job | None = None          # the job whose end let this one send
    follows_row = -1                    # the trace row of that job's upload
    upload_row = -1

    __slots__ = (
        "__dict__", "bandwidth_hz", "bits", "budget_j", "cause", "compute_j", "compute_s", "compute_w", "computed_at",
        "cpu_hz", "cycles", "device", "ended_at", "gain", "hz", "left", "number", "outcome", "phase", "planned_rate",
        "planned_s", "power_w", "process", "rate", "seconds", "sent_from", "since", "snr_hz", "t0", "transmission",
        "upload_j", "upload_s", "waiter", "watts")

    t0: float                           # instant of dispatch
    outcome: str                        # "arrived", or the reason for failure
    seconds: float                      # length of the present stretch of work; inf while its end is not known
    watts: float                        # power drawn in it; negative while there is none
    hz: float                           # bandwidth held now
    process: simpy.Process | None
    transmission: Transmission | None
    waiter: JobsFinished | None

    def __init__(
        self, cycles: float, cpu_hz: float, compute_w: float, bits: float, power_w: float, snr_hz: float,
        bandwidth_hz: float = math.nan, budget_j: float = math.nan, device: int = 0, gain: float = math.nan,
        planned_s: float = math.nan, download_s: float = 0.0, planned_rate: float = math.nan, number: int = 0,
        cause: int = -1,
    ) -> None:
        self.device, self.number, self.cause = device, number, cause
        self.cycles, self.cpu_hz, self.compute_w = cycles, cpu_hz, compute_w
        self.bits, self.power_w, self.bandwidth_hz, self.snr_hz, self.gain = bits, power_w, bandwidth_hz, snr_hz, gain
        self.budget_j, self.planned_s, self.planned_rate = budget_j, planned_s, planned_rate
        self.rate = self.since = self.seconds = self.hz = 0.0
        self.compute_s = self.upload_s = self.compute_j = self.upload_j = 0.0
        self.t0 = self.computed_at = self.sent_from = self.ended_at = math.nan
        self.process = self.transmission = self.waiter = None
        self.watts, self.phase, self.outcome, self.left = -1.0, COMPUTE, "", cycles
        if download_s:
            self.download_s, self.phase, self.left, self.segments = download_s, DOWNLOAD, download_s, []

    @property
    def arrived(self) -> bool:
        """Whether the upload reached the server."""
        return self.outcome == ARRIVED

    @property
    def energy_j(self) -> float:
        """Joules taken so far."""
        return self.download_j + self.compute_j + self.upload_j

    @property
    def planned_hz(self) -> float:
        """Planned bandwidth of the moment."""
        return self.bandwidth_hz if self.slots is None else self.share_hz

    def follow_slots(self, now: float) -> bool:
        """Take over the bandwidth planned for now; return whether it is another one."""
        before = self.share_hz
        while self.slots and self.slots[-1][0] <= now:
            self.share_hz = self.slots.pop()[1]
        return self.share_hz != before

    def affordable_s(self) -> float:
        """Seconds of sending that the energy budget still pays for, after what was sent until ``since``."""
        return (self.budget_j - self.compute_j) / self.power_w - self.upload_s

    def restart(self) -> None:
        """Lose all work, except for a model that was downloaded."""
        downloading = self.phase == DOWNLOAD
        phase, work = (DOWNLOAD, self.download_s) if downloading else (COMPUTE, self.cycles)
        if (self.phase, self.left) != (phase, work):
            self.phase, self.left = phase, work
            self.restarts += 1

    # Segments.

    def begin_segments(self) -> list[Segment]:
        """Keep segments from now on: computing and waiting are the first, for a job that has come so far."""
        if self.segments is None:
            self.segments = []
            if self.phase == UPLOAD:
                self.segments.append((COMPUTE, self.t0, self.computed_at, self.compute_j))
                self.logged_j = self.compute_j
                if self.sent_from > self.computed_at:
                    self.segments.append((WAIT, self.computed_at, self.sent_from, 0.0))
        return self.segments

    def end_segment(self, name: str, now: float) -> None:
        """Close the present segment; an empty one counts only if it is the job's first."""
        segments = self.begin_segments()
        began = segments[-1][2] if segments else self.t0
        if now > began or not segments:
            segments.append((name, began, now, max(0.0, self.energy_j - self.logged_j)))
            self.logged_j = self.energy_j


def save(jobs: Iterable[Job]) -> State:
    """Jobs as named arrays, for a checkpoint."""
    each = list(jobs)
    texts = "\n".join(f"{job.phase}\t{job.outcome}" for job in each).encode()
    for job in each:
        if job.follows is not None:
            job.follows_row = job.follows.upload_row
    segments = [(job.number, SPANS.index(name), *rest) for job in each for name, *rest in job.segments or ()]
    slots = [(job.number, *slot) for job in each for slot in job.slots or ()]
    kept = [job.number for job in each if job.segments is not None]
    return {"numbers": np.array([[getattr(job, name) for name in NUMBERS] for job in each]).reshape(-1, len(NUMBERS)),
            "texts": np.frombuffer(texts, np.uint8), "segments": np.array(segments, float).reshape(-1, 5),
            "slots": np.array(slots, float).reshape(-1, 3), "with_segments": np.array(kept, np.int64)}


def restore(state: State) -> list[Job]:
    """The jobs that were saved."""
    jobs: dict[int, Job] = {}
    texts = bytes(state["texts"]).decode().split("\n")
    for row, text in zip(state["numbers"].tolist(), texts, strict=False):
        job = Job(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        for name, value in zip(NUMBERS, row, strict=True):
            setattr(job, name, int(value) if name in WHOLE else value)
        job.phase, job.outcome = text.split("\t")
        job.slots = None if math.isnan(job.share_hz) else []
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
