"""What holds for every method, in cells of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection_views import make_view

from netsim.selection import METHODS, check_choice, make_selection

NAMES = sorted(set(METHODS) - {"favor"})       # favor needs a policy: see test_favor.py


def a_run(name, seed):
    """A method's choices in a few rounds of a random cell, in which batteries die and uploads get lost."""
    world = np.random.default_rng(seed)
    count, cohort, first = int(world.integers(1, 15)), int(world.integers(1, 8)), int(world.integers(1, 3))
    models = world.normal(size=(count, 6)).round(1)
    gain = 10.0 ** world.uniform(-13, -8, count)
    last = np.full(count, first - 1)
    last[world.random(count) < 0.2] = 0
    available = world.random(count) < 0.9
    available[world.integers(count)] = True
    method = make_selection(name, {})
    for k in range(first, first + 6):
        known = last > 0
        view = make_view(
            count, cohort, round=k, available=available, last_round=last, times_used=last,
            gain=gain * world.exponential(size=count),
            loss=np.where(known, world.random(count), np.nan),
            gradient_norm=np.where(known, world.random(count), np.nan),
            duration_s=np.where(known, world.random(count), np.nan), cycles=world.uniform(0, 2e9, count),
            samples=world.integers(1, 50, count), classes=3, local_weights=models, global_weights=np.zeros(6),
            layers={"fc1.weight": slice(0, 4), "fc2.weight": slice(4, 6)}, local_loss=lambda devices: devices % 3 + 0.5)
        choice = method(view, np.random.default_rng(seed + k))
        yield view, choice, method
        last = last.copy()
        last[choice.devices[world.random(len(choice.devices)) < 0.8]] = k
        gone = world.random(count) < 0.1
        available = available & ~gone if (available & ~gone).any() else available


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_choices_are_right_and_repeatable(name, seed):
    answers = []
    for view, choice, method in a_run(name, seed):
        devices = check_choice(choice, view, name)         # size, no duplicates, only available devices
        assert devices.dtype == np.int64
        assert all(isinstance(array, np.ndarray) for array in method.state.values())
        answers.append(devices.tolist())
    assert answers == [choice.devices.tolist() for _, choice, _ in a_run(name, seed)]


@pytest.mark.parametrize("name", NAMES)
def test_a_method_restored_from_its_state_goes_on_the_same(name):
    first = make_selection(name, {})
    for seed in range(5):
        cells = [view for view, _, _ in a_run(name, seed)]
        first.state.clear()
        for k, cell in enumerate(cells):
            resumed = make_selection(name, {})
            resumed.state.update({key: array.copy() for key, array in first.state.items()})
            one, other = (method(cell, np.random.default_rng(k)).devices.tolist() for method in (first, resumed))
            assert one == other
