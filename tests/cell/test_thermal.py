"""Processors that get hot: the instant at which the clock falls, what that saves and costs, and how a rest cools."""

import pytest
import simpy
from small_worlds import World

from netsim.environment.availability import AvailabilityModel, OnOffProcess, Outage, OutageProcess
from netsim.environment.energy_sources import ThermalLimit

HALF = [ThermalLimit(range(1), load_s=3.0, clock_hz=0.5e9, rest_s=6.0)]


@pytest.fixture
def world():
    return World()


def test_the_clock_falls_in_mid_job(world):
    """4e9 cycles at 1 GHz, hot after 3 s: the last 1e9 take 2 s at half the clock and an eighth of the power."""
    assert world.play(world.device(cycles=4e9, compute_w=0.8), heat_limits=HALF) == [
        ("compute", 0.0, 3.0), ("throttled", 3.0, 5.0), ("upload", 5.0, 6.0)]
    jobs, rows = world.part.jobs, world.part.rows
    assert (jobs["compute_s"], jobs["upload_s"], jobs["wait_s"]) == ([5.0], [1.0], [0.0])
    assert jobs["energy_j"] == [pytest.approx(2.4 + 0.2 + 1.0)]
    spent = [joules for kind, joules in zip(rows["kind"], rows["energy_j"], strict=True) if kind == "span"]
    assert spent == pytest.approx([2.4, 0.2, 1.0])


def test_a_job_that_ends_as_it_gets_hot_is_not_slowed_down(world):
    assert world.play(world.device(cycles=3e9), heat_limits=HALF) == [("compute", 0.0, 3.0), ("upload", 3.0, 4.0)]


def test_a_clock_that_is_planned_so_low_does_not_warm(world):
    assert world.play(world.device(cycles=4e9, cpu_hz=0.5e9), heat_limits=HALF) == [
        ("compute", 0.0, 8.0), ("upload", 8.0, 9.0)]


@pytest.mark.parametrize(("rest_s", "warm_s"), [(0.0, 0.0), (2.0, 1.0), (6.0, 3.0), (100.0, 3.0)])
def test_a_rest_cools(world, rest_s, warm_s):
    """Hot at first; a rest of 6 s makes it cold, and so 2 s give one second at full clock."""
    device = world.device(cycles=3e9, bits=1e-9)
    world.open(device, heat_limits=HALF)
    world.start(device)
    world.env.run(until=3.0 + rest_s + 1e-8)
    world.take()
    world.start(device)
    world.env.run()
    slow = sum(t1 - t0 for name, t0, t1 in world.spans() if name == "throttled")
    assert slow == pytest.approx((3.0 - warm_s) / 0.5, abs=1e-6)


def test_a_pause_cools_too(world):
    """Hot at 3 s, off from 4 to 7 s: warm by half, so 1.5 s more at full clock; 4.5e9 of 6e9 cycles by then."""
    away = OutageProcess(0, 1, Outage("availability", "pause"), lambda _: OnOffProcess(True, [4.0, 7.0]))
    assert world.play(world.device(cycles=6e9), heat_limits=HALF, faults=AvailabilityModel(1, [away])) == [
        ("compute", 0.0, 3.0), ("throttled", 3.0, 4.0), ("off", 4.0, 7.0), ("compute", 7.0, 8.5),
        ("throttled", 8.5, 10.5), ("upload", 10.5, 11.5)]


def test_a_battery_lasts_longer_at_the_lower_clock(world):
    """3.5 J: 3 J for 3 s at 1 W, then 4 s at an eighth of it; 2e9 cycles of 5e9 are done in 4 s, just so."""
    spans = world.play(world.device(cycles=5e9, battery_j=3.5), heat_limits=HALF)
    assert spans[:2] == [("compute", 0.0, 3.0), ("throttled", 3.0, 7.0)]
    assert spans[-1] == ("battery empty", 7.0)


@pytest.mark.parametrize("start_s", [1e3, 1e6, 1e9])
def test_a_cpu_gets_hot_however_late_it_is(start_s):
    """The clock has lost the digits of a limit of 30 ms: it still ends after as much load."""
    world = World(env=simpy.Environment(initial_time=start_s))
    limit = ThermalLimit(range(1), load_s=0.03001, clock_hz=0.5e9, rest_s=0.06)
    world.play(world.device(cycles=0.1e9, bits=1e-9), heat_limits=[limit])
    assert world.part.jobs["compute_s"] == [pytest.approx(0.03001 + 0.06999 / 0.5)]
