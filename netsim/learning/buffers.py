"""What a model keeps besides its parameters, such as the running statistics of batch normalisation.

All buffers of a model are one vector of float64, which holds integers and truth values exactly as well. Devices send
theirs along with their weights, and the mean by samples is the next round's (``learning.buffers = "average"``), or each
device keeps its own (``"local"``); the global model is tested with the mean of those who took part last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from netsim.base.arrays import Floats, Ints, State


class Buffers:
    """The buffers of a module as a flat vector; ``start`` is what they were when the module was built."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.start = self.read()
        self.sent = sum(buffer.numel() for buffer in module.buffers() if buffer.is_floating_point())

    @property
    def size(self) -> int:
        return len(self.start)

    def read(self) -> Floats:
        """Their values now."""
        parts = [buffer.detach().double().numpy().ravel() for buffer in self._module.buffers()]
        return np.concatenate([np.zeros(0), *parts])

    @torch.no_grad()
    def begin(self, values: Floats | None = None) -> None:
        """Set them, or without values to what they were at the start; means of integers are rounded."""
        values, place = self.start if values is None else values, 0
        for buffer in self._module.buffers():
            part = torch.from_numpy(values[place : place + buffer.numel()].copy()).view(buffer.shape)
            buffer.copy_(part if buffer.is_floating_point() else part.round())
            place += buffer.numel()


def mean_buffers(rows: Floats, samples: Sequence[int] | Ints | Floats) -> Floats:
    """The mean by samples; what all have alike stays as it is, to the bit and where it is no number."""
    shares = np.asarray(samples, dtype=np.float64)
    alike = ((rows == rows[0]) | (np.isnan(rows) & np.isnan(rows[0]))).all(axis=0)
    mean: Floats = rows[0].copy()
    mean[~alike] = (shares / shares.sum()) @ rows[:, ~alike]
    return mean


class KeptBuffers:
    """Whose buffers are what between rounds: those of the global model, and each device's where they stay local."""

    def __init__(self, start: Floats, devices: int, *, local: bool) -> None:
        self.mean = start.copy()
        self._own = np.tile(start, (devices, 1)) if local else None

    def of(self, devices: Ints) -> Floats:
        """What each of these devices begins with, a row each."""
        return np.tile(self.mean, (len(devices), 1)) if self._own is None else self._own[devices]

    def own(self, device: int) -> Floats | None:
        """What a device keeps for itself; None where all begin with the mean."""
        return None if self._own is None else self._own[device]

    def take(self, devices: Ints, rows: Floats, samples: Sequence[int] | Floats, rest: float = 0.0) -> None:
        """What these devices ended with; ``rest`` is how much what was there before counts beside their samples."""
        weights = np.asarray(samples, np.float64)
        if rest:
            self.mean = mean_buffers(np.vstack([self.mean, rows]), np.concatenate([[rest], weights]))
        elif weights.any():
            self.mean = mean_buffers(rows, weights)
        if self._own is not None:
            self._own[devices] = rows

    def snapshot(self) -> State:
        """Nothing for a model without buffers."""
        own = {} if self._own is None else {"buffers.own": self._own}
        return {"buffers.mean": self.mean, **own} if len(self.mean) else {}

    def restore(self, state: State) -> None:
        if len(self.mean):
            if state["buffers.mean"].shape != self.mean.shape:
                raise ValueError(f"it holds no {len(self.mean)} buffers")
            self.mean = state["buffers.mean"].copy()
            self._own = None if self._own is None else state["buffers.own"].copy()
