"""Recording of ended jobs: spans, counters, links between causes and effects, and one row per job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from netsim.base.tolerances import CLOCK_ULPS
from netsim.base.types import Bools, Floats, Ints
from netsim.cell.job import DOWNLOAD, UPLOAD, Job, Segment
from netsim.cell.uplink import Uplink
from netsim.trace.recorder import COUNTER, INSTANT, SPAN, Recorder
from netsim.trace.schema import ARRIVED, CELL

HEAD = ("number", "device", "cause")
TOGETHER = 1e-10   # fraction of a round: ends closer than this are planned to be simultaneous
DECIDED = ("gain", "bits", "cycles", "budget_j", "cpu_hz", "power_w", "bandwidth_hz", "planned_s")
CHARGES = ("computed_charge_j", "ended_charge_j")
Piece = tuple[int, int | list[int], Ints, Ints | int, Floats, Floats, Any, Any]      # columns of trace rows


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Results of n ended jobs: arrays of shape (n,)."""

    device: Ints
    arrived: Bools
    duration_s: Floats         # without waiting
    energy_j: Floats


@dataclass(frozen=True, eq=False)
class EndedJobs:
    """Ended jobs as columns."""

    job: Ints
    device: Ints
    began: Floats
    cause: Ints                # trace rows of their allocation
    version: Ints              # model versions that they started from
    outcome: list[str]
    arrived: Bools
    values: dict[str, Floats]           # measured times and energies
    decided: dict[str, Floats]          # planned values
    segments: dict[int, list[Segment]]  # by position, of jobs that did not only compute, wait and send
    computes: Ints                      # trace row of the first computation of each job
    last: Ints                          # last trace row of each job

    def __len__(self) -> int:
        return len(self.job)

    @property
    def whole(self) -> Bools | slice:
        """Mask of the jobs that only computed, waited and sent; a slice if all did."""
        if not self.segments:
            return slice(None)
        whole = np.ones(len(self), bool)
        whole[list(self.segments)] = False
        return whole

    @cached_property
    def received(self) -> Floats:
        """Seconds and joules of receiving the model, shape (2, n)."""
        received = np.zeros((2, len(self)))
        for place, segments in self.segments.items():
            for name, t0, t1, joules in segments:
                if name == DOWNLOAD:
                    received[:, place] += (t1 - t0, joules)
        return received

    @cached_property
    def waited_until(self) -> Floats:
        """Instants at which the jobs began their last upload, or ended without one."""
        sent_from = self.values["sent_from"]
        return np.where(np.isnan(sent_from), self.values["ended_at"], sent_from)

    @property
    def energy_j(self) -> Floats:
        """Energy of each job in J."""
        energy_j: Floats = self.values["compute_j"] + self.values["upload_j"]
        return energy_j if not self.segments else energy_j + self.received[1]

    @property
    def duration_s(self) -> Floats:
        """Seconds of work of each job, without waiting."""
        seconds: Floats = self.values["compute_s"] + self.values["upload_s"]
        return seconds if not self.segments else seconds + self.received[0]

    @classmethod
    def of(cls, jobs: Sequence[Job], version: Ints, decided: Mapping[str, Any] | None) -> EndedJobs:
        """Return the columns of some jobs, in their order; ``decided`` holds the planned values, if known."""
        outcome, works, segments = (
            [job.outcome for job in jobs], [job.work for job in jobs], [job.segments for job in jobs])
        values = {name: np.array(column, float) for name, column in (
            ("compute_s", [work.compute_s for work in works]), ("upload_s", [work.upload_s for work in works]),
            ("compute_j", [work.compute_j for work in works]), ("computed_at", [work.computed_at for work in works]),
            ("sent_from", [work.sent_from for work in works]), ("ended_at", [job.ended_at for job in jobs]))}
        if decided is None:
            decided = {**_columns(jobs, [*HEAD, "t0"]), **_columns([job.plan for job in jobs], DECIDED)}
        values["upload_j"] = decided["power_w"] * values["upload_s"]
        job, device, cause = (decided[name].astype(np.int64, copy=False) for name in HEAD)
        return cls(
            job, device, decided["t0"], cause, version, outcome,
            arrived=np.fromiter(map(ARRIVED.__eq__, outcome), bool, len(outcome)), values=values,
            decided={name: decided[name] for name in DECIDED},
            segments={} if segments.count(None) == len(segments) else {
                place: each for place, each in enumerate(segments) if each is not None},
            computes=np.empty(len(jobs), np.int64), last=np.empty(len(jobs), np.int64))


def _columns(records: Sequence[Any], names: Sequence[str]) -> dict[str, Floats]:
    """Return attributes of some records as arrays."""
    return {name: np.fromiter(map(attrgetter(name), records), float, len(records)) for name in names}


def record_ended(
    recorder: Recorder, ended: Sequence[Job], uplink: Uplink, version: int, started: Ints | None = None, *,
    powered: bool = True, decided: Mapping[str, Any] | None = None,
) -> EndedJobs | None:
    """Record ended jobs and the bandwidth used in the meantime; return the jobs as columns, None without jobs.

    ``version`` is that of the model when the jobs ended, ``started`` those that they started from (default: the same).
    ``powered`` says whether a device has a battery. ``decided`` holds the planned values of exactly these jobs as
    columns; by default they are read from the jobs.
    """
    band = uplink.take_band()
    if not ended:
        for t, hertz in zip(*band, strict=True):
            recorder.counter("bandwidth", CELL, t, hertz)
        return None
    jobs = EndedJobs.of(ended, np.full(len(ended), version) if started is None else started, decided)
    uploads, waits = _record_rows(recorder, jobs, band, ended if powered else ())
    if uplink.contended or waits is not None:
        _link_uploads(recorder, jobs, ended, uploads, waits)
    _record_jobs(recorder, jobs, version)
    return jobs


def _record_rows(
    recorder: Recorder, jobs: EndedJobs, band: tuple[Floats, Floats], powered: Sequence[Job],
) -> tuple[Ints, Ints | None]:
    """Record spans, counters and failures; return the rows of uploads and of waits, -1 for a job without one.

    The second is None if no job waited. ``powered`` are all jobs, or none if no device has a battery.
    """
    v, whole, until = jobs.values, jobs.whole, jobs.waited_until
    sent_from, ended_at, computed_at = v["sent_from"], v["ended_at"], v["computed_at"]
    charge = _columns([job.work for job in powered], CHARGES)
    drained = not np.isnan(charge["ended_charge_j"]).all()
    waited, sent = until - computed_at > CLOCK_ULPS * np.spacing(until), ~np.isnan(sent_from)
    if not isinstance(whole, slice):
        waited, sent = waited & whole, sent & whole
    rows = Rows(recorder, jobs)
    compute = rows.add(SPAN, "compute", whole, jobs.began, computed_at, energy_j=v["compute_j"])
    if drained:
        rows.add_charge(charge["computed_charge_j"], computed_at)
    wait = rows.add(SPAN, "wait", waited, computed_at, until) if np.count_nonzero(waited) else None
    which = slice(None) if np.count_nonzero(sent) == len(jobs) else sent
    upload = rows.add(SPAN, "upload", which, sent_from, ended_at, energy_j=v["upload_j"])
    places = rows.add_segments(jobs.segments) if jobs.segments else None
    if drained:
        rows.add_charge(charge["ended_charge_j"], ended_at)
    dropped = None if np.count_nonzero(jobs.arrived) == len(jobs) else np.flatnonzero(~jobs.arrived)
    if dropped is not None:
        drop = rows.add(INSTANT, [jobs.outcome[i] for i in dropped.tolist()], dropped, ended_at, ended_at)
    rows.add_counter("bandwidth", np.full(len(band[0]), CELL), *band)
    seq = rows.record()
    last, uploads, waits = jobs.last, np.full(len(jobs), -1), None
    if wait is not None:
        waits = np.full(len(jobs), -1)
        waits[waited] = seq[wait]
    jobs.computes[whole] = last[whole] = seq[compute]
    recorder.add_links(jobs.cause[whole], seq[compute])       # the recorder keeps a reference to these arrays
    recorder.add_links(jobs.computes[which], seq[upload])
    uploads[which] = last[which] = seq[upload]
    if places is not None:
        _link_segments(recorder, jobs, seq[places], last, uploads)
    if dropped is not None:
        recorder.add_links(last[dropped], seq[drop])
        last[dropped] = seq[drop]
    return uploads, waits


def _link_segments(recorder: Recorder, jobs: EndedJobs, seq: Ints, last: Ints, uploads: Ints) -> None:
    """Link each segment to the one before it."""
    first = 0
    for place, segments in jobs.segments.items():
        rows = seq[first:first + len(segments)]
        first += len(segments)
        jobs.computes[place], last[place] = rows[0], rows[-1]
        if segments[-1][0] == UPLOAD:
            uploads[place] = rows[-1]
        recorder.add_links(np.concatenate([jobs.cause[place:place + 1], rows[:-1]]), rows)


class Rows:
    """Trace rows that are sorted by time before they are recorded."""

    def __init__(self, recorder: Recorder, jobs: EndedJobs) -> None:
        self.recorder = recorder
        self.jobs = jobs
        self.count = 0
        self.pieces: list[Piece] = []

    def add(
        self, kind: int, name: str | list[str], which: Bools | Ints | slice, t0: Floats, t1: Floats, *,
        energy_j: Floats | float = 0.0,
    ) -> slice:
        """Add one row per job of ``which``; return their positions."""
        device, job = self.jobs.device, self.jobs.job
        if not isinstance(which, slice):
            device, job, t0, t1 = device[which], job[which], t0[which], t1[which]
            energy_j = energy_j[which] if isinstance(energy_j, np.ndarray) else energy_j
        names = self.recorder.text(name) if isinstance(name, str) else [self.recorder.text(each) for each in name]
        return self._add((kind, names, device, job, t0, t1, 0.0, energy_j))

    def add_segments(self, segments: dict[int, list[Segment]]) -> slice:
        """Add one row per segment of these jobs; return their positions."""
        place = np.repeat(list(segments), [len(each) for each in segments.values()])
        names, t0, t1, joules = zip(*(segment for each in segments.values() for segment in each), strict=True)
        return self._add((SPAN, [self.recorder.text(name) for name in names], self.jobs.device[place],
                          self.jobs.job[place], np.array(t0), np.array(t1), 0.0, np.array(joules)))

    def add_charge(self, charge_j: Floats, t: Floats) -> None:
        """Add the battery levels in J at the instants ``t``; NaN for mains power."""
        there = ~np.isnan(charge_j)
        self.add_counter("battery", self.jobs.device[there], t[there], charge_j[there])

    def add_counter(self, name: str, device: Ints, t: Floats, value: Floats) -> None:
        """Add the values of a counter at these instants."""
        self._add((COUNTER, self.recorder.text(name), device, -1, t, t, value, 0.0))

    def _add(self, piece: Piece) -> slice:
        first, self.count = self.count, self.count + len(piece[2])
        self.pieces.append(piece)
        return slice(first, self.count)

    def record(self) -> Ints:
        """Record the rows in the order of ``t1``, equal ones in the order added; return the row of each position."""
        rows, place = np.empty((8, self.count)), 0
        for piece in self.pieces:
            end = place + len(piece[2])
            for line, values in zip(rows[:, place:end], piece, strict=True):
                line[...] = values
            place = end
        order = rows[5].argsort(kind="stable")
        first = self.recorder.next_seq
        self.recorder.add_rows(rows.take(order, axis=1))
        seq = np.empty(self.count, np.int64)
        seq[order] = np.arange(first, first + self.count)
        return seq


def _link_uploads(
    recorder: Recorder, jobs: EndedJobs, each: Sequence[Job], uploads: Ints, waits: Ints | None,
) -> None:
    """Link the upload of a job that waited to the upload that released its bandwidth, else to its own wait."""
    for job, upload in zip(each, uploads.tolist(), strict=True):
        job.upload_row = upload
    for place, (job, upload) in enumerate(zip(each, uploads.tolist(), strict=True)):
        before, job.follows = job.follows_row, None
        wait = -1 if waits is None else int(waits[place])
        if upload >= 0 and before >= 0:
            recorder.link(before, upload)
        elif upload >= 0 and wait >= 0:
            recorder.link(int(jobs.computes[place]), wait)
            recorder.link(wait, upload)


def _record_jobs(recorder: Recorder, jobs: EndedJobs, version: int) -> None:
    """Record the planned values and the results of each job."""
    v = jobs.values
    wait_s = jobs.waited_until - v["computed_at"]
    if jobs.segments:                     # all time without work
        worked_s = jobs.duration_s
        for place in jobs.segments:
            wait_s[place] = max(0.0, v["ended_at"][place] - jobs.began[place] - worked_s[place])
    texts = {reason: recorder.text(reason) for reason in dict.fromkeys(jobs.outcome)}
    outcome = next(iter(texts.values())) if len(texts) == 1 else np.array([texts[reason] for reason in jobs.outcome])
    recorder.add_jobs(len(jobs), {
        "job": jobs.job, "round": version + 1, "version": jobs.version, "device": jobs.device,
        "t0": jobs.began, **jobs.decided, "compute_s": v["compute_s"], "wait_s": wait_s,
        "upload_s": v["upload_s"], "t1": v["ended_at"], "energy_j": jobs.energy_j,
        "outcome": outcome, "staleness": version - jobs.version,
    })


def record_waits(recorder: Recorder, played: Sequence[EndedJobs], began: float, now: float) -> None:
    """Record the waits of devices for others: before their wave, and from their own end to that of the round."""
    for jobs in played:
        rows, ended = Rows(recorder, jobs), jobs.values["ended_at"]
        if jobs.began[0] > began:
            early = jobs.began - began > CLOCK_ULPS * np.spacing(jobs.began)
            if np.count_nonzero(early):
                rows.add(SPAN, "wait", early, np.full(len(jobs), began), jobs.began)
        late = now - ended > max(TOGETHER * (now - began), CLOCK_ULPS * math.ulp(now))
        if np.count_nonzero(late):
            rows.add(SPAN, "wait", late, ended, np.full(len(jobs), now))
        if rows.count:
            rows.record()


def record_packets(recorder: Recorder, ended: Sequence[Job]) -> None:
    """Record the number of packets of each upload, including retransmissions."""
    for job in ended:
        if job.work.packets and job.work.sent_from == job.work.sent_from:
            recorder.counter("packets", job.device, job.ended_at, job.work.packets)


def record_charge(recorder: Recorder, devices: Ints, now: float, levels: Mapping[str, Floats]) -> None:
    """Record battery levels, and harvested, idle and spilt energy of these devices in J."""
    rows = np.zeros((8, len(levels) * len(devices)))
    rows[0], rows[3], rows[4], rows[5] = COUNTER, -1.0, now, now
    rows[1] = np.repeat([recorder.text(name) for name in levels], len(devices))
    rows[2], rows[6] = np.tile(devices, len(levels)), np.concatenate(list(levels.values()))
    recorder.add_rows(rows)


def record_left_out(
    recorder: Recorder, jobs: Ints, devices: Ints, now: float, version: int, asked: dict[str, Floats],
    outcomes: Sequence[str],
) -> None:
    """Record devices whose jobs did not start, as jobs without work; ``asked`` holds columns of their problem."""
    unknown = dict.fromkeys(("cpu_hz", "power_w", "bandwidth_hz", "planned_s"), np.nan)
    nothing = dict.fromkeys(("compute_s", "wait_s", "upload_s", "energy_j", "staleness"), 0.0)
    recorder.add_jobs(len(jobs), {
        "job": jobs, "round": version + 1, "version": version, "device": devices, "t0": now, "t1": now,
        "outcome": np.array([recorder.text(each) for each in outcomes]), **asked, **unknown, **nothing})


def outcomes_of(left_out: Ints, ended: Sequence[EndedJobs]) -> Outcomes:
    """Return the outcomes of a round: first the devices without a plan, then the ended jobs."""
    if len(ended) == 1 and not len(left_out):
        jobs = ended[0]
        return Outcomes(jobs.device, jobs.arrived, jobs.duration_s, jobs.energy_j)
    nothing = np.zeros(len(left_out))
    return Outcomes(
        device=np.concatenate([left_out, *(jobs.device for jobs in ended)]),
        arrived=np.concatenate([nothing.astype(bool), *(jobs.arrived for jobs in ended)]),
        duration_s=np.concatenate([nothing, *(jobs.duration_s for jobs in ended)]),
        energy_j=np.concatenate([nothing, *(jobs.energy_j for jobs in ended)]))
