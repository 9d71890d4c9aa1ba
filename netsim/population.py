"""The devices of a cell with their drawn properties, as read-only arrays."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Population:
    """N devices, one array entry each, SI units."""

    kinds: tuple[str, ...]        # the names of the scenario's [[population]] tables
    kind: Ints                    # index into kinds
    x_m: Floats                   # place, with the base station at (0, 0)
    y_m: Floats
    gain: Floats                  # linear channel gain h: path loss and shadowing
    cpu_min_hz: Floats
    cpu_max_hz: Floats
    cycles_per_sample: Floats     # C_n
    capacitance: Floats           # alpha/2
    power_w: Floats               # transmit power p_n
    power_min_w: Floats           # the range that power-optimising methods may use
    power_max_w: Floats
    budget_j: Floats              # energy allowed in one round
    battery_j: Floats             # energy at the start; inf on mains
    samples: Ints                 # D_n

    def __len__(self) -> int:
        return len(self.kind)
