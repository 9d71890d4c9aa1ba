"""Work that wears off at rates: cycles at the CPU's frequency, bits at what the band gives, joules at the loads.

The medium holds the jobs in flight as rows, knows when the next of them comes to an end of its phase, and wakes then:
one SimPy event for each instant at which something happens, and no process for a device. Whoever waits for jobs is
told when they have ended, and acts on it before anything else happens, be it at the same instant.
"""

from __future__ import annotations

import math
from array import array
from heapq import heapify, heappop, heappush

import numpy as np
import simpy

from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats, Ints, State
from netsim.cell.battery import Batteries, Battery
from netsim.cell.disciplines import Discipline
from netsim.cell.fades import Fades
from netsim.cell.heat import Heat
from netsim.cell.jobs import COMPUTING, ENDED, RECEIVING, SENDING, WAITING, Flight, Flights, Jobs
from netsim.cell.loads import CHANGED, COMPUTED, EMPTY, PLANNED, RECEIVED, SENT, SPENT, SWITCHED, Agenda, Loads
from netsim.cell.pauses import Pauses
from netsim.cell.radio import SHANNON, Air, RateLaw
from netsim.cell.replies import Replies
from netsim.cell.work import DeviceWork
from netsim.trace.schema import ARRIVED, BATTERY_EMPTY, OVER_BUDGET
from netsim.world.devices import STEADY, DevicesInTime

CLOCK = 16                  # units in the last place of the clock that are its rounding
ROUNDING = 1e-9             # shares may overshoot the band by rounding, never by more

DUE = {COMPUTING: COMPUTED, SENDING: SENT, RECEIVING: RECEIVED}      # how a phase ends whose work is done

Ticket = int                # the number of a job


class Medium:
    """The CPUs and radios of the cell, and the band that they share."""

    def __init__(
        self, env: simpy.Environment, bandwidth_hz: float, noise_w_per_hz: float, discipline: Discipline,
        batteries: Batteries, radio: RateLaw = SHANNON, air: Air | None = None, devices: DevicesInTime = STEADY,
        reception_w: float = 0.0,
    ) -> None:
        self.env = env
        self.radio = radio
        self.bandwidth_hz = bandwidth_hz
        self.noise_w_per_hz = noise_w_per_hz
        self.discipline = discipline
        self.batteries = batteries
        self.in_use_hz = 0.0
        self.band_t, self.band_hz = array("d"), array("d")       # how the band in use has changed
        self.ended: list[tuple[Flight, int]] = []                # jobs that nobody has taken away yet
        self.flights = Flights()                                 # with jobs that have not ended, by their numbers
        self.gave_room: dict[Ticket, list[tuple[Flight, int]]] = {}      # who could send because a job had ended
        self._limit = bandwidth_hz * (1 + ROUNDING)
        self._drops, self._finite = radio.drops_over_budget, batteries.any_finite
        self.steady = discipline.fixed                          # whoever fits keeps what was planned to its end
        self.sending: dict[Ticket, tuple[Flight, int]] = {}
        self.waiting: list[tuple[Flight, int]] = []             # the first ready first
        self._replies: dict[Ticket, Replies] = {}
        # what is due when, the next first; an entry with another stamp than its job or battery is overtaken
        self.agenda: Agenda = []
        self.loads = Loads(env, batteries, self.agenda)
        # channels that stay as they are during a round are not asked again
        self.fades = Fades(self, air) if air is not None and air.next_change(env.now) < math.inf else None
        self.pauses = Pauses(self, devices.faults) if devices.faults else None
        self.heat = Heat(self, devices.heat_limits) if devices.heat_limits else None
        self.work = DeviceWork(self, reception_w)
        self.surprises = (self.fades, self.pauses, self.heat) != (None, None, None)      # of which plans know nothing
        self._alarm: simpy.Event | None = None
        self._alarm_at = math.inf
        self._told = False                   # whether somebody has just been told what it waited for

    def start(
        self, first: Ticket, version: int, cause: int, jobs: Jobs, gain: Floats, receive_s: Floats | None = None,
    ) -> Flight:
        """Let these jobs begin, now: to compute, or first to receive the model; ``gain`` is that of their channels."""
        snr_hz = gain * jobs.power_w / self.noise_w_per_hz
        hertz = jobs.bandwidth_hz
        if self.discipline.fixed and not (np.minimum.reduce(hertz) > 0.0 and np.maximum.reduce(hertz) <= self._limit):
            raise ValueError(f"shares of {jobs.bandwidth_hz} Hz do not fit a band of {self.bandwidth_hz} Hz")
        rate = self.radio.rate(jobs.bandwidth_hz, snr_hz)
        flight = Flight(first, version, self.env.now, cause, jobs, snr_hz, rate)
        self.flights.append(flight)
        now = self.env.now
        if receive_s is None:
            self.agenda.extend([
                (now + seconds, COMPUTED, flight.turn[i], 0, flight, i) for i, seconds in enumerate(flight.compute_s)])
        flight.follow_slots(now)
        self._await_slots(flight)
        heapify(self.agenda)
        if receive_s is not None:
            self.work.download(flight, receive_s)
        else:
            for i in self.batteries.on_battery(jobs.device):
                self.loads.draw(flight, i, flight.compute_w[i], flight.compute_s[i])
            if self.heat is not None:
                self.heat.begin_all(flight, now)
        if self.pauses is not None:
            self.pauses.watch(flight)
        self._set_alarm()
        return flight

    def replies(self, tickets: Ints, until: float, count: int | None) -> Replies:
        """An event that comes when so many of these jobs have ended (None: all), or at ``until``."""
        there = self.flights.still_of(tickets.tolist())
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
        flight = self.flights.of(ticket)
        if flight is not None and flight.phase[ticket - flight.first] != ENDED:
            self.cut(flight, ticket - flight.first, reason)
            self._set_alarm()

    def take_ended(self) -> list[tuple[Flight, int]]:
        """The jobs that have ended since the last call, in the order in which they did."""
        ended, self.ended = self.ended, []
        self.flights = Flights(flight for flight in self.flights if flight.open)
        return ended

    def take_band(self) -> tuple[Floats, Floats]:
        """When the band in use has changed since the last call, and to what."""
        taken = np.array(self.band_t), np.array(self.band_hz)
        self.band_t, self.band_hz = array("d"), array("d")
        return taken

    def snapshot(self) -> State:
        """The jobs in flight as named arrays."""
        state: State = {"flights": np.array(len(self.flights), np.int64), "in_use_hz": np.array(self.in_use_hz),
                        "sending": np.array(list(self.sending), np.int64),
                        "waiting": np.array([flight.first + i for flight, i in self.waiting], np.int64)}
        state["loads"] = self.loads.snapshot()
        if self.pauses is not None:
            state["uploads"] = self.pauses.snapshot()
        if self.heat is not None:
            state["heat"] = self.heat.snapshot()
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
        self.sending = {ticket: self.flights.place(ticket) for ticket in state["sending"].tolist()}
        self.waiting = [self.flights.place(ticket) for ticket in state["waiting"].tolist()]
        for ticket, watts, seconds, since in state["loads"].tolist():
            self.loads.draw(*self.flights.place(int(ticket)), watts, seconds, since)
        for flight in self.flights:
            flight.follow_slots(float(np.nextafter(self.env.now, -np.inf)))
        if self.pauses is not None:
            self.pauses.restore(state["uploads"])
        if self.heat is not None:
            self.heat.restore(state["heat"])
        self.look_ahead()

    def look_ahead(self) -> None:
        """Find out anew what is due when, from the rows alone.

        A run does so wherever it may be taken up, so that one that is taken up there wakes at the same instants: what
        is due would otherwise have been rounded from another moment on.
        """
        self.agenda.clear()                  # in place: the loads know it too
        self._alarm, self._alarm_at = None, math.inf
        for flight in self.flights:
            for i, phase in enumerate(flight.phase):
                if phase in DUE and flight.rate[i] > 0.0:
                    due = flight.since[i] + flight.left[i] / flight.rate[i]
                    self.agenda.append((due, DUE[phase], flight.turn[i], flight.stamp[i], flight, i))
                if phase == SENDING and self._drops:
                    spent_at = self._spent_at(flight, i)
                    self.agenda.append((spent_at, SPENT, flight.turn[i], flight.chapter(i), flight, i))
            self._await_slots(flight)
        heapify(self.agenda)
        self.loads.watch_all()
        if self.fades is not None:
            self.fades.look_ahead(self.env.now)
        if self.heat is not None:
            self.heat.look_ahead()
        if self.pauses is not None:
            for flight in self.flights:
                self.pauses.watch(flight)
        self._set_alarm()

    def _await_slots(self, flight: Flight) -> None:
        """Be there when planned bands change; while some do, no share is for good."""
        self.agenda.extend([(at, PLANNED, flight.first, 0, flight, 0) for at in {slot[0] for slot in flight.slots}])
        self.steady = self.discipline.fixed and not any(each.in_slots for each in self.flights)

    # Time.

    def _set_alarm(self) -> None:
        """Wake when the next thing is due."""
        if self.agenda and self.agenda[0][0] < self._alarm_at:
            self._alarm_at = self.agenda[0][0]
            self._alarm = self.env.timeout(max(0.0, self._alarm_at - self.env.now))
            self._alarm.callbacks.append(self._wake)

    def _wake(self, alarm: simpy.Event) -> None:
        if alarm is not self._alarm:         # something else became due earlier, and has set another one
            return
        now = self.env.now
        until, self._alarm_at = max(now, self._alarm_at), math.inf       # the clock may have rounded down
        agenda, self._told = self.agenda, False
        while agenda and agenda[0][0] <= until and not self._told:
            at, what, _, stamp, where, i = heappop(agenda)
            if what in (COMPUTED, SENT):
                if where.stamp[i] == stamp:
                    (self._computed if what == COMPUTED else self._sent)(where, i, now)
            elif what == EMPTY:
                if where.watch == stamp:
                    self._ran_out(where)
            elif what == CHANGED and self.fades is not None:
                self.fades.changed(until)
            elif what == SWITCHED and self.pauses is not None:
                self.pauses.look(where, i, at)
            elif what == SPENT:
                if where.phase[i] == SENDING and where.chapter(i) == stamp:
                    self.cut(where, i, OVER_BUDGET)
            elif what == PLANNED:
                where.follow_slots(until)
                if where.open and (self.sending or self.waiting):
                    self.share(now)
            elif where.stamp[i] == stamp:
                self.work.due(what, where, i, now)
        self._set_alarm()

    # What happens to a job.

    def _computed(self, flight: Flight, i: int, now: float) -> None:
        """Computing is done."""
        self.loads.stop_computing(flight, i, now, complete=True)
        if self.heat is not None:
            self.heat.stop(flight, i, now)
        if i in flight.story:
            flight.tell(i, now)
        flight.left[i] = flight.bits[i] if self.pauses is None else self.pauses.to_send(flight, i)
        self.to_the_radio(flight, i, now)

    def to_the_radio(self, flight: Flight, i: int, now: float) -> None:
        """To those who wait for the band; to send at once if there is room."""
        flight.phase[i], flight.since[i] = WAITING, now
        if flight.slots:                     # a slot that begins when computing ends, but for rounding
            flight.follow_slots(now + CLOCK * math.ulp(now))
        if self.fades is not None:
            self.fades.take_over([(flight, i)], now)
            self.fades.watch(now)
        hz = flight.planned_hz[i]
        if self.steady and not self.waiting and self.in_use_hz + hz <= self._limit:
            self._send(flight, i, now, hz, flight.planned_rate[i])
            self._count(self.in_use_hz + hz, now)
        else:
            self.waiting.append((flight, i))
            self.share(now)

    def _send(self, flight: Flight, i: int, now: float, hz: float, rate: float) -> None:
        """Begin to send."""
        ticket = flight.first + i
        if i in flight.story:
            flight.tell(i, now)
        flight.phase[i] = SENDING
        flight.sent_from[i] = flight.since[i] = now
        flight.rate[i], flight.hz[i], flight.spent_s[i] = rate, hz, 0.0
        self.sending[ticket] = (flight, i)
        seconds = flight.left[i] / rate if rate > 0.0 else math.inf
        if seconds < math.inf:
            heappush(self.agenda, (now + seconds, SENT, flight.turn[i], flight.stamp[i], flight, i))
        if self._drops:
            heappush(self.agenda, (self._spent_at(flight, i), SPENT, flight.turn[i], flight.chapter(i), flight, i))
        if self._finite and self.batteries.is_finite(flight.device[i]):
            self.loads.draw(flight, i, flight.power_w[i], seconds)

    def _sent(self, flight: Flight, i: int, now: float) -> None:
        """The last bit is sent; it may have been in vain."""
        self.loads.stop_sending(flight, i, now, complete=True)
        outcome = ARRIVED if self.pauses is None else self.pauses.received(flight, i)
        if outcome is None:
            flight.tell(i, now)
            flight.sent_from[i], flight.left[i] = now, flight.bits[i]
            self._send(flight, i, now, flight.hz[i], flight.rate[i])
            if not self.steady:              # divide anew, after those who end at this very instant
                heappush(self.agenda, (now, PLANNED, flight.first + i, 0, flight, i))
            return
        self._end(flight, i, now, outcome)
        self.leave_the_band(flight, i, now)

    def cut(self, flight: Flight, i: int, reason: str) -> None:
        """A job ends before its work is done."""
        now, phase = self.env.now, flight.phase[i]
        self.work.stop(flight, i, now)
        self._end(flight, i, now, reason)
        if phase == SENDING:
            self.leave_the_band(flight, i, now)
        elif phase == WAITING:
            self.waiting.remove((flight, i))

    def _end(self, flight: Flight, i: int, now: float, outcome: str) -> None:
        ticket = flight.first + i
        if i in flight.story:
            flight.tell(i, now)
        flight.phase[i], flight.ended_at[i], flight.outcome[i] = ENDED, now, outcome
        flight.open -= 1
        self.ended.append((flight, i))
        if self._finite and self.batteries.is_finite(flight.device[i]):
            self.batteries.close(flight.device[i], now)
        replies = self._replies.pop(ticket, None)
        if replies is not None and replies.one_more():
            self._told = True

    # The band.

    def leave_the_band(self, flight: Flight, i: int, now: float, *, ended: bool = True) -> None:
        """Give a share back; where it matters to the others, divide anew."""
        del self.sending[flight.first + i]
        self._count(self.in_use_hz - flight.hz[i] if self.sending else 0.0, now)
        if self.waiting or (self.sending and not self.steady):
            self.share(now, made_room=flight.first + i if ended else -1)

    def share(self, now: float, made_room: Ticket = -1, *, changed: bool = False) -> None:
        """Ask the discipline who gets how much, and let the others' work wear off at the new rates."""
        active = [*self.sending.values(), *self.waiting]
        seen = self._look(active, now)
        hertz = self.discipline.bandwidth(seen, now)
        if not (hertz.shape == (len(active),) and (hertz >= 0.0).all() and hertz.sum() <= self._limit):
            raise ValueError(f"{type(self.discipline).__name__} gave {hertz} Hz of a band of {self.bandwidth_hz} Hz")
        rates = self.radio.rate(hertz, seen.snr_hz)
        for (flight, i), hz, rate in zip(active, hertz.tolist(), rates.tolist(), strict=True):
            if flight.phase[i] == SENDING:
                if changed or hz != flight.hz[i]:
                    self.change_rate(flight, i, now, hz, rate)
            elif hz > 0.0:
                self.waiting.remove((flight, i))
                if made_room >= 0:
                    self.gave_room.setdefault(made_room, []).append((flight, i))
                    flight.waited = True
                self._send(flight, i, now, hz, rate)
        self._count(float(hertz.sum()), now)

    def _look(self, active: list[tuple[Flight, int]], now: float) -> Active:
        """What a discipline is shown."""
        def left(flight: Flight, i: int) -> float:
            return flight.left[i] - (flight.rate[i] * (now - flight.since[i]) if flight.phase[i] == SENDING else 0.0)

        return Active(
            planned_hz=np.array([flight.planned_hz[i] for flight, i in active]),
            left_bits=np.array([left(flight, i) for flight, i in active]) / self.radio.efficiency,
            snr_hz=np.array([flight.snr_hz[i] for flight, i in active]),
            left_s=np.array([flight.affordable_s(i, now) for flight, i in active]),
            sending=np.array([flight.hz[i] for flight, i in active]), bandwidth_hz=self.bandwidth_hz)

    def change_rate(self, flight: Flight, i: int, now: float, hz: float, rate: float) -> None:
        """What is left goes on at another rate; a rate of 0 never ends."""
        ticket = flight.first + i
        past_s = now - flight.since[i]
        flight.left[i] = max(0.0, flight.left[i] - flight.rate[i] * past_s)
        flight.spent_s[i] += past_s
        flight.since[i], flight.hz[i], flight.rate[i] = now, hz, rate
        flight.stamp[i] += 1
        seconds = flight.left[i] / rate if rate > 0.0 else math.inf
        if seconds < math.inf:
            heappush(self.agenda, (now + seconds, SENT, flight.turn[i], flight.stamp[i], flight, i))
        if ticket in self.loads:
            flight.upload_j[i] = self.loads.upload_energy(flight, i, complete=False)
            self.loads.draw(flight, i, flight.power_w[i], seconds)

    def _count(self, in_use_hz: float, now: float) -> None:
        self.in_use_hz = in_use_hz
        self.band_t.append(now)
        self.band_hz.append(in_use_hz)

    # Energy.

    def _spent_at(self, flight: Flight, i: int) -> float:
        """When a job that sends has spent its budget; what just suffices suffices."""
        return flight.since[i] + max(0.0, flight.affordable_s(i, flight.since[i])) * (1 + ROUNDING)

    def _ran_out(self, battery: Battery) -> None:
        """Whoever draws from it is told at this very instant."""
        battery.ran_out = True
        for flight, i in list(battery.owners.values()):
            self.cut(flight, i, BATTERY_EMPTY)
