"""What a run carries from round to round, and so what a checkpoint keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from netsim.base.arrays import Floats, Ints, State, Weights

_ARRAYS = ("used_j", "last_round", "times_used", "duration_s", "loss", "gradient_norm")


@dataclass
class RunState:
    """The cell between two rounds; arrays have one entry for each of the N devices."""

    used_j: Floats                 # energy taken from each battery so far
    last_round: Ints               # the last round that a device's model arrived in; 0: never
    times_used: Ints
    duration_s: Floats             # compute and upload time when it last took part; NaN: never
    loss: Floats
    gradient_norm: Floats
    round: int = 0                 # the last complete round
    time_s: float = 0.0
    energy_j: float = 0.0
    dropped: int = 0
    last_row: int = -1             # the trace row that the next round follows; -1 at the start
    next_seq: int = 0
    trace_sha256: str = ""
    accuracy: list[float] = field(default_factory=list)      # NaN for a round that was not evaluated
    weights: Weights | None = None                           # the global model
    server: State = field(default_factory=dict)              # what the server's optimiser remembers
    selection: State = field(default_factory=dict)           # what the selection method remembers

    @classmethod
    def fresh(cls, devices: int) -> RunState:
        """The state before the first round."""
        return cls(
            used_j=np.zeros(devices), last_round=np.zeros(devices, np.int64), times_used=np.zeros(devices, np.int64),
            duration_s=np.full(devices, np.nan), loss=np.full(devices, np.nan), gradient_norm=np.full(devices, np.nan),
        )

    def arrays(self) -> State:
        """As named arrays, for a checkpoint."""
        state: State = {name: getattr(self, name) for name in _ARRAYS}
        state["clock"] = np.array([self.time_s, self.energy_j])
        state["counts"] = np.array([self.round, self.dropped, self.last_row, self.next_seq], np.int64)
        state["trace_sha256"] = np.frombuffer(self.trace_sha256.encode(), np.uint8)
        state["accuracy"] = np.array(self.accuracy, np.float64)
        if self.weights is not None:
            state["weights"] = self.weights
        state.update({f"server.{name}": array for name, array in self.server.items()})
        state.update({f"selection.{name}": array for name, array in self.selection.items()})
        return state

    @classmethod
    def of(cls, arrays: State, devices: int, parameters: int | None) -> RunState:
        """Back from named arrays; KeyError, TypeError or ValueError when they are not those of such a run."""
        weights = arrays.get("weights")
        if any(arrays[name].shape != (devices,) for name in _ARRAYS):
            raise ValueError(f"it is not about {devices} devices")
        if (None if weights is None else weights.shape) != (None if parameters is None else (parameters,)):
            raise ValueError(f"it holds no model of {parameters} parameters")
        round_, dropped, last_row, next_seq = (int(value) for value in arrays["counts"])
        time_s, energy_j = (float(value) for value in arrays["clock"])

        def group(prefix: str) -> State:
            return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}

        return cls(
            **{name: arrays[name].copy() for name in _ARRAYS},
            round=round_, dropped=dropped, last_row=last_row, next_seq=next_seq, time_s=time_s, energy_j=energy_j,
            trace_sha256=bytes(arrays["trace_sha256"]).decode("ascii"), accuracy=arrays["accuracy"].tolist(),
            weights=weights, server=group("server."), selection=group("selection."),
        )
