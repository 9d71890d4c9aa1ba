"""What a plan is worth while the channel changes: sao's bands and clocks kept, in Rayleigh blocks.

Medians over layouts of `paper` of the round's length over that without fading, and the share of devices over budget,
as measured once over 100 layouts with other draws; the draws here are ours, so that they agree within their spread.
"""

from dataclasses import replace

import numpy as np
import pytest

from netsim import load_scenario
from netsim.allocation import Infeasible, allocate
from netsim.allocation.planner import Wave
from netsim.environment.fading import BlockFading
from netsim.sample_problem import sample_problem
from netsim.server.replay import play_wave

LAYOUTS = 60


class Faded:
    def __init__(self, fading, mean):
        self.fading, self.mean = fading, mean

    def gain(self, devices, t):
        return self.mean[devices] * self.fading.factor(devices, t, 1)

    def next_change(self, t):
        return self.fading.next_change(t)


def lengths_and_over_budget(coherence_s, believes):
    paper, lengths, over = load_scenario("paper"), [], []
    for seed in range(LAYOUTS):
        problem = replace(sample_problem(paper, seed).problem, numbers=None)
        devices = np.arange(len(problem))
        air = Faded(BlockFading(seed, list(range(len(problem))), None, coherence_s), problem.gain)
        seen = problem if believes == "mean" else replace(problem, gain=air.gain(devices, 0.0))
        try:
            wave = Wave(devices, seen, allocate(seen))
        except Infeasible:
            continue
        jobs = play_wave(wave, gains=air).jobs
        lengths.append(max(jobs["t1"]) / allocate(problem).round_s)
        over += (np.array(jobs["energy_j"]) > np.array(jobs["budget_j"]) * (1 + 1e-9)).tolist()
    return float(np.median(lengths)), float(np.mean(over))


@pytest.mark.slow
@pytest.mark.parametrize(("coherence_s", "believes", "lower", "upper", "over_budget"), [
    (0.01, "now", 1.110, 1.196, 0.54), (0.01, "mean", 1.071, 1.122, 0.81),
    (0.1, "now", 1.092, 1.348, 0.51), (0.1, "mean", 1.102, 1.275, 0.67),
    (0.3, "now", 1.005, 1.066, 0.004), (0.3, "mean", 1.098, 1.406, 0.62),
])
def test_a_stale_plan(coherence_s, believes, lower, upper, over_budget):
    median, over = lengths_and_over_budget(coherence_s, believes)
    assert lower < median < upper                    # the quartiles
    assert over == pytest.approx(over_budget, abs=0.06)
