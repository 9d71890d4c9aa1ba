"""Work that wears off at rates: cycles at the CPU's frequency, bits at what the band gives, joules at the loads.

The medium holds the jobs in flight as rows, knows when the next of them comes to an end of its phase, and wakes then:
one SimPy event for each instant at which something happens, and no process for a device. Whoever waits for jobs is
told when they have ended, and acts on it before anything else happens, be it at the same instant.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import simpy

from netsim.base.arrays import Floats, Ints, State
from netsim.cell.battery import Batteries, Battery, Load
from netsim.cell.disciplines import Active, Discipline
from netsim.cell.jobs import COMPUTING, ENDED, SENDING, WAITING, Flight, Jobs
from netsim.cell.replies import Replies
from netsim.physics import fdma_rate
from netsim.trace.schema import ARRIVED, BATTERY_EMPTY

ROUNDING = 1e-9             # shares may overshoot the band by rounding, never by more
SENT, EMPTY, COMPUTED = range(3)      # at one instant ends come before starts, then the order of devices

Ticket = int                # the number of a job


class Medium:
    """The CPUs and radios of the cell, and the band that they share."""

    def __init__(
        self, env: simpy.Environment, bandwidth_hz: float, noise_w_per_hz: float, discipline: Discipline,
        batteries: Batteries,
    ) -> None:
        self.env = env
        self.bandwidth_hz = bandwidth_hz
        self.noise_w_per_hz = noise_w_per_hz
        self.discipline = discipline
        self.batteries = batteries
        self.in_use_hz = 0.0
        self.band_t, self.band_hz = array("d"), array("d")       # how the band in use has changed
        self.ended: list[tuple[Flight, int]] = []                # jobs that nobody has taken away yet
        self.flights: list[Flight] = []                          # with jobs that have not ended, by their numbers
        self.gave_room: dict[Ticket, list[tuple[Flight, int]]] = {}      # who could send because a job had ended
        self._limit = bandwidth_hz * (1 + ROUNDING)
        self._sending: dict[Ticket, tuple[Flight, int]] = {}
        self._waiting: list[tuple[Flight, int]] = []             # the first ready first
        self._replies: dict[Ticket, Replies] = {}
        self._loads: dict[Ticket, tuple[Battery, Load]] = {}
        # what is due when, the next first; an entry with another stamp than its job or battery is overtaken
        self._agenda: list[tuple[float, int, Any, int, Any, int]] = []
        self._alarm: simpy.Event | None = None
        self._alarm_at = math.inf
        self._told = False                   # whether somebody has just been told what it waited for

    def start(self, first: Ticket, version: int, cause: int, jobs: Jobs, gain: Floats) -> Flight:
        """Let these jobs begin to compute, now; ``gain`` is that of their channels."""
        snr_hz = gain * jobs.power_w / self.noise_w_per_hz
        if self.discipline.fixed and not ((jobs.bandwidth_hz > 0.0) & (jobs.bandwidth_hz <= self._limit)).all():
            raise ValueError(f"shares of {jobs.bandwidth_hz} Hz do not fit a band of {self.bandwidth_hz} Hz")
        rate = fdma_rate(jobs.bandwidth_hz, snr_hz)
        flight = Flight(first, version, self.env.now, cause, jobs, snr_hz, rate)
        self.flights.append(flight)
        now = self.env.now
        self._agenda.extend([
            (now + seconds, COMPUTED, flight.turn(i), 0, flight, i) for i, seconds in enumerate(flight.compute_s)])
        heapify(self._agenda)
        for i in self.batteries.on_battery(jobs.device):
            self._draw(flight, i, flight.compute_w[i], flight.compute_s[i])
        self._set_alarm()
        return flight

    def replies(self, tickets: Ints, until: float, count: int | None) -> Replies:
        """An event that comes when so many of these jobs have ended (None: all), or at ``until``."""
        there = self._under_way(tickets.tolist())
        wanted = len(there) if count is None else count - (len(tickets) - len(there))
        replies = Replies(self.env, wanted)
        if wanted <= 0:
            replies.succeed()
            return replies
        self._replies.update(dict.fromkeys(there, replies))
        if until < math.inf:
            self.env.timeout(until - self.env.now).callbacks.append(replies.time_is_up)
        return replies

    def cancel(self, ticket: Ticket, reason: str) -> None:
        """End a job, whatever it is at; what it has spent is spent."""
        flight = self.flight_of(ticket)
        if flight is not None and flight.phase[ticket - flight.first] != ENDED:
            self._cut(flight, ticket - flight.first, reason)
            self._set_alarm()

    def flight_of(self, ticket: Ticket) -> Flight | None:
        """The flight of a job; None where all of it has landed."""
        place = bisect_right(self.flights, ticket, key=lambda flight: flight.first) - 1
        flight = self.flights[place] if place >= 0 else None
        return flight if flight is not None and ticket < flight.first + len(flight) else None

    def _under_way(self, tickets: list[Ticket]) -> list[Ticket]:
        """Those of some jobs that have not ended."""
        asked, there = set(tickets), list[Ticket]()
        for flight in self.flights:
            first = flight.first
            there.extend([first + i for i, phase in enumerate(flight.phase) if phase != ENDED and first + i in asked])
        return there

    def under_way(self) -> dict[Ticket, int]:
        """All jobs that have not ended, with their devices."""
        return {flight.first + i: flight.device[i]
                for flight in self.flights for i, phase in enumerate(flight.phase) if phase != ENDED}

    def take_ended(self) -> list[tuple[Flight, int]]:
        """The jobs that have ended since the last call, in the order in which they did."""
        ended, self.ended = self.ended, []
        self.flights = [flight for flight in self.flights if flight.open]
        return ended

    def take_band(self) -> tuple[Floats, Floats]:
        """When the band in use has changed since the last call, and to what."""
        taken = np.array(self.band_t), np.array(self.band_hz)
        self.band_t, self.band_hz = array("d"), array("d")
        return taken

    def snapshot(self) -> State:
        """The jobs in flight as named arrays."""
        state: State = {"flights": np.array(len(self.flights), np.int64), "in_use_hz": np.array(self.in_use_hz),
                        "sending": np.array(list(self._sending), np.int64),
                        "waiting": np.array([flight.first + i for flight, i in self._waiting], np.int64)}
        loads = [(ticket, load.watts, load.seconds, load.since) for ticket, (_, load) in self._loads.items()]
        state["loads"] = np.array(loads, np.float64).reshape(-1, 4)
        for number, flight in enumerate(self.flights):
            state |= {f"flight{number}.{name}": array for name, array in flight.snapshot().items()}
        return state

    def restore(self, state: State) -> None:
        """Take the jobs up where they were; whoever waited for them has to ask again."""
        for number in range(int(state["flights"])):
            prefix = f"flight{number}."
            own = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
            self.flights.append(Flight.restored(own))
        self.in_use_hz = float(state["in_use_hz"])
        self._sending = {ticket: self._place(ticket) for ticket in state["sending"].tolist()}
        self._waiting = [self._place(ticket) for ticket in state["waiting"].tolist()]
        for ticket, watts, seconds, since in state["loads"].tolist():
            self._draw(*self._place(int(ticket)), watts, seconds, since)
        self.look_ahead()

    def look_ahead(self) -> None:
        """Find out anew what is due when, from the rows alone.

        A run does so wherever it may be taken up, so that one that is taken up there wakes at the same instants: what
        is due would otherwise have been rounded from another moment on.
        """
        self._agenda, self._alarm, self._alarm_at = [], None, math.inf
        for flight in self.flights:
            for i, phase in enumerate(flight.phase):
                if phase in (COMPUTING, SENDING) and flight.rate[i] > 0.0:
                    due = flight.since[i] + flight.left[i] / flight.rate[i]
                    what = COMPUTED if phase == COMPUTING else SENT
                    self._agenda.append((due, what, flight.turn(i), flight.stamp[i], flight, i))
        heapify(self._agenda)
        for battery in dict.fromkeys(battery for battery, _ in self._loads.values()):
            self._watch(battery)
        self._set_alarm()

    def _place(self, ticket: Ticket) -> tuple[Flight, int]:
        flight = self.flight_of(ticket)
        if flight is None:
            raise ValueError(f"job {ticket} is not in flight")
        return flight, ticket - flight.first

    # Time.

    def _set_alarm(self) -> None:
        """Wake when the next thing is due."""
        if self._agenda and self._agenda[0][0] < self._alarm_at:
            self._alarm_at = self._agenda[0][0]
            self._alarm = self.env.timeout(max(0.0, self._alarm_at - self.env.now))
            self._alarm.callbacks.append(self._wake)

    def _wake(self, alarm: simpy.Event) -> None:
        if alarm is not self._alarm:         # something else became due earlier, and has set another one
            return
        now = self.env.now
        until, self._alarm_at = max(now, self._alarm_at), math.inf       # the clock may have rounded down
        agenda, self._told = self._agenda, False
        while agenda and agenda[0][0] <= until and not self._told:
            _, what, _, stamp, where, i = heappop(agenda)
            if what == EMPTY:
                if where.watch == stamp:
                    self._ran_out(where)
            elif where.stamp[i] == stamp:
                if what == COMPUTED:
                    self._computed(where, i, now)
                else:
                    self._sent(where, i, now)
        self._set_alarm()

    # What happens to a job.

    def _computed(self, flight: Flight, i: int, now: float) -> None:
        """Computing is done: to the radio, at once if there is room."""
        flight.computed_at[i] = now
        if self._loads:
            self._settle_load(flight, i, "compute_j", "charge_1", complete=True)
        flight.phase[i] = WAITING
        hz = flight.planned_hz[i]
        if self.discipline.fixed and not self._waiting and self.in_use_hz + hz <= self._limit:
            self._send(flight, i, now, hz, flight.planned_rate[i])
            self._count(self.in_use_hz + hz)
        else:
            self._waiting.append((flight, i))
            self._share(now)

    def _send(self, flight: Flight, i: int, now: float, hz: float, rate: float) -> None:
        """Begin to send."""
        ticket = flight.first + i
        flight.phase[i] = SENDING
        flight.sent_from[i] = flight.since[i] = now
        flight.left[i] = bits = flight.bits[i]
        flight.rate[i], flight.hz[i], flight.spent_s[i] = rate, hz, 0.0
        self._sending[ticket] = (flight, i)
        heappush(self._agenda, (now + bits / rate, SENT, flight.turn(i), flight.stamp[i], flight, i))
        if self.batteries.any_finite and self.batteries.is_finite(flight.device[i]):
            flight.upload_j[i] = 0.0
            self._draw(flight, i, flight.power_w[i], bits / rate)

    def _sent(self, flight: Flight, i: int, now: float) -> None:
        """The last bit is there."""
        seconds = flight.left[i] / flight.rate[i]
        flight.upload_s[i] = flight.spent_s[i] + seconds
        flight.upload_j[i] = self._upload_energy(flight, i, complete=True)
        self._end(flight, i, now, ARRIVED)
        self._leave_the_band(flight, i, now)

    def _cut(self, flight: Flight, i: int, reason: str) -> None:
        """A job ends before its work is done."""
        now, phase = self.env.now, flight.phase[i]
        flight.stamp[i] += 1
        if phase == COMPUTING:
            flight.computed_at[i] = now
            flight.compute_s[i] = now - flight.since[i]
            flight.compute_j[i] = flight.compute_w[i] * flight.compute_s[i]
            if self._loads:
                self._settle_load(flight, i, "compute_j", "charge_1", complete=False)
        if phase == SENDING:
            flight.upload_s[i] = flight.spent_s[i] + now - flight.since[i]
            flight.upload_j[i] = self._upload_energy(flight, i, complete=False)
        else:
            flight.upload_s[i] = flight.upload_j[i] = 0.0
        self._end(flight, i, now, reason)
        if phase == SENDING:
            self._leave_the_band(flight, i, now)
        elif phase == WAITING:
            self._waiting.remove((flight, i))

    def _end(self, flight: Flight, i: int, now: float, outcome: str) -> None:
        ticket = flight.first + i
        flight.phase[i], flight.ended_at[i], flight.outcome[i] = ENDED, now, outcome
        flight.open -= 1
        self.ended.append((flight, i))
        if self.batteries.any_finite and self.batteries.is_finite(flight.device[i]):
            self.batteries.close(flight.device[i], now)
        replies = self._replies.pop(ticket, None)
        if replies is not None and replies.one_more():
            self._told = True

    # The band.

    def _leave_the_band(self, flight: Flight, i: int, now: float) -> None:
        """Give a share back; where it matters to the others, divide anew."""
        del self._sending[flight.first + i]
        self._count(self.in_use_hz - flight.hz[i] if self._sending else 0.0)
        if self._waiting or (self._sending and not self.discipline.fixed):
            self._share(now, made_room=flight.first + i)

    def _share(self, now: float, made_room: Ticket = -1) -> None:
        """Ask the discipline who gets how much, and let the others' work wear off at the new rates."""
        active = [*self._sending.values(), *self._waiting]
        hertz = self.discipline.bandwidth(self._look(active, now), now)
        if not (hertz.shape == (len(active),) and (hertz >= 0.0).all() and hertz.sum() <= self._limit):
            raise ValueError(f"{type(self.discipline).__name__} gave {hertz} Hz of a band of {self.bandwidth_hz} Hz")
        for (flight, i), hz in zip(active, hertz.tolist(), strict=True):
            if flight.phase[i] == SENDING:
                if hz != flight.hz[i]:
                    self._change_rate(flight, i, now, hz)
            elif hz > 0.0:
                self._waiting.remove((flight, i))
                if made_room >= 0:
                    self.gave_room.setdefault(made_room, []).append((flight, i))
                    flight.waited = True
                self._send(flight, i, now, hz, float(fdma_rate(hz, flight.snr_hz[i])))
        self._count(float(hertz.sum()))

    def _look(self, active: list[tuple[Flight, int]], now: float) -> Active:
        """What a discipline is shown."""
        def left(flight: Flight, i: int) -> float:
            worn_off = flight.rate[i] * (now - flight.since[i]) if flight.phase[i] == SENDING else 0.0
            return (flight.left[i] if flight.phase[i] == SENDING else flight.bits[i]) - worn_off

        return Active(
            planned_hz=np.array([flight.planned_hz[i] for flight, i in active]),
            left_bits=np.array([left(flight, i) for flight, i in active]),
            snr_hz=np.array([flight.snr_hz[i] for flight, i in active]),
            sending=np.array([flight.hz[i] for flight, i in active]), bandwidth_hz=self.bandwidth_hz)

    def _change_rate(self, flight: Flight, i: int, now: float, hz: float) -> None:
        """What is left goes on at another rate; a rate of 0 never ends."""
        ticket = flight.first + i
        past_s = now - flight.since[i]
        flight.left[i] = max(0.0, flight.left[i] - flight.rate[i] * past_s)
        flight.spent_s[i] += past_s
        flight.since[i], flight.hz[i] = now, hz
        flight.rate[i] = rate = float(fdma_rate(hz, flight.snr_hz[i]))
        flight.stamp[i] += 1
        seconds = flight.left[i] / rate if rate > 0.0 else math.inf
        if seconds < math.inf:
            heappush(self._agenda, (now + seconds, SENT, flight.turn(i), flight.stamp[i], flight, i))
        if ticket in self._loads:
            flight.upload_j[i] = self._upload_energy(flight, i, complete=False)
            self._draw(flight, i, flight.power_w[i], seconds)

    def _count(self, in_use_hz: float) -> None:
        self.in_use_hz = in_use_hz
        self.band_t.append(self.env.now)
        self.band_hz.append(in_use_hz)

    # Energy.

    def _draw(self, flight: Flight, i: int, watts: float, seconds: float, since: float | None = None) -> None:
        """A device on a battery begins to draw; whether that will see it through is known now."""
        battery = self.batteries.at_work(flight.device[i])
        ticket, flight.on_battery = flight.first + i, True
        began = self.env.now if since is None else since
        self._loads[ticket] = (battery, battery.connect(began, watts, seconds))
        battery.owners[ticket] = (flight, i)
        self._watch(battery)

    def _watch(self, battery: Battery) -> None:
        battery.watch += 1
        empty_at = battery.empty_at(self.env.now)
        if empty_at < math.inf:
            heappush(self._agenda, (empty_at, EMPTY, min(battery.owners), battery.watch, battery, 0))

    def _settle_load(self, flight: Flight, i: int, column: str, charge: str, *, complete: bool) -> None:
        """A phase on a battery has ended: note what it took, and what is left."""
        ticket = flight.first + i
        if ticket in self._loads:
            battery, load = self._loads.pop(ticket)
            del battery.owners[ticket]
            getattr(flight, column)[i] = battery.disconnect(load, self.env.now, complete=complete)
            getattr(flight, charge)[i] = battery.level_j(self.env.now)
            self._watch(battery)

    def _upload_energy(self, flight: Flight, i: int, *, complete: bool) -> float:
        """Joules of the upload until now."""
        if flight.first + i not in self._loads:
            return flight.power_w[i] * flight.upload_s[i]
        before = flight.upload_j[i]
        self._settle_load(flight, i, "upload_j", "charge_2", complete=complete)
        return before + flight.upload_j[i]

    def _ran_out(self, battery: Battery) -> None:
        """Whoever draws from it is told at this very instant."""
        battery.ran_out = True
        for flight, i in list(battery.owners.values()):
            self._cut(flight, i, BATTERY_EMPTY)
