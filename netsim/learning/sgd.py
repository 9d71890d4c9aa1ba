"""Local training: stochastic gradient descent on each device's samples, for several devices at once.

The models of a group are stacked: each parameter is a tensor (G, *shape), and one pass serves all of them. Each device
has its own batches in its own order: shorter batches are padded with samples of weight 0, and a device that has
finished its steps leaves the stack. All functions are pure; in one thread the bits depend on the group only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from netsim.base.types import Floats, Ints, State, Weights
from netsim.learning.batched_network import Network, Standardise
from netsim.learning.compute_device import seeded, to_array, to_device
from netsim.learning.dataset_files import Dataset, Images

CHUNK = 250    # samples per pass without gradients, or standardised at once: small enough for the CPU caches


@dataclass(frozen=True)
class Hyperparameters:
    """Settings of local training, from a scenario's [learning] table."""

    batch_size: int
    learning_rate: float
    local_epochs: int | None = 1       # epochs over the device's samples
    local_steps: int | None = None     # batches, instead of epochs
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0              # FedProx's mu
    fedl: float | None = None          # FEDL's eta; None: FEDL's term is disabled


@dataclass(frozen=True, eq=False)
class Task:
    """Local training of one device: its samples, and the random stream of their order."""

    device: int
    samples: Ints
    rng: np.random.Generator
    buffers: Floats | None = None      # initial buffers; None: as the model was built


@dataclass(frozen=True, eq=False)
class Update:
    """Upload of a device: its model and statistics of its training."""

    device: int
    weights: Weights
    loss: float                        # mean training loss of the last local epoch
    gradient_norm: float               # norm of the mean gradient of the last local epoch, over its steps
    samples: int                       # D_n
    gradient: Weights | None = None    # FEDL: gradient of the loss over all D_n samples at the new model
    buffers: Floats | None = None      # if the model has buffers


def columns_of(updates: Sequence[Update]) -> State:
    """Return updates as arrays with a row each; gradient and buffers are set in all updates or in none."""
    names = [field.name for field in fields(Update) if getattr(updates[0], field.name) is not None]
    return {name: np.array([getattr(update, name) for update in updates]) for name in names}


def updates_of(columns: State) -> list[Update]:
    """Return the updates of the arrays of ``columns_of``."""
    rows = [{name: column[row] if column.ndim > 1 else column[row].item() for name, column in columns.items()}
            for row in range(len(columns["device"]))]
    return [Update(**row) for row in rows]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Batches of a device in order, and the first step of its last epoch."""

    task: Task
    batches: list[Ints]
    last_epoch: int


def schedule(task: Task, settings: Hyperparameters) -> Schedule:
    """Draw the batches of a device: every local epoch uses each sample once, in a new order."""
    size, batch = len(task.samples), settings.batch_size
    epoch = -(-size // batch)
    steps = (settings.local_epochs or 1) * epoch if settings.local_steps is None else settings.local_steps
    orders = [task.samples[task.rng.permutation(size)] for _ in range(-(-steps // epoch))]
    cut = [order[start : start + batch] for order in orders for start in range(0, size, batch)]
    return Schedule(task, cut[:steps], max(0, steps - epoch))


def train_group(
    network: Network, data: Dataset, weights: Weights, tasks: Sequence[Task], settings: Hyperparameters,
    gradient: Weights | None = None,
) -> list[Update]:
    """Train the devices of a group together from the global ``weights``; ``gradient`` is FEDL's global gradient."""
    plans = [schedule(task, settings) for task in tasks]
    plans.sort(key=lambda plan: (-len(plan.batches), plan.task.device))
    seed = int(plans[0].task.rng.integers(2**63))    # for models with random layers, such as dropout
    network.buffers.begin(tasks[0].buffers)          # models with buffers are trained one at a time
    group = _Group(network, data, weights, plans, settings, gradient)
    with seeded(seed, network.device):
        network.module.train()
        group.descend()
    return group.updates()


class _Group:
    """Stacked models of a group in training, in descending order of their numbers of steps."""

    def __init__(
        self, network: Network, data: Dataset, weights: Weights, plans: list[Schedule], settings: Hyperparameters,
        gradient: Weights | None,
    ) -> None:
        self.network, self.data, self.plans, self.settings = network, data, plans, settings
        self.inputs = Standardise(data.mean, data.deviation, network.device)
        self.models = network.stack(*[weights] * len(plans))
        self.velocities = [torch.zeros_like(parameter) for parameter in self.models] if settings.momentum else []
        self.origin = network.stack(weights) if settings.proximal else None
        self.drift: list[Tensor] | None = None
        if settings.fedl is not None and gradient is not None:
            own = [full_gradient(network, data, weights, plan.task.samples) for plan in plans]
            self.drift = network.stack(*(np.float32(settings.fedl) * gradient - g for g in own))
        self.losses = torch.zeros(len(plans[0].batches), len(plans), device=network.device)
        self.before: list[list[Tensor]] = [[] for _ in plans]     # models and velocities at the start of the last epoch

    def descend(self) -> None:
        """Run all steps; devices with fewer steps leave the stack first."""
        for steps, batches in self._blocks():
            active = batches[2].shape[1]
            for position in (i for i, plan in enumerate(self.plans) if plan.last_epoch == steps[0]):
                self.before[position] = [t[position].clone() for t in (*self.models, *self.velocities)]
            leaves = [parameter[:active].detach().requires_grad_() for parameter in self.models]
            losses = [self._step(leaves, *batch) for batch in zip(*batches, strict=True)]
            self.losses[steps[0] : steps[-1] + 1, :active] = torch.stack(losses)

    def _blocks(self) -> Iterator[tuple[list[int], tuple[Tensor, Tensor, Tensor]]]:
        """Yield blocks of steps with equal numbers of devices and samples, and their batches.

        A block has CHUNK samples or one step; with the last epoch of a device a new one begins.
        """
        def alike(step: int) -> tuple[int, int, int]:
            sizes = [len(plan.batches[step]) for plan in self.plans if step < len(plan.batches)]
            return len(sizes), max(sizes), sum(plan.last_epoch <= step for plan in self.plans)

        for (active, width, _), run in groupby(range(len(self.losses)), key=alike):
            steps, count = list(run), max(1, CHUNK // (active * width))
            for block in (steps[first : first + count] for first in range(0, len(steps), count)):
                rows = [plan.batches[step] for step in block for plan in self.plans[:active]]
                yield block, self._batches(rows, active, width)

    def _batches(self, rows: list[Ints], active: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs, labels, and each sample's weight in its device's mean loss: 1 / batch, or 0 for padding."""
        sizes = np.array([len(row) for row in rows]).reshape(-1, active, 1)
        chosen = np.concatenate([row if len(row) == width else np.resize(row, width) for row in rows])
        images = self.inputs.batches(self.data.train_images[chosen], len(sizes), active)
        labels = self.data.train_labels[chosen].reshape(len(sizes), -1)
        share = np.where(np.arange(width) < sizes, 1 / sizes, 0.0).astype(np.float32)
        return images, to_device(labels, self.network.device), to_device(share, self.network.device)

    def _step(self, leaves: list[Tensor], images: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Run one step, v = momentum v + g, w -= learning_rate v, and return the losses.

        g is the gradient of the batch's mean loss, plus weight_decay w, plus proximal (w - w_global) for FedProx, plus
        eta gradient - grad F_n(w_global) for FEDL.
        """
        active, settings = len(leaves[0]), self.settings
        gradients: Sequence[Tensor]
        loss, gradients = self.network.gradients(leaves, images, labels, share)
        with torch.no_grad():
            if settings.weight_decay:
                gradients = torch._foreach_add(gradients, leaves, alpha=settings.weight_decay)
            if self.origin is not None:
                away = torch._foreach_sub(leaves, self.origin)
                gradients = torch._foreach_add(gradients, away, alpha=settings.proximal)
            if self.drift is not None:
                gradients = torch._foreach_add(gradients, [term[:active] for term in self.drift])
            if settings.momentum:
                velocities = [velocity[:active] for velocity in self.velocities]
                torch._foreach_mul_(velocities, settings.momentum)
                torch._foreach_add_(velocities, gradients)
                gradients = velocities
            torch._foreach_add_(leaves, gradients, alpha=-settings.learning_rate)
        return loss

    def updates(self) -> list[Update]:
        rows = self.network.rows(self.models)
        return [self._update(position, row.copy()) for position, row in enumerate(rows)]

    def _update(self, position: int, weights: Weights) -> Update:
        plan = self.plans[position]
        last = slice(plan.last_epoch, len(plan.batches))
        sizes = [len(batch) for batch in plan.batches[last]]
        loss = np.average(to_array(self.losses[last, position]).astype(np.float64), weights=sizes)
        buffers = self.network.buffers.read() if self.network.buffers.size else None
        gradient = None
        if self.settings.fedl is not None:
            gradient = full_gradient(self.network, self.data, weights, plan.task.samples)
        norm = self._gradient_norm(position, len(sizes))
        return Update(plan.task.device, weights, float(loss), norm, len(plan.task.samples), gradient, buffers)

    def _gradient_norm(self, position: int, steps: int) -> float:
        """Return the norm of the mean of g over the last epoch, from models and velocities before and after it.

        Summing v_t = m v_(t-1) + g_t and w_t = w_(t-1) - r v_t over the epoch gives
        sum g = (1 - m) (w_before - w_now) / r + m (v_now - v_before), without a sum at each step.
        """
        m, r, square = self.settings.momentum, self.settings.learning_rate, 0.0
        state = [*self.models, *self.velocities]

        def decrease(i: int) -> Tensor:
            return _double(self.before[position][i]).sub_(_double(state[i][position]))

        for i in range(len(self.models)):
            total = decrease(i).mul_((1 - m) / r)
            if m:
                total -= decrease(len(self.models) + i).mul_(m)
            square += float(total.square_().sum())
        return float(np.sqrt(square)) / steps


def _double(tensor: Tensor) -> Tensor:
    """Return a tensor in double precision on the CPU: Apple's GPUs have none."""
    return tensor.cpu().double()


def full_gradient(network: Network, data: Dataset, weights: Weights, samples: Ints) -> Weights:
    """Return the gradient of the mean loss over the samples, (P,)."""
    leaves = [parameter.requires_grad_() for parameter in network.stack(weights)]
    total = [torch.zeros_like(leaf) for leaf in leaves]
    for logits, labels in _answers(network, data, leaves, data.train_images[samples], data.train_labels[samples]):
        torch._foreach_add_(total, network.slopes(functional.cross_entropy(logits, labels, reduction="sum"), leaves))
    mean: Weights = network.rows(torch._foreach_div(total, len(samples)))[0].copy()
    return mean


@torch.no_grad()
def sample_losses(
    network: Network, data: Dataset, weights: Weights, images: Images, labels: Ints, buffers: Floats | None = None,
) -> tuple[Floats, Ints]:
    """Return the loss and the predicted class of each sample."""
    network.buffers.begin(buffers)
    losses, guesses = [], []
    for logits, truth in _answers(network, data, network.stack(weights), images, labels):
        losses.append(to_array(functional.cross_entropy(logits, truth, reduction="none")))
        guesses.append(to_array(logits.argmax(dim=1)))
    return np.concatenate(losses).astype(np.float64), np.concatenate(guesses)


def _answers(
    network: Network, data: Dataset, model: list[Tensor], images: Images, labels: Ints,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the logits of one model and the labels, CHUNK images at a time."""
    inputs = Standardise(data.mean, data.deviation, network.device)
    network.module.eval()
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        yield network.logits(model, inputs(images[part])), to_device(labels[part], network.device)
