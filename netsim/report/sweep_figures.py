"""Figures of a sweep for papers: one column wide, 8 point, embedded fonts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from netsim.base.errors import InputError, unknown
from netsim.base.files import make_folder
from netsim.base.pictures import as_it_stands, library, new_figure, save_figure
from netsim.report.figures import COLOURS, scale_of
from netsim.run import PARTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.analysis.analysed_sweep import AnalysedSweep

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


def draw_sweep(sweep: AnalysedSweep, kind: str) -> Figure:
    """Draw a figure by name: "accuracy-rounds", "accuracy-time", "accuracy-energy", "round-time" or "energy"."""
    if kind not in KINDS:
        raise unknown("figure", kind, KINDS)
    if not any(case.rows for case in sweep.cases):
        raise InputError("empty", sweep.name, hint="No point is finished, so there is nothing to draw")
    if kind.startswith("accuracy") and not sweep.learns:
        raise InputError("needs", "figure", f'"{kind}"', "a sweep that learns", "Take round-time or energy")
    with library().rc_context(PRINT):
        figure = new_figure(COLUMN_IN, 2.4)
        KINDS[kind](sweep, figure.subplots())
    return figure


def write_figures(sweep: AnalysedSweep, folder: Path) -> list[Path]:
    """Write all figures of a sweep as PNG, SVG and PDF; return their paths."""
    make_folder(folder)
    written = []
    for kind in KINDS:
        if kind.startswith("accuracy") and not sweep.learns:
            continue
        figure = draw_sweep(sweep, kind)
        for ending in FORMATS:
            path = folder / f"{kind}.{ending}"
            dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)      # the same bytes again
            with library().rc_context(PRINT):
                save_figure(figure, path, dpi=300, **({"metadata": dated} if dated else {}))
            written.append(path)
    return written


def _accuracy(over: str, label: str) -> Callable[[AnalysedSweep, Axes], None]:
    def draw(sweep: AnalysedSweep, axes: Axes) -> None:
        """Draw the mean over seeds with its 95 % interval."""
        drawn = [(case, curve) for case in sweep.cases if (curve := case.curve(over))]
        kind = {"time": "time", "energy": "energy"}.get(over)
        scale, unit = scale_of(pl.Series([curve[0][-1] for _, curve in drawn]), kind) if kind else (1.0, "")
        step: Any = "post" if kind else None      # the mean of step functions is a step function
        for at, (case, (places, found)) in enumerate(drawn[:MOST_LINES]):
            colour, dash = COLOUR[at % len(COLOUR)], DASHES[at // len(COLOUR) % len(DASHES)]
            axes.plot(places / scale, [100 * one.mean for one in found if one.mean is not None], color=colour,
                      linestyle=dash, label=as_it_stands(case.label), drawstyle="steps-post" if step else "default")
            if all(one.low is not None for one in found):
                axes.fill_between(places / scale, [100 * (one.low or 0) for one in found],
                                  [100 * (one.high or 0) for one in found], color=colour, alpha=0.18, linewidth=0,
                                  step=step)
        axes.set_xlabel(f"{label} ({unit})" if unit else label)
        if not kind:
            axes.locator_params(axis="x", integer=True)      # rounds are whole numbers
        axes.set_ylabel("test accuracy (%)")
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0), min(high, 100))      # an interval of few seeds may exceed 0 to 100 %
        axes.grid(alpha=0.3, linewidth=0.4)
        axes.legend(frameon=False, loc="best")
        _left_out(axes, len(drawn))

    return draw


def _bars(measure: str, kind: str, label: str, parts: dict[str, str]) -> Callable[[AnalysedSweep, Axes], None]:
    """Return a function that draws a stacked bar of measures per case, with the interval of the sum."""
    def draw(sweep: AnalysedSweep, axes: Axes) -> None:
        drawn = [case for case in sweep.cases if case.rows]
        cases = drawn[:MOST_LINES]
        rows, whole = range(len(cases)), [case.over(measure) for case in cases]
        scale, unit = scale_of(pl.Series([one.mean for one in whole]), kind)
        left = np.zeros(len(cases))
        for part, colour in parts.items():
            width = np.array([case.over(part).mean or 0.0 for case in cases]) / scale
            axes.barh(rows, width, left=left, color=colour, label=part.removesuffix("_s"), height=0.7)
            left = left + width
        axes.errorbar([(one.mean or 0.0) / scale for one in whole], rows, fmt="none", ecolor="black", elinewidth=0.8,
                      xerr=[(one.half or 0.0) / scale for one in whole], capsize=2)
        axes.set_yticks(rows, [as_it_stands(case.label) for case in cases])
        axes.invert_yaxis()
        axes.get_figure().set_size_inches(COLUMN_IN, 1.0 + 0.24 * max(4, len(cases)))      # type: ignore[union-attr]
        axes.set_xlabel(f"{label} ({unit})")
        if len(parts) > 1:
            axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0))
        _left_out(axes, len(drawn))

    return draw


def _left_out(axes: Axes, there: int) -> None:
    if there > MOST_LINES:
        axes.set_title(f"the first {MOST_LINES} of {there} cases", loc="left")


KINDS: dict[str, Callable[[AnalysedSweep, Axes], None]] = {
    "accuracy-rounds": _accuracy("rounds", "round"), "accuracy-time": _accuracy("time", "simulated time"),
    "accuracy-energy": _accuracy("energy", "energy of all devices"),
    "round-time": _bars("round_s", "time", "mean round time", {f"{part}_s": COLOURS[part] for part in PARTS}),
    "energy": _bars("energy_j", "energy", "energy of all devices", {"energy_j": COLOUR[2]}),
}
