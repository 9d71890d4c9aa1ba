"""Batteries that draw at rest and are charged: exact levels and instants, and every joule accounted for."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import simpy
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_worlds import World

from netsim.cell.battery import Batteries
from netsim.cell.clock import sleep_until
from netsim.environment.energy_sources import DAY_S, ChargingSchedule, EnergySources


@pytest.fixture
def world():
    return World(most_devices=1)


def supply(idle_w=0.0, harvest_w=0.0, hours=None, count=1):
    return [EnergySources(0, np.full(count, idle_w), np.full(count, harvest_w), hours)]


def at_rest(battery_j, least_j=0.0, **what):
    """A battery without work, and its environment."""
    env = simpy.Environment()
    return Batteries(env, np.array([battery_j]), np.array([least_j]), supply(**what)), env


def level(batteries, env, t):
    pass_time(env, t)
    return float(batteries.level_j(np.array([0]))[0])


def pass_time(env, until):
    if until > env.now:
        env.run(env.process(sleep_until(env, until)))


def test_base_load_and_harvest_to_the_digits(world):
    """100 J, 0.5 W idle, 0.2 W harvest, 2 W more for 10 s from t = 100: 70 J, 47 J, empty at 266.667 s."""
    device = world.device(cycles=10e9, compute_w=2.0, bits=1e-9, battery_j=100.0)
    world.open(device, supplies=supply(0.5, 0.2))
    world.env.run(until=100.0)
    assert world.batteries.level_j(slice(None))[0] == pytest.approx(70.0, abs=1e-12)
    world.start(device)
    world.env.run(until=110.0 + 1e-9)
    assert world.batteries.level_j(slice(None))[0] == pytest.approx(47.0, abs=1e-6)
    assert world.batteries.charging[0].empty_at(0) == pytest.approx(266.667, abs=5e-4)
    assert world.batteries.charging[0].empty_at(0) == pytest.approx(110.0 + 47.0 / 0.3, abs=1e-6)
    world.env.run(until=300.0)
    told = world.batteries.totals_of(np.array([0]))
    assert told["battery"][0] == 0.0
    assert told["harvest"][0] == pytest.approx(60.0)
    assert told["idle"][0] == pytest.approx(100.0 + 60.0 - 20.0)      # an empty one gives no more than what comes in
    assert told["spilt"][0] == 0.0


def test_what_comes_in_when_it_is_full_is_lost():
    batteries, clock = at_rest(10.0, idle_w=1.0, harvest_w=3.0)
    assert level(batteries, clock, 5.0) == 10.0
    assert {name: float(book[0]) for name, book in batteries.books.items()} == {
        "harvest": 15.0, "idle": 5.0, "spilt": 10.0}


def test_the_base_load_shortens_a_job(world):
    """3 J for 4 s of computing at 0.5 W with 0.5 W idle: empty after 3 s."""
    device = world.device(cycles=4e9, compute_w=0.5, battery_j=3.0)
    assert world.play(device, supplies=supply(0.5)) == [("compute", 0.0, 3.0), ("battery empty", 3.0)]
    assert world.part.jobs["energy_j"] == [1.5]
    assert world.batteries.totals_of(np.array([0]))["idle"][0] == 1.5


def test_harvest_pays_for_a_job(world):
    """1 J would last 1 s of computing at 1 W; with 0.8 W coming in it lasts 5 s."""
    device = world.device(cycles=4e9, compute_w=1.0, bits=1e6, power_w=0.5, battery_j=1.0)
    assert world.play(device, supplies=supply(0.0, 0.8)) == [("compute", 0.0, 4.0), ("upload", 4.0, 5.0)]
    assert world.batteries.level_j(slice(None))[0] == pytest.approx(0.5)


def test_what_just_suffices_suffices(world):
    device = world.device(cycles=4e9, compute_w=0.5, bits=1e6, power_w=0.5, battery_j=5.0)
    assert world.play(device, supplies=supply(0.5)) == [("compute", 0.0, 4.0), ("upload", 4.0, 5.0)]


def test_an_empty_battery_is_noticed_when_the_device_goes_on(world):
    """It waits for the band from 1 s on, is empty at 2 s, and so has nothing to send with at 3 s."""
    world = World(most_devices=2)
    first = world.device(0, cycles=1e9, bits=2e6, bandwidth_hz=1e6, rate=1e6)
    second = world.device(1, cycles=1e9, compute_w=0.5, bits=1e6, bandwidth_hz=1e6, rate=1e6, battery_j=1.5)
    spans = world.play(first, second, supplies=supply(0.5, count=2))
    assert ("battery empty", 3.0) in spans
    assert world.part.jobs["outcome"] == ["arrived", "battery empty"]


NIGHT = ChargingSchedule(5.0, 22 * 3600.0, 8 * 3600.0)


def test_charging_hours():
    """From 22:00 to 06:00; the run begins at midnight, within them."""
    batteries, clock = at_rest(1e6, idle_w=1.0, hours=NIGHT)
    batteries.left_j[0] = 0.0
    assert level(batteries, clock, 6 * 3600.0) == pytest.approx(4.0 * 6 * 3600)
    assert level(batteries, clock, 22 * 3600.0) == pytest.approx(4.0 * 6 * 3600 - 16 * 3600)
    assert level(batteries, clock, 24 * 3600.0) == pytest.approx(4.0 * 8 * 3600 - 16 * 3600)


@pytest.mark.parametrize("t", [0.0, 22 * 3600.0, 30 * 3600.0, 100 * DAY_S + 22 * 3600.0, 1e6 * DAY_S + 6 * 3600.0])
def test_an_edge_is_a_change_and_the_next_one_is_later(t):
    charging, until = NIGHT.at(np.array([t, np.nextafter(t, -1.0)]))
    assert (until > [t, np.nextafter(t, -1.0)]).all()
    assert charging[0] == (t % DAY_S < 6 * 3600.0 or t % DAY_S >= 22 * 3600.0)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 1e5), st.floats(0, 3), st.floats(0, 3),
       st.lists(st.floats(0, 3 * DAY_S), min_size=1, max_size=12))
def test_looking_changes_nothing(battery_j, idle_w, harvest_w, looks):
    """Asked often or once, the level is the same; the books balance."""
    often, clock = at_rest(battery_j, idle_w=idle_w, harvest_w=harvest_w, hours=NIGHT)
    for t in sorted(looks):
        level(often, clock, t)
    once, other = at_rest(battery_j, idle_w=idle_w, harvest_w=harvest_w, hours=NIGHT)
    assert level(often, clock, 3 * DAY_S) == pytest.approx(level(once, other, 3 * DAY_S), rel=1e-9, abs=1e-6)
    books = {name: float(book[0]) for name, book in often.books.items()}
    assert 0.0 <= often.left_j[0] <= battery_j
    assert often.left_j[0] == pytest.approx(
        battery_j + books["harvest"] - books["idle"] - books["spilt"], rel=1e-9, abs=1e-5)
    assert min(books.values()) >= 0.0


def test_when_a_device_can_pay_for_a_job_again():
    """Empty, 2 W net: 10 J are there after 5 s; a hair later it is able."""
    batteries, clock = at_rest(100.0, least_j=10.0, idle_w=1.0, harvest_w=3.0)
    batteries.left_j[0] = 0.0
    able = float(batteries.able_from()[0])
    assert able == pytest.approx(5.0, rel=1e-8)
    pass_time(clock, able)
    assert batteries.available[0]
    assert batteries.alive == 1


@pytest.mark.parametrize(("what", "able"), [
    ({"idle_w": 1.0}, math.inf),                                       # nothing comes in
    ({"idle_w": 1.0, "harvest_w": 1.0}, math.inf),                     # all of it goes
    ({"idle_w": 0.1, "hours": ChargingSchedule(5.0, 3600.0, 3600.0)}, 3600.0 + 10.0 / 4.9),
    ({"idle_w": 6.0, "hours": ChargingSchedule(5.0, 3600.0, 3600.0)}, math.inf),
])
def test_when_it_is_never_again(what, able):
    batteries, _ = at_rest(100.0, least_j=10.0, **what)
    batteries.left_j[0] = 0.0
    assert float(batteries.able_from()[0]) == pytest.approx(able, rel=1e-8)
    assert batteries.alive == (able < math.inf)


def test_days_of_small_gains_add_up():
    """10 J in an hour of each day, 6 J lost in the others: 20 J after the third night's charging began."""
    gain = ChargingSchedule(10.0 / 3600 + 6.0 / 82800, 0.0, 3600.0)
    batteries, _ = at_rest(100.0, least_j=20.0, idle_w=6.0 / 82800, hours=gain)
    batteries.left_j[0] = 0.0
    assert 3 * DAY_S <= batteries.able_from()[0] <= 3 * DAY_S + 3600.0


def test_who_is_on_mains_has_no_books():
    env = simpy.Environment()
    mixed = Batteries(env, np.array([np.inf, 5.0]), np.zeros(2), supply(1.0, 2.0, NIGHT, count=2))
    pass_time(env, 1e6)
    assert mixed.level_j(slice(None)).tolist() == [np.inf, 5.0]
    assert all(book[0] == 0.0 for book in mixed.books.values())
    assert mixed.totals()["battery"] == 5.0


def test_a_job_over_the_end_of_the_charging_hours(world):
    """1 J, 2 W of work and 1 W coming in for 0.5 s: 0.5 J are left then, and last 0.25 s."""
    device = world.device(cycles=4e9, compute_w=2.0, battery_j=1.0)
    spans = world.play(device, supplies=supply(0.0, 0.0, ChargingSchedule(1.0, -1.0, 1.5)))
    assert spans == [("compute", 0.0, pytest.approx(0.75)), ("battery empty", pytest.approx(0.75))]


def by_hand(battery_j, idle_w, harvest_w, hours, loads, end):
    """Level and books by small steps of exact arithmetic, from one instant at which anything changes to the next."""
    edges = [hours.start_s + day * DAY_S + offset for day in range(-1, 5) for offset in (0.0, hours.length_s)]
    instants = sorted({0.0, end, *(t for t in edges if 0.0 < t < end), *(t for load in loads for t in load[:2])})
    level, books = battery_j, dict.fromkeys(("harvest", "idle", "spilt"), 0.0)
    for t0, t1 in itertools.pairwise(t for t in instants if t <= end):
        middle = (t0 + t1) / 2
        charging = (middle - hours.start_s) % DAY_S < hours.length_s
        in_w = harvest_w + hours.watts * charging
        work_w = sum(watts for begins, ends, watts in loads if begins <= middle < ends)
        left = Fraction(level) + (Fraction(in_w) - Fraction(idle_w) - Fraction(work_w)) * (Fraction(t1) - Fraction(t0))
        books["harvest"] += in_w * (t1 - t0)
        books["idle"] += idle_w * (t1 - t0) + min(0.0, float(left))
        books["spilt"] += max(0.0, float(left) - battery_j)
        level = min(max(float(left), 0.0), battery_j)
    return level, books


@settings(max_examples=80, deadline=None)
@given(st.floats(5e4, 5e5), st.floats(0, 2), st.floats(0, 2),
       st.builds(ChargingSchedule, st.floats(0.1, 6), st.floats(-DAY_S, DAY_S), st.floats(600, DAY_S - 600)),
       st.lists(st.tuples(st.floats(0, 2 * DAY_S), st.floats(10, 3600), st.floats(0.1, 3)), max_size=4))
def test_levels_under_work_and_charging_by_another_way(battery_j, idle_w, harvest_w, hours, jobs):
    """Loads come and go, the sun and the charger too: the same level and the same books as step by step."""
    batteries, clock = at_rest(battery_j, idle_w=idle_w, harvest_w=harvest_w, hours=hours)
    loads, t = [], 0.0
    for begins, lasts, watts in sorted(jobs):
        begins = max(begins, t)
        loads.append((begins, begins + lasts, watts))
        t = begins + lasts
    end, ran_out = max(t, 2 * DAY_S) + 1.0, False
    for begins, ends, watts in loads:
        pass_time(clock, begins)
        battery = batteries.of(0)
        battery.draw(watts)
        ran_out |= battery.empty_at() < ends
        pass_time(clock, ends)
        battery.stop(watts * (ends - begins))
    assume(not ran_out)              # such a job would have ended then
    found = level(batteries, clock, end)
    expected, books = by_hand(battery_j, idle_w, harvest_w, hours, loads, end)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-4)
    for name, joules in books.items():
        assert batteries.books[name][0] == pytest.approx(joules, rel=1e-9, abs=1e-3)
