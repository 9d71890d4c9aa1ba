"""Buffers of a model (its state besides parameters), such as the running statistics of batch normalisation.

All buffers of a model form one float64 vector, which represents integers and booleans exactly. With
``learning.buffers = "average"`` devices upload them with their weights and the next round starts from their mean,
weighted by samples; with ``"local"`` each device keeps its own. The global model is evaluated with the mean of the
buffers that were aggregated last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from netsim.base.types import Floats, Ints, State


class Buffers:
    """Buffers of a module as a flat vector; ``start`` holds their initial values."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.start = self.read()
        self.sent = sum(buffer.numel() for buffer in module.buffers() if buffer.is_floating_point())

    @property
    def size(self) -> int:
        return len(self.start)

    def read(self) -> Floats:
        parts = [buffer.detach().cpu().double().numpy().ravel() for buffer in self._module.buffers()]
        return np.concatenate([np.zeros(0), *parts])

    @torch.no_grad()
    def begin(self, values: Floats | None = None) -> None:
        """Set the buffers to ``values``, or to their initial values; values of integer buffers are rounded."""
        values, place = self.start if values is None else values, 0
        for buffer in self._module.buffers():
            part = torch.from_numpy(values[place : place + buffer.numel()].copy()).view(buffer.shape)
            buffer.copy_((part if buffer.is_floating_point() else part.round()).to(buffer.dtype))
            place += buffer.numel()


def mean_buffers(rows: Floats, samples: Sequence[int] | Ints | Floats) -> Floats:
    """Return the mean of the rows weighted by samples; a column of equal values, NaN included, is kept exactly."""
    shares = np.asarray(samples, dtype=np.float64)
    alike = ((rows == rows[0]) | (np.isnan(rows) & np.isnan(rows[0]))).all(axis=0)
    mean: Floats = rows[0].copy()
    mean[~alike] = (shares / shares.sum()) @ rows[:, ~alike]
    return mean


class DeviceBuffers:
    """Buffers between rounds: those of the global model, and those of each device if they stay local."""

    def __init__(self, start: Floats, devices: int, *, local: bool) -> None:
        self.mean = start.copy()
        self._own = np.tile(start, (devices, 1)) if local else None

    def of(self, devices: Ints) -> Floats:
        """Return the initial buffers of a job, one row for each of these devices."""
        return np.tile(self.mean, (len(devices), 1)) if self._own is None else self._own[devices]

    def own(self, device: int) -> Floats | None:
        """Return the local buffers of a device; None if all devices start from the mean."""
        return None if self._own is None else self._own[device]

    def take(self, devices: Ints, rows: Floats, samples: Sequence[int] | Floats, rest: float = 0.0) -> None:
        """Aggregate the buffers of finished jobs; ``rest`` is the weight of the previous mean beside ``samples``."""
        weights = np.asarray(samples, np.float64)
        if rest:
            self.mean = mean_buffers(np.vstack([self.mean, rows]), np.concatenate([[rest], weights]))
        elif weights.any():
            self.mean = mean_buffers(rows, weights)
        if self._own is not None:
            self._own[devices] = rows

    def snapshot(self) -> State:
        """Return the arrays of a checkpoint; empty for a model without buffers."""
        own = {} if self._own is None else {"buffers.own": self._own}
        return {"buffers.mean": self.mean, **own} if len(self.mean) else {}

    def restore(self, state: State) -> None:
        if len(self.mean):
            self.mean = state["buffers.mean"].copy()
            self._own = None if self._own is None else state["buffers.own"].copy()
