"""Predicted against measured rounds, as a figure and as a page in the style of the reports."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base import html, units
from netsim.base.figures import as_it_stands, new_figure
from netsim.base.pluralize import pluralize
from netsim.calibration.holdout import NAMES, Holdout
from netsim.calibration.laws import PARAMETERS
from netsim.report.page import page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.calibration.calibration import Calibration

MOST_POINTS = 400
DECADE = 10.0             # ratio of the largest to the smallest value from which the axes are logarithmic
BAND, LINE, POINT = "#8fb0dd", "#3d6fb4", "#b3261e"


def draw(holdout: Holdout) -> Figure:
    """Draw measured rounds against their predictions, and in their order with 50 % and 95 % intervals."""
    kinds = [("s", "round length", "s")]
    if "measured_j" in holdout.rounds.columns:
        kinds.append(("j", "energy of a round", "J"))
    figure = new_figure(9.0, 3.6 * len(kinds))
    axes = figure.subplots(len(kinds), 2, squeeze=False)
    step = max(1, -(-holdout.rounds.height // MOST_POINTS))
    shown = holdout.rounds.gather_every(step)
    for row, (ending, what, unit) in zip(axes, kinds, strict=True):
        columns = [shown[f"{name}_{ending}"].to_numpy() for name in ("measured", *NAMES)]
        _against(row[0], columns, f"{what} ({unit})")
        _in_order(row[1], columns, f"{what} ({unit})", shown["round"].to_list())
    return figure


def _against(axes: Axes, columns: list[Any], label: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    measured, low95, _, median, _, high95 = columns
    axes.errorbar(measured, median, yerr=[median - low95, high95 - median], fmt="o", ms=3, lw=0.7, color=LINE,
                  ecolor=BAND)
    ends = [np.nanmin([*measured, *low95]), np.nanmax([*measured, *high95])] if len(measured) else [1.0, 2.0]
    axes.plot(ends, ends, color="black", lw=0.8)
    axes.set(xlabel=f"measured {label}", ylabel="predicted, with 95 % interval")
    if ends[1] < DECADE * ends[0] or ends[0] <= 0.0:
        return
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _in_order(axes: Axes, columns: list[Any], label: str, rounds: list[str]) -> None:
    measured, low95, low50, median, high50, high95 = columns
    x = np.arange(len(measured))
    axes.fill_between(x, low95, high95, color=BAND, alpha=0.4, lw=0, step="mid", label="95 %")
    axes.fill_between(x, low50, high50, color=BAND, lw=0, step="mid", label="50 %")
    axes.step(x, median, color=LINE, lw=1, where="mid", label="predicted")
    axes.plot(x, measured, "o", ms=3, color=POINT, label="measured")
    axes.set(xlabel="held-out round" if any(rounds) else "held-out row", ylabel=label, ylim=(0, None))
    places = x[::max(1, len(x) // 6)]
    axes.set_xticks(places, [as_it_stands(rounds[place]) or str(place + 1) for place in places])
    axes.legend(frameon=False, ncols=2, fontsize="small")


def page_of(calibration: Calibration) -> str:
    found = calibration.as_json()
    picture = StringIO()
    calibration.figure().savefig(picture, format="svg")
    svg = picture.getvalue()
    heads, rows = parameter_table(found["devices"])
    body = [
        "<h1>Calibration</h1>",
        f"<p class=lead>{escape(calibration.log.path)}: {pluralize(len(calibration.log), 'row')}, "
        f"{pluralize(len(found['devices']), 'device')}</p>",
        '<div class="figures">',
        *(f"<div><b>{escape(value)}</b>{name}</div>" for name, value in held_out_numbers(calibration)), "</div>",
        "<section><h2>Held-out predictions</h2><p>Each was made by a fit that did not see the measurement. Of a "
        "calibrated model, 50 % and 95 % of the measurements lie in the two intervals.</p>"
        '<div role="img" aria-label="Predicted against measured rounds, and both in the order of the rounds" '
        f'style="background:#fff">{svg[svg.index("<svg"):]}</div></section>',
        *(f"<p class=warning>{escape(note)}.</p>" for note in found["notes"]),
        "<section><h2>Parameters, with 95 % intervals</h2><div class=scroll>"
        + html.table("", heads, rows, most=1000) + "</div></section>",
    ]
    return page("Calibration", body, {})


def parameter_table(devices: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of the table of devices, with the parameters that any device has."""
    known = {name: each for name, each in PARAMETERS.items() if any(name in one for one in devices.values())}
    rows = [[device, *(interval(one.get(name), each.unit) for name, each in known.items())]
            for device, one in devices.items()]
    return ["device", *(each.words for each in known.values())], rows


def held_out_numbers(calibration: Calibration) -> list[tuple[str, str]]:
    """Return names and values of the held-out errors."""
    held, one = calibration.holdout.as_json(), "round" if calibration.log.has_rounds else "row"
    if held["median_error"] is None:
        return [(f"held-out {one}s", "none")]
    found = [(f"held-out {one}s", f"{held['rounds']:,}"),
             (f"median error of a {one}’s length", f"{held['median_error']:.1%}"),
             ("in the 50 % interval", f"{held['coverage_50']:.0%}"),
             ("in the 95 % interval", f"{held['coverage_95']:.0%}")]
    if "energy" in held:
        found.append((f"median error of a {one}’s energy", f"{held['energy']['median_error']:.1%}"))
    return found


def interval(parameter: dict[str, float | None] | None, unit: str) -> str:
    """Return a value with its interval as text."""
    if parameter is None:
        return "-"
    dimension = {"s": "time", "W": "power"}.get(unit)

    def text(value: float | None) -> str:
        if value is None:
            return "?"
        return units.format(value, dimension, 3) if dimension else f"{value / 1e6:.3g} Mbit/s"

    return f"{text(parameter['value'])} ({text(parameter['low'])} to {text(parameter['high'])})"
