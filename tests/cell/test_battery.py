"""A battery ends the work at the very instant that it runs out."""

import math

import pytest

from netsim.cell.battery import Battery


def approx(*spans):
    return [(name, *(pytest.approx(t, rel=1e-12) for t in times)) for name, *times in spans]


def test_upload_stops_when_the_battery_is_empty(world):
    device = world.device(cycles=2e9, cpu_hz=1e9, bits=1e6, rate=1e6, power_w=1.0, battery_j=2.5)   # 2 s + 1 s at 1 W
    assert world.play(device) == approx(("compute", 0.0, 2.0), ("upload", 2.0, 2.5), ("battery empty", 2.5))
    assert world.batteries.used_j[0] == 2.5
    assert world.batteries.alive == world.most_devices - 1
    assert not world.batteries.available[0]


def test_computing_stops_when_the_battery_is_empty(world):
    device = world.device(cycles=2e9, cpu_hz=1e9, compute_w=4.0, battery_j=1.0)
    assert world.play(device) == [("compute", 0.0, 0.25), ("battery empty", 0.25)]


@pytest.mark.parametrize("battery_j", [3.0, 3.0 * (1 + 1e-15)])
def test_a_battery_that_just_suffices_suffices(world, battery_j):
    device = world.device(cycles=2e9, cpu_hz=1e9, bits=1e6, rate=1e6, battery_j=battery_j)
    assert world.play(device) == approx(("compute", 0.0, 2.0), ("upload", 2.0, 3.0))
    assert world.batteries.used_j[0] == pytest.approx(battery_j, rel=1e-14)


def test_the_charge_is_counted_after_each_phase(world):
    world.open(device := world.device(battery_j=5.0, compute_w=0.5))
    world.start(device)
    world.env.run()
    rows = world.take().rows
    charges = [(t, value) for name, t, value in zip(rows["name"], rows["t0"], rows["value"], strict=True)
               if name == "battery"]
    assert charges == [(1.0, 4.5), (pytest.approx(2.0), pytest.approx(3.5))]


def test_two_loads_at_once_drain_it_faster():
    battery = Battery(10.0)
    first = battery.connect(0.0, 1.0, 100.0)
    assert battery.empty_at(0.0) == 10.0
    second = battery.connect(4.0, 3.0, 100.0)
    assert battery.empty_at(4.0) == 5.5                       # 4 J gone at 4 s; then 4 W for the 6 J left: 1.5 s
    battery.ran_out = True
    assert battery.disconnect(first, 5.5, complete=False) == 5.5
    assert battery.disconnect(second, 5.5, complete=False) == 4.5
    assert battery.level_j(5.5) == 0.0


def test_a_load_that_ends_lets_the_other_go_on():
    battery = Battery(10.0)
    first, second = battery.connect(0.0, 4.0, 1.0), battery.connect(0.0, 1.0, 6.0)
    assert battery.empty_at(0.0) == 2.0                       # if both stayed on; but the first ends at 1 s
    assert battery.disconnect(first, 1.0, complete=True) == 4.0
    assert battery.empty_at(1.0) == math.inf                  # 5 J are left for 1 W and 5 s more
    assert battery.disconnect(second, 6.0, complete=True) == 6.0
    assert battery.level_j(6.0) == 0.0


@pytest.mark.parametrize("start_s", [0.0, 1e4, 1e6, 1e9])
def test_a_battery_that_has_run_out_is_empty_however_late_it_is(start_s):
    for number in range(100):
        battery = Battery(0.1 + 0.0137 * number, used_j=0.01)
        load = battery.connect(start_s, 0.0731 + 0.001 * number, 1e6)
        empty_at = battery.empty_at(start_s)
        battery.ran_out = True
        taken = battery.disconnect(load, empty_at, complete=False)
        assert battery.used_j(empty_at) == battery.capacity_j
        assert taken == pytest.approx(battery.capacity_j - 0.01, rel=1e-12)
