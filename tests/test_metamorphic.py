"""Relations between scenarios of a grammar; benchmarks/metamorphic.py tries them in more worlds."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

from netsim.base.errors import InputError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from campaign.relations import RELATIONS, no_longer, play, rescaled, same_jobs, shuffled, static_sao


@pytest.mark.slow
@pytest.mark.parametrize("name", RELATIONS)
def test_a_relation_holds_in_a_few_worlds(name):
    compared = 0
    for number in range(6):
        try:
            compared += RELATIONS[name](Random(f"test {name} {number}"), number)
        except InputError:
            continue
    assert compared > 0


def test_a_relation_that_does_not_hold_is_reported():
    """Half the band makes rounds longer, and other jobs are not the same jobs."""
    world = static_sao(Random(3))
    khz = float(world["cell"]["bandwidth"].split()[0])
    narrow = {**world, "cell": {**world["cell"], "bandwidth": f"{khz / 1.5} kHz"}}
    world["rounds"]["infeasible"] = narrow["rounds"]["infeasible"] = "largest"
    with pytest.raises(AssertionError, match="s, before"):
        no_longer(world, narrow, 0)
    with pytest.raises(AssertionError):
        same_jobs(play(world, 0), play(narrow, 0))


def test_changes_of_a_world_change_its_text_alone():
    world = {"cell": {"bandwidth": "1.5 MHz", "noise_figure": "3 dB"}, "population": [{"name": "a"}, {"name": "b"}]}
    assert shuffled(Random(1), world) == world
    assert rescaled(Random(2), world) == {**world, "cell": {"bandwidth": "1500 kHz", "noise_figure": "3 dB"}}
