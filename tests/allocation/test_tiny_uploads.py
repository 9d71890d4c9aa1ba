"""Uploads that are lost in the rounding of a round, and bands without end: a right answer, or a clear refusal."""

from dataclasses import replace

import numpy as np
import pytest
from allocation_worlds import paper_world
from refused import refused
from worlds_in_time import waiting

from netsim import load_scenario, simulate
from netsim.allocation import Problem, allocate
from netsim.allocation.equal_finish import equal_finish
from netsim.base.errors import InputError


def world(seed: int, bits: float, bandwidth_hz: float | None = None) -> Problem:
    rng = np.random.default_rng(seed)
    problem = replace(paper_world(rng, 5), bits=bits, budget_j=rng.uniform(0.05, 0.9))
    return replace(problem, bandwidth_hz=10 ** rng.uniform(4, 8) if bandwidth_hz is None else bandwidth_hz)


@pytest.mark.parametrize("bits", 10.0 ** np.arange(-30, 3, 3))
def test_sao_is_neither_behind_equal_nor_over_budget(bits):
    for seed in range(40):
        problem = world(seed, bits)
        best = allocate(problem)
        assert best.round_s <= allocate(problem, "equal").round_s * (1 + 1e-12)
        assert not best.over_budget.any()


def test_rra_refuses_uploads_shorter_than_rounding():
    with refused("too-large", "problem"):
        allocate(world(1, 4e-17), "rra")


def test_a_size_below_one_bit_is_refused_when_a_scenario_is_read():
    for change in ('learning.bits="4e-17 bit"', 'cell.downlink={power="1 W",bits="0.5 bit"}'):
        with pytest.raises(InputError, match="bits.*at least 1 bit"):
            load_scenario("tiny", [change])


@pytest.mark.parametrize("bandwidth_hz", [1e12, 2e27, 1e50])
def test_a_band_without_end_is_shared(bandwidth_hz):
    problem = world(3, 1e6, bandwidth_hz)
    hertz = equal_finish(waiting(problem.bits, problem.snr_hz, np.full(5, np.nan), bandwidth_hz))
    assert hertz.sum() == pytest.approx(bandwidth_hz, rel=1e-12)
    assert (hertz > 0).all()
    assert allocate(problem).round_s <= allocate(problem, "equal").round_s * (1 + 1e-12)


@pytest.mark.parametrize("snr_hz", [1e-300, 1e-60, 1e-13, 1e-9, 1e-3])
def test_a_signal_so_weak_that_no_bandwidth_helps_is_given_the_band(snr_hz):
    """At 1e-20 of the noise, the rate is J / ln 2 in any bandwidth, but for rounding."""
    for weak in range(3):
        signals = np.array([3e11, 2e10, 5e10])
        signals[weak] = snr_hz
        hertz = equal_finish(waiting(np.full(3, 1e5), signals, np.full(3, np.nan), 5e6))
        assert hertz.sum() == pytest.approx(5e6, rel=1e-12)
        assert (hertz >= 0).all()
        assert np.argmax(hertz) == weak


def test_a_run_with_signals_too_weak_for_any_plan_is_refused():
    """Power of 5e-18 uW: an upload of 1e18 s, in which the channel changes every 29 ms."""
    with refused("too-large", "the upload of device"):
        simulate(load_scenario("tiny", [
            "allocation.method=tdma", "allocation.sharing=adaptive", "population.node.radio.power=5e-18 uW",
            'population.node.budget="1 kJ"', "end.rounds=1", 'cell.fading={model="rayleigh",coherence="29 ms"}']))


def test_a_run_in_a_band_without_end():
    run = simulate(load_scenario("tiny", ["cell.bandwidth=2e18 GHz", "allocation.sharing=adaptive", "end.rounds=1"]))
    assert run.jobs["outcome"].unique().to_list() == ["arrived"]
