"""Curves and matrices for the lessons, drawn as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from netsim.base.types import Floats, Ints
from netsim.lab.svg import INK, PAPER, SOFT, Canvas, Scale, axis, legend, listed, paint, upright

WIDTH, HEIGHT, LEFT, BOTTOM = 440.0, 250.0, 40.0, 34.0
COLOURS = tuple(map(paint, ("c0", "c1", "c2", "c3")))
MARKS = tuple(map(paint, ("critical", "ink")))

Numbers = Sequence[float] | Floats


def lines(
    x: Numbers, curves: Mapping[str, Numbers], *, across: str, up: str,
    points: Mapping[str, tuple[float, float]] | None = None, most: float | None = None,
) -> Canvas:
    """Up to four named curves over one axis, up to two ``points`` marked; what is not finite leaves a gap.

    The upright axis goes from 0 to ``most``, or to the largest value; what lies above is cut off.
    """
    values = [float(value) for curve in curves.values() for value in curve if math.isfinite(value)]
    most = most or 1.05 * max(values, default=1.0) or 1.0
    canvas = Canvas(WIDTH, HEIGHT, f"{up} over {across}: {', '.join(curves)}")
    shown = {name: [(float(a), float(b)) for a, b in zip(x, curve, strict=True)] for name, curve in curves.items()}
    marks = {name: at for name, at in (points or {}).items() if all(map(math.isfinite, at)) and at[1] <= most}
    canvas.says = " ".join([*(_in_words(name, points) for name, points in shown.items()),
                            *(f"Marked: {name}, {a:.4g} across, {b:.4g} up." for name, (a, b) in marks.items())])
    entries = [*zip(curves, COLOURS, strict=False), *zip(marks, MARKS, strict=False)]
    top = 24 + legend(canvas, LEFT, 12, dict(entries))
    across_scale = Scale(LEFT, WIDTH - 10, float(max(x)), float(min(x)))
    up_scale = Scale(HEIGHT - BOTTOM, top, most)
    axis(canvas, across_scale, top, HEIGHT - BOTTOM, across)
    upright(canvas, up_scale, LEFT, WIDTH - 10, up)
    for (name, whole), colour in zip(shown.items(), COLOURS, strict=False):
        for inside, piece in groupby(whole, lambda point: math.isfinite(point[1]) and point[1] <= most):
            if inside:
                canvas.polyline([(across_scale(a), up_scale(b)) for a, b in piece], colour, name.replace(" ", "-"))
    for (name, (a, b)), colour in zip(marks.items(), MARKS, strict=False):
        canvas.circle(across_scale(a), up_scale(b), 5.0, colour, tip=f"{name}: {b:.4g}", stroke=PAPER)
    return canvas


def _in_words(name: str, points: Sequence[tuple[float, float]]) -> str:
    """A curve by its ends, its least and its largest value."""
    found = [point for point in points if math.isfinite(point[1])]
    if not found:
        return f"{name}: nothing to show."
    least, most = min(found, key=lambda point: point[1]), max(found, key=lambda point: point[1])
    return (f"{name}: {found[0][1]:.4g} at {found[0][0]:.4g}, {found[-1][1]:.4g} at {found[-1][0]:.4g}; "
            f"least {least[1]:.4g} at {least[0]:.4g}, most {most[1]:.4g} at {most[0]:.4g}.")


def matrix(counts: Ints, rows: Sequence[str], columns: Sequence[str], *, across: str) -> Canvas:
    """A table of counts as squares, dark where there are many."""
    pitch = 15.0
    left = 104.0
    wide = (WIDTH - left - 10) / len(columns)
    canvas = Canvas(WIDTH, 34 + pitch * len(rows), f"counts by {across}")
    for column, name in enumerate(columns):
        canvas.text(left + wide * (column + 0.5), 26, name, anchor="middle", fill=SOFT, size=10)
    canvas.text(left, 11, across, fill=SOFT, size=10)
    largest = float(counts.max()) or 1.0
    canvas.says = listed([f"{name} has most of {columns[int(row.argmax())]}, {row.max()} of {row.sum()}"
                          for name, row in zip(rows, counts, strict=True)])
    for row, name in enumerate(rows):
        y = 31 + pitch * row
        canvas.text(left - 6, y + 10, name, anchor="end", fill=INK, size=10)
        for column in range(len(columns)):
            count = int(counts[row, column])
            dark = f"{0.05 + 0.95 * count / largest:.3f}"
            canvas.rect(left + wide * column, y, wide - 1, pitch - 1, COLOURS[0], fill_opacity=dark,
                        tip=f"{name}: {count} of {columns[column]}")
    return canvas
