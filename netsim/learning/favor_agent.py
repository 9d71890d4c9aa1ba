"""Favor's agent: a double deep Q-network that learns which device improves the global model most.

The state is the global model and the models last uploaded, compressed by a PCA that is fitted once; the network returns
a Q value per device. The agent is trained by selecting one device per round; a run selects the S devices with the
highest Q values (``netsim.selection.model_based``).

Source: Wang et al., Optimizing Federated Learning on Non-IID Data with Reinforcement Learning, INFOCOM 2020. The source
does not state discount, optimiser, batch and schedule; the defaults here are our choice and can be set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, open_to_read, packed, replace_file
from netsim.base.pluralize import pluralize
from netsim.base.types import Floats, Weights
from netsim.learning.aggregation import weighted_mean
from netsim.learning.local_training import LocalTrainer, open_trainer
from netsim.learning.model_buffers import mean_buffers
from netsim.scenario import Scenario

MOST_BYTES = 20_000 * MEGABYTE      # largest policy file
HIDDEN = 512
COMPONENTS = 100
XI = 64      # base of the reward: the last points of accuracy count most


@dataclass(frozen=True, eq=False)
class Compression:
    """PCA of flat models: k components, fitted once on the models of the first round."""

    mean: Weights             # (P,)
    components: Weights       # (k, P)

    @classmethod
    def fit(cls, models: Weights, components: int = COMPONENTS) -> Compression:
        """Fit the leading principal components, at most N, of models (N, P)."""
        mean = models.mean(axis=0)
        _, _, directions = np.linalg.svd(models - mean, full_matrices=False)
        return cls(mean, directions[:components])

    def state(self, global_weights: Weights, local_weights: Weights) -> Weights:
        """Return the agent's state, shape ((N + 1) k,), components of the global model first."""
        models = np.concatenate([global_weights[None], local_weights])
        seen: Weights = ((models - self.mean) @ self.components.T).astype(np.float32).ravel()
        return seen


@dataclass(frozen=True, eq=False)
class Policy:
    """Trained policy of Favor: the PCA of models, and the Q-network."""

    compression: Compression
    network: nn.Sequential

    def ratings(self, global_weights: Weights, local_weights: Weights) -> Floats:
        """Return Q of each device, shape (N,): the expected return of selecting it now."""
        (size, parameters), devices = self.compression.components.shape, len(local_weights)
        weights = list(self.network.parameters())
        inputs, rated_devices = weights[0].shape[1], len(weights[-1])
        if (inputs, rated_devices) != ((devices + 1) * size, devices) or local_weights.shape[1] != parameters:
            raise InputError(
                "conflict", "selection.policy",
                f"one for {pluralize(rated_devices, 'device')} and {parameters} parameters",
                f"{pluralize(devices, 'device')} and {local_weights.shape[1]} parameters, as this run has",
                "Train a policy for it with netsim favor-train")
        with torch.no_grad():
            seen = torch.from_numpy(self.compression.state(global_weights, local_weights))
            rated: Floats = self.network(seen).numpy().astype(np.float64)
        return rated


def save_policy(path: str | Path, policy: Policy) -> None:
    """Write a policy as named arrays, atomically: after a crash the file is the old one or the new one."""
    arrays = {"mean": policy.compression.mean, "components": policy.compression.components}
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    tensors |= {f"network.{name}": tensor for name, tensor in policy.network.state_dict().items()}
    replace_file(Path(path), packed(lambda file: torch.save(tensors, file)))


def load_policy(path: str | Path) -> Policy:
    """Read a file of ``save_policy``; only tensors are read, never code."""
    try:
        with open_to_read(Path(path), "a policy of favor", MOST_BYTES) as file:
            arrays = torch.load(file, weights_only=True, map_location="cpu")
    except Exception as error:      # files of another kind raise many exceptions
        reason = str(error).partition("\n")[0]      # the rest of torch's message does not apply here
        raise InputError("unreadable", str(path), f"{type(error).__name__}: {reason}", "a policy of favor") from error
    try:
        hidden, inputs = arrays["network.0.weight"].shape
        network = _network(inputs, arrays["network.2.weight"].shape[0], hidden)
        network.load_state_dict({name: arrays[f"network.{name}"] for name in network.state_dict()})
        mean, components = (arrays[name].numpy() for name in ("mean", "components"))
        if components.ndim != 2 or mean.shape != components.shape[1:]:
            raise ValueError(f"a mean of shape {mean.shape} does not fit components of shape {components.shape}")
        return Policy(Compression(mean, components), network)
    except (AttributeError, KeyError, ValueError, IndexError, RuntimeError, TypeError) as problem:
        raise InputError("malformed", str(path), str(problem), "a policy of favor") from problem


class FederatedEnvironment:
    """Environment of the agent: one device trains per round, and its model becomes the global model.

    An episode starts after a first round of all devices, the same each time, and ends at the target accuracy or
    after ``rounds`` rounds. ``step`` returns the next state, the reward, and whether the episode has ended. The reward
    is Xi^(accuracy - target) - 1: negative below the target.
    """

    def __init__(self, learner: LocalTrainer, target: float, rounds: int) -> None:
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
    """Train a policy on the devices and data of a scenario; the radio is not simulated.

    ``allow_import`` permits code of packages that were not made for netsim.
    """
    learning = scenario.learning
    if learning.dataset is None:
        raise InputError("missing", "learning.dataset", hint="Favor learns from training")
    if learning.target_accuracy is None:
        raise InputError("missing", "learning.target_accuracy", hint="Favor's reward is the distance to it")
    with open_trainer(scenario, seed, workers, allow_import=allow_import) as learner:
        world = FederatedEnvironment(learner, learning.target_accuracy, scenario.end.rounds)
        return Policy(world.compression, train_policy(world, episodes, seed, progress=progress))


@dataclass(frozen=True)
class EpisodeProgress:
    episode: int
    steps: int
    total_reward: float


@dataclass(frozen=True)
class QLearning:
    """Settings of double Q-learning with epsilon-greedy exploration and a replay memory.

    The online network Q selects the next action, the target network Q' evaluates it: y = r + discount
    Q'(s', argmax Q(s')). Epsilon is multiplied by ``explore_decay`` after each step.
    """

    discount: float = 0.95
    learning_rate: float = 1e-4
    batch: int = 32                 # transitions per gradient step
    replay: int = 200               # transitions in the replay memory
    sync: int = 10                  # steps between copies to the target network
    explore: float = 1.0            # initial epsilon
    explore_least: float = 0.05
    explore_decay: float = 0.99


def train_policy(
    environment: FederatedEnvironment, episodes: int, seed: int = 0, how: QLearning = QLearning(),
    progress: Callable[[EpisodeProgress], None] | None = None,
) -> nn.Sequential:
    rng = np.random.default_rng(seed)
    online = _network(len(environment.reset()), environment.actions, rng=rng)
    target = deepcopy(online)
    optimiser = torch.optim.Adam(online.parameters(), lr=how.learning_rate)
    memory: deque[tuple[Weights, int, float, Weights, bool]] = deque(maxlen=how.replay)
    steps, epsilon = 0, how.explore
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
            chosen = [memory[i] for i in rng.integers(len(memory), size=min(how.batch, len(memory)))]
            optimiser.zero_grad()
            _loss(online, target, chosen, how.discount).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            state, steps, total = after, steps + 1, total + reward
            epsilon = max(how.explore_least, epsilon * how.explore_decay)
            if steps % how.sync == 0:
                target.load_state_dict(online.state_dict())
        if progress:
            progress(EpisodeProgress(episode, steps, total))
    return online


def _loss(
    online: nn.Module, target: nn.Module, batch: list[tuple[Weights, int, float, Weights, bool]], discount: float
) -> Tensor:
    """Return the Huber loss between Q of the actions taken and the double-Q-learning targets."""
    states, actions, rewards, after, done = zip(*batch, strict=True)
    rated = online(torch.from_numpy(np.stack(states)))[torch.arange(len(batch)), torch.tensor(actions)]
    with torch.no_grad():
        next_states = torch.from_numpy(np.stack(after))
        best = online(next_states).argmax(dim=1, keepdim=True)
        future = target(next_states).gather(1, best).squeeze(1)
        worth = torch.tensor(rewards) + discount * future * ~torch.tensor(done)
    return nn.functional.smooth_l1_loss(rated, worth.float())


def _network(inputs: int, actions: int, hidden: int = HIDDEN, rng: np.random.Generator | None = None) -> nn.Sequential:
    """Build a perceptron with one hidden layer; initial weights are uniform in +- 1/sqrt(inputs of the layer)."""
    network = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, actions))
    if rng is not None:
        with torch.no_grad():
            for layer in (module for module in network if isinstance(module, nn.Linear)):
                bound = layer.in_features**-0.5
                for tensor in (layer.weight, layer.bias):
                    tensor.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(tensor.shape))))
    return network
