"""Measured rates instead of gains: airtime that is shared, links of their own, recorded rates, downloads."""

import numpy as np
import pytest

from netsim import simulate
from netsim.allocation import Problem, allocate
from netsim.base.errors import InputError
from netsim.devices.link_model import Airtime, DedicatedLink
from netsim.devices.population import draw_population
from netsim.scenario import Scenario

# 1e9 cycles at 1 GHz: 1 s of computing for every device
WORLD = {
    "cell": {"radius": "300 m", "bandwidth": "20 MHz"},
    "population": [{
        "name": "phone", "count": 2, "samples": 100, "budget": "100 J",
        "radio": {"power": "200 mW", "rate": "8 Mbit/s"},
        "cpu": {"min": "1 GHz", "max": "1 GHz", "cycles_per_sample": 1e7}}],
    "learning": {"bits": "16 Mbit"}, "selection": {"method": "fedavg", "cohort": 2}, "end": {"rounds": 1},
}
PHONE = "population.phone"


def world(**changes):
    return Scenario.of(WORLD).with_(changes)


def jobs(changes):
    frame = simulate(world(**changes), seed=1).jobs.sort("device")
    return {name: frame[name].to_list() for name in ("compute_s", "wait_s", "upload_s", "t1", "energy_j", "outcome")}


def test_two_devices_share_the_airtime_by_hand():
    found = jobs({"allocation.method": "equal"})
    assert found["upload_s"] == pytest.approx([4.0, 4.0])            # 16 Mbit at half of 8 Mbit/s
    assert found["t1"] == pytest.approx([5.0, 5.0])
    assert found["energy_j"] == pytest.approx([0.1 + 0.2 * 4.0] * 2)


def test_devices_with_links_of_their_own_do_not_slow_each_other():
    for method in ("equal", "sao"):
        found = jobs({"cell.link.model": "dedicated", "allocation.method": method})
        assert found["upload_s"] == pytest.approx([2.0, 2.0])
        assert found["t1"] == pytest.approx([3.0, 3.0])


def test_sao_gives_airtime_in_inverse_proportion_to_the_rates():
    found = jobs({f"{PHONE}.devices": {"rate": ["8 Mbit/s", "16 Mbit/s"]}})
    # both end at T: 16/8 + 16/16 = 3 s of airtime in all
    assert found["t1"] == pytest.approx([4.0, 4.0])
    assert found["upload_s"] == pytest.approx([3.0, 3.0])


def test_recorded_rates_hold_from_their_instants_on_and_start_over(tmp_path):
    (tmp_path / "rates.csv").write_text("t,a,b\n0,8e6,4 Mbit/s\n2,16 Mbit/s,4e6\n")
    found = jobs({f"{PHONE}.radio.rate": str(tmp_path / "rates.csv"), "cell.link.model": "dedicated"})
    # a: 8 Mbit from 1 s to 2 s, then 8 Mbit at 16 Mbit/s; b: 4 s
    assert found["upload_s"] == pytest.approx([1.5, 4.0])
    # the recording starts over after 4 s
    slow = jobs({f"{PHONE}.radio.rate": str(tmp_path / "rates.csv"), "cell.link.model": "dedicated",
                 f"{PHONE}.cpu.cycles_per_sample": 4e7})
    assert slow["upload_s"] == pytest.approx([2.0, 4.0])


def test_downloads_share_airtime_or_have_links_of_their_own():
    down = {f"{PHONE}.radio.downlink_rate": "32 Mbit/s", "allocation.method": "equal"}
    assert jobs(down)["t1"] == pytest.approx([0.5 + 5.0] * 2)               # one broadcast, 16 / 32
    assert jobs({**down, "cell.downlink.mode": "unicast"})["t1"] == pytest.approx([1.0 + 5.0] * 2)
    assert jobs({**down, "cell.link.model": "dedicated"})["t1"] == pytest.approx([0.5 + 3.0] * 2)
    once = jobs({"allocation.method": "equal", f"{PHONE}.devices": {"downlink_rate": ["32 Mbit/s", "16 Mbit/s"]}})
    assert once["t1"] == pytest.approx([1.0 + 5.0] * 2)                     # one broadcast at the lower rate
    drawn = jobs({**down, "cell.downlink.receive_power": "1 W"})
    assert drawn["energy_j"] == pytest.approx([0.5 + 0.1 + 0.8] * 2)


@pytest.mark.parametrize("seed", range(5))
def test_sao_is_exact_for_shared_airtime(seed):
    rng = np.random.default_rng(seed)
    rate, bits = rng.uniform(1e6, 5e7, 6), rng.uniform(1e6, 9e6, 6)
    ready = rng.uniform(0.1, 1.0, 6)
    problem = Problem(bits=bits, cycles=ready * 1e9, capacitance=1e-28, gain=rate * 1e-20, power_w=1.0, budget_j=1e6,
                      cpu_min_hz=1e9, cpu_max_hz=1e9, bandwidth_hz=20e6, noise_w_per_hz=1e-20, link=Airtime(20e6))
    plan = allocate(problem)

    def airtime(t):      # shares that end all uploads at t
        return float((bits / rate / (t - ready)).sum())

    low, high = ready.max() + 1e-9, 1e6
    for _ in range(200):
        low, high = ((low + high) / 2, high) if airtime((low + high) / 2) > 1.0 else (low, (low + high) / 2)
    assert plan.round_s == pytest.approx(high, rel=1e-9)
    assert allocate(problem, "tdma").round_s <= plan.round_s * (1 + 1e-12)


def test_a_dedicated_link_always_sends_at_its_rate():
    link = DedicatedLink()
    assert link.rate(link.bandwidth([1e6, 8e6], 8e6), 8e6).tolist() == [8e6, 8e6]
    assert link.rate([1.0, 20e6], 8e6).tolist() == [8e6, 8e6]
    assert link.bandwidth(9e6, 8e6) == np.inf


def test_rates_are_drawn_from_distributions_and_kept_with_the_devices():
    many = world(**{f"{PHONE}.count": 3000, f"{PHONE}.radio.rate": {
        "dist": "lognormal", "median": "26 Mbit/s", "sigma": 0.4}})
    rate = draw_population(many, 2).rate_bit_per_s
    assert np.median(rate) == pytest.approx(26e6, rel=0.03)
    assert np.log(rate).std() == pytest.approx(0.4, rel=0.05)
    run = simulate(world(), seed=1)
    assert run.devices["rate_bit_per_s"].to_list() == [8e6, 8e6]
    assert run.explain(1).round_s == pytest.approx(run.rounds["round_s"][0])
    assert not [each for each in run.explain(1).what_if if each.key == "power" and each.saves_s > 1e-9]


@pytest.mark.parametrize(("changes", "words"), [
    ({"cell.fading": "rayleigh"}, ["cell.fading", "radio.rate"]),
    ({"cell.gain_trace": {"db": [[-90.0, -91.0]]}}, ["gain_trace", "radio.rate"]),
    ({"cell.link.efficiency": 0.5}, ["cell.link"]),
    ({"cell.path_loss.slope": "30 dB"}, ["path_loss", "radio.rate"]),
    ({"cell.noise": "-170 dBm/Hz"}, ["cell.noise", "radio.rate"]),
    ({f"{PHONE}.mobility": {"model": "random-waypoint", "speed": "1 m/s"}}, ["mobility", "radio.rate"]),
    ({f"{PHONE}.devices": {"gain": ["-90 dB", "-91 dB"]}}, ["radio.rate"]),
    ({f"{PHONE}.radio.rate": "5 MB"}, ["data rate"]),
    ({f"{PHONE}.radio.rate": {"t": [0, 1], "bit_per_s": [[1e6], [1e6]]}}, ["one for each of 2 devices"]),
    ({f"{PHONE}.radio.rate": {"t": [0, 1], "bit_per_s": [[1e6, 1e6]]}}, ["bit_per_s"]),
    ({f"{PHONE}.radio.rate": {"t": [1, 2], "bit_per_s": [[1e6, 1e6], [1e6, 1e6]]}}, ["0 s"]),
    ({f"{PHONE}.radio.rate": {"t": [0, 1], "bit_per_s": [[0, 1e6], [1e6, 1e6]]}}, ["above 0"]),
    ({f"{PHONE}.radio.downlink_rate": "5 Mbit/s", "cell.downlink.power": "1 W"}, ["cell.downlink.power"]),
    ({"cell.downlink.power": "1 W"}, ["downlink_rate"]),
    ({"cell.downlink.mode": "broadcast"}, ["power"]),
])
def test_refused(changes, words):
    with pytest.raises(InputError) as refused:
        world(**changes)
    assert all(word in str(refused.value) for word in words), str(refused.value)


@pytest.mark.parametrize("text", ["", "t,a\n0,fast\n", "t\n0\n", "a,b\n1,2\n", "t,a,b\n0,1e6\n"])
def test_a_file_of_rates_that_is_wrong(tmp_path, text):
    (tmp_path / "rates.csv").write_text(text)
    with pytest.raises(InputError, match=r"rates\.csv"):
        world(**{f"{PHONE}.radio.rate": str(tmp_path / "rates.csv")})


@pytest.mark.parametrize("method", ["fedl", "rra", "sao-joint", "sao-common-power", "algorithm6", "sao-adaptive"])
def test_methods_that_need_shannon_say_so(method):
    with pytest.raises(InputError, match=r"measured rates \(radio.rate\)"):
        simulate(world(**{"allocation.method": method}))


def test_other_links_need_gains():
    plain = {**WORLD, "population": [{**WORLD["population"][0], "radio": {"power": "200 mW"}}]}
    with pytest.raises(InputError, match=r"radio\.rate"):
        Scenario.of(plain).with_({"cell.link.model": "airtime"})
    both = {**WORLD, "population": [WORLD["population"][0], {**plain["population"][0], "name": "other"}]}
    with pytest.raises(InputError, match="every population"):
        Scenario.of(both)
