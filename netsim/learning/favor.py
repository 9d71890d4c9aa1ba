"""Favor's agent: a double deep Q-network that learns which device brings the global model on.

The agent sees the global model and the models last uploaded, compressed by a PCA that is fitted once, and rates every
device. It learns by choosing one device a round; a run then takes the S highest rated (``netsim.selection.clusters``).

Source: Wang et al., Optimizing Federated Learning on Non-IID Data with Reinforcement Learning, INFOCOM 2020. The source
leaves out discount, optimiser, batch and schedule; the defaults here are our choice and can be set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from netsim.base.arrays import Floats, Weights
from netsim.base.counts import counted
from netsim.base.errors import InputError
from netsim.learning.aggregation import weighted_mean
from netsim.learning.buffers import mean_buffers
from netsim.learning.checkpoint import load_state, save_state
from netsim.learning.learner import Learner, open_learner

if TYPE_CHECKING:
    from netsim.scenario import Scenario

HIDDEN = 512
COMPONENTS = 100
XI = 64      # the reward's base: the last points of accuracy count most


class Environment(Protocol):
    """A world to learn in: the agent names a device, and gets the next state, a reward, and whether this is the end."""

    @property
    def actions(self) -> int: ...

    def reset(self) -> Weights: ...

    def step(self, action: int) -> tuple[Weights, float, bool]: ...


@dataclass(frozen=True, eq=False)
class Compression:
    """A PCA of flat models: k components, fitted once on the models of the first round."""

    mean: Weights             # (P,)
    components: Weights       # (k, P)

    @classmethod
    def fit(cls, models: Weights, components: int = COMPONENTS) -> Compression:
        """The directions in which these models (N, P) differ most; at most N of them."""
        mean = models.mean(axis=0)
        _, _, directions = np.linalg.svd(models - mean, full_matrices=False)
        return cls(mean, directions[:components])

    def state(self, global_weights: Weights, local_weights: Weights) -> Weights:
        """What the agent sees: (N + 1) k numbers, the global model's first."""
        models = np.concatenate([global_weights[None], local_weights])
        seen: Weights = ((models - self.mean) @ self.components.T).astype(np.float32).ravel()
        return seen


@dataclass(frozen=True, eq=False)
class Policy:
    """What Favor has learned: how to look at models, and a network that rates devices by what it sees."""

    compression: Compression
    network: nn.Sequential

    @property
    def inputs(self) -> int:
        """Length of the state that the network takes."""
        first = self.network[0]
        assert isinstance(first, nn.Linear)
        return first.in_features

    @property
    def outputs(self) -> int:
        """How many devices it rates."""
        last = self.network[-1]
        assert isinstance(last, nn.Linear)
        return last.out_features

    def ratings(self, global_weights: Weights, local_weights: Weights) -> Floats:
        """Q of each device: the return to expect from choosing it now."""
        (size, parameters), devices = self.compression.components.shape, len(local_weights)
        if (self.inputs, self.outputs) != ((devices + 1) * size, devices) or local_weights.shape[1] != parameters:
            raise InputError(
                "conflict", "selection.policy",
                f"one for {counted(self.outputs, 'device')} and {parameters} parameters",
                f"{counted(devices, 'device')} and {local_weights.shape[1]} parameters, as this run has",
                "Train a policy for it with netsim favor-train")
        with torch.no_grad():
            seen = torch.from_numpy(self.compression.state(global_weights, local_weights))
            rated: Floats = self.network(seen).numpy().astype(np.float64)
        return rated


def save_policy(path: str | Path, policy: Policy) -> None:
    """Writes a policy as named arrays."""
    network = {f"network.{name}": tensor.numpy() for name, tensor in policy.network.state_dict().items()}
    save_state(path, {"mean": policy.compression.mean, "components": policy.compression.components, **network})


def load_policy(path: str | Path) -> Policy:
    """The policy that ``save_policy`` wrote; arrays are read, never code."""
    arrays = load_state(path)
    try:
        hidden, inputs = arrays["network.0.weight"].shape
        network = _network(inputs, arrays["network.2.weight"].shape[0], hidden)
        tensors = {name: torch.from_numpy(arrays[f"network.{name}"]) for name in network.state_dict()}
        network.load_state_dict(tensors)
        mean, components = arrays["mean"], arrays["components"]
        if components.ndim != 2 or mean.shape != components.shape[1:]:
            raise ValueError(f"a mean of shape {mean.shape} does not fit components of shape {components.shape}")
        return Policy(Compression(mean, components), network)
    except (KeyError, ValueError, IndexError, RuntimeError) as problem:
        raise InputError("malformed", str(path), str(problem), "a policy of favor") from problem


class FederatedWorld:
    """Federated learning as the agent's world: it names the one device that trains, whose model is the new global one.

    An episode starts after a first round with every device, the same each time, and ends at the target accuracy or
    after so many rounds. The reward is Xi^(accuracy - target) - 1: negative until the target is reached.
    """

    def __init__(self, learner: Learner, target: float, rounds: int) -> None:
        self.learner, self.target, self.rounds = learner, target, rounds
        self.actions = len(learner.samples)
        start = learner.initial_weights()
        training = learner.train(1, start, range(self.actions))
        updates = [training.update(device) for device in range(self.actions)]
        self._first = np.stack([update.weights for update in updates])
        rows = [update.buffers for update in updates if update.buffers is not None]
        self._first_buffers = mean_buffers(np.stack(rows), learner.samples) if rows else None
        self.compression = Compression.fit(self._first)

    def reset(self) -> Weights:
        self._round, self._local = 1, self._first.copy()
        self._global = weighted_mean(list(self._local), self.learner.samples)
        self._buffers = self._first_buffers
        return self.compression.state(self._global, self._local)

    def step(self, action: int) -> tuple[Weights, float, bool]:
        self._round += 1
        buffers = None if self._buffers is None else self._buffers[None]
        update = self.learner.train(self._round, self._global, [action], buffers=buffers).update(action)
        self._global, self._buffers = update.weights, update.buffers
        self._local[action] = self._global
        accuracy = self.learner.evaluate(self._global, self._buffers).accuracy
        done = accuracy >= self.target or self._round >= self.rounds
        return self.compression.state(self._global, self._local), XI ** (accuracy - self.target) - 1, done


def policy_for(
    scenario: Scenario, episodes: int, seed: int = 0, workers: int | None = None,
    progress: Callable[[EpisodeProgress], None] | None = None, *, allow_import: bool = False,
) -> Policy:
    """Trains a policy on a scenario's own devices and data; the radio plays no part in it.

    ``allow_import`` lets the scenario name code of packages that are not made for netsim.
    """
    learning = scenario.learning
    if learning.dataset is None:
        raise InputError("missing", "learning.dataset", hint="Favor learns from training")
    if learning.target_accuracy is None:
        raise InputError("missing", "learning.target_accuracy", hint="Favor's reward is the distance to it")
    with open_learner(scenario, seed, workers, allow_import=allow_import) as learner:
        world = FederatedWorld(learner, learning.target_accuracy, scenario.end.rounds)
        return Policy(world.compression, train_policy(world, episodes, seed, progress=progress))


@dataclass(frozen=True)
class EpisodeProgress:
    """How far training is, after each episode."""

    episode: int
    steps: int
    total_reward: float


def train_policy(
    environment: Environment, episodes: int, seed: int = 0, *,
    discount: float = 0.95, learning_rate: float = 1e-4, batch: int = 32, replay: int = 200, sync: int = 10,
    explore: float = 1.0, explore_least: float = 0.05, explore_decay: float = 0.99,
    progress: Callable[[EpisodeProgress], None] | None = None,
) -> nn.Sequential:
    """A network that rates devices, trained by double Q-learning with epsilon-greedy choices and a replay memory.

    The online network names the best next device, its slower copy says what that is worth: y = r + discount
    Q'(s', argmax Q(s')). The copy follows every ``sync`` steps. Epsilon falls from ``explore`` by the factor
    ``explore_decay`` a step.
    """
    rng = np.random.default_rng(seed)
    online = _network(len(environment.reset()), environment.actions, rng=rng)
    target = deepcopy(online)
    optimiser = torch.optim.Adam(online.parameters(), lr=learning_rate)
    memory: deque[tuple[Weights, int, float, Weights, bool]] = deque(maxlen=replay)
    steps, epsilon = 0, explore
    for episode in range(1, episodes + 1):
        state, done, total = environment.reset(), False, 0.0
        while not done:
            if rng.random() < epsilon:
                action = int(rng.integers(environment.actions))
            else:
                with torch.no_grad():
                    action = int(online(torch.from_numpy(state)).argmax())
            after, reward, done = environment.step(action)
            memory.append((state, action, reward, after, done))
            chosen = [memory[i] for i in rng.integers(len(memory), size=min(batch, len(memory)))]
            optimiser.zero_grad()
            _loss(online, target, chosen, discount).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            state, steps, total = after, steps + 1, total + reward
            epsilon = max(explore_least, epsilon * explore_decay)
            if steps % sync == 0:
                target.load_state_dict(online.state_dict())
        if progress:
            progress(EpisodeProgress(episode, steps, total))
    return online


def _loss(
    online: nn.Module, target: nn.Module, batch: list[tuple[Weights, int, float, Weights, bool]], discount: float
) -> Tensor:
    """Huber's loss between what was rated and what double Q-learning says it should have been."""
    states, actions, rewards, after, done = zip(*batch, strict=True)
    rated = online(torch.from_numpy(np.stack(states)))[torch.arange(len(batch)), torch.tensor(actions)]
    with torch.no_grad():
        next_states = torch.from_numpy(np.stack(after))
        best = online(next_states).argmax(dim=1, keepdim=True)
        future = target(next_states).gather(1, best).squeeze(1)
        worth = torch.tensor(rewards) + discount * future * ~torch.tensor(done)
    return nn.functional.smooth_l1_loss(rated, worth.float())


def _network(inputs: int, actions: int, hidden: int = HIDDEN, rng: np.random.Generator | None = None) -> nn.Sequential:
    """A perceptron with one hidden layer, its weights uniform in +- 1/sqrt(inputs of the layer)."""
    network = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, actions))
    if rng is not None:
        with torch.no_grad():
            for layer in (module for module in network if isinstance(module, nn.Linear)):
                bound = layer.in_features**-0.5
                for tensor in (layer.weight, layer.bias):
                    tensor.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(tensor.shape))))
    return network
