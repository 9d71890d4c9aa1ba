"""A battery ends the work at the very instant that it runs out."""

import pytest
import simpy

from netsim.cell.battery import Battery


def approx(*spans):
    return [(name, *(pytest.approx(t, rel=1e-12) for t in times)) for name, *times in spans]


def test_upload_stops_when_the_battery_is_empty(world):
    device = world.device(cycles=2e9, cpu_hz=1e9, bits=1e6, rate=1e6, power_w=1.0, battery_j=2.5)   # 2 s + 1 s at 1 W
    assert world.play(device) == approx(("compute", 0.0, 2.0), ("upload", 2.0, 2.5), ("battery empty", 2.5))
    assert world.batteries.left_j[0] == 0.0
    assert world.batteries.alive == world.most_devices - 1
    assert not world.batteries.available[0]


def test_computing_stops_when_the_battery_is_empty(world):
    device = world.device(cycles=2e9, cpu_hz=1e9, compute_w=4.0, battery_j=1.0)
    assert world.play(device) == [("compute", 0.0, 0.25), ("battery empty", 0.25)]


@pytest.mark.parametrize("battery_j", [3.0, 3.0 * (1 + 1e-15)])
def test_a_battery_that_just_suffices_suffices(world, battery_j):
    device = world.device(cycles=2e9, cpu_hz=1e9, bits=1e6, rate=1e6, battery_j=battery_j)
    assert world.play(device) == approx(("compute", 0.0, 2.0), ("upload", 2.0, 3.0))
    assert world.batteries.left_j[0] == 0.0


def test_the_charge_is_counted_after_each_phase(world):
    world.open(device := world.device(battery_j=5.0, compute_w=0.5))
    world.start(device)
    world.env.run()
    rows = world.take().rows
    charges = [(t, value) for name, t, value in zip(rows["name"], rows["t0"], rows["value"], strict=True)
               if name == "battery"]
    assert charges == [(1.0, 4.5), (pytest.approx(2.0), pytest.approx(3.5))]


class Log(list):
    """The instants at which a battery was empty."""

    def __init__(self, battery):
        super().__init__()
        self.battery = battery
        battery.depleted = self.note

    def note(self):
        self.append(self.battery.env.now)
        return True


def test_the_process_wakes_when_the_battery_is_empty():
    env = simpy.Environment()
    battery = Battery(env, 10.0)
    log = Log(battery)
    battery.draw(1.0)
    env.run(until=4.0)
    battery.draw(4.0)                                         # 6 J are left, for 1.5 s
    env.run()
    assert log == [5.5]
    battery.stop(6.0)
    assert battery.level_j == 0.0


def test_a_load_that_becomes_smaller_moves_the_end_back():
    env = simpy.Environment()
    battery = Battery(env, 10.0)
    log = Log(battery)
    battery.draw(4.0)
    env.run(until=1.0)
    battery.draw(1.0)                                         # 6 J are left, for 6 s
    env.run(until=3.0)
    assert battery.level_j == pytest.approx(4.0)
    env.run()
    assert log == [7.0]


def test_a_load_that_stops_in_time_is_none():
    env = simpy.Environment()
    battery = Battery(env, 10.0)
    log = Log(battery)
    battery.draw(2.0)
    env.run(until=3.0)
    battery.stop(6.0)
    env.run()
    assert (log, battery.level_j) == ([], 4.0)


@pytest.mark.parametrize("start_s", [0.0, 1e4, 1e6, 1e9])
def test_a_battery_that_has_run_out_is_empty_however_late_it_is(start_s):
    for number in range(100):
        env = simpy.Environment(initial_time=start_s)
        battery = Battery(env, 0.1 + 0.0137 * number, level_j=0.09)
        log = Log(battery)
        battery.draw(0.0731 + 0.001 * number)
        env.run()
        assert log == [pytest.approx(start_s + 0.09 / (0.0731 + 0.001 * number), rel=1e-12)]
        battery.stop((0.0731 + 0.001 * number) * (env.now - start_s))
        assert battery.level_j == 0.0
