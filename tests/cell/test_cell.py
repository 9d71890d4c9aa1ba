"""Jobs compute, wait for bandwidth, send and end; those under way are saved and continued."""

import math

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worlds import World

from netsim.cell.schedulers import Adaptive, Equal, Planned, Tdma
from netsim.physics import Shannon
from netsim.trace.recorder import Recorder

MBIT = 1e6


def near(*spans):
    return [(name, *(pytest.approx(t, rel=1e-12) for t in times)) for name, *times in spans]


def test_a_job_computes_then_sends(world):
    device = world.device(7, cycles=3e9, cpu_hz=2e9, compute_w=0.5, bits=4e5, rate=1e6, power_w=0.25)
    assert world.play(device) == near(("compute", 0.0, 1.5), ("upload", 1.5, 1.9))


def test_what_a_job_took_is_in_its_row(world):
    device = world.device(7, cycles=3e9, cpu_hz=2e9, compute_w=0.5, bits=4e5, rate=1e6, power_w=0.25)
    world.open(device)
    world.start(device)
    world.env.run()
    part = world.take()
    job = {name: values[0] for name, values in part.jobs.items()}
    assert (job["device"], job["compute_s"], job["outcome"], job["version"], job["round"]) == (7, 1.5, "arrived", 0, 1)
    assert job["upload_s"] == pytest.approx(0.4)
    assert job["energy_j"] == pytest.approx(1.5 * 0.5 + 0.4 * 0.25)
    assert (job["cycles"], job["bits"], job["cpu_hz"], job["power_w"]) == (3e9, 4e5, 2e9, 0.25)
    links = list(zip(part.links["src"], part.links["dst"], strict=True))
    assert links == [(0, 1), (1, 3)]          # allocate, compute, upload


def test_nothing_to_compute_takes_no_time(world):
    assert world.play(world.device(cycles=0.0)) == near(("compute", 0.0, 0.0), ("upload", 0.0, 1.0))


def test_a_job_that_is_cancelled_has_spent_what_it_spent(world):
    device = world.device(cycles=1e9, cpu_hz=1e9, compute_w=2.0, bits=2e6, rate=1e6, power_w=4.0)
    cell = world.open(device)
    world.start(device)
    world.env.run(cell.wait([0], until=1.5))
    assert world.env.now == 1.5
    world.env.run(cell.cancel([0], "deadline"))
    job = {name: values[0] for name, values in world.take().jobs.items()}
    assert (job["outcome"], job["t1"]) == ("deadline", 1.5)
    assert job["energy_j"] == 1.0 * 2.0 + 0.5 * 4.0
    assert world.uplink.in_use_hz == 0.0
    world.env.run()                            # the end of the upload comes to nothing
    assert cell.collect() == []


def test_a_job_cancelled_while_it_waits_frees_its_place_in_the_queue(world):
    devices = [world.device(0, bandwidth_hz=1e6, bits=9e6), world.device(1, bandwidth_hz=1e6),
               world.device(2, bandwidth_hz=1e6)]
    cell = world.open(*devices)
    jobs = world.start(*devices)
    world.env.run(cell.wait(range(3), until=5.0))
    cell.cancel([1], "deadline")
    world.env.run()
    assert [job.outcome for job in jobs] == ["arrived", "deadline", "arrived"]
    assert [job.ended_at for job in jobs] == pytest.approx([10.0, 5.0, 11.0])


def test_who_finds_no_room_waits_for_who_came_before(world):
    assert world.play(world.device(0, bandwidth_hz=6e5), world.device(1, bandwidth_hz=6e5)) == near(
        ("compute", 0.0, 1.0), ("compute", 0.0, 1.0), ("wait", 1.0, 2.0), ("upload", 1.0, 2.0), ("upload", 2.0, 3.0))


def test_who_waited_followed_the_one_that_made_room(world):
    devices = [world.device(0, bandwidth_hz=6e5), world.device(1, bandwidth_hz=6e5)]
    world.open(*devices)
    world.start(*devices)
    world.env.run()
    part = world.take()
    named = {(part.rows["name"][src], part.rows["device"][src], part.rows["name"][dst], part.rows["device"][dst])
             for src, dst in zip(part.links["src"], part.links["dst"], strict=True)}
    assert ("upload", 0, "upload", 1) in named
    assert part.jobs["wait_s"] == pytest.approx([0.0, 1.0])


def test_two_that_fit_upload_side_by_side(world):
    assert world.play(world.device(0, bandwidth_hz=5e5), world.device(1, bandwidth_hz=5e5)) == near(
        ("compute", 0.0, 1.0), ("compute", 0.0, 1.0), ("upload", 1.0, 2.0), ("upload", 1.0, 2.0))


# Ready at 0 and 1 s; B = J = 1 MHz for both, 2 Mbit and log2(2.5) Mbit (../shared: A7, example 1)

def two_uneven(scheduler):
    world = World(bandwidth_hz=1e6, scheduler=scheduler)
    return world.play(
        world.device(0, cycles=0.0, bits=2e6, bandwidth_hz=1e6, rate=1e6),
        world.device(1, cycles=1e9, bits=math.log2(2.5) * MBIT, bandwidth_hz=1e6, rate=1e6))


def ends(played):
    return [t1 for name, _, t1 in played if name == "upload"]


def test_equal_parts_are_divided_anew_at_each_start_and_end():
    assert ends(two_uneven(Equal())) == [pytest.approx(2.261860, abs=5e-7), pytest.approx(2.583788, abs=5e-7)]


def test_those_who_send_end_together():
    assert ends(two_uneven(Adaptive())) == [pytest.approx(2.5, rel=1e-12)] * 2


def test_the_whole_band_for_one_after_the_other():
    played = two_uneven(Tdma())
    assert ends(played) == [pytest.approx(2.0), pytest.approx(3.321928, abs=5e-7)]
    assert ("wait", 1.0, pytest.approx(2.0)) in played


def test_the_band_in_use_is_counted_at_each_change():
    world = World(bandwidth_hz=1e6, scheduler=Equal())
    two = [world.device(0, bandwidth_hz=1e6, rate=1e6), world.device(1, cycles=2e9, bandwidth_hz=1e6, rate=1e6)]
    world.open(*two)
    world.start(*two)
    world.env.run()
    rows = world.take().rows
    band = [value for name, value in zip(rows["name"], rows["value"], strict=True) if name == "bandwidth"]
    assert band == [1e6, 0.0, 1e6, 0.0]


def test_energy_of_an_upload_at_changing_rates_is_power_times_air_time():
    world = World(bandwidth_hz=1e6, scheduler=Equal())
    two = [world.device(0, cycles=0.0, bits=2e6, bandwidth_hz=1e6, rate=1e6, power_w=0.5, battery_j=100.0),
           world.device(1, bandwidth_hz=1e6, rate=1e6, power_w=0.25)]
    world.open(*two)
    jobs = world.start(*two)
    world.env.run()
    for job in jobs:
        assert job.upload_j == pytest.approx(job.plan.power_w * (job.ended_at - job.work.sent_from), rel=1e-12)
    assert 100.0 - world.batteries.left_j[0] == pytest.approx(jobs[0].energy_j, rel=1e-12)


jobs = st.lists(st.tuples(
    st.floats(0, 10), st.floats(1.0, 100.0), st.floats(0.01, 1.0), st.one_of(st.none(), st.floats(0, 10)),
    st.one_of(st.none(), st.floats(0.01, 5.0))), min_size=1, max_size=12)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(jobs, st.sampled_from([Planned, Equal, Adaptive, Tdma]))
def test_the_band_is_never_oversold_all_jobs_end_once_and_bits_are_kept(jobs, scheduler):
    world = World(bandwidth_hz=100.0, scheduler=scheduler(), most_devices=len(jobs))
    devices = [
        world.device(number, cycles=compute_s * 1e9, bandwidth_hz=100.0 * share, rate=50.0, bits=bits,
                     battery_j=math.inf if battery_j is None else battery_j)
        for number, (compute_s, bits, share, _, battery_j) in enumerate(jobs)]
    cell = world.open(*devices)
    world.start(*devices)

    def impatient(number, patience):
        yield world.env.timeout(patience)
        cell.cancel([number], "deadline")

    for number, (*_, patience, _) in enumerate(jobs):
        if patience is not None:
            world.env.process(impatient(number, patience))
    world.env.run()
    part = world.take()
    band = [value for name, value in zip(part.rows["name"], part.rows["value"], strict=True) if name == "bandwidth"]
    assert max(band, default=0.0) <= 100.0 * (1 + 1e-9)
    assert min(band, default=0.0) >= -1e-9
    assert world.uplink.in_use_hz == 0.0
    assert sorted(part.jobs["job"]) == list(range(len(jobs)))
    assert not cell.running
    assert all(device.job is None for device in cell.devices.values())
    assert (world.batteries.left_j >= 0.0).all()
    for t0, compute_s, wait_s, upload_s, t1 in zip(
            *(part.jobs[name] for name in ("t0", "compute_s", "wait_s", "upload_s", "t1")), strict=True):
        assert t0 + compute_s + wait_s + upload_s == pytest.approx(t1, rel=1e-9, abs=1e-9)
    assert all(src < dst for src, dst in zip(part.links["src"], part.links["dst"], strict=True))


@pytest.mark.parametrize("scheduler", [Planned, Equal, Adaptive, Tdma])
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.7, 2.2, 2.9, 4.0])
def test_jobs_under_way_are_saved_and_continued(scheduler, moment):
    def devices(world):
        return [world.device(0, bandwidth_hz=6e5, battery_j=3.1), world.device(1, bandwidth_hz=6e5, bits=2e6),
                world.device(2, cycles=2e9, bandwidth_hz=3e5, battery_j=2.2)]

    def ended(world):
        jobs = world.cell.collect()
        return {job.number: (job.outcome, job.ended_at, job.energy_j) for job in jobs}

    def opened(now=0.0):
        world = World(scheduler=scheduler(), env=simpy.Environment(initial_time=now))
        world.open(*devices(world))
        return world

    whole = opened()
    whole.start(*devices(whole))
    whole.env.run()
    cut = opened()
    cut.start(*devices(cut))
    if moment:
        cut.env.run(until=moment)
    before, again = ended(cut), opened(moment)
    again.batteries.restore(cut.batteries.snapshot())
    again.cell.restore(cut.cell.snapshot())
    again.env.run()
    assert {**before, **ended(again)} == ended(whole)
    assert again.batteries.left_j.tolist() == whole.batteries.left_j.tolist()
    assert again.uplink.in_use_hz == 0.0


def test_a_device_has_one_job_at_a_time(world):
    world.open(device := world.device())
    world.start(device)
    with pytest.raises(ValueError, match="device 0 has a job already"):
        world.start(device)


def test_a_job_that_has_finished_counts_as_running_until_it_is_collected(world):
    cell = world.open(device := world.device())
    [job] = world.start(device)
    world.env.run()
    assert (job.outcome, list(cell.running)) == ("arrived", [0])
    cell.cancel([0], "too late")                     # it comes after the last that was wanted
    assert [each.outcome for each in cell.collect()] == ["too late"]
    assert not cell.running


def test_a_rate_that_is_a_little_wrong_shows(world):
    right = world.play(world.device())
    wrong = World().play(world.device(), link=Shannon(efficiency=1 + 1e-6))
    assert wrong[1][2] == pytest.approx(right[1][2] - 1e-6, rel=1e-9)
    assert isinstance(world.recorder, Recorder)


def test_idle_devices_are_kept_only_with_a_state(monkeypatch):
    monkeypatch.setattr("netsim.cell.cell.MOST_IDLE", 2)

    def played(**more):
        world = World()
        devices = [world.device(number, bandwidth_hz=1e5, **more) for number in range(8)]
        world.open(*devices)
        world.start(*devices[:4])
        world.env.run()
        first, kept = world.cell.collect(), list(world.cell.devices.values())
        second = world.start(*devices[4:])
        again = [device in kept for device in world.cell.devices.values()]
        world.env.run()
        assert {(job.outcome, job.energy_j) for job in (*first, *second)} == {("arrived", 2.0)}
        return again, len(world.batteries.snapshot()["left_j"])

    assert played() == ([True] * 4, 0)                # mains-powered: the objects serve other devices
    assert played(battery_j=50.0) == ([True] * 4 + [False] * 4, 8)
