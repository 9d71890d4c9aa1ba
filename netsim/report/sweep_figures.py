"""Figures of a sweep for papers: one column wide, 8 point, embedded fonts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import polars as pl

from netsim.analysis.seed_statistics import Estimate, estimate
from netsim.analysis.sweep_statistics import MEASURES, SweepStatistics
from netsim.base.errors import InputError, unknown
from netsim.base.figures import Axes, Figure, as_it_stands, library, new_figure, save_figure
from netsim.base.files import make_folder
from netsim.report.figures import COLOURS, scale_of
from netsim.run import PARTS

COLUMN_IN = 3.4          # width of a column in inches
MOST_LINES = 12          # distinguishable lines
FORMATS = ("png", "svg", "pdf")
# Type 42: printers and publishers refuse matplotlib's own Type 3 fonts
PRINT: Any = {
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7, "lines.linewidth": 1.2, "axes.linewidth": 0.6, "pdf.fonttype": 42, "ps.fonttype": 42,
    "svg.hashsalt": "netsim",
}
# colours for readers with red-green colour blindness (Okabe and Ito), and dashes for grey prints
COLOUR = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.")
WRAP, ROW_WRAP = 34, 20      # characters of a line of a label in a legend and beside a row
MOST_INSIDE = 4          # lines with a legend inside the axes
LONGEST_INSIDE = 20      # characters of a label there
FAR_APART = 8.0          # ratio of values from which on an axis is logarithmic
# column, kind of quantity and name of what it took to reach a target
TO_TARGET: dict[str, tuple[str, str | None, str]] = {
    "rounds-to-target": ("rounds", None, "rounds"), "time-to-target": ("time_s", "time", "time"),
    "energy-to-target": ("energy_j", "energy", "energy"),
}


def draw_sweep(sweep: SweepStatistics, kind: str, target: float | None = None) -> Figure:
    """Draw a figure by name, one of ``KINDS``; ``target`` is the accuracy of the figures to a target."""
    if kind not in KINDS:
        raise unknown("figure", kind, KINDS)
    if not any(case.rows for case in sweep.cases):
        raise InputError("empty", sweep.name, hint="No point is finished, so there is nothing to draw")
    if kind in OF_LEARNING and not sweep.learns:
        raise InputError("needs", "figure", f'"{kind}"', "a sweep that learns", "Take round-time or energy")
    if target is not None and not kind.endswith("to-target"):
        raise InputError("no-effect", "target", target, hint=f"The figure {kind} has no target")
    with library().rc_context(PRINT):
        figure = new_figure(COLUMN_IN, 2.4)
        KINDS[kind](sweep, figure.subplots(), **({} if target is None else {"target": target}))
    return figure


def write_figures(sweep: SweepStatistics, folder: Path) -> list[Path]:
    """Write all figures of a sweep as PNG, SVG and PDF; return their paths."""
    make_folder(folder)
    written = []
    for kind in KINDS:
        if kind in OF_LEARNING and not sweep.learns:
            continue
        figure = draw_sweep(sweep, kind)
        for ending in FORMATS:
            path = folder / f"{kind}.{ending}"
            dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)      # the same bytes again
            with library().rc_context(PRINT):
                save_figure(figure, path, dpi=300, **({"metadata": dated} if dated else {}))
            written.append(path)
    return written


def _accuracy(sweep: SweepStatistics, axes: Axes, over: str, label: str) -> None:
    """Draw the mean over seeds with its 95 % interval."""
    drawn = [(case, curve) for case in sweep.cases if (curve := case.curve(over))]
    kind = {"time": "time", "energy": "energy"}.get(over)
    scale, unit = scale_of(pl.Series([curve[0][-1] for _, curve in drawn]), kind) if kind else (1.0, "")
    step: Any = "post" if kind else None      # the mean of step functions is a step function
    for at, (case, (places, found)) in enumerate(drawn[:MOST_LINES]):
        colour, dash = COLOUR[at % len(COLOUR)], DASHES[at // len(COLOUR) % len(DASHES)]
        axes.plot(places / scale, [100 * one.mean for one in found if one.mean is not None], color=colour,
                  linestyle=dash, label=_wrapped(case.label), drawstyle="steps-post" if step else "default")
        if all(one.low is not None for one in found):      # an interval of few seeds may exceed 0 to 100 %
            low, high = (np.clip([100 * (value or 0) for value in values], 0, 100) for values in (
                [one.low for one in found], [one.high for one in found]))
            axes.fill_between(places / scale, low, high, color=colour, alpha=0.18, linewidth=0, step=step)
    axes.set(xlabel=f"{label} ({unit})" if unit else label, ylabel="test accuracy (%)")
    if not kind:
        axes.locator_params(axis="x", integer=True)      # rounds are whole numbers
    elif _far_apart([float(curve[0][-1]) for _, curve in drawn]):
        axes.set_xscale("log")
    axes.grid(alpha=0.3, linewidth=0.4)
    _legend(axes, len(drawn[:MOST_LINES]))
    _left_out(axes, len(drawn))


def _legend(axes: Axes, lines: int) -> None:
    """Place the legend inside, or below the axes where it would hide the lines."""
    texts = [text.get_text() for text in axes.legend(frameon=False, loc="best").get_texts()]
    longest = max(len(line) for text in texts for line in text.splitlines())
    if lines <= MOST_INSIDE and longest <= LONGEST_INSIDE:
        return
    columns = 2 if longest <= WRAP // 2 else 1
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.22), ncols=columns)
    rows = sum(text.count("\n") + 1 for text in texts) / columns
    axes.get_figure().set_size_inches(COLUMN_IN, 2.4 + 0.14 * rows)      # type: ignore[union-attr]


def _wrapped(label: str, width: int = WRAP) -> str:
    return as_it_stands(fill(label, width))


def _far_apart(values: Sequence[float | None]) -> bool:
    """Return whether values need a logarithmic axis: the largest is more than FAR_APART times the least."""
    known = [value for value in values if value]
    return bool(known) and min(known) > 0.0 and max(known) > FAR_APART * min(known)


def _bars(sweep: SweepStatistics, axes: Axes, measure: str, label: str, parts: dict[str, str]) -> None:
    """Draw a stacked bar of measures per case, with the interval of the sum."""
    drawn, kind = [case for case in sweep.cases if case.rows], MEASURES[measure][0]
    cases = drawn[:MOST_LINES]
    rows, whole = range(len(cases)), [case.over(measure) for case in cases]
    _left_out(axes, len(drawn))
    if _far_apart([one.mean for one in whole]):      # parts of a bar do not add up on a logarithmic axis
        _dots(axes, [(case.label, list(case.values(measure).values())) for case in cases], kind, label)
        return
    scale, unit = scale_of(pl.Series([one.mean for one in whole]), kind)
    left = np.zeros(len(cases))
    for part, colour in parts.items():
        width = np.array([case.over(part).mean or 0.0 for case in cases]) / scale
        axes.barh(rows, width, left=left, color=colour, label=part.removesuffix("_s"), height=0.7)
        left = left + width
    axes.errorbar([(one.mean or 0.0) / scale for one in whole], rows, fmt="none", ecolor="black",
                  xerr=np.array([_reach(one) for one in whole]).T / scale, elinewidth=0.8, capsize=2)
    _name_rows(axes, [case.label for case in cases], f"{label} ({unit})")
    if len(parts) > 1:
        axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0))


def _reach(one: Estimate) -> tuple[float, float]:
    """Return how far an interval reaches below and above the mean; time and energy are not negative."""
    return min(one.half or 0.0, one.mean or 0.0), one.half or 0.0


def _dots(axes: Axes, cases: Sequence[tuple[str, list[float]]], kind: str | None, label: str) -> None:
    """Draw a dot for each seed, and the median over seeds with the 95 % interval of the mean, a row per case."""
    found = [estimate(values) for _, values in cases]
    every = pl.Series([value for _, values in cases for value in values], dtype=pl.Float64)
    scale, unit = scale_of(every, kind) if kind else (1.0, "")
    for row, ((_, values), one) in enumerate(zip(cases, found, strict=True)):
        colour = COLOUR[row % len(COLOUR)]
        axes.plot(np.array(values) / scale, [row] * len(values), ".", color=colour, alpha=0.45, markersize=3)
        if one.mean is not None and one.median is not None:
            below, above = _reach(one)
            low = max(one.mean - below, min(values) / FAR_APART)      # a logarithmic axis has no 0
            axes.plot([low / scale, (one.mean + above) / scale], [row, row], color=colour, linewidth=1.0)
            axes.plot([one.median / scale], [row], "D", color=colour, markersize=4)
    if _far_apart(every.to_list()):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0.0)
    axes.grid(axis="x", alpha=0.3, linewidth=0.4)
    _name_rows(axes, [name for name, _ in cases], f"{label} ({unit})" if unit else label)


def _name_rows(axes: Axes, names: Sequence[str], label: str) -> None:
    wrapped = [_wrapped(name, ROW_WRAP) for name in names]
    lines = sum(name.count("\n") + 1 for name in wrapped)
    axes.set_yticks(range(len(names)), wrapped)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.get_figure().set_size_inches(COLUMN_IN, 1.0 + 0.24 * max(4, len(names), 0.7 * lines))  # type: ignore[union-attr]
    axes.set_xlabel(label)


def _to_target(sweep: SweepStatistics, axes: Axes, kind: str, target: float | None = None) -> None:
    """Draw rounds, time or energy until an accuracy was reached, over the seeds that reached it."""
    column, dimension, label = TO_TARGET[kind]
    aim = sweep.common_target if target is None else target
    drawn = [case for case in sweep.cases if case.rows]
    cases = drawn[:MOST_LINES]
    rows = []
    for case in cases:
        values = list(case.reached(aim)[column].values())
        missed = "" if len(values) == len(case.rows) else f" ({len(values)} of {len(case.rows)} seeds)"
        rows.append((f"{case.label}{missed}", values))
    if not any(values for _, values in rows):
        raise InputError("out-of-range", "target", aim, f"at most {max(sweep.best_accuracies):.3f}, which a run "
                         "reached")
    _dots(axes, rows, dimension, f"{label} to {100 * aim:.4g} % accuracy")
    _left_out(axes, len(drawn))


def _left_out(axes: Axes, there: int) -> None:
    if there > MOST_LINES:
        axes.set_title(f"the first {MOST_LINES} of {there} cases", loc="left")


KINDS: dict[str, Callable[..., None]] = {
    "accuracy-rounds": partial(_accuracy, over="rounds", label="round"),
    "accuracy-time": partial(_accuracy, over="time", label="simulated time"),
    "accuracy-energy": partial(_accuracy, over="energy", label="energy of all devices"),
    "round-time": partial(_bars, measure="round_s", label="mean round time",
                          parts={f"{part}_s": COLOURS[part] for part in PARTS}),
    "energy": partial(_bars, measure="energy_j", label="energy of all devices", parts={"energy_j": COLOUR[2]}),
    **{kind: partial(_to_target, kind=kind) for kind in TO_TARGET},
}
OF_LEARNING = [kind for kind in KINDS if kind.startswith("accuracy") or kind in TO_TARGET]
