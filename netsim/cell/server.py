"""The server: it runs the rounds."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Protocol

import simpy
from simpy.events import ProcessGenerator

from netsim.allocation.waves import Agenda, Wave
from netsim.base.arrays import Floats, Ints
from netsim.cell.battery import Battery
from netsim.cell.device import Device, Outcome, Share, record_wait
from netsim.cell.uplink import Uplink
from netsim.state import RunState
from netsim.trace.rows import DEADLINE, INFEASIBLE, SERVER, Recorder

TOGETHER = 1e-10   # of a round: devices that end so close to each other are planned to end together


class Steps(Protocol):
    """What the server does in a round besides waiting for the devices."""

    def ended(self) -> bool:
        """Whether there is no further round."""

    def select(self, k: int) -> Ints:
        """The cohort of round ``k``."""

    def plan(self, k: int, devices: Ints) -> Agenda:
        """Bandwidth, CPU frequency and power for the devices that fit."""

    def train(self, k: int, devices: Ints) -> None:
        """Start the local training of these devices."""

    def deliver(self, device: int) -> None:
        """A device's upload has ended: its model is at the server."""

    def learn(self, k: int, outcomes: list[Outcome]) -> None:
        """Aggregate what arrived, and evaluate."""

    def close(self, k: int) -> None:
        """The round is complete and recorded."""


class Server:
    """Runs one round after the other in the cell's environment."""

    def __init__(
        self, env: simpy.Environment, uplink: Uplink, recorder: Recorder, state: RunState, battery_j: Floats,
        steps: Steps, deadline_s: float | None = None,
    ) -> None:
        self.env = env
        self.uplink = uplink
        self.recorder = recorder
        self.state = state
        self.battery_j = battery_j
        self.steps = steps
        self.deadline_s = deadline_s

    def rounds(self) -> ProcessGenerator:
        """All rounds that are still to come."""
        while not self.steps.ended():
            yield from self.round(self.state.round + 1)

    def round(self, k: int) -> Generator[simpy.Event, Any, None]:
        """One global iteration (Algorithm 1, lines 3 to 13)."""
        began = self.env.now
        self.recorder.round = k
        devices = self.steps.select(k)                                       # who
        cause = [self.recorder.instant("select", SERVER, began, value=len(devices), after=self.follow())]
        agenda = self.steps.plan(k, devices)                                 # with what
        outcomes = [self.leave_out(int(device), cause[0]) for device in agenda.dropped]
        self.steps.train(k, agenda.devices)
        played: list[tuple[float, Outcome]] = []
        for wave in agenda.waves:                                            # compute, upload
            wave_began = self.env.now
            allocated = self.recorder.instant("allocate", SERVER, wave_began, value=len(wave.devices), after=cause)
            ended = yield from self.play(wave, allocated)
            cause = [outcome.last_row for outcome in ended]                  # the last one sets the pace
            played.extend((wave_began, outcome) for outcome in ended)
        outcomes.extend(outcome for _, outcome in played)
        self.finish(k, began, outcomes, played, cause)

    def play(self, wave: Wave, allocated: int) -> Generator[simpy.Event, Any, list[Outcome]]:
        """Let the devices of a wave work side by side until the last has ended, or the deadline is there."""
        batteries = {int(d): Battery(self.env, self.battery_j[d], self.state.used_j[d]) for d in wave.devices}
        work = [
            self.env.process(
                Device(self.env, share, batteries[share.device], self.uplink, self.recorder, self.steps.deliver)
                .serve(allocated))
            for share in shares(wave)
        ]
        if self.deadline_s is not None:
            # a hair later than the deadline: a device that ends right on it is in time
            yield self.env.all_of(work) | self.env.timeout(self.deadline_s * (1 + 1e-12))
            for process in work:
                if process.is_alive:
                    process.interrupt(DEADLINE)
        yield self.env.all_of(work)       # a new one: a condition inside another ends with it
        for device, battery in batteries.items():
            self.state.used_j[device] = battery.used_j
        return [outcome for process in work if isinstance(outcome := process.value, Outcome)]

    def leave_out(self, device: int, cause: int) -> Outcome:
        """A device that no plan could be found for."""
        row = self.recorder.instant(INFEASIBLE, device, self.env.now, after=[cause])
        return Outcome(device, INFEASIBLE, 0.0, 0.0, 0.0, self.env.now, row)

    def finish(
        self, k: int, began: float, outcomes: list[Outcome], played: list[tuple[float, Outcome]], cause: list[int]
    ) -> None:
        """Aggregate, and record the round."""
        now, state = self.env.now, self.state
        for wave_began, outcome in played:
            record_wait(self.recorder, outcome.device, began, wave_began)
            if now - outcome.ended_s > TOGETHER * (now - began):
                record_wait(self.recorder, outcome.device, outcome.ended_s, now)
        arrived = [outcome for outcome in outcomes if outcome.arrived]
        state.last_row = self.recorder.span("aggregate", SERVER, now, now, value=len(arrived), after=cause)
        self.recorder.span("round", SERVER, began, now, value=len(arrived))
        state.time_s = now
        self.steps.learn(k, outcomes)                                        # aggregate, evaluate
        for outcome in arrived:
            state.last_round[outcome.device] = k
            state.times_used[outcome.device] += 1
            state.duration_s[outcome.device] = outcome.compute_s + outcome.upload_s
        state.round = k
        state.energy_j += sum(outcome.energy_j for outcome in outcomes)
        state.dropped += len(outcomes) - len(arrived)
        self.steps.close(k)                                                  # record

    def follow(self) -> list[int]:
        """The trace row that this round has to wait for: the last aggregation, if there was one."""
        return [self.state.last_row] if self.state.last_row >= 0 else []


def shares(wave: Wave) -> Iterator[Share]:
    """A wave's plan, device by device."""
    plan = wave.plan
    # a device with nothing to compute takes no time and no power
    compute_w = plan.compute_energy_j / plan.compute_s.clip(min=1e-300)
    for i, device in enumerate(wave.devices.tolist()):
        yield Share(
            device, compute_s=float(plan.compute_s[i]), compute_w=float(compute_w[i]), upload_s=float(plan.upload_s[i]),
            power_w=float(plan.power_w[i]), bandwidth_hz=float(plan.bandwidth_hz[i]))
