"""Laws that hold in every world, whatever is on in it; benchmarks/invariants.py plays as many worlds as one likes."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from netsim.base.errors import InputError
from netsim.cell.band_sharing import SharedBand
from netsim.cell.battery import Batteries
from netsim.environment.fading import BlockFading
from netsim.server.round_recorder import RoundRecorder

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from campaign.laws import check_world
from campaign.worlds import draw_world

QUICKLY = settings(deadline=None, derandomize=True, database=None, max_examples=3,
                   suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
worlds = st.randoms(use_true_random=False).map(draw_world)
seeds = st.integers(0, 2**31 - 1)


def check(text: str, seed: int, **more: Any) -> None:
    try:
        check_world(text, seed, **more)
    except InputError:
        assume(False)         # a world that nobody can work in, and a sentence that says why


@QUICKLY
@given(worlds, seeds)
def test_every_law_holds_in_a_few_worlds(text: str, seed: int) -> None:
    check(text, seed)


@pytest.mark.slow
@settings(QUICKLY, max_examples=20)
@given(worlds, seeds)
def test_every_law_holds_in_more_worlds(text: str, seed: int) -> None:
    check(text, seed)


@pytest.mark.extended
@settings(QUICKLY, max_examples=60)
@given(worlds, seeds)
def test_every_law_holds_in_many_worlds(text: str, seed: int) -> None:
    check(text, seed)


@pytest.mark.slow
@settings(QUICKLY, max_examples=1)
@given(st.randoms(use_true_random=False).map(lambda dice: draw_world(dice, learns=True)), seeds)
def test_every_law_holds_where_devices_learn(text: str, seed: int) -> None:
    check(text, seed, learns=True)


# The laws can be broken.

WORLD = """
[cell]
radius = "200 m"
bandwidth = "1 MHz"
fading = { model = "rayleigh", coherence = "10 ms" }
[[population]]
name = "phone"
count = 4
cpu = { min = "0.1 GHz", max = "1 GHz", cycles_per_sample = 4e4 }
radio = { power = "20 dBm" }
samples = 200
budget = "200 mJ"
battery = "400 mJ"
[learning]
bits = "100 kbit"
[selection]
method = "fedavg"
cohort = 3
[allocation]
method = "equal"
sharing = "equal"
[server]
kind = "fedbuff"
buffer = 2
[end]
rounds = 4
"""


def nothing(*_: Any, **__: Any) -> None:
    """Forget to do it."""


def generous(band: Any, i: int, original: Any = SharedBand._write) -> None:
    """Count more than was drawn."""
    original(band, i)
    band.all[i].job.work.compute_j *= 1.001


def full_again(batteries: Any, state: Any, original: Any = Batteries.restore) -> None:
    original(batteries, {**state, "left_j": batteries.capacity_j.copy()})


DICE = Random(0)


def by_chance(fading: Any, device: int, chunk: int) -> list[float]:
    """Draw anew for each who asks."""
    return [DICE.expovariate(1.0) for _ in range(64)]


def stop_nobody(rounds: Any) -> Any:
    return rounds.env.timeout(0.0)


@pytest.mark.parametrize(("owner", "name", "fault", "said"), [
    (SharedBand, "channel_changed", nothing, "which changed at"),
    (SharedBand, "_write", generous, "J, drew"),
    (Batteries, "restore", full_again, "differs|instead of"),
    (BlockFading, "_chunk", by_chance, "bits|differ"),
    (RoundRecorder, "stop", stop_nobody, "running|in use at the end"),
], ids=["a change of the channel is missed", "joules too many", "batteries are full after a resume",
        "a channel that depends on who asks", "jobs go on when the run is over"])
def test_a_fault_breaks_a_law(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: Any, said: str) -> None:
    check_world(WORLD, 3)
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError, match=said):
        check_world(WORLD, 3)
