"""Small cells, as a selection method sees them."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.base.types import frozen
from netsim.devices.population import Population
from netsim.selection import View

CELL = {
    "kind": 0, "x_m": 100.0, "y_m": 0.0, "gain": 1e-10, "cpu_min_hz": 1e8, "cpu_max_hz": 1e9, "cycles_per_sample": 1e4,
    "capacitance": 1e-28, "power_w": 0.1, "power_min_w": 0.1, "power_max_w": 0.1, "budget_j": 1.0,
    "battery_j": np.inf, "samples": 100,
}


def make_view(devices: int = 6, cohort: int = 2, **changes: Any) -> View:
    """A cell of equal devices in round 2, after a first round with all; ``changes`` are fields of either class."""
    whole = {"kind", "samples"}
    fields = {name: np.broadcast_to(changes.pop(name, value), devices) for name, value in CELL.items()}
    arrays = {name: frozen(value, np.int64 if name in whole else np.float64) for name, value in fields.items()}
    first = {
        "round": 2, "time_s": 1.0, "cohort_size": cohort, "bits": 1e6, "bandwidth_hz": 1e6, "noise_w_per_hz": 4e-21,
        "available": True, "battery_j": np.inf, "gain": arrays["gain"], "cycles": 1e8, "last_round": 1, "times_used": 1,
        "duration_s": 1.0, "loss": 1.0, "gradient_norm": 1.0,
    }
    kinds = {"available": np.bool_, "last_round": np.int64, "times_used": np.int64, **dict.fromkeys(
        ("battery_j", "gain", "cycles", "duration_s", "loss", "gradient_norm"), np.float64)}
    values: dict[str, Any] = {**first, **changes}
    for name, dtype in kinds.items():
        values[name] = frozen(np.broadcast_to(values[name], devices), dtype)
    for name in ("global_weights", "local_weights"):
        if values.get(name) is not None:
            values[name] = frozen(values[name], np.float32)
    return View(population=Population(kinds=("phone",), **arrays), **values)
