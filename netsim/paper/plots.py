"""Common style of the figures of a reproduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.base.figures import Axes, Figure, new_figure
from netsim.base.types import Floats

# Colour-blind safe colours; a method has the same one in every figure.
COLOURS = {
    "sao": "#0072b2", "equal": "#d55e00", "fedl": "#009e73", "algorithm5": "#cc79a7", "algorithm6": "#e69f00",
    "sao-common-power": "#56b4e9", "sao-joint": "#000000",
    "divergence": "#0072b2", "kmeans": "#e69f00", "cluster-round-robin": "#56b4e9", "fedavg": "#000000",
    "icas": "#d55e00", "rra-as-run": "#cc79a7",
}
NAMES = {
    "sao": "SAO (exact)", "equal": "equal bandwidth (Baseline 1)", "fedl": "FEDL, tuned (Baseline 2)",
    "algorithm5": "Algorithm 5 as printed", "algorithm6": "Algorithm 6 as printed",
    "sao-common-power": "best common power", "sao-joint": "best power for each device",
    "divergence": "divergence (proposed)", "kmeans": "K-means", "cluster-round-robin": "cluster round robin (control)",
    "fedavg": "FedAvg", "icas": "ICAS", "rra-as-run": "RRA as run",
}


def canvas(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of this size in inches, and its panels as an array (rows, columns)."""
    figure = new_figure(width, height)
    panels = figure.subplots(rows, columns, squeeze=False, **options)
    for panel in panels.flat:
        plain(panel)
    return figure, panels


def plain(panel: Axes) -> None:
    """Remove the top and right frame and other decoration of a panel."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.set_axisbelow(True)


def not_measured(panel: Axes) -> None:
    panel.text(0.5, 0.6, "not measured yet", transform=panel.transAxes, ha="center", color="0.5")


def band(panel: Axes, x: Sequence[float], values: Floats, method: str) -> None:
    """Draw the median as a line and the quartiles as a shade; ``values`` has a row per x, NaN if missing."""
    there = np.isfinite(values).any(axis=1)
    at = np.asarray(x, dtype=float)[there]
    low, middle, high = np.nanpercentile(values[there], [25, 50, 75], axis=1)
    panel.plot(at, middle, marker="o", markersize=3.5, color=COLOURS[method], label=NAMES[method])
    panel.fill_between(at, low, high, color=COLOURS[method], alpha=0.15, linewidth=0)


def spread(values: Sequence[float] | Floats, unit: str = "", scale: float = 1.0, digits: int = 1) -> str:
    """Format median and quartiles without NaN: ``110.3 ms (quartiles 103.8 to 115.3)``."""
    count, *found = quartiles(np.asarray(values, dtype=float) * scale).values()
    if not count:
        return "never feasible"
    low, middle, high = (f"{value:.{digits}f}" for value in found)
    return f"{middle}{f' {unit}' if unit else ''} (quartiles {low} to {high})"


def quartiles(values: Sequence[float] | Floats) -> dict[str, float | int]:
    there = np.asarray(values, dtype=float)
    there = there[np.isfinite(there)]
    if not len(there):
        return {"count": 0}
    low, middle, high = np.percentile(there, [25, 50, 75])
    return {"count": len(there), "lower_quartile": float(low), "median": float(middle), "upper_quartile": float(high)}
