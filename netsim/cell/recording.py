"""Jobs that have ended, written down: their spans and counters, what caused what, and a row a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.cell.jobs import Flight
from netsim.trace.recorder import COUNTER, INSTANT, SPAN, Recorder
from netsim.trace.schema import ARRIVED, CELL, INFEASIBLE

CLOCK = 64      # units in the last place of the clock: a shorter wait is its rounding
MEASURED = ("compute_s", "upload_s", "compute_j", "upload_j", "computed_at", "sent_from", "ended_at", "charge_1",
            "charge_2")


@dataclass(frozen=True, eq=False)
class Ended:
    """Jobs that have ended, in columns."""

    job: Ints
    device: Ints
    began: Floats
    cause: Ints                # the trace row of their allocation
    version: Ints
    outcome: tuple[str, ...]
    arrived: Bools
    values: dict[str, Floats]           # what was measured
    decided: dict[str, Floats]          # what was decided

    def __len__(self) -> int:
        return len(self.job)

    @classmethod
    def of(cls, ended: list[tuple[Flight, int]]) -> Ended:
        """The columns of some jobs, in their order."""
        groups = _by_flight(ended)
        outcome = tuple(flight.outcome[i] for flight, i in ended)
        decided = ("gain", "bits", "cycles", "budget_j", "cpu_hz", "power_w", "bandwidth_hz", "planned_s")
        return cls(
            job=_joined([flight.first + which for flight, which in groups]),
            device=_joined([flight.jobs.device[which] for flight, which in groups]),
            began=_joined([np.full(len(which), flight.began) for flight, which in groups]),
            cause=_joined([np.full(len(which), flight.cause) for flight, which in groups]),
            version=_joined([np.full(len(which), flight.version) for flight, which in groups]),
            outcome=outcome, arrived=np.array([reason == ARRIVED for reason in outcome]),
            values={name: _joined([np.array(getattr(flight, name))[which] for flight, which in groups])
                    for name in MEASURED},
            decided={name: _joined([getattr(flight.jobs, name)[which] for flight, which in groups])
                     for name in decided},
        )


def _by_flight(ended: list[tuple[Flight, int]]) -> list[tuple[Flight, Ints]]:
    """Stretches of jobs of one flight, with their positions in it."""
    groups: list[tuple[Flight, list[int]]] = []
    for flight, i in ended:
        if not groups or groups[-1][0] is not flight:
            groups.append((flight, []))
        groups[-1][1].append(i)
    return [(flight, np.array(which)) for flight, which in groups]


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def record_ended(
    recorder: Recorder, ended: list[tuple[Flight, int]], band: tuple[Floats, Floats], version: int,
    gave_room: dict[int, list[tuple[Flight, int]]],
) -> Ended | None:
    """Write down jobs that have ended, in the order of time; ``version`` is that of the model when they did.

    ``gave_room`` says which jobs could send because another one had ended.
    """
    if not ended:
        return None
    jobs = Ended.of(ended)
    last, uploads = _record_rows(recorder, jobs, band)
    for (flight, i), row in zip(ended, last.tolist(), strict=True):
        flight.row[i] = row
    if gave_room or any(flight.waited for flight, _ in ended):
        _link_who_made_room(recorder, ended, uploads, gave_room)
    _record_jobs(recorder, jobs, version)
    return jobs


def _record_rows(recorder: Recorder, jobs: Ended, band: tuple[Floats, Floats]) -> tuple[Ints, Ints]:
    """Spans, counters and drop-outs; returns each job's last row, and that of its upload, -1 where there is none."""
    v, everybody = jobs.values, np.arange(len(jobs))
    sent = np.flatnonzero(~np.isnan(v["sent_from"]))
    until = np.where(np.isnan(v["sent_from"]), v["ended_at"], v["sent_from"])
    waited = np.flatnonzero(until - v["computed_at"] > CLOCK * np.spacing(until))
    dropped = np.flatnonzero(~jobs.arrived)
    rows = _Rows(recorder, jobs)
    compute = rows.add(SPAN, "compute", everybody, jobs.began, v["computed_at"], energy_j=v["compute_j"])
    rows.add_charge(v["charge_1"], v["computed_at"])
    rows.add(SPAN, "wait", waited, v["computed_at"], until)
    upload = rows.add(SPAN, "upload", sent, v["sent_from"], v["ended_at"], energy_j=v["upload_j"])
    rows.add_charge(v["charge_2"], v["ended_at"])
    drop = rows.add(INSTANT, [jobs.outcome[i] for i in dropped.tolist()], dropped, v["ended_at"], v["ended_at"])
    rows.add_band(*band)
    seq = rows.record()
    last, uploads = seq[compute], np.full(len(jobs), -1)
    uploads[sent] = seq[upload]
    recorder.add_links(jobs.cause, last)
    recorder.add_links(last[sent], seq[upload])
    last[sent] = seq[upload]
    if len(dropped):
        recorder.add_links(last[dropped], seq[drop])
        last[dropped] = seq[drop]
    return last, uploads


class _Rows:
    """Rows that are put in the order of time before they are recorded."""

    def __init__(self, recorder: Recorder, jobs: Ended) -> None:
        self.recorder = recorder
        self.jobs = jobs
        self.count = 0
        self.pieces: list[tuple[NDArray[Any], ...]] = []

    def add(
        self, kind: int, name: str | list[str], which: Ints, t0: Floats, t1: Floats, *,
        energy_j: Floats | None = None, value: Floats | None = None,
    ) -> slice:
        """Rows of these jobs; returns their places."""
        if not len(which):
            return slice(self.count, self.count)
        names = (np.full(len(which), self.recorder.text(name)) if isinstance(name, str)
                 else np.array([self.recorder.text(each) for each in name]))
        nothing = np.zeros(len(which))
        job = np.full(len(which), -1) if kind == COUNTER else self.jobs.job[which]
        return self._add(
            np.full(len(which), kind), names, self.jobs.device[which], job, t0[which], t1[which],
            nothing if value is None else value[which], nothing if energy_j is None else energy_j[which])

    def add_charge(self, charge_j: Floats, t: Floats) -> None:
        """What is left in the batteries, where there are any."""
        which = np.flatnonzero(~np.isnan(charge_j))
        self.add(COUNTER, "battery", which, t, t, value=charge_j)

    def add_band(self, t: Floats, hertz: Floats) -> None:
        """How the band in use changed."""
        count = len(t)
        whole = np.full(count, self.recorder.text("bandwidth"))
        self._add(np.full(count, COUNTER), whole, np.full(count, CELL), np.full(count, -1), t, t, hertz,
                  np.zeros(count))

    def _add(self, *columns: NDArray[Any]) -> slice:
        first, self.count = self.count, self.count + len(columns[0])
        self.pieces.append(columns)
        return slice(first, self.count)

    def record(self) -> Ints:
        """Record them by when they were complete; of one instant, in the order added. Returns the row of each place."""
        columns = [_joined(list(pieces)) for pieces in zip(*self.pieces, strict=True)]
        order = np.argsort(columns[5], kind="stable")
        names = ("kind", "name", "device", "job", "t0", "t1", "value", "energy_j")
        first = self.recorder.next_seq
        self.recorder.add_rows({name: column[order] for name, column in zip(names, columns, strict=True)})
        seq = np.empty(self.count, np.int64)
        seq[order] = np.arange(first, first + self.count)
        return seq


def _link_who_made_room(
    recorder: Recorder, ended: list[tuple[Flight, int]], uploads: Ints,
    gave_room: dict[int, list[tuple[Flight, int]]],
) -> None:
    """A job that had to wait for the band followed the upload whose end made room for it."""
    for (flight, i), upload in zip(ended, uploads.tolist(), strict=True):
        for other, k in gave_room.pop(flight.first + i, ()):
            other.room_row[k] = upload
    for (flight, i), upload in zip(ended, uploads.tolist(), strict=True):
        if flight.room_row[i] >= 0 and upload >= 0:
            recorder.link(flight.room_row[i], upload)


def _record_jobs(recorder: Recorder, jobs: Ended, version: int) -> None:
    """What was decided for each job, and what came of it."""
    v, count = jobs.values, len(jobs)
    until = np.where(np.isnan(v["sent_from"]), v["ended_at"], v["sent_from"])
    texts = {reason: recorder.text(reason) for reason in dict.fromkeys(jobs.outcome)}
    recorder.add_jobs({
        "job": jobs.job, "round": np.full(count, version + 1), "version": jobs.version, "device": jobs.device,
        "t0": jobs.began, **jobs.decided, "compute_s": v["compute_s"], "wait_s": until - v["computed_at"],
        "upload_s": v["upload_s"], "t1": v["ended_at"], "energy_j": v["compute_j"] + v["upload_j"],
        "outcome": np.array([texts[reason] for reason in jobs.outcome]), "staleness": version - jobs.version,
    })


def record_left_out(
    recorder: Recorder, first: int, devices: Ints, now: float, version: int, cause: int, asked: dict[str, Floats],
) -> None:
    """Devices that no plan could be found for: jobs that ended before they began."""
    count = len(devices)
    unknown, nothing = np.full(count, np.nan), np.zeros(count)
    for number, device in enumerate(devices.tolist()):
        recorder.instant(INFEASIBLE, device, now, after=[cause], job=first + number)
    recorder.add_jobs({
        "job": first + np.arange(count), "round": np.full(count, version + 1), "version": np.full(count, version),
        "device": devices, "t0": np.full(count, now), **asked, "cpu_hz": unknown, "power_w": unknown,
        "bandwidth_hz": unknown, "planned_s": unknown, "compute_s": nothing, "wait_s": nothing, "upload_s": nothing,
        "t1": np.full(count, now), "energy_j": nothing,
        "outcome": np.full(count, recorder.text(INFEASIBLE)), "staleness": np.zeros(count, np.int64),
    })
