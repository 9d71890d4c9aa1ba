"""Jobs as data: what was decided for each, how far it is, and how it ended. Rows, not processes: they can be saved."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from netsim.allocation.waves import Wave
from netsim.base.arrays import Floats, Ints, State
from netsim.trace.schema import ARRIVED

COMPUTING, WAITING, SENDING, ENDED, PAUSED, RECEIVING = range(6)      # the phases of a job
# what a phase is in the trace
SPANS = {COMPUTING: "compute", WAITING: "wait", SENDING: "upload", PAUSED: "off", RECEIVING: "download"}
THROTTLED = "throttled"                # computing at a lower clock than planned
NAMES = (*SPANS.values(), THROTTLED)
PHASES = {**{name: phase for phase, name in SPANS.items()}, THROTTLED: COMPUTING}
NO_SLOTS: Floats = np.zeros((0, 4))

Stretch = tuple[str, float, float, float]      # a span's name, its start and end, and the joules that it took


@dataclass(frozen=True, eq=False)
class Jobs:
    """What each of some devices is to do on the present model: amounts of work, and what it gets to do it with."""

    device: Ints
    bits: Floats                  # to send
    cycles: Floats                # to compute
    cpu_hz: Floats
    compute_w: Floats             # drawn while computing: (alpha/2) f^3
    power_w: Floats               # drawn, and radiated, while sending
    bandwidth_hz: Floats          # planned; the discipline decides what it really gets
    gain: Floats                  # as the plan saw it
    budget_j: Floats
    planned_s: Floats             # how long the plan means it to take
    slots: Floats = field(default_factory=lambda: NO_SLOTS)     # where planned bands change: t0, t1, position, hertz

    def __len__(self) -> int:
        return len(self.device)

    def lasting(self) -> Jobs:
        """The same where work may take longer than planned: who is not done after its last slot has its mean share.

        The last share alone may be next to nothing.
        """
        ends_s = np.zeros(len(self))
        np.maximum.at(ends_s, self.slots[:, 2].astype(np.int64), self.slots[:, 1])
        rest = np.column_stack([ends_s * (1 + 1e-9), np.full(len(self), np.inf), np.arange(len(self)),
                                self.bandwidth_hz])
        return replace(self, slots=np.concatenate([self.slots, rest])) if len(self.slots) else self

    def after(self, seconds: Floats) -> Jobs:
        """The same, begun with so many seconds of receiving: bands that are planned by time wait for all of them."""
        return replace(self, slots=self.slots + np.array([float(seconds.max())] * 2 + [0.0] * 2))

    @classmethod
    def of(cls, wave: Wave, efficiency: float = 1.0) -> Jobs:
        """The jobs that a wave's plan stands for; a plan counts the bits that Shannon's rate would send meanwhile."""
        plan, problem = wave.plan, wave.problem
        return cls(
            device=wave.devices, bits=problem.bits * efficiency, cycles=problem.cycles, cpu_hz=plan.cpu_hz,
            compute_w=problem.capacitance * plan.cpu_hz**3, power_w=plan.power_w, bandwidth_hz=plan.bandwidth_hz,
            gain=problem.gain, budget_j=problem.budget_j, planned_s=plan.end_s,
            slots=NO_SLOTS if plan.slots is None else plan.slots.table())


class Flight:
    """Jobs dispatched together, with how far each of them is.

    Columns that change are lists: they are read and written a job at a time. A job's work is what is ``left`` of its
    present phase (cycles, then bits), which wears off at ``rate`` from ``since`` on.
    """

    CHANGING = ("phase", "left", "rate", "since", "spent_s", "hz", "compute_s", "upload_s", "compute_j", "upload_j",
                "computed_at", "sent_from", "ended_at", "charge_1", "charge_2", "room_row", "stamp",
                "snr_hz", "planned_rate", "resumes", "starts", "tries", "compute_w", "receive_s", "receive_j",
                "packets")

    def __init__(
        self, first: int, version: int, began: float, cause: int, jobs: Jobs, snr_hz: Floats, rate: Floats,
    ) -> None:
        count = len(jobs)
        compute_s = jobs.cycles / jobs.cpu_hz
        self.first = first                   # number of its first job
        self.version = version               # of the model that the jobs started from
        self.began = began
        self.cause = cause                   # the trace row of the allocation
        self.jobs = jobs
        self.device: list[int] = jobs.device.tolist()
        # whose turn it is of several jobs to which something happens at one instant: the order of devices
        self.turn = list(zip(self.device, range(first, first + count), strict=True))
        self.power_w: list[float] = jobs.power_w.tolist()
        self.compute_w: list[float] = jobs.compute_w.tolist()
        self.planned_hz: list[float] = jobs.bandwidth_hz.tolist()
        self.slots = [(began + t0, int(i), hz) for t0, _, i, hz in jobs.slots[np.argsort(-jobs.slots[:, 0])].tolist()]
        self.in_slots = bool(self.slots)
        if self.in_slots:                    # the next one last; until then there is no band
            self.planned_hz = [0.0] * count
        self.planned_rate: list[float] = rate.tolist()       # bits a second with the planned share
        self.snr_hz: list[float] = snr_hz.tolist()
        self.bits: list[float] = jobs.bits.tolist()
        self.open = count                    # jobs that have not ended
        self.on_battery = False              # whether one of them draws from a battery
        self.waited = False                  # whether one of them had to wait for another to make room
        self.phase = [COMPUTING] * count
        self.left: list[float] = jobs.cycles.tolist()
        self.rate: list[float] = jobs.cpu_hz.tolist()
        self.since = [began] * count
        self.spent_s = [0.0] * count         # in earlier stretches of the present phase
        self.hz = [0.0] * count              # of the band, now
        self.compute_s: list[float] = compute_s.tolist()       # undisturbed; mended where something comes between
        self.upload_s = [0.0] * count
        self.compute_j: list[float] = (jobs.compute_w * compute_s).tolist()
        self.upload_j = [0.0] * count
        self.computed_at = [np.nan] * count
        self.sent_from = [np.nan] * count
        self.ended_at = [np.nan] * count
        self.charge_1 = [np.nan] * count     # of the battery, when computing ended; NaN on mains
        self.charge_2 = [np.nan] * count     # and when sending ended
        self.room_row = [-1] * count         # the trace row of the job whose end let this one send
        self.outcome = [ARRIVED] * count
        self.stamp = [0] * count             # rises when what was due is no longer
        self.resumes = [COMPUTING] * count   # the phase that a paused job goes on with
        self.starts = [0] * count            # how often it has started over
        self.tries = [0] * count             # uploads that were lost
        self.packets = [0] * count           # of the present upload, each time that one is sent; 0 where none is lost
        self.receive_s = [0.0] * count       # how long the download takes
        self.receive_j = [0.0] * count
        self.story: dict[int, list[Stretch]] = {}      # of jobs in which something came between, stretch by stretch
        self.told_j: dict[tuple[int, int], float] = {}      # the joules in it, by job and phase

    def __len__(self) -> int:
        return len(self.device)

    def snapshot(self) -> State:
        """The flight as named arrays."""
        reasons = "\n".join(self.outcome).encode()
        return {
            "head": np.array([self.first, self.version, self.cause], np.int64), "began": np.array(self.began),
            "outcome": np.frombuffer(reasons, np.uint8), "story": self._story_rows(),
            **{f"jobs.{field.name}": getattr(self.jobs, field.name) for field in fields(Jobs)},
            **{name: np.array(getattr(self, name)) for name in self.CHANGING},
        }

    @classmethod
    def restored(cls, state: State) -> Flight:
        """Back from named arrays."""
        jobs = Jobs(**{field.name: state[f"jobs.{field.name}"] for field in fields(Jobs)})
        first, version, cause = (int(value) for value in state["head"])
        flight = cls(first, version, float(state["began"]), cause, jobs, np.zeros(0), np.zeros(0))
        for name in cls.CHANGING:
            setattr(flight, name, state[name].tolist())
        flight.outcome = bytes(state["outcome"]).decode().split("\n")
        for i, name, t0, t1, joules in state["story"].tolist():
            flight._add_stretch(int(i), NAMES[int(name)], t0, t1, joules)
        flight.on_battery = not np.isnan(flight.charge_1 + flight.charge_2).all()
        flight.waited = max(flight.room_row) >= 0
        flight.open = sum(phase != ENDED for phase in flight.phase)
        return flight

    def follow_slots(self, now: float) -> None:
        """Take over the bands that are planned for now."""
        while self.slots and self.slots[-1][0] <= now:
            _, i, hz = self.slots.pop()
            self.planned_hz[i] = hz

    def affordable_s(self, i: int, now: float) -> float:
        """How long a job that has computed may still send until its budget is spent."""
        sent_s = self.upload_s[i] + (self.spent_s[i] + now - self.since[i] if self.phase[i] == SENDING else 0.0)
        return float(self.jobs.budget_j[i] - self.compute_j[i]) / self.power_w[i] - sent_s

    def tell(self, i: int, now: float) -> None:
        """Something came between: what a job did until now becomes part of its story."""
        phase, told = self.phase[i], self.story.setdefault(i, [])
        if not told and phase in (WAITING, SENDING):
            self._add_stretch(i, "compute", self.began, self.computed_at[i], self.compute_j[i])
            if phase == SENDING and self.sent_from[i] > self.computed_at[i]:
                self._add_stretch(i, "wait", self.computed_at[i], self.sent_from[i], 0.0)
        began = self.sent_from[i] if phase == SENDING else self.since[i]
        if now > began or not told:
            name, sums_j = SPANS[phase], {
                COMPUTING: self.compute_j, SENDING: self.upload_j, RECEIVING: self.receive_j}.get(phase)
            slow = phase == COMPUTING and self.rate[i] < self.jobs.cpu_hz[i]
            spent_j = 0.0 if sums_j is None else max(0.0, sums_j[i] - self.told_j.get((i, phase), 0.0))
            self._add_stretch(i, THROTTLED if slow else name, began, now, spent_j)

    def _add_stretch(self, i: int, name: str, t0: float, t1: float, joules: float) -> None:
        self.story.setdefault(i, []).append((name, t0, t1, joules))
        self.told_j[i, PHASES[name]] = self.told_j.get((i, PHASES[name]), 0.0) + joules

    def chapter(self, i: int) -> int:
        """How often something came between."""
        return len(self.story.get(i, ()))

    def start_over(self, i: int) -> None:
        """All work is lost, and is to be done again when the device is back; a model once received is kept."""
        begins = RECEIVING if self.resumes[i] == RECEIVING else COMPUTING
        work = self.receive_s[i] if begins == RECEIVING else float(self.jobs.cycles[i])
        if self.resumes[i] != begins or self.left[i] != work:
            self.resumes[i], self.left[i] = begins, work
            self.starts[i] += 1

    def _story_rows(self) -> Floats:
        rows = [(i, NAMES.index(name), *rest) for i, told in self.story.items() for name, *rest in told]
        return np.array(rows, np.float64).reshape(-1, 5)

    def columns(self, names: Sequence[str]) -> Floats:
        """Columns that change, as the rows of a matrix."""
        values = array("d")
        for name in names:
            values.fromlist(getattr(self, name))
        return np.frombuffer(values).reshape(len(names), len(self))

    def count(self, which: Ints | slice) -> int:
        """How many jobs that is: some of them, or all."""
        return len(self) if isinstance(which, slice) else len(which)

    def head(self, which: Ints | slice) -> Ints:
        """Number, cause and version of some of the jobs, a row each."""
        head = np.empty((3, self.count(which)), np.int64)
        head[0] = self.first + (np.arange(len(self)) if isinstance(which, slice) else which)
        head[1], head[2] = self.cause, self.version
        return head

    def outcomes(self, which: Ints | slice) -> list[str]:
        """How some of the jobs ended."""
        return self.outcome if isinstance(which, slice) else [self.outcome[i] for i in which.tolist()]


class Flights(list[Flight]):
    """Flights by the numbers of their jobs."""

    def of(self, ticket: int) -> Flight | None:
        """The flight of a job; None where all of it has landed."""
        place = bisect_right(self, ticket, key=lambda flight: flight.first) - 1
        flight = self[place] if place >= 0 else None
        return flight if flight is not None and ticket < flight.first + len(flight) else None

    def place(self, ticket: int) -> tuple[Flight, int]:
        """Where a job is that is under way."""
        flight = self.of(ticket)
        if flight is None:
            raise ValueError(f"job {ticket} is not in flight")
        return flight, ticket - flight.first

    def under_way(self) -> dict[int, int]:
        """All jobs that have not ended, with their devices."""
        return {flight.first + i: flight.device[i]
                for flight in self for i, phase in enumerate(flight.phase) if phase != ENDED}

    def still_of(self, tickets: list[int]) -> list[int]:
        """Those of some jobs that have not ended."""
        asked = set(tickets)
        return [flight.first + i for flight in self for i, phase in enumerate(flight.phase)
                if phase != ENDED and flight.first + i in asked]
