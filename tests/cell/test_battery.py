"""A battery ends the work at the very instant that it runs out."""

import pytest
import simpy

from netsim.cell.battery import Battery


def test_upload_stops_when_the_battery_is_empty(world):
    device = world.device(cycles=2e9, cpu_hz=1e9, bits=1e6, rate=1e6, power_w=1.0, battery_j=2.5)   # 2 s + 1 s at 1 W
    assert world.play(device) == [("compute", 0.0, 2.0), ("upload", 2.0, 2.5), ("battery empty", 2.5)]
    assert device.battery.level_j == 0.0
    assert world.delivered == []


def test_computing_stops_when_the_battery_is_empty(world):
    device = world.device(cycles=2e9, cpu_hz=1e9, compute_w=4.0, battery_j=1.0)
    assert world.play(device) == [("compute", 0.0, 0.25), ("battery empty", 0.25)]


@pytest.mark.parametrize("battery_j", [3.0, 3.0 * (1 + 1e-15)])
def test_a_battery_that_just_suffices_suffices(world, battery_j):
    device = world.device(cycles=2e9, cpu_hz=1e9, bits=1e6, rate=1e6, battery_j=battery_j)
    assert world.play(device) == [("compute", 0.0, 2.0), ("upload", 2.0, 3.0)]
    assert device.battery.level_j == pytest.approx(0.0, abs=1e-14)
    assert world.delivered == [0]


def test_two_loads_at_once_drain_it_faster():
    env = simpy.Environment()
    battery = Battery(env, 10.0)
    log = []

    def load(name, watts, start, seconds):
        yield env.timeout(start)
        drawn = battery.connect(watts, seconds)
        try:
            yield env.timeout(seconds)
            complete = True
        except simpy.Interrupt as interrupt:
            log.append((name, interrupt.cause, env.now))
            complete = False
        log.append((name, env.now, battery.disconnect(drawn, complete=complete)))

    env.process(load("a", 1.0, 0.0, 100.0))
    env.process(load("b", 3.0, 4.0, 100.0))          # 4 J gone at 4 s; then 4 W for the 6 J left: 1.5 s
    env.run()
    assert log == [
        ("a", "battery empty", 5.5), ("a", 5.5, 5.5),
        ("b", "battery empty", 5.5), ("b", 5.5, 4.5),
    ]
    assert battery.level_j == 0.0


def test_a_load_that_ends_lets_the_other_go_on():
    env = simpy.Environment()
    battery = Battery(env, 10.0)
    ended = []

    def load(watts, seconds):
        drawn = battery.connect(watts, seconds)
        try:
            yield env.timeout(seconds)
            complete = True
        except simpy.Interrupt:
            complete = False
        ended.append((env.now, battery.disconnect(drawn, complete=complete)))

    env.process(load(4.0, 1.0))          # together 5 W: would be empty at 2 s
    env.process(load(1.0, 6.0))          # alone from 1 s on: 5 J are left, 1 W for 5 s more
    env.run()
    assert ended == [(1.0, 4.0), (6.0, 6.0)]
    assert battery.level_j == 0.0


@pytest.mark.parametrize("start_s", [0.0, 1e4, 1e6, 1e9])
def test_a_battery_that_has_run_out_is_empty_however_late_it_is(start_s):
    for number in range(100):
        env = simpy.Environment(initial_time=start_s)
        battery = Battery(env, 0.1 + 0.0137 * number, used_j=0.01)
        taken = []

        def drain(env=env, battery=battery, taken=taken, watts=0.0731 + 0.001 * number):
            load = battery.connect(watts, 1e6)
            try:
                yield env.timeout(1e6)
            except simpy.Interrupt:
                taken.append(battery.disconnect(load, complete=False))

        env.process(drain())
        env.run()
        assert battery.used_j == battery.capacity_j
        assert taken[0] == pytest.approx(battery.capacity_j - 0.01, rel=1e-12)
