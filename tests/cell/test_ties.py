"""What happens at one instant: ends before starts, then devices; and what is rounding is no work."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worlds import World

from netsim.allocation import allocate
from netsim.allocation.planner import Wave
from netsim.cell import Adaptive, Equal, Tdma
from netsim.environment.availability import AvailabilityModel
from netsim.scenario.time_varying import Loss
from netsim.server.replay import play_wave

sys.path.insert(0, str(Path(__file__).parents[1] / "allocation"))
from allocation_worlds import paper_world, with_budgets


def alone_s(problem, plan):
    """Seconds on the air with the whole band, for each device."""
    snr = problem.gain * plan.power_w / problem.noise_w_per_hz / problem.bandwidth_hz
    return problem.bits / (problem.bandwidth_hz * np.log2(1 + snr))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 12))
def test_no_upload_of_a_tdma_plan_is_stretched_by_a_common_end(seed, size):
    """One after the other, each has the band to itself: with a common end of one device it sends as fast as it can.

    At each end the next one starts at the same instant but for rounding; bits that are left over from rounding must
    not be given the end of the next one.
    """
    problem = with_budgets(paper_world(np.random.default_rng(seed), size), 1.5)
    plan = allocate(problem, "tdma")
    apart = replace(plan, slots=None)                # the CPUs of the plan; the band is shared as they come
    jobs = play_wave(Wave(np.arange(size), problem, apart), Adaptive()).jobs
    order = np.argsort(jobs["device"])
    ready, ended, sent = (np.asarray(jobs[name])[order] for name in ("compute_s", "t1", "upload_s"))
    least = alone_s(problem, plan)
    for device in range(size):
        others = (np.delete(ended, device) > ready[device] * (1 + 1e-9)) & (
            np.delete(ready, device) < ended[device] * (1 - 1e-9))
        if not others.any():                         # no other device was on the air meanwhile
            assert sent[device] == pytest.approx(least[device], rel=1e-6)


@pytest.mark.parametrize("scheduler", [Adaptive, Equal])
def test_a_lost_upload_does_not_hold_up_those_that_end_with_it(scheduler):
    """Nine equal devices end together; the first is lost and sent again, alone and with the whole band."""
    class FirstIsLost(AvailabilityModel):
        def loses(self, device, number):
            return device == 0 and number == 0

    world = World(scheduler=scheduler())
    rate = 1e5 * math.log2(1 + 1e6 / 1e5)            # J = 1 MHz
    devices = [world.device(k, cycles=0.3e9, bits=1e6 / 3, rate=rate, budget_j=1e9) for k in range(9)]
    world.play(*devices, faults=FirstIsLost(
        9, losses=[(range(9), Loss(probability=0.5, max_attempts=3))], keys=range(9)))
    ends = dict(zip(world.part.jobs["device"], world.part.jobs["t1"], strict=True))
    together = 0.3 + (1 / 3) / (math.log2(1 + 9) / 9)
    assert [ends[k] for k in range(1, 9)] == pytest.approx([together] * 8, rel=1e-9)
    assert ends[0] == pytest.approx(together + 1 / 3, rel=1e-9)


def test_starts_at_one_instant_go_in_the_order_of_devices():
    """The second device submits first; both are ready at 1 s, and the band is for one at a time."""
    world = World(scheduler=Tdma())
    rate = 1e5 * math.log2(1 + 1e6 / 1e5)
    world.play(*(world.device(k, bits=1e6, rate=rate) for k in (1, 0)))
    ends = dict(zip(world.part.jobs["device"], world.part.jobs["t1"], strict=True))
    assert ends == {0: pytest.approx(2.0), 1: pytest.approx(3.0)}


def test_an_end_comes_before_a_start_at_the_same_instant():
    """The first ends at 2 s, when the second is ready: it never had to share."""
    world = World(scheduler=Equal())
    rate = 1e5 * math.log2(1 + 1e6 / 1e5)
    spans = world.play(world.device(0, bits=1e6, rate=rate), world.device(1, cycles=2e9, bits=1e6, rate=rate))
    assert [span for span in spans if span[0] == "upload"] == [
        ("upload", 1.0, pytest.approx(2.0)), ("upload", 2.0, pytest.approx(3.0))]


@pytest.mark.parametrize("scheduler", [Equal, Adaptive, Tdma])
def test_a_budget_that_is_spent_before_an_upload_starts_ends_it_at_once(scheduler):
    """1 J for computing at 1 W, and a budget of 1 J: nothing is left for the radio."""
    world = World(scheduler=scheduler())
    world.play(world.device(budget_j=1.0), abort_over_budget=True)
    assert (world.part.jobs["outcome"], world.part.jobs["t1"]) == (["over budget"], [1.0])
