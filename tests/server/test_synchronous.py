"""The synchronous server's rounds over the port: who waits for whom, and what the trace says of it."""

from types import SimpleNamespace

import numpy as np
import pytest
import simpy
from server_worlds import open_rounds

from netsim import load_scenario, simulate
from netsim.allocation.plan import plan_for
from netsim.allocation.planner import RoundPlan, Wave
from netsim.allocation.problem import Problem
from netsim.scenario import Scenario
from netsim.selection import Choice
from netsim.server.participation import Participation
from netsim.server.server import ServerContext
from netsim.server.synchronous import WaitForAll
from netsim.trace.recorder import Recorder
from netsim.trace.schema import SERVER

# A channel so clear that 1 MHz carries 1 Mbit/s: SNR J = b in Q(b) = b log2(1 + J/b), so the rate is b.
BAND_HZ, NOISE, POWER_W = 4e6, 1e-20, 0.5
GAIN = NOISE * 1e6 / POWER_W


def wave(devices, compute_s, bits, bandwidth_hz=1e6):
    """Devices that compute so many seconds at 1 W and then send so many bits at 1 Mbit/s and 0.5 W."""
    count = len(devices)
    problem = Problem(
        bits=bits, cycles=np.array(compute_s) * 1e9, capacitance=1e-27, gain=np.full(count, GAIN), power_w=POWER_W,
        budget_j=100.0, cpu_min_hz=1e9, cpu_max_hz=1e9, bandwidth_hz=BAND_HZ, noise_w_per_hz=NOISE)
    return Wave(np.array(devices), problem, plan_for(problem, np.full(count, bandwidth_hz), np.full(count, 1e9)))


def agenda(*waves, dropped=()):
    return RoundPlan(tuple(wave(*each) for each in waves), np.array(dropped, np.int64))


class Script:
    """Stands for the methods: one agenda a round, and a log of what learning is asked to do."""

    trains = False
    clusters = samples = None

    def __init__(self, agendas):
        self.left = list(agendas)
        self.log = []

    def choose(self, view):
        return Choice(np.concatenate([self.left[0].devices, self.left[0].dropped]))

    def moved(self, before):
        return {}

    def agenda(self, devices, rule, size):
        return self.left.pop(0)

    def posed(self, devices):
        return SimpleNamespace(**{
            name: np.ones(len(devices)) for name in ("gain", "bits", "cycles", "budget_j")})

    def columns(self):
        return {}

    def prepare(self, jobs, version, round=None):
        self.device = jobs
        self.log.append(("prepare", round, list(jobs.values())))

    def start(self, jobs):
        self.log.append(("train", [job.device for job in jobs]))

    def drop(self, jobs):
        self.log.append(("drop", [job.device for job in jobs]))

    def aggregate(self, jobs, weights, base, chances):
        assert weights is None        # as learning.aggregation says
        self.log.append(("aggregate", [self.device[job] for job in jobs]))

    def alignment(self, jobs):
        raise AssertionError

    def evaluate(self):
        return None


def play(agendas, battery_j=float("inf"), deadline_s=None, devices=6):
    env, recorder, script = simpy.Environment(), Recorder(), Script(agendas)
    scenario = SimpleNamespace(
        rounds=SimpleNamespace(first="cohort", infeasible_policy="largest", deadline=deadline_s, wait_s=0.25),
        end=SimpleNamespace(rounds=len(agendas), time=None), selection=SimpleNamespace(cohort=2),
        learning=SimpleNamespace(target_accuracy=None, evaluation=SimpleNamespace(every=1)))
    rounds = open_rounds(env, recorder, script, script, np.full(devices, battery_j), gain=GAIN, band_hz=BAND_HZ)
    history, strategy = Participation(devices), WaitForAll()
    context = ServerContext(scenario, rounds, rounds.cell.problems.sizes, script, history,
                      lambda at: script.log.append(("close", at.round)), script)
    env.run(until=env.process(strategy.loop(context, strategy).run()))
    part = recorder.take()
    rows = [dict(zip(part.rows, values, strict=True)) for values in zip(*part.rows.values(), strict=True)]
    links = list(zip(part.links["src"], part.links["dst"], strict=True))
    return SimpleNamespace(script=script, rows=rows, links=links, cell=rounds.cell, history=history, jobs=part.jobs)


def spans(rows, name):
    return [(row["device"], pytest.approx(row["t0"]), pytest.approx(row["t1"])) for row in rows
            if (row["kind"], row["name"]) == ("span", name)]


def test_the_slowest_device_sets_the_pace_and_the_others_wait():
    done = play([agenda(([2, 5], [1.0, 2.0], [1e6, 3e6]))])
    assert spans(done.rows, "compute") == [(2, 0.0, 1.0), (5, 0.0, 2.0)]
    assert spans(done.rows, "upload") == [(2, 1.0, 2.0), (5, 2.0, 5.0)]
    assert spans(done.rows, "wait") == [(2, 2.0, 5.0)]
    assert spans(done.rows, "round") == [(SERVER, 0.0, 5.0)]
    assert done.script.log == [
        ("prepare", 1, [2, 5]), ("train", [2, 5]), ("aggregate", [2, 5]), ("close", 1)]
    history = done.history
    assert (done.cell.now, history.energy_j, history.dropped) == (pytest.approx(5.0), pytest.approx(5.0), 0)
    assert history.last_round.tolist() == [0, 0, 1, 0, 0, 1]
    assert history.duration_s[[2, 5]] == pytest.approx([2.0, 5.0])
    assert done.jobs["energy_j"] == pytest.approx([1.5, 3.5])


def test_waves_follow_each_other_and_everybody_waits_for_the_others():
    done = play([agenda(([0], [1.0], [1e6]), ([1], [2.0], [1e6]))])
    assert spans(done.rows, "compute") == [(0, 0.0, 1.0), (1, 2.0, 4.0)]
    assert sorted(spans(done.rows, "wait"), key=lambda wait: wait[0]) == [(0, 2.0, 5.0), (1, 0.0, 2.0)]
    assert spans(done.rows, "round") == [(SERVER, 0.0, 5.0)]
    assert done.script.log[:3] == [("prepare", 1, [0, 1]), ("train", [0]), ("train", [1])]


def test_rounds_follow_each_other():
    done = play([agenda(([0], [1.0], [1e6])), agenda(([0], [1.0], [2e6]))])
    assert spans(done.rows, "round") == [(SERVER, 0.0, 2.0), (SERVER, 2.0, 5.0)]
    assert [row["round"] for row in done.rows if row["name"] == "select"] == [1, 2]
    assert done.jobs["round"] == [1, 2]
    assert done.jobs["version"] == [0, 1]


def test_links_lead_from_each_cause_to_what_it_allowed():
    done = play([agenda(([0, 1], [1.0, 1.0], [1e6, 2e6])), agenda(([0], [1.0], [1e6]))])
    rows = done.rows
    named = [(rows[src]["name"], rows[src]["device"], rows[dst]["name"], rows[dst]["device"])
             for src, dst in done.links]
    assert sorted(named[:7]) == sorted([
        ("select", -1, "allocate", -1), ("allocate", -1, "compute", 0), ("allocate", -1, "compute", 1),
        ("compute", 0, "upload", 0), ("compute", 1, "upload", 1), ("upload", 0, "aggregate", -1),
        ("upload", 1, "aggregate", -1)])
    assert named[7] == ("aggregate", -1, "select", -1)
    assert all(rows[src]["t1"] <= rows[dst]["t0"] and src < dst for src, dst in done.links)


def test_a_deadline_drops_who_is_late_and_the_round_goes_on_with_the_rest():
    done = play([agenda(([0, 1, 2], [1.0, 1.0, 9.0], [1e6, 3e6, 1e6]))], deadline_s=2.0)
    assert spans(done.rows, "upload") == [(0, 1.0, 2.0), (1, 1.0, 2.0)]
    assert [(row["name"], row["device"]) for row in done.rows if row["kind"] == "instant"][2:] == [
        ("deadline", 1), ("deadline", 2)]
    assert done.script.log[1:4] == [("train", [0, 1, 2]), ("drop", [1]), ("drop", [2])]
    assert done.script.log[4] == ("aggregate", [0])
    assert done.cell.now == pytest.approx(2.0)
    assert done.history.dropped == 2
    assert done.jobs["outcome"] == ["arrived", "deadline", "deadline"]


def test_an_empty_battery_drops_a_device_for_good():
    done = play([agenda(([0, 1], [1.0, 2.0], [1e6, 1e6]))], battery_j=1.75)
    assert [(row["name"], row["device"], row["t0"]) for row in done.rows if row["name"] == "battery empty"] == [
        ("battery empty", 1, 1.75)]
    assert spans(done.rows, "wait") == [(1, 1.75, 2.0)]
    assert done.cell.batteries.left_j[1] == 0.0
    assert done.cell.batteries.alive == 5
    batteries = [(row["device"], pytest.approx(row["value"])) for row in done.rows if row["name"] == "battery"]
    assert batteries == [(0, 0.75), (1, 0.0), (0, 0.25)]


def test_devices_without_a_plan_are_recorded_and_nobody_waits_for_them():
    done = play([agenda(([0], [1.0], [1e6]), dropped=[3])])
    assert ("infeasible", 3) in [(row["name"], row["device"]) for row in done.rows if row["kind"] == "instant"]
    assert done.script.log[1:3] == [("train", [0]), ("aggregate", [0])]
    assert (done.jobs["device"], done.jobs["outcome"]) == ([3, 0], ["infeasible", "arrived"])
    assert np.isnan(done.jobs["cpu_hz"][0])
    assert 3 not in [device for device, *_ in spans(done.rows, "wait")]


def test_a_round_in_which_nobody_fits_takes_the_time_that_the_server_waits():
    done = play([agenda(dropped=[0, 1])])
    assert done.cell.now == 0.25
    assert spans(done.rows, "wait") == [(SERVER, 0.0, 0.25)]
    named = [(done.rows[src]["name"], done.rows[dst]["name"]) for src, dst in done.links]
    assert named[-2:] == [("select", "wait"), ("wait", "aggregate")]
    assert spans(done.rows, "aggregate") == [(SERVER, 0.25, 0.25)]
    assert [done.rows[dst]["name"] for _, dst in done.links][-1] == "aggregate"


def test_a_history_goes_through_a_checkpoint_unchanged():
    history = play([agenda(([2, 5], [1.0, 2.0], [1e6, 3e6]), dropped=[1])]).history
    again = Participation(6)
    again.restore({name: np.array(array) for name, array in history.snapshot().items()})
    for name, array in history.snapshot().items():
        np.testing.assert_array_equal(again.snapshot()[name], array, strict=True)
    with pytest.raises(ValueError, match="not about 3 devices"):
        Participation(3).restore(history.snapshot())


@pytest.mark.parametrize("method", ["sao", "algorithm5", "sao-joint"])
def test_of_devices_that_end_together_first_k_takes_the_first(method):
    """A plan lets all devices end together: rounding must not decide which of them are too late."""
    run = simulate(load_scenario("paper", [
        f"allocation.method={method}", "selection.method=fedavg", "rounds.first=cohort", "server.kind=first-k",
        "server.buffer=5", "end.rounds=30"]), None, 5, learning=False)
    for _, jobs in run.jobs.group_by("round"):
        assert np.ptp(jobs["t1"].to_numpy()) < 1e-11
        assert sorted(jobs.filter(jobs["outcome"] == "arrived")["device"]) == sorted(jobs["device"])[:5]
        assert set(jobs["outcome"]) == {"arrived", "too late"}


def test_a_wave_is_planned_with_the_gains_of_the_instant_at_which_it_starts():
    """Gains are recorded in time: 10 dB less from 50 ms on, when the first wave is still at work."""
    scenario = Scenario.of({
        "cell": {"radius": "200 m", "bandwidth": "1 MHz",
                 "gain_trace": {"db": [[-90.0] * 4, [-100.0] * 4, [-90.0] * 4], "t": [0.0, 0.05, 1e4]}},
        "population": [{"name": "phone", "count": 4, "samples": 100, "budget": "1.9 mJ", "radio": {"power": "20 dBm"},
                        "cpu": {"min": "0.1 GHz", "max": "1 GHz", "cycles_per_sample": 1e6, "capacitance": 1e-28}}],
        "learning": {"bits": "100 kbit"}, "selection": {"method": "fedavg", "cohort": 2},
        "allocation": {"method": "sao"}, "rounds": {"first_infeasible": "waves"},
        "end": {"rounds": 1}})
    jobs = simulate(scenario, None, 0, learning=False).jobs.sort("job")
    waves = jobs.group_by("t0", maintain_order=True).agg("gain").rows()
    assert len(waves) > 1
    for began, gains in waves:
        assert gains == pytest.approx([10 ** (-9.0 if began < 0.05 else -10.0)] * len(gains))
