"""Aggregation, with numbers worked out by hand."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

from netsim.base.errors import InputError
from netsim.base.types import Weights
from netsim.learning.aggregation import (
    aggregate,
    plain_mean,
    server_adam,
    server_momentum,
    unbiased,
    unbiased_shares,
    weighted_mean,
)
from netsim.learning.sgd import Update
from netsim.selection import Choice


def model(*values: float) -> Weights:
    return np.array(values, dtype=np.float32)


def settings(aggregation: str = "weighted", **server: float | str) -> SimpleNamespace:
    step = {"kind": "none", **server}.items()    # a scenario's table gives its keys and values when iterated
    chosen = type("Server", (), {"kind": server.get("kind", "none"), "__iter__": lambda self: iter(step)})()
    return SimpleNamespace(aggregation=aggregation, optimiser=chosen, learning_rate=0.1)


def update(device: int, samples: int, *values: float, gradient: Weights | None = None) -> Update:
    return Update(device, model(*values), 0.5, 1.0, samples, gradient)


UPDATES = [update(4, 300, 1, 0), update(2, 100, 5, 4)]


def test_a_scenario_says_how_models_are_aggregated() -> None:
    assert aggregate(settings(), model(9, 9), UPDATES, {}, 400).tolist() == [2, 1]
    assert aggregate(settings("mean"), model(9, 9), UPDATES, {}, 400).tolist() == [3, 2]
    both = aggregate(settings("unbiased"), model(0, 0), UPDATES, {}, 400, np.array([0.5, 0.25]))
    shares = [0.75 * (2 + 1) / 2, 0.25 * 4 / 2]
    assert both == pytest.approx([shares[0] + 5 * shares[1], 4 * shares[1]])


def test_the_servers_state_is_carried_on_in_place() -> None:
    server: dict[str, np.ndarray] = {}
    how = settings(kind="momentum", momentum=0.5, learning_rate=1.0)
    first = aggregate(how, model(0, 0), UPDATES, server, 400)
    assert first.tolist() == [2, 1]
    assert server["velocity"].tolist() == [2, 1]
    assert aggregate(how, first, UPDATES, server, 400).tolist() == [3, 1.5]    # half the velocity on


def test_fedls_global_gradient_is_the_mean_of_the_devices() -> None:
    server: dict[str, np.ndarray] = {}
    updates = [update(0, 30, 1, gradient=model(4)), update(1, 10, 1, gradient=model(8))]
    aggregate(settings(), model(1), updates, server, 40)
    assert server["gradient"].tolist() == [5]


def test_training_that_ran_away_is_said_to() -> None:
    with pytest.raises(InputError, match="learning_rate = 0.1") as error:
        aggregate(settings(), model(0), [update(7, 1, np.nan)], {}, 1)
    assert (error.value.code, error.value.key) == ("not-finite", "the model of device 7")


def test_when_everybody_takes_part_the_weighted_mean_is_unbiased() -> None:
    assert aggregate(settings("unbiased"), model(0, 0), UPDATES, {}, 400).tolist() == [2, 1]


def test_models_count_by_their_samples() -> None:
    result = weighted_mean([model(1, 0), model(5, 4)], [300, 100])
    assert result.tolist() == [2.0, 1.0]
    assert result.dtype == np.float32


def test_the_plain_mean_ignores_samples() -> None:
    assert plain_mean([model(1, 0), model(5, 4)]).tolist() == [3.0, 2.0]


def test_aggregation_changes_none_of_its_inputs() -> None:
    models = [model(1, 0), model(5, 4)]
    weighted_mean(models, [1, 1])
    assert [m.tolist() for m in models] == [[1, 0], [5, 4]]


def test_unbiased_shares_of_two_draws() -> None:
    # p = 1/4 then 1/2 of what is left (3/4), so q = 1/4, 2/3; shares D_m/D (1/q_m + draws after) / 2.
    chances = Choice(np.arange(2), np.array([0.25, 0.5])).chances
    assert chances == pytest.approx([1 / 4, 2 / 3])
    shares = unbiased_shares([10, 30], 100, chances)
    assert shares == pytest.approx([0.1 * (4 + 1) / 2, 0.3 * 1.5 / 2])


def test_the_unbiased_estimate_is_right_on_average_over_every_draw() -> None:
    probability = np.array([0.1, 0.2, 0.3, 0.4])
    samples = np.array([10, 20, 30, 40])
    rng = np.random.default_rng(0)
    start = rng.normal(size=3).astype(np.float32)
    models = rng.normal(size=(4, 3)).astype(np.float32)
    expected = np.zeros(3)
    for drawn in permutations(range(4), 3):
        p = probability[list(drawn)]
        chance = np.prod(p / (1 - np.concatenate([[0], np.cumsum(p)[:-1]])))
        expected += chance * unbiased(
            start, models[list(drawn)], samples[list(drawn)], 100, Choice(np.arange(len(p)), np.array(p)).chances)
    assert expected == pytest.approx(weighted_mean(list(models), samples), abs=1e-6)


def test_server_momentum_keeps_going() -> None:
    w, state = server_momentum(model(0), model(1), {}, learning_rate=0.5, momentum=0.9)
    assert w.tolist() == [0.5]                       # v = 1
    w, state = server_momentum(w, w, state, learning_rate=0.5, momentum=0.9)
    assert w == pytest.approx([0.95])                # v = 0.9, with no new step


def test_server_momentum_of_zero_is_the_mean() -> None:
    w, _ = server_momentum(model(3, 4), model(1, 2), {}, momentum=0.0)
    assert w.tolist() == [1, 2]


def test_server_adam_by_hand() -> None:
    # m = 0.1 * 1, v = 0.99 * 0.01 + 0.01 * 1 with epsilon = 0.1
    w, _ = server_adam(model(0), model(1), {}, learning_rate=0.5, epsilon=0.1)
    assert w == pytest.approx([0.5 * 0.1 / (np.sqrt(0.0199) + 0.1)])
