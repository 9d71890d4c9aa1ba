"""Channels that change in mid-upload: exact instants, energy, and budgets that are reached on the way."""

import math

import numpy as np
import pytest
from small_worlds import NOISE, World

from netsim.base.errors import InputError
from netsim.cell import job
from netsim.cell.schedulers import Equal, Planned
from netsim.environment.fading import block_at
from netsim.physics import Shannon

MBIT = 1e6


class Blocks:
    """Gains by blocks of a second, such that a device with 1 MHz sends at these rates (Mbit/s)."""

    def __init__(self, rates, power_w, *, split=1):
        self.snr = [1e6 * (2**rate - 1) for rate in rates for _ in range(split)]
        self.power_w, self.length = power_w, 1.0 / split

    def gain(self, devices, t):
        block = min(block_at(t, self.length), len(self.snr) - 1)
        return np.full(len(devices), self.snr[block] * NOISE / self.power_w)

    def next_change(self, t):
        edge = (block_at(t, self.length) + 1) * self.length
        return edge if edge < len(self.snr) * self.length else math.inf


def play(world, device, air, **more):
    return world.play(device, gains=air, **more)


@pytest.fixture
def world():
    return World(bandwidth_hz=1e6)


def sender(world, bits, start, power_w=0.2, **more):
    return world.device(cycles=start * 1e9, cpu_hz=1e9, bits=bits, rate=1e6, power_w=power_w, bandwidth_hz=1e6, **more)


@pytest.mark.parametrize("split", [1, 4])
@pytest.mark.parametrize(("rates", "bits", "start", "end", "air_s"), [
    ((2, 0.5, 4), 4 * MBIT, 0.0, 2.375, 2.375),
    ((2, 0.5, 4), 4 * MBIT, 0.5, 2.625, 2.125),
    ((0, 2), 1 * MBIT, 0.25, 1.5, 1.25),          # nothing gets through at first, and power is paid
])
def test_an_upload_through_blocks(world, split, rates, bits, start, end, air_s):
    """The worked examples; to split a block in two with the same rate changes nothing."""
    spans = play(world, sender(world, bits, start), Blocks(rates, 0.2, split=split))
    assert spans[-1] == ("upload", pytest.approx(start), pytest.approx(end, rel=1e-12))
    job = {name: values[0] for name, values in world.part.jobs.items()}
    assert job["upload_s"] == pytest.approx(air_s, rel=1e-12)
    assert job["energy_j"] - job["compute_s"] == pytest.approx(0.2 * air_s, rel=1e-9)       # computing at 1 W


def test_two_share_a_band_that_fades():
    """Equal halves of 1 MHz; both fade together after 1 s."""
    world = World(bandwidth_hz=1e6, scheduler=Equal())
    air = Blocks((2, 1), 0.2)
    first, second = (world.device(k, cycles=0.0, bits=1.5 * MBIT, power_w=0.2, bandwidth_hz=5e5) for k in (0, 1))
    world.open(first, second, gains=air)
    world.start(first, second)
    world.env.run()
    fast, slow = (0.5 * math.log2(1 + snr / 0.5) for snr in (3.0, 1.0))
    ends = [span[2] for span in world.spans() if span[0] == "upload"]
    assert ends == [pytest.approx(1.0 + (1.5 - fast) / slow)] * 2


def test_nobody_is_woken_by_a_channel_that_nobody_uses(world):
    class Watched(Blocks):
        asked = 0

        def gain(self, devices, t):
            self.asked += 1
            return super().gain(devices, t)

    air = Watched([1.0] * 1000, 0.2, split=100)
    play(world, sender(world, 0.5 * MBIT, 5.0), air)
    assert air.asked <= 53                          # half a second on the air, an edge each 10 ms


def test_an_upload_that_sees_no_end_is_told(world, monkeypatch):
    """Eight changes are borne, a ninth is not."""
    monkeypatch.setattr(job, "MOST_CHANGES", 8)
    air = Blocks([1] * 40, 0.2)
    assert play(world, sender(world, 9 * MBIT, 0.0), air)[-1][-1] == 9.0
    with pytest.raises(InputError, match="8 changes of the channel until 9 s") as error:
        play(World(bandwidth_hz=1e6), sender(world, 10 * MBIT, 0.0), air)
    assert (error.value.code, error.value.key) == ("too-large", "the upload of device 0")


def test_an_upload_that_would_not_be_done_for_hours_is_told_at_once(world, monkeypatch):
    """At 0.01 of what it takes by the fourth change, 400 would be needed: more than ten times the most."""
    monkeypatch.setattr(job, "MOST_CHANGES", 30)
    monkeypatch.setattr(job, "LOOK_AFTER", 4)
    air = Blocks([1] * 40, 0.2)
    assert play(world, sender(world, 12 * MBIT, 0.0), air)[-1][-1] == 12.0
    with pytest.raises(InputError, match=r"3 changes of the channel until 4 s, with 0\.0\d+ of its") as error:
        play(World(bandwidth_hz=1e6), sender(world, 400 * MBIT, 0.0), air)
    assert (error.value.code, error.value.key) == ("too-large", "the upload of device 0")


def test_a_budget_that_is_spent_in_mid_upload(world):
    rates = (2, 0.5, 4)
    device = sender(world, 4 * MBIT, 0.0, budget_j=0.3)               # pays for 1.5 s
    assert play(world, device, Blocks(rates, 0.2), abort_over_budget=True)[1] == (
        "upload", 0.0, pytest.approx(1.5, rel=1e-8))
    job = {name: values[0] for name, values in world.part.jobs.items()}
    assert job["outcome"] == "over budget"
    assert job["energy_j"] == pytest.approx(0.3, rel=1e-8)


def test_a_budget_that_just_suffices_is_kept(world):
    device = sender(world, 4 * MBIT, 0.0, budget_j=0.2 * 2.375)
    play(world, device, Blocks((2, 0.5, 4), 0.2), abort_over_budget=True)
    assert world.part.jobs["outcome"] == ["arrived"]


def test_what_radios_make_of_the_limit():
    radio = Shannon(efficiency=0.5, cap=4.0)
    assert float(radio.rate(1e6, 3e6)) == pytest.approx(1e6)           # half of 2 bit/s/Hz
    assert float(radio.rate(1e6, 1e9)) == pytest.approx(2e6)           # half of the cap


@pytest.mark.parametrize("scheduler", [Planned, Equal])
@pytest.mark.parametrize("split", [1, 8])
def test_a_budget_ends_at_one_instant_however_often_the_channel_changes(scheduler, split):
    """0.5 J at 0.2 W pay for 2.5 s of sending, and the tolerance for rounding is 1e-9 of them, added once."""
    world = World(bandwidth_hz=1e6, scheduler=scheduler())
    device = sender(world, 9 * MBIT, 0.0, budget_j=0.5)
    play(world, device, Blocks((2, 0.5, 2, 2), 0.2, split=split), abort_over_budget=True)
    job = {name: values[0] for name, values in world.part.jobs.items()}
    assert job["outcome"] == "over budget"
    assert job["upload_s"] == pytest.approx(2.5 * (1 + 1e-9), rel=1e-14)
