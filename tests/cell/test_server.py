"""The server's round: who waits for whom, and what the trace says of it."""

import numpy as np
import pytest
import simpy

from netsim.allocation.problem import Problem, plan_for
from netsim.allocation.waves import Agenda, Wave
from netsim.cell.server import Server
from netsim.cell.uplink import Uplink
from netsim.state import RunState
from netsim.trace.rows import SERVER, Recorder

# A channel so clear that 1 MHz carries 1 Mbit/s: SNR J = b in Q(b) = b log2(1 + J/b), so the rate is b.
BAND_HZ, NOISE, POWER_W = 4e6, 1e-20, 0.5


def plan(compute_s, bits, bandwidth_hz=1e6):
    """Devices that compute so many seconds at 1 W and then send so many bits at 1 Mbit/s and 0.5 W."""
    count = len(compute_s)
    problem = Problem(
        bits=bits, cycles=np.array(compute_s) * 1e9, capacitance=1e-27, gain=np.full(count, NOISE * 1e6 / POWER_W),
        power_w=POWER_W, budget_j=100.0, cpu_min_hz=1e9, cpu_max_hz=1e9, bandwidth_hz=BAND_HZ, noise_w_per_hz=NOISE)
    return plan_for(problem, np.full(count, bandwidth_hz), np.full(count, 1e9))


class Steps:
    """A script instead of methods: one agenda a round."""

    def __init__(self, agendas):
        self.agendas = agendas
        self.log = []
        self.state = None

    def ended(self):
        return self.state.round == len(self.agendas)

    def select(self, k):
        agenda = self.agendas[k - 1]
        return np.concatenate([agenda.devices, agenda.dropped])

    def plan(self, k, devices):
        return self.agendas[k - 1]

    def train(self, k, devices):
        self.log.append(("train", k, devices.tolist()))

    def deliver(self, device):
        self.log.append(("deliver", device))

    def learn(self, k, outcomes):
        self.log.append(("learn", k, [(o.device, o.dropped) for o in outcomes]))

    def close(self, k):
        self.log.append(("close", k))


def play(agendas, battery_j=float("inf"), deadline_s=None, devices=6):
    env, recorder = simpy.Environment(), Recorder()
    steps = Steps(agendas)
    steps.state = RunState.fresh(devices)
    uplink = Uplink(env, BAND_HZ, recorder)
    server = Server(env, uplink, recorder, steps.state, np.full(devices, battery_j), steps, deadline_s)
    env.run(until=env.process(server.rounds()))
    part = recorder.take()
    rows = [dict(zip(part.rows, values, strict=True)) for values in zip(*part.rows.values(), strict=True)]
    links = list(zip(part.links["src"], part.links["dst"], strict=True))
    return steps, rows, links


def agenda(*waves, dropped=()):
    return Agenda(tuple(Wave(np.array(devices), plan(*work)) for devices, *work in waves), np.array(dropped, np.int64))


def spans(rows, name):
    return [(row["device"], row["t0"], row["t1"]) for row in rows if (row["kind"], row["name"]) == ("span", name)]


def test_the_slowest_device_sets_the_pace_and_the_others_wait():
    steps, rows, _ = play([agenda(([2, 5], [1.0, 2.0], [1e6, 3e6]))])
    assert spans(rows, "compute") == [(2, 0.0, 1.0), (5, 0.0, 2.0)]
    assert spans(rows, "upload") == [(2, 1.0, 2.0), (5, 2.0, 5.0)]
    assert spans(rows, "wait") == [(2, 2.0, 5.0)]
    assert spans(rows, "round") == [(SERVER, 0.0, 5.0)]
    assert steps.log == [
        ("train", 1, [2, 5]), ("deliver", 2), ("deliver", 5), ("learn", 1, [(2, ""), (5, "")]), ("close", 1)]
    state = steps.state
    assert (state.time_s, state.energy_j, state.dropped) == (5.0, 1.0 + 2.0 + 0.5 + 1.5, 0)
    assert state.last_round.tolist() == [0, 0, 1, 0, 0, 1]
    assert state.duration_s[[2, 5]].tolist() == [2.0, 5.0]
    assert state.used_j[[2, 5]].tolist() == [1.5, 3.5]


def test_waves_follow_each_other_and_everybody_waits_for_the_others():
    steps, rows, _ = play([agenda(([0], [1.0], [1e6]), ([1], [2.0], [1e6]))])
    assert spans(rows, "compute") == [(0, 0.0, 1.0), (1, 2.0, 4.0)]
    assert spans(rows, "wait") == [(0, 2.0, 5.0), (1, 0.0, 2.0)]
    assert spans(rows, "round") == [(SERVER, 0.0, 5.0)]
    assert steps.log[0] == ("train", 1, [0, 1])


def test_rounds_follow_each_other():
    _, rows, _ = play([agenda(([0], [1.0], [1e6])), agenda(([0], [1.0], [2e6]))])
    assert spans(rows, "round") == [(SERVER, 0.0, 2.0), (SERVER, 2.0, 5.0)]
    assert [row["round"] for row in rows if row["name"] == "select"] == [1, 2]


def test_links_lead_from_each_cause_to_what_it_allowed():
    _, rows, links = play([agenda(([0, 1], [1.0, 1.0], [1e6, 2e6])), agenda(([0], [1.0], [1e6]))])
    named = [(rows[src]["name"], rows[src]["device"], rows[dst]["name"], rows[dst]["device"]) for src, dst in links]
    assert sorted(named[:7]) == sorted([
        ("select", -1, "allocate", -1), ("allocate", -1, "compute", 0), ("allocate", -1, "compute", 1),
        ("compute", 0, "upload", 0), ("compute", 1, "upload", 1), ("upload", 0, "aggregate", -1),
        ("upload", 1, "aggregate", -1)])
    assert named[7] == ("aggregate", -1, "select", -1)
    assert all(rows[src]["t1"] <= rows[dst]["t0"] for src, dst in links)


def test_a_deadline_drops_who_is_late_and_the_round_goes_on_with_the_rest():
    steps, rows, _ = play([agenda(([0, 1, 2], [1.0, 1.0, 9.0], [1e6, 3e6, 1e6]))], deadline_s=2.0)
    assert spans(rows, "upload") == [(0, 1.0, 2.0), (1, 1.0, pytest.approx(2.0))]
    assert [(row["name"], row["device"]) for row in rows if row["kind"] == "instant"][2:] == [
        ("deadline", 1), ("deadline", 2)]
    assert steps.log[-2] == ("learn", 1, [(0, ""), (1, "deadline"), (2, "deadline")])
    assert steps.state.time_s == pytest.approx(2.0)
    assert steps.state.dropped == 2


def test_an_empty_battery_drops_a_device_for_good():
    steps, rows, _ = play([agenda(([0, 1], [1.0, 2.0], [1e6, 1e6]))], battery_j=1.75)
    assert [(row["name"], row["device"], row["t0"]) for row in rows if row["name"] == "battery empty"] == [
        ("battery empty", 1, 1.75)]
    assert spans(rows, "wait") == [(1, 1.75, 2.0)]
    assert steps.state.used_j[1] == 1.75
    batteries = [(row["device"], row["value"]) for row in rows if row["name"] == "battery"]
    assert batteries == [(0, 0.75), (1, 0.0), (0, 0.25)]


def test_devices_without_a_plan_are_recorded_and_nobody_waits_for_them():
    steps, rows, _ = play([agenda(([0], [1.0], [1e6]), dropped=[3])])
    assert ("infeasible", 3) in [(row["name"], row["device"]) for row in rows if row["kind"] == "instant"]
    assert steps.log[-2] == ("learn", 1, [(3, "infeasible"), (0, "")])
    assert 3 not in [device for device, *_ in spans(rows, "wait")]


def test_a_round_in_which_nobody_fits_takes_no_time():
    steps, rows, links = play([agenda(dropped=[0, 1])])
    assert steps.state.time_s == 0.0
    assert spans(rows, "aggregate") == [(SERVER, 0.0, 0.0)]
    assert [rows[dst]["name"] for _, dst in links][-1] == "aggregate"
