"""Jobs that begin with receiving the model."""

import numpy as np
import pytest
from small_worlds import World

from netsim.devices.link_model import Downlink
from netsim.environment.availability import AvailabilityModel, OnOffProcess, Outage, OutageProcess
from netsim.physics import Shannon


@pytest.fixture
def world():
    return World()


def absence(*edges, work="pause"):
    return AvailabilityModel(1, [OutageProcess(0, 1, Outage("availability", work),
                                               lambda _: OnOffProcess(True, list(edges)))])


def test_the_model_comes_first(world):
    assert world.play(world.device(), receive_s=[0.5], reception_w=2.0) == [
        ("download", 0.0, 0.5), ("compute", 0.5, 1.5), ("upload", 1.5, 2.5)]
    jobs = world.part.jobs
    assert (jobs["compute_s"], jobs["upload_s"], jobs["wait_s"]) == ([1.0], [1.0], [0.0])
    assert jobs["energy_j"] == [pytest.approx(3.0)]


def test_waiting_for_the_band_is_told_apart(world):
    one, other = (world.device(k, bandwidth_hz=1e6) for k in range(2))
    spans = world.play(one, other, receive_s=[0.5, 1.0])
    assert spans.count(("wait", 2.0, 2.5)) == 1
    assert world.part.jobs["wait_s"] == [0.0, pytest.approx(0.5)]


def test_a_battery_pays_for_reception(world):
    """1 J: half a second of receiving at 1 W, and half a second of computing."""
    assert world.play(world.device(battery_j=1.0), receive_s=[0.5], reception_w=1.0) == [
        ("download", 0.0, 0.5), ("compute", 0.5, 1.0), ("battery empty", 1.0)]
    assert World().play(world.device(battery_j=0.2), receive_s=[0.5], reception_w=1.0) == [
        ("download", 0.0, 0.2), ("battery empty", 0.2)]


@pytest.mark.parametrize(("work", "after"), [("pause", 0.25), ("restart", 0.5)])
def test_a_device_that_goes_off_meanwhile(world, work, after):
    spans = world.play(world.device(), receive_s=[0.5], reception_w=1.0, faults=absence(0.25, 1.0, work=work))
    assert spans == [("download", 0.0, 0.25), ("off", 0.25, 1.0), ("download", 1.0, 1.0 + after),
                     ("compute", 1.0 + after, 2.0 + after), ("upload", 2.0 + after, 3.0 + after)]
    assert world.part.jobs["energy_j"] == [pytest.approx(2.25 + after)]


def test_a_model_that_was_received_is_kept(world):
    spans = world.play(world.device(), receive_s=[0.5], faults=absence(1.0, 2.0, work="restart"))
    assert [name for name, *_ in spans] == ["download", "compute", "off", "compute", "upload"]


# How long it takes.

PLAIN = {"bits": 1e6, "bandwidth_hz": 1e6, "power_w": 1.0, "noise_w_per_hz": 1e-6}      # J = gain, in hertz


def test_a_broadcast_is_as_slow_as_the_worst_channel():
    """Signal-to-noise ratios of 1, 3 and 7: 1, 2 and 3 Mbit/s."""
    gain = np.array([7.0, 1.0, 3.0])
    assert Downlink(**PLAIN).seconds(gain).tolist() == [1.0, 1.0, 1.0]
    assert Downlink(**PLAIN).seconds(gain[[0, 2]]).tolist() == [0.5, 0.5]


def test_one_for_each_shares_band_and_power():
    assert Downlink(**PLAIN, each=True).seconds(np.array([7.0, 1.0, 3.0])) == pytest.approx([1.0, 3.0, 1.5])
    assert Downlink(**PLAIN).in_part(4).seconds(np.array([7.0])) == pytest.approx([4 / 3])


def test_real_radios_are_slower():
    assert Downlink(**PLAIN, link=Shannon(cap=2.0)).seconds(np.array([7.0])).tolist() == [0.5]
    assert Downlink(**PLAIN, link=Shannon(efficiency=0.5)).seconds(np.array([7.0])) == pytest.approx([2 / 3])
    assert Downlink(**PLAIN, reception_w=3.0).joules(np.array([1.0])).tolist() == [3.0]
