"""Jobs that have ended, written down: their spans and counters, what caused what, and a row a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.cell.jobs import RECEIVING, SPANS, Flight, Stretch
from netsim.trace.recorder import COUNTER, INSTANT, SPAN, Recorder
from netsim.trace.schema import ARRIVED, CELL, INFEASIBLE

DOWNLOAD = SPANS[RECEIVING]
CLOCK = 64      # units in the last place of the clock: a shorter wait is its rounding
MEASURED = ("compute_s", "upload_s", "compute_j", "upload_j", "computed_at", "sent_from", "ended_at", "charge_1",
            "charge_2")
DECIDED = ("gain", "bits", "cycles", "budget_j", "cpu_hz", "power_w", "bandwidth_hz", "planned_s")


@dataclass(frozen=True, eq=False)
class Ended:
    """Jobs that have ended, in columns."""

    job: Ints
    device: Ints
    began: Floats
    cause: Ints                # the trace row of their allocation
    version: Ints
    outcome: list[str]
    arrived: Bools
    on_battery: bool           # whether any of them is
    values: dict[str, Floats]           # what was measured
    decided: dict[str, Floats]          # what was decided
    stories: dict[int, list[Stretch]]   # by place: jobs in which something came between
    computes: Ints                      # the trace row of its first computing
    last: Ints                          # and the one that ended it

    def __len__(self) -> int:
        return len(self.job)

    @cached_property
    def received(self) -> tuple[Floats, Floats] | None:
        """Seconds and joules that each job took to receive the model; None where nobody did."""
        if not any(name == DOWNLOAD for told in self.stories.values() for name, *_ in told):
            return None
        received = np.zeros((2, len(self)))
        for place, told in self.stories.items():
            for name, t0, t1, joules in told:
                if name == DOWNLOAD:
                    received[:, place] += (t1 - t0, joules)
        return received[0], received[1]

    @property
    def energy_j(self) -> Floats:
        """What each job took."""
        energy_j: Floats = self.values["compute_j"] + self.values["upload_j"]
        return energy_j if not self.stories or self.received is None else energy_j + self.received[1]

    @property
    def duration_s(self) -> Floats:
        """How long each was at work: without waiting."""
        seconds: Floats = self.values["compute_s"] + self.values["upload_s"]
        return seconds if not self.stories or self.received is None else seconds + self.received[0]

    @classmethod
    def of(cls, ended: list[tuple[Flight, int]]) -> Ended:
        """The columns of some jobs: of a whole flight by number, else in the order in which they ended."""
        groups = _by_flight(ended)
        outcome = [reason for flight, which in groups for reason in flight.outcomes(which)]
        head = _joined([flight.head(which) for flight, which in groups])
        measured = _joined([flight.columns(MEASURED)[:, which] for flight, which in groups])
        return cls(
            job=head[0], device=_joined([flight.jobs.device[which] for flight, which in groups]),
            began=_joined([np.full(flight.count(which), flight.began) for flight, which in groups]),
            cause=head[1], version=head[2], outcome=outcome,
            arrived=_arrived(outcome),
            on_battery=any(flight.on_battery for flight, _ in groups),
            values=dict(zip(MEASURED, measured, strict=True)),
            decided={name: _joined([getattr(flight.jobs, name)[which] for flight, which in groups])
                     for name in DECIDED},
            stories=_stories(groups),
            computes=np.empty(len(outcome), np.int64), last=np.empty(len(outcome), np.int64),
        )


Which = Ints | slice       # jobs of a flight: some of them, or all


def _by_flight(ended: list[tuple[Flight, int]]) -> list[tuple[Flight, Which]]:
    """Stretches of jobs of one flight, with their positions in it."""
    first = ended[0][0]
    if first.open == 0 and len(first) == len(ended) and ended[-1][0] is first:      # all of one flight, and it alone
        return [(first, slice(None))]
    groups: list[tuple[Flight, list[int]]] = []
    for flight, i in ended:
        if not groups or groups[-1][0] is not flight:
            groups.append((flight, []))
        groups[-1][1].append(i)
    return [(flight, np.array(which)) for flight, which in groups]


def _stories(groups: list[tuple[Flight, Which]]) -> dict[int, list[Stretch]]:
    """The stories of jobs by their places among all."""
    found: dict[int, list[Stretch]] = {}
    first = 0
    for flight, which in groups:
        if flight.story:
            numbers = range(len(flight)) if isinstance(which, slice) else which.tolist()
            found |= {first + k: flight.story[i] for k, i in enumerate(numbers) if i in flight.story}
        first += flight.count(which)
    return found


def _arrived(outcome: list[str]) -> Bools:
    """Whose job arrived."""
    if outcome.count(ARRIVED) == len(outcome):
        return np.ones(len(outcome), bool)
    return np.array([reason == ARRIVED for reason in outcome])


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=-1)


def record_ended(
    recorder: Recorder, ended: list[tuple[Flight, int]], band: tuple[Floats, Floats], version: int,
    gave_room: dict[int, list[tuple[Flight, int]]],
) -> Ended | None:
    """Write down jobs that have ended, in the order of time; ``version`` is that of the model when they did.

    ``gave_room`` says which jobs could send because another one had ended.
    """
    if not ended:
        for t, hertz in zip(*band, strict=True):
            recorder.counter("bandwidth", CELL, t, hertz)
        return None
    jobs = Ended.of(ended)
    uploads, waits = _record_rows(recorder, jobs, band)
    if gave_room or any(flight.waited for flight, _ in ended):
        _link_who_made_room(recorder, dict(zip(jobs.job.tolist(), uploads.tolist(), strict=True)), ended, gave_room)
    if waits is not None:
        _link_waits(recorder, jobs, uploads, waits, ended)
    _record_jobs(recorder, jobs, version)
    return jobs


def _record_rows(recorder: Recorder, jobs: Ended, band: tuple[Floats, Floats]) -> tuple[Ints, Ints | None]:
    """Spans, counters and drop-outs; returns the rows of each job's upload and wait, -1 where there is none.

    None where nobody waited.
    """
    v = jobs.values
    sent_from, ended_at, computed_at = v["sent_from"], v["ended_at"], v["computed_at"]
    whole: Bools | slice = slice(None)          # jobs that went from computing to sending and were done
    unsent = np.isnan(sent_from)
    until = np.where(unsent, ended_at, sent_from)
    waited, sent = until - computed_at > CLOCK * np.spacing(until), ~unsent
    if jobs.stories:
        whole = np.ones(len(jobs), bool)
        whole[list(jobs.stories)] = False
        waited, sent = waited & whole, sent & whole
    rows = Rows(recorder, jobs)
    compute = rows.add(SPAN, "compute", whole, jobs.began, computed_at, energy_j=v["compute_j"])
    if jobs.on_battery:
        rows.add_charge(v["charge_1"], computed_at)
    wait = rows.add(SPAN, "wait", waited, computed_at, until) if np.count_nonzero(waited) else None
    which = slice(None) if np.count_nonzero(sent) == len(jobs) else sent
    upload = rows.add(SPAN, "upload", which, sent_from, ended_at, energy_j=v["upload_j"])
    told = rows.add_stories(jobs.stories) if jobs.stories else None
    if jobs.on_battery:
        rows.add_charge(v["charge_2"], ended_at)
    dropped = None if np.count_nonzero(jobs.arrived) == len(jobs) else np.flatnonzero(~jobs.arrived)
    if dropped is not None:
        drop = rows.add(INSTANT, [jobs.outcome[i] for i in dropped.tolist()], dropped, ended_at, ended_at)
    rows.add_band(*band)
    seq = rows.record()
    last, uploads, waits = jobs.last, np.full(len(jobs), -1), None
    if wait is not None:
        waits = np.full(len(jobs), -1)
        waits[waited] = seq[wait]
    jobs.computes[whole] = last[whole] = seq[compute]
    recorder.add_links(jobs.cause[whole], seq[compute])       # kept as they are until the part is taken
    recorder.add_links(jobs.computes[which], seq[upload])
    uploads[which] = last[which] = seq[upload]
    if told is not None:
        _link_stories(recorder, jobs, seq[told], last, uploads)
    if dropped is not None:
        recorder.add_links(last[dropped], seq[drop])
        last[dropped] = seq[drop]
    return uploads, waits


def _link_stories(recorder: Recorder, jobs: Ended, seq: Ints, last: Ints, uploads: Ints) -> None:
    """Each stretch of a story follows the one before."""
    first = 0
    for place, told in jobs.stories.items():
        rows = seq[first:first + len(told)]
        first += len(told)
        jobs.computes[place], last[place] = rows[0], rows[-1]
        if told[-1][0] == "upload":
            uploads[place] = rows[-1]
        recorder.add_links(np.concatenate([jobs.cause[place:place + 1], rows[:-1]]), rows)


class Rows:
    """Rows that are put in the order of time before they are recorded."""

    def __init__(self, recorder: Recorder, jobs: Ended) -> None:
        self.recorder = recorder
        self.jobs = jobs
        self.count = 0
        self.pieces: list[tuple[int, int | list[int], NDArray[Any], NDArray[Any] | int, Floats, Floats, Any, Any]] = []

    def add(
        self, kind: int, name: str | list[str], which: Bools | Ints | slice, t0: Floats, t1: Floats, *,
        energy_j: Floats | float = 0.0, value: Floats | float = 0.0,
    ) -> slice:
        """Rows of these jobs; returns their places."""
        device, job = self.jobs.device, self.jobs.job
        if not isinstance(which, slice):
            device, job, t0, t1 = device[which], job[which], t0[which], t1[which]
            energy_j = energy_j[which] if isinstance(energy_j, np.ndarray) else energy_j
            value = value[which] if isinstance(value, np.ndarray) else value
        names = self.recorder.text(name) if isinstance(name, str) else [self.recorder.text(each) for each in name]
        return self._add(kind, names, device, job, t0, t1, value, energy_j)

    def add_stories(self, stories: dict[int, list[Stretch]]) -> slice:
        """A row for each stretch of these jobs; returns their places."""
        place = np.repeat(list(stories), [len(told) for told in stories.values()])
        names, t0, t1, joules = zip(*(stretch for told in stories.values() for stretch in told), strict=True)
        return self._add(SPAN, [self.recorder.text(name) for name in names], self.jobs.device[place],
                         self.jobs.job[place], np.array(t0), np.array(t1), 0.0, np.array(joules))

    def add_charge(self, charge_j: Floats, t: Floats) -> None:
        """What is left in the batteries, where there are any."""
        there = ~np.isnan(charge_j)
        t = t[there]
        self._add(COUNTER, self.recorder.text("battery"), self.jobs.device[there], -1, t, t, charge_j[there], 0.0)

    def add_band(self, t: Floats, hertz: Floats) -> None:
        """How the band in use changed."""
        self._add(COUNTER, self.recorder.text("bandwidth"), np.full(len(t), CELL), -1, t, t, hertz, 0.0)

    def _add(
        self, kind: int, name: int | list[int], device: Ints, job: Ints | int, t0: Floats, t1: Floats, value: Any,
        energy_j: Any,
    ) -> slice:
        first, self.count = self.count, self.count + len(device)
        self.pieces.append((kind, name, device, job, t0, t1, value, energy_j))
        return slice(first, self.count)

    def record(self) -> Ints:
        """Record them by when they were complete; of one instant, in the order added. Returns the row of each place."""
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


def _link_who_made_room(
    recorder: Recorder, uploads: dict[int, int], ended: list[tuple[Flight, int]],
    gave_room: dict[int, list[tuple[Flight, int]]],
) -> None:
    """A job that had to wait for the band followed the upload whose end made room for it."""
    for job, upload in uploads.items():
        for other, k in gave_room.pop(job, ()):
            other.room_row[k] = upload
    for flight, i in ended:
        upload = uploads[flight.first + i]
        if flight.room_row[i] >= 0 and upload >= 0:
            recorder.link(flight.room_row[i], upload)


def _link_waits(
    recorder: Recorder, jobs: Ended, uploads: Ints, waits: Ints, ended: list[tuple[Flight, int]],
) -> None:
    """A job that no end made room for has waited for its slot, or for another to go off: until it sent."""
    order = {job: place for place, job in enumerate(jobs.job.tolist())}
    for flight, i in ended:
        place = order[flight.first + i]
        if waits[place] >= 0 and uploads[place] >= 0 and flight.room_row[i] < 0:
            recorder.link(int(jobs.computes[place]), int(waits[place]))
            recorder.link(int(waits[place]), int(uploads[place]))


def _record_jobs(recorder: Recorder, jobs: Ended, version: int) -> None:
    """What was decided for each job, and what came of it."""
    v, count = jobs.values, len(jobs)
    until = np.where(np.isnan(v["sent_from"]), v["ended_at"], v["sent_from"])
    wait_s = until - v["computed_at"]
    if jobs.stories:                     # all the time in which it did not work
        worked_s = jobs.duration_s
        for place in jobs.stories:
            wait_s[place] = max(0.0, v["ended_at"][place] - jobs.began[place] - worked_s[place])
    texts = {reason: recorder.text(reason) for reason in dict.fromkeys(jobs.outcome)}
    outcome = next(iter(texts.values())) if len(texts) == 1 else np.array([texts[reason] for reason in jobs.outcome])
    recorder.add_jobs(count, {
        "job": jobs.job, "round": version + 1, "version": jobs.version, "device": jobs.device,
        "t0": jobs.began, **jobs.decided, "compute_s": v["compute_s"], "wait_s": wait_s,
        "upload_s": v["upload_s"], "t1": v["ended_at"], "energy_j": jobs.energy_j,
        "outcome": outcome, "staleness": version - jobs.version,
    })


def record_packets(recorder: Recorder, ended: list[tuple[Flight, int]]) -> None:
    """How many packets each upload came to, with those that were sent again."""
    for flight, i in ended:
        if flight.packets[i] and not np.isnan(flight.sent_from[i]):
            recorder.counter("packets", flight.device[i], flight.ended_at[i], flight.packets[i])


def record_charge(recorder: Recorder, devices: Ints, now: float, told: Mapping[str, Floats]) -> None:
    """What is in the batteries of these devices, and what came in, was drawn at rest and was lost until now."""
    rows = np.zeros((8, len(told) * len(devices)))
    rows[0], rows[3], rows[4], rows[5] = COUNTER, -1.0, now, now
    rows[1] = np.repeat([recorder.text(name) for name in told], len(devices))
    rows[2], rows[6] = np.tile(devices, len(told)), np.concatenate(list(told.values()))
    recorder.add_rows(rows)


def record_left_out(
    recorder: Recorder, first: int, devices: Ints, now: float, version: int, cause: int, asked: dict[str, Floats],
) -> None:
    """Devices that no plan could be found for: jobs that ended before they began."""
    count = len(devices)
    for number, device in enumerate(devices.tolist()):
        recorder.instant(INFEASIBLE, device, now, after=[cause], job=first + number)
    unknown = dict.fromkeys(("cpu_hz", "power_w", "bandwidth_hz", "planned_s"), np.nan)
    nothing = dict.fromkeys(("compute_s", "wait_s", "upload_s", "energy_j", "staleness"), 0.0)
    recorder.add_jobs(count, {
        "job": first + np.arange(count), "round": version + 1, "version": version, "device": devices, "t0": now,
        "t1": now, "outcome": recorder.text(INFEASIBLE), **asked, **unknown, **nothing})
