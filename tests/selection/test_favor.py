"""Favor: an agent that learns, a policy on disk, and the choice that it makes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from refused import refused
from torch import nn

from netsim.base.errors import InputError
from netsim.learning.favor_agent import (
    Compression,
    FederatedEnvironment,
    Policy,
    QLearning,
    load_policy,
    policy_for,
    save_policy,
    train_policy,
)
from netsim.scenario import load_scenario
from netsim.selection import make_selection


class OneIsBest:
    """Episodes of four rounds in which one device is always right, whatever the state."""

    actions = 5
    best = 3

    def reset(self):
        self.left = 4
        return np.array([1.0, self.left / 4], dtype=np.float32)

    def step(self, action):
        self.left -= 1
        return np.array([1.0, self.left / 4], dtype=np.float32), float(action == self.best), self.left == 0


class SignPosted:
    """The state points at the device to take; taking it is rewarded in the round after next, at the end."""

    actions = 3

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def reset(self):
        self.path, self.right = self.rng.integers(3, size=2), 0
        return np.eye(4, dtype=np.float32)[self.path[0]]

    def step(self, action):
        first = self.path[0] == action
        if len(self.path) == 2:
            self.path, self.right = self.path[1:], int(first)
            return np.eye(4, dtype=np.float32)[self.path[0]], 0.0, False
        return np.eye(4, dtype=np.float32)[3], float(self.right + first), True


@pytest.mark.slow
def test_the_agent_learns_which_device_is_always_best():
    network = train_policy(OneIsBest(), 80, 1, QLearning(learning_rate=1e-3))
    for left in (4, 3, 2, 1):
        assert int(network(torch.tensor([1.0, left / 4])).argmax()) == OneIsBest.best
    # Four rounds with reward 1 are worth 1 + .95 + .95^2 + .95^3 = 3.71 at the start, 1 at the end.
    worth = [network(torch.tensor([1.0, left / 4])).max().item() for left in (4, 1)]
    assert worth == pytest.approx([3.71, 1.0], abs=0.5)


@pytest.mark.slow
def test_the_agent_reads_the_state_and_waits_for_the_reward():
    network = train_policy(SignPosted(), 400, 2, QLearning(learning_rate=1e-3))
    assert network(torch.eye(4)[:3]).argmax(dim=1).tolist() == [0, 1, 2]


@pytest.mark.slow
def test_training_repeats_for_a_seed():
    one, same, other = (train_policy(OneIsBest(), episodes=2, seed=seed)[0].weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


class ToyLearner:
    """Training moves the model halfway to the device's own; accuracy is the first weight."""

    own = np.array([[1.0, 0], [0, 1.0]], dtype=np.float32)
    samples = np.array([30, 10])

    def initial_weights(self):
        return np.zeros(2, dtype=np.float32)

    def train(self, round, weights, devices, buffers=None):
        return SimpleNamespace(update=lambda device: SimpleNamespace(
            weights=(weights + self.own[device]) / 2, buffers=None))

    def evaluate(self, weights, buffers=None):
        return SimpleNamespace(accuracy=float(weights[0]))


def test_federated_learning_as_a_world():
    world = FederatedEnvironment(ToyLearner(), target=0.7, rounds=4)
    # First models (1/2, 0) and (0, 1/2); the global one, weighted 3 : 1, is (3/8, 1/8).
    assert world.compression.mean == pytest.approx([0.25, 0.25])
    one = world.reset()
    assert one.shape == (3 * 2,)
    after, reward, done = world.step(0)      # halfway to (1, 0): (11/16, 1/16)
    assert after == pytest.approx(world.compression.state(
        np.array([11, 1], np.float32) / 16, np.array([[11 / 16, 1 / 16], [0, 0.5]], np.float32)), abs=1e-6)
    assert reward == pytest.approx(64 ** (11 / 16 - 0.7) - 1)
    assert not done
    assert world.step(0)[2]                  # 27/32 is above the target
    assert (world.reset() == one).all()
    assert [world.step(1)[2] for _ in range(3)] == [False, False, True]      # the fourth round is the last


@pytest.mark.slow
def test_a_policy_for_a_scenario_fits_its_run(tmp_path, rng):
    small = ["population.phone.count=3", "population.phone.samples=20", "learning.local_iterations=1",
             "selection.cohort=1", "end.rounds=3", "learning.target_accuracy=1.0"]
    seen = []
    policy = policy_for(load_scenario("quickstart", small), episodes=1, workers=1, progress=seen.append)
    assert [(note.episode, note.steps) for note in seen] == [(1, 2)]
    weights = np.zeros((4, policy.compression.mean.size), np.float32)
    assert policy.ratings(weights[0], weights[1:]).shape == (3,)
    with refused("missing", "learning.target_accuracy"):
        policy_for(load_scenario("quickstart", small[:-1]), episodes=1)
    with refused("missing", "learning.dataset"):
        policy_for(load_scenario("tiny"), episodes=1)


def test_compression_keeps_what_tells_models_apart():
    models = np.array([[1.0, 0, 5], [-1, 0, 5], [3, 0, 5], [-3, 0, 5]], dtype=np.float32)     # along the first axis
    compression = Compression.fit(models, components=1)
    seen = compression.state(models.mean(axis=0), models)
    assert abs(seen) == pytest.approx([0, 1, 1, 3, 3], abs=1e-5)
    assert np.sign(seen[1]) == -np.sign(seen[2])
    assert Compression.fit(models).components.shape == (3, 3)


def a_policy(favourites, parameters=2):
    """A policy that rates devices as it is told to, whatever it sees."""
    devices = len(favourites)
    network = nn.Sequential(nn.Linear((devices + 1) * 1, 4), nn.ReLU(), nn.Linear(4, devices))
    with torch.no_grad():
        network[2].weight.zero_()
        network[2].bias.copy_(torch.tensor(favourites))
    return Policy(Compression(np.zeros(parameters, np.float32), np.ones((1, parameters), np.float32)), network)


@pytest.fixture
def cell(view):
    return lambda **changes: view(**{"local_weights": np.ones((6, 2)), "global_weights": np.zeros(2), **changes})


@pytest.fixture
def policy_file(tmp_path):
    save_policy(tmp_path / "policy.pt", a_policy([1.0, 5, 2, 4, 3, 0]))
    return str(tmp_path / "policy.pt")


def test_favor_takes_the_highest_rated_that_are_there(cell, rng, policy_file):
    method = make_selection("favor", {"policy": policy_file})
    assert method(cell(), rng).devices.tolist() == [1, 3]
    assert method(cell(available=[1, 0, 1, 1, 1, 1], cohort=3), rng).devices.tolist() == [3, 4, 2]


def test_favor_meets_everybody_first_when_the_run_starts_with_a_cohort(cell, rng, policy_file):
    method = make_selection("favor", {"policy": policy_file})
    first = method(cell(round=1, last_round=0), rng).devices
    second = method(cell(round=2, last_round=np.isin(np.arange(6), first)), rng).devices
    assert not set(first.tolist()) & set(second.tolist())


def test_an_unknown_model_counts_as_the_global_one(cell, rng, policy_file):
    broken = np.ones((6, 2))
    broken[5] = np.nan      # never uploaded: the row holds nothing
    method = make_selection("favor", {"policy": policy_file})
    assert method(cell(local_weights=broken, last_round=[1, 1, 1, 1, 1, 0]), rng).devices.tolist() == [1, 3]


def test_a_policy_survives_the_disk(tmp_path):
    policy = Policy(Compression.fit(np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)),
                    train_policy(OneIsBest(), episodes=1))
    save_policy(tmp_path / "p.pt", policy)
    again = load_policy(tmp_path / "p.pt")
    assert (again.compression.components == policy.compression.components).all()
    seen = torch.tensor([1.0, 0.5])
    assert torch.equal(again.network(seen), policy.network(seen))


def test_bad_policies(tmp_path, cell, rng, policy_file):
    with refused("missing", "selection.policy"):
        make_selection("favor", {})
    with refused("no-such-file", "selection.policy"):
        make_selection("favor", {"policy": str(tmp_path / "none.pt")})
    (tmp_path / "broken.pt").write_bytes(b"not a policy")
    with pytest.raises(InputError, match=r"broken\.pt"):
        make_selection("favor", {"policy": str(tmp_path / "broken.pt")})
    torch.save({"mean": torch.zeros(2)}, tmp_path / "other.pt")
    with refused("malformed", "other.pt"):
        make_selection("favor", {"policy": str(tmp_path / "other.pt")})
    larger = cell(local_weights=np.ones((6, 3)), global_weights=np.zeros(3))
    with refused("conflict", "selection.policy"):
        make_selection("favor", {"policy": policy_file})(larger, rng)


class Evil:
    def __reduce__(self):
        return print, ("code from a policy has run",)


@pytest.mark.parametrize("content", [{"mean": Evil()}, [1, 2], {"network.0.weight": 1},
                                     {"network.0.weight": torch.zeros(2)}])
def test_only_arrays_are_read(content, tmp_path, capsys):
    torch.save(content, tmp_path / "p.pt")
    with pytest.raises(InputError, match=r"p\.pt"):
        load_policy(tmp_path / "p.pt")
    assert capsys.readouterr().out == ""


def test_a_cut_or_missing_file_is_named(tmp_path, policy_file):
    with refused("unreadable", "p.pt"):
        load_policy(tmp_path / "p.pt")
    with open(policy_file, "r+b") as file:
        file.truncate(1000)
    with refused("unreadable", "policy.pt"):
        load_policy(policy_file)
    assert [file.name for file in tmp_path.iterdir()] == ["policy.pt"]


@pytest.mark.parametrize("content", [b"hello\n", b"", b"PK\x03\x04", b"\x80\x02}q\x00."])
def test_any_other_file_is_refused(content, tmp_path):
    (tmp_path / "p.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"p\.pt"):
        load_policy(tmp_path / "p.pt")


def test_tensors_that_numpy_does_not_know_are_refused(tmp_path, policy_file):
    arrays = torch.load(policy_file, weights_only=True)
    torch.save(arrays | {"mean": arrays["mean"].bfloat16()}, tmp_path / "p.pt")
    with refused("malformed", "p.pt"):
        load_policy(tmp_path / "p.pt")
