"""Who is there when: the laws of absences and losses, and the same faults for whoever looks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from small_worlds import random_switches

from netsim import load_scenario
from netsim.base import rng
from netsim.devices.mobility import RandomWaypointTrajectory
from netsim.environment.availability import AvailabilityModel, OnOffProcess, Outage, OutageProcess, RecordedOnOffProcess
from netsim.environment.fading import CorrelatedShadowing
from netsim.scenario.time_varying import Intervals, Loss, RandomWaypoint

ON_OFF = 'population.phone.availability={model="on-off",on="60 s",off="20 s"}'
CRASH = 'population.phone.crash={every="50 s",repair="10 s"}'
LOSS = "population.phone.loss={probability=0.2,tries=4}"


def faults_of(*changes, seed=1):
    return AvailabilityModel.of(load_scenario("paper", ["population.phone.count=40", *changes]), seed)


def several_errors(share, count):
    return 4 * math.sqrt(share * (1 - share) / count)


def test_the_law_of_on_and_off():
    """Share on m1/(m1+m0); P(on at t, on at 0) and P(on until t) as they are in closed form: 60 and 20 s, t = 15 s."""
    devices = random_switches("availability", 3, 20_000, 60.0, 20.0)
    began = [each for each in devices if each.on(0.0)]
    assert len(began) / len(devices) == pytest.approx(0.75, abs=several_errors(0.75, len(devices)))
    later = np.mean([each.on(15.0) for each in began])
    assert later == pytest.approx(0.841970, abs=several_errors(0.84, len(began)))
    stayed = np.mean([each.next_change(0.0) > 15.0 for each in began])
    assert stayed == pytest.approx(0.778801, abs=several_errors(0.78, len(began)))
    assert np.mean([each.on(500.0) for each in devices]) == pytest.approx(0.75, abs=several_errors(0.75, len(devices)))


def test_dwell_times_of_one_device_are_exponential():
    one = random_switches("crash", 5, 8, 50.0, 10.0)[7]
    one.on(200_000.0)
    dwells = np.diff([0.0, *one.edges])
    on, off = (dwells[::2], dwells[1::2]) if one.starts_on else (dwells[1::2], dwells[::2])
    assert on.mean() == pytest.approx(50.0, rel=4 / math.sqrt(len(on)))
    assert off.mean() == pytest.approx(10.0, rel=4 / math.sqrt(len(off)))


@given(st.lists(st.floats(0.001, 10), max_size=8), st.booleans(), st.floats(0, 100))
def test_a_state_holds_until_the_next_change(dwells, on, t):
    switches = OnOffProcess(on, np.cumsum(dwells).tolist())
    after = switches.next_change(t)
    assert after > t
    if after < math.inf:
        assert switches.on(after) != switches.on(t)
        assert switches.on(math.nextafter(after, 0.0)) == switches.on(t)


def test_faults_are_the_same_whoever_looks_and_when():
    often, once = faults_of(ON_OFF, CRASH), faults_of(ON_OFF, CRASH)
    for t in np.linspace(0.0, 3000.0, 500):
        often.available(float(t))
    assert np.array_equal(often.available(3000.0), once.available(3000.0))
    assert np.array_equal(often.available(10.0), faults_of(ON_OFF, CRASH).available(10.0))        # time may go back
    there = once.available(3000.0)
    assert [not once.absences(device, 3000.0) for device in range(40)] == there.tolist()
    assert not np.array_equal(faults_of(ON_OFF, CRASH, seed=2).available(10.0), often.available(10.0))


def test_a_larger_population_adds_devices_at_the_end():
    few, many = faults_of(ON_OFF), faults_of(ON_OFF, "population.phone.count=60")
    for t in (0.0, 30.0, 300.0):
        assert np.array_equal(few.available(t), many.available(t)[:40])


def test_availability_crashes_and_losses_do_not_disturb_each_other():
    both, alone = faults_of(ON_OFF, CRASH, LOSS), faults_of(ON_OFF)
    assert [both.presences[0].of(3).next_change(t) for t in range(0, 1000, 50)] == [
        alone.presences[0].of(3).next_change(t) for t in range(0, 1000, 50)]
    assert [both.loses(3, k) for k in range(200)] == [faults_of(LOSS).loses(3, k) for k in range(200)]


def test_the_share_of_lost_uploads():
    faults = faults_of(LOSS)
    lost = np.mean([faults.loses(device, k) for device in range(40) for k in range(500)])
    assert lost == pytest.approx(0.2, abs=several_errors(0.2, 20_000))
    assert faults.loss(0).max_attempts == 4
    assert AvailabilityModel(1).loss(0) is None
    assert not AvailabilityModel(1)


def recorded(on, off, period=None):
    return RecordedOnOffProcess(Intervals(on=on, off=off), period)


def test_recorded_intervals():
    once = recorded((2.0, 7.0), (5.0, 8.0))
    assert [once.on(t) for t in (0.0, 2.0, 4.9, 5.0, 7.5, 8.0, 1e9)] == [False, True, True, False, True, False, False]
    assert [once.next_change(t) for t in (0.0, 2.0, 7.9, 8.0)] == [2.0, 5.0, 8.0, math.inf]
    assert not recorded((), ()).on(3.0)


@pytest.mark.parametrize(("on", "off"), [((0.0,), (6.0,)), ((4.0,), (10.0,)), ((0.0, 7.0), (2.0, 10.0)),
                                         ((3.0,), (4.0,)), ((0.0,), (10.0,)), ((), ())])
def test_recorded_intervals_that_start_over(on, off):
    """Every ten seconds again, whatever lies at the edge between two turns."""
    turns = recorded(on, off, 10.0)
    for t in np.arange(0.25, 60.0, 0.5):
        assert turns.on(t) == any(a <= t % 10.0 < b for a, b in zip(on, off, strict=True))
    if on == (0.0, 7.0):
        assert [turns.next_change(t) for t in (0.0, 2.0, 7.0, 12.0)] == [2.0, 7.0, 12.0, 17.0]
    if on == (0.0,) and off == (10.0,):
        assert turns.next_change(5.0) == math.inf


def test_when_a_device_is_back():
    away = OutageProcess(0, 1, Outage("availability", "pause"), lambda _: OnOffProcess(True, [2.0, 5.0]))
    broken = OutageProcess(0, 1, Outage("crash", "restart"), lambda _: OnOffProcess(True, [4.0, 9.0]))
    both = AvailabilityModel(2, [away, broken])
    assert [both.back_at(0, t) for t in (1.0, 3.0, 6.0, 9.0)] == [1.0, 9.0, 9.0, 9.0]
    assert both.back_at(1, 3.0) == 3.0
    gone = AvailabilityModel(1, [OutageProcess(0, 1, Outage("availability", "pause"),
                                               lambda _: OnOffProcess(True, [2.0]))])
    assert gone.back_at(0, 3.0) == math.inf


def test_a_lost_upload_needs_a_loss():
    with_losses = AvailabilityModel(3, losses=[(range(1, 2), Loss(probability=1.0, max_attempts=2))], keys=[0, 1, 2])
    assert [with_losses.loses(device, 0) for device in range(3)] == [False, True, False]


def test_intervals_from_a_file(tmp_path):
    sheet = tmp_path / "shifts.csv"
    sheet.write_text("device,on,off\n0,0,10\n1,5,15\n0,20,30\n")
    change = f'population.phone.availability={{model="recorded",intervals="{sheet}",period="1 h"}}'
    scenario = load_scenario("paper", ["population.phone.count=2", "selection.cohort=1", change])
    faults = AvailabilityModel.of(scenario, 0)
    assert [faults.available(t).tolist() for t in (2.0, 12.0, 25.0, 3602.0)] == [
        [True, False], [False, True], [True, False], [True, False]]
    sheet.write_text("device,on\n0,0\n")
    with refused("malformed", "shifts.csv"):
        load_scenario("paper", [change])


@pytest.mark.parametrize(("look", "what"), [
    (lambda: random_switches("crash", 1, 1, 1.0, 1.0)[0].on(1e30), "a device goes and comes"),
    (lambda: RecordedOnOffProcess(Intervals(on=[0.0], off=[1.0]), 2.0).on(1e30), "a device goes and comes"),
    (lambda: walk().at(1e30), "a device changes its direction"),
    (lambda: CorrelatedShadowing(walk(), 1, 0, 0.0, 8.0, 50.0, 0.1).at(10**31), "shadowing changes"),
])
def test_nothing_is_followed_for_ever(monkeypatch, look, what):
    """At 1e30 s a second more is not even a later instant."""
    monkeypatch.setattr(rng, "MOST_STEPS", 1000)
    with refused("too-large", "1e+30 s ahead") as error:
        look()
    assert what in str(error.value.found)


def walk():
    return RandomWaypointTrajectory(RandomWaypoint(model="random-waypoint", speed="1 m/s"), 100.0, 1, 0)
