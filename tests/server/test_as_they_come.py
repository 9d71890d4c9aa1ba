"""Servers that do not wait, on timelines that one can work out by hand."""

import math

import numpy as np
import pytest
from server_worlds import play

from netsim.base.rng import stream
from netsim.cell.schedulers import Equal
from netsim.server.asynchronous_strategies import FedAsync, FedBuff, Port, Staleness, Window
from netsim.server.strategy import Updates
from netsim.server.synchronous import FirstK

A, B, C = 0, 1, 2
CYCLES = {A: 1.0, B: 2.0, C: 4.0}             # and a second on the air: cycles of 2, 3 and 5 s
UPDATES = {A: 1.0, B: 2.0, C: 4.0}


def arrivals(done):
    """(t, device, version that it started from, staleness) of each job that arrived, in that order."""
    return [(round(job["t1"], 9), job["device"], job["version"], job["staleness"]) for job in done.jobs
            if job["outcome"] == "arrived"]


def test_fedbuff_by_hand():
    done = play(FedBuff, CYCLES, updates=UPDATES, buffer=2, rounds=5)
    assert arrivals(done) == [
        (2, A, 0, 0), (3, B, 0, 0), (4, A, 0, 1), (5, C, 0, 1), (6, A, 1, 1), (6, B, 1, 1), (8, A, 2, 1), (9, B, 3, 0),
        (10, A, 3, 1), (10, C, 2, 2)]
    assert done.learning.models == pytest.approx([1.5, 3.267767, 4.328427, 5.681981, 7.190234], abs=1e-6)
    assert done.learning.models[1] == pytest.approx(1.5 + 2.5 / math.sqrt(2), rel=1e-15)
    assert [row["t1"] for row in done.rows if row["name"] == "round"] == pytest.approx([3, 5, 6, 9, 10])


def test_jobs_that_end_together_but_for_rounding_arrive_in_the_order_of_devices():
    """Three times 0.1 + 0.2 s is one unit in the last place more than 0.7 + 0.2 s, in which B ends."""
    done = play(FedAsync, {A: 0.1, B: 0.7}, lambda device: 2e5, updates=UPDATES, devices=2, rounds=4)
    assert arrivals(done) == [(0.3, A, 0, 0), (0.6, A, 1, 0), (0.9, A, 2, 0), (0.9, B, 0, 3)]
    ends = {job["device"]: job["t1"] for job in done.jobs if job["outcome"] == "arrived"}
    assert ends[A] > ends[B]
    done = play(Window, {A: 0.1, B: 0.7}, lambda device: 2e5, updates=UPDATES, devices=2, rounds=1, period=0.3)
    assert arrivals(done) == [(0.3, A, 0, 0)]                             # at 0.30000000000000004


def test_fedbuff_divided_by_the_weights_takes_the_same_step_however_stale():
    done = play(FedBuff, CYCLES, updates=UPDATES, buffer=2, rounds=2, normalise="weights", server_lr=0.5)
    assert done.learning.models == pytest.approx([0.75, 0.75 + 0.5 * 2.5])


def test_fedasync_by_hand():
    done = play(FedAsync, CYCLES, updates=UPDATES, rounds=6, alpha=0.6)
    assert arrivals(done) == [(2, A, 0, 0), (3, B, 0, 1), (4, A, 1, 1), (5, C, 0, 3), (6, A, 3, 1), (6, B, 2, 3)]
    assert done.learning.models == pytest.approx([0.6, 1.193970, 1.366234, 2.156364, 2.245404, 2.529974], abs=1e-6)


@pytest.mark.parametrize(("staleness", "expected"), [
    (Staleness(kind="constant"), [1, 1, 1, 1]), (Staleness(kind="polynomial"), [1, 5**-0.5, 6**-0.5, 7**-0.5]),
    (Staleness(kind="hinge", a=10.0, b=4.0), [1, 1, 1 / 11, 1 / 21]),
    (Staleness(kind="hinge"), [1, 1, 1 / 11, 1 / 21])])
def test_staleness_functions(staleness, expected):
    assert staleness.weights(np.array([0, 4, 5, 6])) == pytest.approx(expected, rel=1e-15)


def test_a_band_shared_in_equal_parts(monkeypatch):
    monkeypatch.setattr("netsim.physics.fdma_rate", lambda hertz, snr_hz: hertz / 5)   # 6 Mbit/s in all
    computing = {A: 1.0, B: 1.5, C: 3.0}
    done = play(FedBuff, computing, lambda device: 6e6, scheduler=Equal(), buffer=2, rounds=4)
    assert arrivals(done)[:6] == [
        (2.5, A, 0, 0), (3, B, 0, 0), (4.5, C, 0, 1), (5.5, A, 0, 1), (6, B, 1, 1), (7.5, A, 2, 0)]
    sends = sorted((round(row["t0"], 9), row["device"]) for row in done.rows if row["name"] == "upload")
    assert sends[:8] == [(1, A), (1.5, B), (3, C), (3.5, A), (4.5, B), (6.5, A), (7.5, B), (7.5, C)]


def test_ports_weights_by_hand():
    def weights(samples):
        return Port().weights(Updates(np.arange(2), np.arange(2), np.array([0, 5]), np.array(samples),
                                      lambda: np.array([1.0, 0.0])))

    assert weights([1.0, 1.0]) == pytest.approx([12 / 19, 7 / 19])
    assert weights([7.0, 12.0]) == pytest.approx([0.5, 0.5])


def test_port_looks_at_the_direction_only_of_what_is_staler_than_one():
    done = play(Port, CYCLES, updates=UPDATES, buffer=2, rounds=5)
    assert arrivals(done) == arrivals(play(FedBuff, CYCLES, buffer=2, rounds=5))
    fresh, stale = 1 + 10 / 11, 0.5 + 10 / 12          # at 10 s: A with staleness 1, C with staleness 2 and cosine 0
    step = done.learning.models[4] - done.learning.models[3]
    assert step == pytest.approx((fresh * 1 + stale * 4) / (fresh + stale))


def test_a_window_takes_what_has_arrived_and_keeps_the_late():
    done = play(Window, CYCLES, updates=UPDATES, period=3.0, rounds=3)
    # A starts anew at 3 and 6, B as well, since it arrives right at the end of the window; C arrives at 5, then at 11
    assert sorted(arrivals(done)) == [
        (2, A, 0, 0), (3, B, 0, 0), (5, A, 1, 0), (5, C, 0, 1), (6, B, 1, 0), (8, A, 2, 0), (9, B, 2, 0)]
    late = 2**-0.5
    assert done.learning.models == pytest.approx(
        [1.5, 1.5 + (1 + 2 + 4 * late) / (2 + late), 1.5 + (1 + 2 + 4 * late) / (2 + late) + 1.5])
    waits = [(row["device"], row["t0"], row["t1"]) for row in done.rows if row["name"] == "wait"]
    assert [wait[1:] for wait in waits if wait[0] == -1] == [(0.0, 3.0), (3.0, 6.0), (6.0, 9.0)]      # the server
    waits = [wait for wait in waits if wait[0] == A]
    assert waits[:2] == [(A, pytest.approx(2), pytest.approx(3)), (A, pytest.approx(5), pytest.approx(6))]
    assert [row["t1"] for row in done.rows if row["name"] == "round"] == [3.0, 6.0, 9.0]


def test_a_window_drops_what_is_too_stale():
    done = play(Window, CYCLES, updates=UPDATES, period=1.0, rounds=5, max_staleness=3)
    assert [job[3] for job in arrivals(done)] == [1, 2, 1, 4]
    assert done.learning.models[-1] == done.learning.models[-2]      # C's alone in the fifth window, and too late


def test_first_k_ends_with_the_kth_and_counts_what_the_others_have_spent():
    done = play(FirstK, CYCLES, buffer=2, rounds=2)
    assert arrivals(done) == [(2, A, 0, 0), (3, B, 0, 0), (5, A, 1, 0), (6, B, 1, 0)]
    assert [(job["device"], job["outcome"], job["t1"]) for job in done.jobs if job["outcome"] != "arrived"] == [
        (C, "too late", 3.0), (C, "too late", 6.0)]
    assert done.learning.log[:3] == [("prepare", 1, [A, B, C]), ("start", [A, B, C]), ("aggregate", [A, B])]
    assert done.history.dropped == 2
    assert done.history.energy_j == pytest.approx(2 * (1.5 + 2.5 + 3.0))        # 1 W of computing, half of sending


@pytest.mark.slow
def test_over_selections_mean():
    """The third of five exponential ends of mean m comes at m (1/5 + 1/4 + 1/3)."""
    draws = stream(1, "loss")
    done = play(FirstK, lambda device, job: draws.exponential(1.0), lambda device: 1e-3, devices=5, buffer=3,
                rounds=600)
    lengths = np.array([row["t1"] - row["t0"] for row in done.rows if row["name"] == "round"])
    assert lengths.mean() == pytest.approx(0.783333, abs=3 * lengths.std() / math.sqrt(len(lengths)))


@pytest.mark.parametrize(("devices", "buffer"), [(3, 2), (10, 10), (10, 3), (4, 9)])
def test_mean_staleness_is_devices_less_one_by_buffer_whatever_the_speeds(devices, buffer):
    draws, rounds = stream(devices, "loss", buffer), 150
    done = play(FedBuff, lambda device, job: (1 + device) * draws.exponential(1.0), lambda device: 1e3, devices=devices,
                buffer=buffer, rounds=rounds)
    tau = np.array([job["staleness"] for job in done.jobs if job["outcome"] == "arrived"])
    assert len(tau) == rounds * buffer
    means = tau.reshape(-1, buffer * 5).mean(axis=1)                # of batches, which hardly depend on each other
    assert tau.mean() == pytest.approx((devices - 1) / buffer, abs=3 * means.std() / math.sqrt(len(means)))
    # and to the last one: each aggregation makes all but the job that it was waiting for older by one
    assert sum(job["staleness"] for job in done.jobs) == (devices - 1) * (rounds - 1)


def test_the_end_of_a_run_ends_the_jobs_under_way_and_counts_their_energy():
    done = play(FedAsync, CYCLES, rounds=1)
    assert [(job["device"], job["outcome"], job["t1"], job["energy_j"], job["round"]) for job in done.jobs] == [
        (A, "arrived", 2.0, pytest.approx(1.5), 1), (B, "run over", 2.0, pytest.approx(2.0), 1),
        (C, "run over", 2.0, pytest.approx(2.0), 1)]
    assert done.history.energy_j == pytest.approx(5.5)
    assert done.history.dropped == 0            # nobody waited for them any more
    assert done.learning.jobs == {}
    assert done.rows[-1]["name"] == "round"


def test_a_population_that_dies_out_leaves_its_last_buffer_as_it_is():
    done = play(FedBuff, CYCLES, updates=UPDATES, buffer=4, rounds=9, battery_j=4.0)
    # A has energy for two jobs of 1.5 J, B for one of 2.5 J; C's would take 4.5 J
    assert arrivals(done) == [(2, A, 0, 0), (3, B, 0, 0), (4, A, 0, 0)]
    assert done.learning.models == [pytest.approx((1 + 2 + 1) / 3)]
    assert [row["t1"] for row in done.rows if row["name"] == "round"] == [5.0]
    assert sorted(job["outcome"] for job in done.jobs)[3:] == ["battery empty"] * 3
    assert done.cell.batteries.alive == 0


def test_an_aggregation_follows_the_jobs_that_it_waited_for_and_a_start_what_made_room():
    done = play(FedBuff, CYCLES, buffer=2, rounds=2)
    rows = done.rows
    named = [(rows[src]["name"], rows[src]["device"], rows[src]["t1"], rows[dst]["name"], rows[dst]["t0"])
             for src, dst in zip(done.links["src"], done.links["dst"], strict=True)]
    assert [cause[:3] for cause in named if cause[3:] == ("aggregate", 3.0)] == [("upload", A, 2.0), ("upload", B, 3.0)]
    assert [cause[:3] for cause in named if cause[3:] == ("select", 2.0)] == [("upload", A, 2.0)]
    assert [cause[:3] for cause in named if cause[3:] == ("select", 3.0)] == [("aggregate", -1, 3.0)]
    assert all(cause[2] <= cause[4] for cause in named)
