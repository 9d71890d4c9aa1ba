"""Channels in time: edges, fading laws, places, and the same world for whoever looks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from scipy import stats

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.base.rng import stream
from netsim.devices.mobility import RandomWaypointTrajectory, Trajectory
from netsim.devices.population import draw_population
from netsim.environment.channel import EVERYBODY, Channel
from netsim.environment.fading import BlockFading, CorrelatedShadowing, block_at, powers
from netsim.scenario.time_varying import RandomWaypoint

BLOCKS = 'cell.fading={model="rayleigh",coherence="20 ms"}'
WALKS = 'population.phone.mobility={model="random-waypoint",speed="30 m/s"}'


def channel_of(*changes, seed=1, scenario="paper"):
    loaded = load_scenario(scenario, list(changes))
    population = draw_population(loaded, seed)
    return Channel(loaded, population, seed), population


@given(st.integers(0, 10**9), st.floats(1e-6, 1e3), st.floats(0, 0.999))
def test_blocks_begin_at_multiples_of_their_length(k, length, part):
    assert block_at(k * length, length) == k
    t = (k + part) * length
    found = block_at(t, length)
    assert found * length <= t < (found + 1) * length


def test_a_channel_in_time_is_the_same_whoever_looks_and_when():
    channel, _ = channel_of(BLOCKS)
    other, _ = channel_of(BLOCKS)
    late = other.gain(np.array([3, 5]), 7.003, 9)
    assert channel.gain(np.array([5]), 0.0, 1) != late[1]
    assert np.array_equal(channel.gain(EVERYBODY, 7.0, 1)[[3, 5]], late)
    assert channel.next_change(7.003) == 351 * 0.02
    assert channel.changes
    assert channel.next_change(351 * 0.02) == 352 * 0.02


def test_another_population_changes_no_draw():
    alone, _ = channel_of(BLOCKS)
    beside = load_scenario("paper", [BLOCKS])
    extra = beside.population[0].model_copy(update={"name": "other"})
    both = beside.model_copy(update={"population": (extra, *beside.population)})
    population = draw_population(both, 1)
    gain = Channel(both, population, 1).gain(EVERYBODY, 0.5, 1)
    assert np.array_equal(gain[extra.size:], alone.gain(EVERYBODY, 0.5, 1))


@pytest.mark.parametrize(("k_db", "variance", "below"), [
    (None, 1.0, {0.1: 1 - math.exp(-0.1), 0.5: 1 - math.exp(-0.5)}),
    (10 * math.log10(3.0), 0.4375, {0.1: 0.027568, 0.5: 0.246989}),
])
def test_fading_has_the_law_that_it_claims(k_db, variance, below):
    """The closed forms of Rayleigh and Rician power, within four standard errors of a fixed seed."""
    draws = powers(stream(3, "fading"), 200_000, k_db)
    assert draws.mean() == pytest.approx(1.0, abs=4 * math.sqrt(variance / len(draws)))
    assert draws.var() == pytest.approx(variance, rel=0.03)
    for x, share in below.items():
        assert (draws < x).mean() == pytest.approx(share, abs=4 * math.sqrt(share / len(draws)))


def test_blocks_of_one_device_are_independent_draws():
    fading = BlockFading(5, [17], None, 1.0)
    draws = np.array([fading.factor(np.array([0]), k + 0.5, 1)[0] for k in range(4000)])
    assert stats.kstest(draws, "expon").pvalue > 0.01
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 4 / math.sqrt(len(draws))


def test_mean_upload_through_short_blocks():
    """E t = z/m + (Tc/2) cv^2: z = 448 kbit, b = 2 MHz, J = 20 MHz, Tc = 5 ms: 77.580 ms."""
    fading, times = BlockFading(1, list(range(3000)), None, 0.005), []
    for device in range(3000):
        left, t = 448e3, 0.0
        while True:
            rate = 2e6 * math.log2(1 + 10.0 * fading.factor(np.array([device]), t, 1)[0])
            edge = fading.next_change(t)
            if left <= rate * (edge - t):
                times.append(t + left / rate)
                break
            left, t = left - rate * (edge - t), edge
    error = np.std(times) / math.sqrt(len(times))
    assert np.mean(times) == pytest.approx(0.077580, abs=3 * error + 2e-4)


# ---- places ----

def walk(seed=0, device=0, *, speed="2 m/s", pause="0 s", radius=100.0):
    return RandomWaypointTrajectory(RandomWaypoint(model="random-waypoint", speed=speed, pause=pause), radius, seed,
                                    device)


def test_a_walk_is_straight_between_its_corners():
    way = Trajectory([0.0, 2.0, 5.0], [0.0, 4.0, 4.0], [0.0, 0.0, 3.0])
    assert [way.at(t) for t in (0.0, 1.0, 2.0, 3.5, 5.0, 99.0)] == [
        (0.0, 0.0), (2.0, 0.0), (4.0, 0.0), (4.0, 1.5), (4.0, 3.0), (4.0, 3.0)]


@pytest.mark.parametrize("pause", ["0 s", "60 s"])
def test_random_waypoint_begins_in_its_stationary_law(pause):
    """Without pauses E r^2 = .3143 R^2, P(r < R/2) = .468, mean r = .516 R; the law is the same later on."""
    for t in (0.0, 500.0):
        r = np.array([math.hypot(*walk(device=device, pause=pause).at(t)) for device in range(4000)]) / 100.0
        resting = 60.0 / (60.0 + 0.905415 * 100.0 / 2.0) if pause == "60 s" else 0.0

        def law(walking, even, share=resting):
            return walking * (1 - share) + even * share

        assert (r**2).mean() == pytest.approx(law(0.3143, 0.5), abs=4 * 0.25 / math.sqrt(4000))
        assert (r < 0.5).mean() == pytest.approx(law(0.468, 0.25), abs=4 * 0.5 / math.sqrt(4000))
        assert r.mean() == pytest.approx(law(0.516, 2 / 3), abs=4 * 0.25 / math.sqrt(4000))


def test_the_speed_of_a_walk_is_what_was_asked():
    way = walk(speed={"dist": "uniform", "low": "1 m/s", "high": "3 m/s"})
    way.at(20_000.0)
    legs = [(math.hypot(x1 - x0, y1 - y0) / (t1 - t0)) for t0, t1, x0, x1, y0, y1 in zip(
        way.t, way.t[1:], way.x, way.x[1:], way.y, way.y[1:], strict=False)]
    assert min(legs) >= 1.0 - 1e-9
    assert max(legs) <= 3.0 + 1e-9
    far = math.fsum(math.hypot(x1 - x0, y1 - y0) for x0, x1, y0, y1 in zip(way.x, way.x[1:], way.y, way.y[1:],
                                                                             strict=False))
    assert far / way.t[-1] == pytest.approx(2.0 / math.log(3.0), rel=0.05)        # (v2 - v1)/ln(v2/v1)


def test_shadowing_on_the_way_is_correlated_by_distance():
    """Correlation exp(-d/50 m) after 10 steps of 5 m, and the same spread at every step."""
    straight = Trajectory([0.0, 1e6], [0.0, 5e7], [0.0, 0.0])           # 50 m/s
    rng = np.random.default_rng(1)
    pairs = []
    for device in range(4000):
        way = CorrelatedShadowing(straight, 1, device, 8.0 * rng.standard_normal(), 8.0, 50.0, 0.1)
        pairs.append((way.at(3), way.at(13)))
    early, late = np.array(pairs).T
    assert np.corrcoef(early, late)[0, 1] == pytest.approx(math.exp(-1), abs=0.05)
    assert late.std() == pytest.approx(8.0, rel=0.05)
    assert way.at(13) == CorrelatedShadowing(straight, 1, device, way.start_db, 8.0, 50.0, 0.1).at(13)
    assert way.at(200) != way.at(13) == way.at(13)


@pytest.mark.parametrize("t", [1e300, math.inf, math.nan, 2.0**53 * 0.01])
def test_a_time_with_too_many_blocks_before_it_is_refused(t):
    """From 2^53 blocks on, adding one does not change the time of a block: the search would not end."""
    assert block_at(1e9, 0.01) == 100_000_000_000
    with pytest.raises(InputError, match="coherence time"):
        block_at(t, 0.01)


def test_gains_follow_the_places():
    channel, population = channel_of(WALKS)
    everybody = np.arange(len(population))
    assert np.allclose(channel.gain(everybody, 0.0, 1), population.gain, rtol=1e-12, atol=0.0)
    assert np.array_equal(channel.gain(everybody, 0.05, 1), channel.gain(everybody, 0.0, 1))    # each 100 ms
    assert channel.next_change(0.05) == 0.1
    assert (abs(np.log10(channel.gain(everybody, 10.0, 1) / population.gain)) > 0.01).mean() > 0.9


def test_a_recorded_way(tmp_path):
    (tmp_path / "ways.csv").write_text("device,t,x,y\n0,0,100,0\n0,10,200,0\n1,0,0,50\n")
    changes = [f'population.phone.mobility={{model="recorded",tracks="{tmp_path}/ways.csv"}}',
               "population.phone.count=2", "selection.cohort=2", 'cell.shadowing="0 dB"']
    channel, population = channel_of(*changes)
    assert population.x_m.tolist() == [100.0, 0.0]
    gain = channel.gain(EVERYBODY, 5.0, 1)
    assert 10 * math.log10(gain[0] / population.gain[0]) == pytest.approx(-37.6 * math.log10(1.5))
    assert gain[1] == population.gain[1]
    with refused("wrong-length", "population.phone.mobility.tracks"):
        load_scenario("paper", [changes[0], "population.phone.count=3", "selection.cohort=2"])


def test_recorded_gains_in_time(tmp_path):
    head = "t,a,b,c,d,e\n0,-90,-90,-90,-90,-90\n2,-95,-90,-90,-90,-90\n"
    (tmp_path / "gains.csv").write_text(f"{head}3,-99,-1,-2,-3,-4\n")
    channel, _ = channel_of(f'cell.gain_trace="{tmp_path}/gains.csv"', scenario="tiny")
    times = (0.0, 1.9, 2.0, 2.5, 3.0, 3.9, 4.0, 6.5)
    level = [round(10 * math.log10(channel.gain(np.array([0]), t, 1)[0])) for t in times]
    assert level == [-90, -90, -95, -95, -99, -99, -90, -95]              # it starts over after 4 s
    assert [channel.next_change(t) for t in (0.0, 2.0, 3.5, 4.0)] == [2.0, 3.0, 4.0, 6.0]
    (tmp_path / "gains.csv").write_text(f"{head}2,-9,-1,-2,-3,-4\n")
    with pytest.raises(InputError) as error:
        load_scenario("tiny", [f'cell.gain_trace="{tmp_path}/gains.csv"'])
    assert (error.value.code, error.value.key) == ("out-of-range", "cell.gain_trace.t.2")


def test_constant_gains_in_time_are_the_static_channel(tmp_path):
    still = simulate(load_scenario("tiny"))
    gains = ",".join(str(float(10 * np.log10(gain))) for gain in still.devices["gain"])
    rows = "\n".join(f"{k / 500},{gains}" for k in range(100))
    (tmp_path / "gains.csv").write_text(f"t,a,b,c,d,e\n{rows}\n")
    moving = simulate(load_scenario("tiny", [f'cell.gain_trace="{tmp_path}/gains.csv"']))
    assert moving.rounds["round_s"].to_list() == pytest.approx(still.rounds["round_s"].to_list(), rel=1e-9)
    assert moving.summary["energy_j"] == pytest.approx(still.summary["energy_j"], rel=1e-9)


# ---- whole runs ----

LIVELY = [BLOCKS, WALKS, 'cell.shadowing={sd="4 dB",correlation="20 m"}', 'cell.rate={efficiency=0.8,cap="6 bit/s/Hz"}',
          'cell.noise_figure="3 dB"', "end.rounds=6", "selection.method=fedavg"]


@pytest.mark.slow
def test_a_run_in_a_cell_that_lives_resumes_to_the_same_bytes(tmp_path):
    scenario = load_scenario("quickstart", LIVELY)
    whole = simulate(scenario, tmp_path / "whole")

    def stop(at):
        if at.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(scenario, tmp_path / "part", progress=stop)
    resumed = simulate(scenario, tmp_path / "part", resume=True)
    assert whole.summary["rounds"] == 6
    assert resumed.summary["trace_sha256"] == whole.summary["trace_sha256"]


def test_two_methods_meet_the_same_channel():
    def gains(method):
        scenario = load_scenario("paper", [*LIVELY, f"allocation.method={method}", "end.rounds=1"])
        run = simulate(scenario, learning=False)
        return run.jobs.filter(run.jobs["t0"] == 0.0).sort("device")["gain"].to_list()

    assert gains("sao") == gains("equal")


def test_what_a_plan_believes():
    run = simulate(load_scenario("paper", [*LIVELY, "allocation.channel=mean", "end.rounds=2"]), learning=False)
    first = run.jobs.filter(run.jobs["t0"] == 0.0).sort("device")
    mean = run.devices.sort("device")["gain"].to_numpy()[first["device"].to_numpy()]
    assert np.allclose(first["gain"].to_numpy(), mean, rtol=1e-12, atol=0.0)
    now = simulate(load_scenario("paper", [*LIVELY, "end.rounds=2"]), learning=False)
    assert not np.allclose(now.jobs.filter(now.jobs["t0"] == 0.0).sort("device")["gain"].to_numpy(), mean, atol=0.0)


def test_a_budget_that_is_reached_ends_the_job():
    changes = [*LIVELY, "rounds.over_budget=drop"]
    run = simulate(load_scenario("paper", changes), learning=False)
    dropped = run.jobs.filter(run.jobs["outcome"] == "over budget")
    assert len(dropped) > 0
    assert np.allclose(dropped["energy_j"].to_numpy(), dropped["budget_j"].to_numpy(), rtol=1e-6)
    assert (run.jobs["energy_j"] <= run.jobs["budget_j"] * (1 + 1e-6)).all()
