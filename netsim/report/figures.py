"""Figures of a run for papers and notebooks, drawn with matplotlib, and the sampling of long tables for pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from netsim.analysis.breakdown import WORK, spends
from netsim.base import units
from netsim.base.errors import InputError, unknown
from netsim.base.figures import Axes, Figure, as_it_stands, new_figure
from netsim.base.pluralize import pluralize
from netsim.run import PARTS, Run

COLOURS = {"download": "#4f9d86", "compute": "#3d6fb4", "throttled": "#8fb0dd", "upload": "#e0862c", "wait": "#d3d6db",
           "off": "#7a7f87"}
CRITICAL = "#b3261e"
LEARNED = "#6a4fc4"
MOST_ROWS = 60          # devices in a Gantt chart
MOST_BARS = 300
STEPS = {"time": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")), "energy": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")),
         "share": ((0.01, "%"),), "count": ((1.0, ""),)}
Columns = dict[str, list[Any]]


def draw(run: Run, kind: str, round: int | None = None) -> Figure:
    """Draw a figure by name; "gantt" needs a ``round``, the others show the whole run."""
    if kind not in FIGURES:
        raise unknown("figure", kind, FIGURES)
    if kind == "gantt" and round is None:
        raise InputError("missing", "round", hint=f'The figure "{kind}" shows one round; give its number')
    if kind != "gantt" and round is not None:
        raise InputError("no-effect", "round", round, hint=f'The figure "{kind}" shows all rounds')
    figure = new_figure(8.0, 4.0)
    FIGURES[kind](run, figure.subplots(), *([] if round is None else [round]))
    return figure


def gantt(run: Run, axes: Axes, round: int) -> None:
    """Draw the spans of each device of a round, the slowest on top; the device that limits the round is outlined."""
    from matplotlib.patches import Patch

    outlined, what = outline(run, round)
    shown = run.breakdown().round(round).sort(pl.col("device").is_in(outlined["device"].to_list()), descending=True,
                                              maintain_order=True).head(MOST_ROWS).sort("wait_s", "device")
    began = float(run.rounds.filter(pl.col("round") == round)["t0"][0])
    rows = {device: place for place, device in enumerate(shown["device"])}
    axes.get_figure().set_size_inches(8.0, 1.2 + 0.22 * max(len(rows), 3))      # type: ignore[union-attr]
    scale, unit = scale_of(shown["round_s"], "time")
    spans = run.spans.filter((pl.col("round") == round) & pl.col("device").is_in(list(rows)))
    drawn = [name for name in COLOURS if name in PARTS or name in spans["name"]]      # "off" is optional
    framed = outlined.filter(pl.col("device").is_in(list(rows)))
    styles: list[tuple[pl.DataFrame, dict[str, Any]]] = [
        *((spans.filter(pl.col("name") == name), {"color": COLOURS[name]}) for name in drawn),
        (framed, {"facecolor": "none", "edgecolor": CRITICAL, "linewidth": 1.5})]
    for bars, style in styles:
        axes.barh([rows[device] for device in bars["device"]], (bars["t1"] - bars["t0"]) / scale,
                  left=(bars["t0"] - began) / scale, height=0.8, **style)
    axes.set_yticks(range(len(rows)), [as_it_stands(name) for name in shown["name"]], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(f"time in the round ({unit})")
    hidden = len(run.breakdown().round(round)) - len(rows)
    title = f"round {round}" + (f", without {pluralize(hidden, 'faster device')}" if hidden else "")
    axes.set_title(title, loc="left", fontsize=10)
    keys = [Patch(color=COLOURS[name], label=name) for name in drawn]
    if not framed.is_empty():
        keys.append(Patch(facecolor="none", edgecolor=CRITICAL, label=what))
    axes.legend(handles=keys, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=5, frameon=False, fontsize=8)


def outline(run: Run, round: int) -> tuple[pl.DataFrame, str]:
    """Return the outlined intervals of a Gantt chart (device, t0, t1) and their label.

    These are the work of the devices that limit the round; in a round that cannot be planned again, the critical path,
    if one device finishes last.
    """
    from netsim.analysis.bottleneck import bottlenecks  # imports scipy

    found = bottlenecks(run, [round]).get(round)
    if found is None:
        alone = run.breakdown().rounds.drop_nulls("straggler")["round"].to_list()
        steps = run.critical_path().steps.filter(
            (pl.col("round") == round) & pl.col("round").is_in(alone) & (pl.col("device") >= 0))
        return steps.select("device", "t0", "t1"), "critical path"
    work = run.spans.filter((pl.col("round") == round) & pl.col("device").is_in(found.devices)
                            & pl.col("name").is_in(WORK))
    return work.group_by("device", maintain_order=True).agg(pl.col("t0").min(), pl.col("t1").max()), "limits the round"


def breakdown(run: Run, axes: Axes) -> None:
    """Draw the mean time per part of each round."""
    scale, unit = scale_of(run.rounds["round_s"], "time")
    _stacked(run, axes, {part: f"{part}_s" for part in run.parts}, scale)
    axes.set_ylabel(f"mean over the devices ({unit})")


def energy(run: Run, axes: Axes) -> None:
    _stacked(run, axes, {part: f"{part}_j" for part in spends(run)})
    axes.set_ylabel("energy of all devices (J)")


def _stacked(run: Run, axes: Axes, heights: dict[str, str], scale: float = 1.0) -> None:
    rounds = sample(run.breakdown().rounds, MOST_BARS)
    width = 0.8 * float(rounds["round"][-1] - rounds["round"][0] + 1) / rounds.height
    bottom = pl.zeros(rounds.height, eager=True)
    for part, column in heights.items():
        height = rounds[column] / scale
        axes.bar(rounds["round"], height, bottom=bottom, color=COLOURS[part], label=part, width=width)
        bottom = bottom + height
    axes.set_xlabel("round")
    axes.legend(frameon=False)


def band(run: Run, axes: Axes) -> None:
    """Draw the share of the band in use in each round."""
    rounds = run.breakdown().rounds
    axes.plot(rounds["round"], 100 * rounds["band_used"], color=COLOURS["upload"])
    axes.set_ylim(0, 100)
    axes.set_xlabel("round")
    axes.set_ylabel(f"of {units.format(run.breakdown().bandwidth_hz, 'frequency')} in use (%)")


def accuracy(run: Run, axes: Axes) -> None:
    """Draw the accuracy against simulated time."""
    rounds = run.rounds.drop_nulls("accuracy")
    if rounds.is_empty():
        raise InputError("needs", "figure", '"accuracy"', "a run that was evaluated")
    axes.plot(rounds["t1"], 100 * rounds["accuracy"], color=LEARNED)
    axes.set_xlabel("simulated time (s)")
    axes.set_ylabel("test accuracy (%)")
    axes.grid(alpha=0.3)


def sample(frame: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return at most ``most`` rows, evenly spread, including the first and the last."""
    if frame.height <= most:
        return frame
    return frame[[i * (frame.height - 1) // (most - 1) for i in range(most)]]


def columns(frame: pl.DataFrame) -> Columns:
    """Return a table as lists; non-finite numbers become null, for JSON."""
    return frame.with_columns(
        pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64))).to_dict(as_series=False)


def left_out(shown: int, there: int, what: str) -> str:
    """Return a note for the reader if only a part is shown, else an empty text."""
    return f"Shows {shown:,} of {there:,} {what}." if shown < there else ""


def scale_of(values: pl.Series, kind: str) -> tuple[float, str]:
    """Return the factor and the name of the unit that suits the largest number of a column."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    steps = STEPS[kind]
    return next((step for step in steps if largest >= step[0]), steps[-1])


FIGURES: dict[str, Callable[..., None]] = {
    "breakdown": breakdown, "energy": energy, "band": band, "accuracy": accuracy, "gantt": gantt,
}
