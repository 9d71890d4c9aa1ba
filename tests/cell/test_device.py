"""A device computes, then uploads, and says how it ended."""

import pytest


def test_a_round_of_one_device(world):
    device = world.device(7, cycles=3e9, cpu_hz=2e9, compute_w=0.5, bits=4e5, rate=1e6, power_w=0.25)
    start = world.recorder.instant("allocate", -1, 0.0)
    process = world.env.process(device.serve(start))
    outcome = world.env.run(process)
    assert outcome.arrived
    assert (outcome.compute_s, outcome.upload_s) == (1.5, 0.4)
    assert outcome.energy_j == pytest.approx(1.5 * 0.5 + 0.4 * 0.25, rel=1e-15)
    assert world.delivered == [7]
    part = world.recorder.take()
    links = list(zip(part.links["src"], part.links["dst"], strict=True))
    assert links == [(0, 1), (1, 3)]          # allocate, compute, upload


def test_a_deadline_cuts_the_upload_short_and_the_energy_is_what_was_drawn(world):
    device = world.device(cycles=1e9, cpu_hz=1e9, compute_w=2.0, bits=2e6, rate=1e6, power_w=4.0)
    process = world.env.process(device.serve(world.recorder.instant("allocate", -1, 0.0)))

    def deadline():
        yield world.env.timeout(1.5)
        process.interrupt("deadline")

    world.env.process(deadline())
    outcome = world.env.run(process)
    assert (outcome.dropped, outcome.ended_s) == ("deadline", 1.5)
    assert outcome.energy_j == 1.0 * 2.0 + 0.5 * 4.0
    assert world.uplink.in_use_hz == 0.0


def test_a_deadline_while_waiting_for_the_band_frees_the_place_in_the_queue(world):
    holder = world.device(0, bandwidth_hz=1e6, bits=9e6)
    waiter = world.device(1, bandwidth_hz=1e6)
    third = world.device(2, bandwidth_hz=1e6)
    processes = [world.env.process(device.serve(0)) for device in (holder, waiter, third)]

    def deadline():
        yield world.env.timeout(5.0)
        processes[1].interrupt("deadline")

    world.env.process(deadline())
    world.env.run(world.env.all_of(processes))
    assert [process.value.dropped for process in processes] == ["", "deadline", ""]
    assert [process.value.ended_s for process in processes] == [10.0, 5.0, 11.0]


def test_nothing_to_compute_takes_no_time(world):
    assert world.play(world.device(cycles=0.0)) == [("compute", 0.0, 0.0), ("upload", 0.0, 1.0)]
