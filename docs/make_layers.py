"""Draw the layers of netsim and their imports, from the matrix in tests/test_layers.py: `make reference`.

A layer is drawn above all layers that it imports. Arrows that follow from others are omitted: a layer may import any
layer that can be reached downwards, if the matrix allows it.
"""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import networkx as nx

HERE = Path(__file__).parent
FILE = HERE / "images" / "layers.svg"
WIDTH, HEIGHT, GAP, STEP, MARGIN = 176.0, 44.0, 22.0, 76.0, 20.0
BEND = 12.0                   # width that an arrow takes where it passes a row
ROLES = {
    "base": "units, errors, streams, files", "physics": "rates, times, energies", "scenario": "TOML to a Scenario",
    "models": "neural networks", "devices": "devices and workloads", "environment": "channels, availability, energy",
    "allocation": "Problem to Plan", "selection": "View to cohort", "cell": "devices as processes",
    "server": "dispatches, aggregates", "learning": "training and aggregation", "trace": "recorded events",
    "analysis": "breakdown, explanations", "report": "pages and figures", "lab": "teaching page",
    "executors": "workers and clusters",
    "sweep": "many runs", "calibration": "logs to predictions", "paper": "tables and figures", "run": "load a run",
    "simulation": "simulate a scenario", "cli": "commands", "sample_problem": "one round to allocate",
    "validation": "checks before a run", "session": "set-up of a run", "flower": "Flower apps in the cell",
}


def matrix() -> dict[str, set[str]]:
    """Who knows whom, as the test of layers has it."""
    found: dict[str, set[str]] = runpy.run_path(str(HERE.parent / "tests" / "test_layers.py"))["KNOWS"]
    return found


@dataclass(eq=False)
class Place:
    """A layer, or the spot where an arrow passes a row."""

    row: int
    layer: str = ""
    x: float = 0.0            # of the middle

    @property
    def width(self) -> float:
        return WIDTH if self.layer else BEND


def svg(knows: dict[str, set[str]]) -> str:
    """The picture."""
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(knows))
    graph.add_edges_from((layer, other) for layer in sorted(knows) for other in sorted(knows[layer]))
    rows, ways = placed(graph)
    arrange(rows, ways)
    high = MARGIN * 2 + STEP * (len(rows) - 1) + HEIGHT
    left = min(place.x - place.width / 2 for row in rows for place in row) - MARGIN
    wide = max(place.x + place.width / 2 for row in rows for place in row) + MARGIN - left
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" '
        f'height="{high:.0f}" font-family="system-ui, sans-serif" role="img">',
        "<title>The layers of netsim: arrows lead to the layers below that each imports</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0.5 L8 4 L0 7.5 z" fill="#5b6b7f"/></marker></defs>',
        f'<rect x="{left:.0f}" y="0" width="{wide:.0f}" height="{high:.0f}" fill="#ffffff"/>',
        *(arrow(way, len(rows)) for way in ways),
        *(box(place, top(place, len(rows))) for row in rows for place in row if place.layer),
    ]
    return "\n".join([*lines, "</svg>", ""])


def placed(graph: nx.DiGraph) -> tuple[list[list[Place]], list[list[Place]]]:
    """Rows of places, the lowest first, and the arrows as the places that they pass from layer to layer."""
    height: dict[str, int] = {}
    for layer in reversed(list(nx.lexicographical_topological_sort(graph))):
        height[layer] = 1 + max((height[other] for other in graph[layer]), default=-1)
    layers = {layer: Place(height[layer], layer) for layer in sorted(graph)}
    rows: list[list[Place]] = [[] for _ in range(max(height.values()) + 1)]
    for place in layers.values():
        rows[place.row].append(place)
    ways = []
    for upper, lower in sorted(nx.transitive_reduction(graph).edges):
        passed = [Place(row) for row in range(height[upper] - 1, height[lower], -1)]
        for place in passed:
            rows[place.row].append(place)
        ways.append([layers[upper], *passed, layers[lower]])
    return rows, ways


Near = dict[Place, list[Place]]


def arrange(rows: list[list[Place]], ways: list[list[Place]]) -> None:
    """Put each row in the order with the fewest crossings that a few sweeps find, then draw the arrows straight."""
    below: Near = {place: [] for row in rows for place in row}
    above: Near = {place: [] for row in rows for place in row}
    for way in ways:
        for upper, lower in pairwise(way):
            below[upper].append(lower)
            above[lower].append(upper)
    best, fewest = [list(row) for row in rows], crossings(rows, below)
    for sweep in range(40):
        for row in rows if sweep % 2 else reversed(rows):
            beside = below if sweep % 2 else above
            spot = {place: i for other in rows for i, place in enumerate(other)}
            row.sort(key=lambda place: mean([spot[other] for other in beside[place]], spot[place]))
        if crossings(rows, below) < fewest:
            best, fewest = [list(row) for row in rows], crossings(rows, below)
    rows[:] = best
    straighten(rows, {place: below[place] + above[place] for place in below})


def mean(values: list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def crossings(rows: list[list[Place]], below: Near) -> int:
    """How many pairs of arrows cross between the rows."""
    found = 0
    for row, under in zip(rows[1:], rows, strict=False):
        spot = {place: i for i, place in enumerate(under)}
        ends = [sorted(spot[other] for other in below[place]) for place in row]
        found += sum(left > right for i, lefts in enumerate(ends) for rights in ends[i + 1:]
                     for left in lefts for right in rights)
    return found


def straighten(rows: list[list[Place]], near: Near) -> None:
    """Move the places of each row towards their neighbours, in their order and without overlap."""
    for row in rows:
        spread(row, [0.0] * len(row))
    for sweep in range(200):
        for row in rows if sweep % 2 else reversed(rows):
            wanted, middle = [], sum(place.x for place in row) / len(row)
            for place in row:
                weights = [1.0 if place.layer or other.layer else 8.0 for other in near[place]]
                pull = sum(weight * other.x for weight, other in zip(weights, near[place], strict=True))
                wanted.append(pull / sum(weights) if weights else middle)
            spread(row, wanted)


def spread(row: list[Place], wanted: list[float]) -> None:
    """Put places as near as can be to where they are wanted: neighbours that collide share the way."""
    offset, groups = 0.0, []
    for i, place in enumerate(row):
        offset += (row[i - 1].width + place.width) / 2 + GAP if i else 0.0
        groups.append(([(place, offset)], wanted[i] - offset))
        while len(groups) > 1 and groups[-2][1] > groups[-1][1]:
            (right, right_x), (left, left_x) = groups.pop(), groups.pop()
            together = len(left) * left_x + len(right) * right_x
            groups.append((left + right, together / (len(left) + len(right))))
    for members, x in groups:
        for place, offset in members:
            place.x = x + offset


def top(place: Place, rows: int) -> float:
    return MARGIN + STEP * (rows - 1 - place.row)


def box(place: Place, y: float) -> str:
    """A layer with its name and what it is for."""
    x, role = place.x - WIDTH / 2, ROLES.get(place.layer, "")
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH:.0f}" height="{HEIGHT:.0f}" rx="7" fill="#eef4fb" '
            f'stroke="#2f6db0"/><text x="{place.x:.1f}" y="{y + 19:.1f}" text-anchor="middle" font-size="14" '
            f'font-weight="600" fill="#12263f">{place.layer}</text><text x="{place.x:.1f}" y="{y + 35:.1f}" '
            f'text-anchor="middle" font-size="11" fill="#41546b">{role}</text>')


def arrow(way: list[Place], rows: int) -> str:
    """From the foot of the upper layer past the rows between to the head of the lower one."""
    x, y = way[0].x, top(way[0], rows) + HEIGHT
    path = f"M{x:.1f} {y:.1f}"
    for place in way[1:]:
        next_y = top(place, rows) - (3 if place.layer else 0)
        middle = (y + next_y) / 2
        path += f" C{x:.1f} {middle:.1f} {place.x:.1f} {middle:.1f} {place.x:.1f} {next_y:.1f}"
        x, y = place.x, next_y
        if not place.layer:
            y += HEIGHT
            path += f" L{x:.1f} {y:.1f}"
    return f'<path d="{path}" fill="none" stroke="#5b6b7f" stroke-width="1.3" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    FILE.write_text(svg(matrix()), encoding="utf-8")
