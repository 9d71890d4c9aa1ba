"""Report of a sweep: one self-contained HTML page, with figures and tables beside it.

Tables are CSV and JSON with full precision, and LaTeX with rounded numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from netsim.analysis.seed_statistics import mean_curve, quantile, records
from netsim.analysis.sweep_statistics import MEASURES, MOST_POINTS, OVER, TARGETS, SweepCase, SweepStatistics
from netsim.base.errors import InputError
from netsim.base.files import make_folder, replace_text, safe_table
from netsim.base.pluralize import pluralize
from netsim.report.figures import left_out, scale_of
from netsim.report.page import chart, page
from netsim.report.sweep_figures import write_figures

MOST_CASES = 500         # rows of a table
MOST_CURVES = 18         # distinguishable lines
MOST_FAILURES = 20
KINDS = {**{name: kind for name, (kind, *_) in MEASURES.items()}, **TARGETS}
WORDS = {"accuracy": "accuracy", "round_s": "a round", "simulated_s": "simulated time", "energy_j": "energy",
         "rounds": "rounds", "compute_s": "compute", "upload_s": "upload", "wait_s": "wait", "dropped": "dropped",
         "time_s": "time"}
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "µ": r"\textmu{}",
           **{mark: f"\\{mark}" for mark in "&%$#_{}"}}
# id of a chart, whether it needs accuracies, heading, explanation
CHARTS = (
    ("sweep-rounds", True, "Accuracy against rounds", ""),
    ("sweep-time", True, "Accuracy against simulated time", ""),
    ("sweep-energy", True, "Accuracy against energy", "Energy of all devices up to then."),
    ("sweep-parts", False, "Where the time of a round went", "Means over rounds and seeds; the parts add up."),
    ("sweep-joules", False, "Energy", "All devices, whole run."),
    ("sweep-times", False, "Time of each round", ""),
)


def write_sweep_report(sweep: SweepStatistics, path: Path, against: str | None = None) -> list[Path]:
    """Write the page to ``path``, and beside it the folders ``tables`` and ``figures``; return all paths."""
    text = sweep_page(sweep, against)
    try:
        replace_text(path, text)
        return [path, *write_tables(sweep, path.parent / "tables", against),
                *(write_figures(sweep, path.parent / "figures") if any(case.rows for case in sweep.cases) else [])]
    except OSError as error:
        raise InputError("unwritable", str(path), error.strerror or str(error)) from None


def sweep_page(sweep: SweepStatistics, against: str | None = None) -> str:
    """Return the page as HTML; ``against`` is the label of the baseline case that is selected at first."""
    data = sweep_data(sweep, against)
    cases, failed = sweep.cases, sum(len(case.failed) for case in sweep.cases)
    seeds = len(sweep.seeds)
    size = f"{len(cases):,} {'case' if len(cases) == 1 else 'cases'} under {seeds} {'seed' if seeds == 1 else 'seeds'}"
    missing = len(cases) * seeds - failed - sum(len(case.rows) for case in cases)
    curves = left_out(min(MOST_CURVES, len(cases)), len(cases), "cases, the first ones")
    body = [
        f"<h1>Sweep {escape(sweep.name)}</h1>",
        f"<p class=lead>{escape(sweep.scenario)}: {size}</p>",
        failures(cases, len(cases) * seeds) if failed else "",
        f"<p class=warning>{pluralize(missing, 'point')} not finished yet.</p>" if missing else "",
        "<p class=sub>Means over seeds, with the half width of their 95 % interval (Student’s t; seeds are treated as "
        "independent draws), and medians in brackets. One seed has no interval.</p>",
        '<section><h2>The cases</h2><div id="cases" class="scroll"></div>'
        f'<p class=note>{escape(left_out(min(MOST_CASES, len(cases)), len(cases), "cases, the first ones"))}</p>'
        "</section>",
        "<section><h2>Differences, seed by seed</h2><p>Two cases under one seed have the same devices and channels, so "
        "their common variation cancels out. Bold: the interval does not contain zero.</p>"
        '<div class="controls" id="differences-controls"></div><div id="differences" class="scroll"></div></section>',
        *([('<section><h2>To a target</h2><p>Rounds, time and energy until the accuracy was first reached: means over '
            "the seeds that reached it, so a case that some seeds did not reach looks better than it is.</p>"
            '<div class="controls" id="target-controls"></div><div id="target" class="scroll"></div></section>')]
          if sweep.learns else []),
        '<div class="charts">',
        *(chart(name, title, text, f"{curves} {BANDS}".strip() if name in LINES else "")
          for name, learned, title, text in CHARTS if sweep.learns or not learned),
        "</div>",
    ]
    return page(f"sweep {sweep.name}", body, {"sweep": data})


def failures(cases: Sequence[SweepCase], cells: int) -> str:
    """Return the failed cases as HTML, each with its first reason."""
    failed = [case for case in cases if case.failed]
    items = [f"<li>{escape(case.label)}: {len(case.failed)} of {pluralize(len(case.failed) + len(case.rows), 'seed')}: "
            f"{escape(next(iter(case.failed.values())))}</li>" for case in failed[:MOST_FAILURES]]
    more = left_out(len(items), len(failed), "cases that failed")
    return (f"<div class=warning>{sum(len(case.failed) for case in failed)} of {pluralize(cells, 'point')} failed."
            f"<ul>{''.join(items)}</ul>{more}</div>")


LINES = ("sweep-rounds", "sweep-time", "sweep-energy", "sweep-times")
BANDS = "Lines are means over seeds, bands their intervals; a run that has ended keeps its last accuracy."


def sweep_data(sweep: SweepStatistics, against: str | None = None) -> dict[str, Any]:
    """Return the data of the page's script: numbers by seed, from which it computes the tables."""
    shown = sweep.cases[:MOST_CASES]
    chosen = sweep.case(against)
    if chosen not in shown:
        raise InputError("out-of-range", "--against", f'"{against}"', f"one of the first {MOST_CASES} cases")
    return {
        "keys": sweep.keys, "against": shown.index(chosen),
        "measures": [[name, WORDS[name], MEASURES[name][0]] for name in sweep.measures],
        "quantiles": [None, None, *(quantile(count) for count in range(2, len(sweep.seeds) + 1))],
        "cases": [_case(sweep, case, curves=at < MOST_CURVES) for at, case in enumerate(shown)],
    }


def _case(sweep: SweepStatistics, case: SweepCase, curves: bool) -> dict[str, Any]:
    named = sweep.named(case)
    found = {
        "label": case.label, "settings": ["" if named[key] is None else named[key] for key in sweep.keys],
        "seeds": list(case.rows), "failed": [[seed, reason] for seed, reason in case.failed.items()],
        "values": {name: case.values(name) for name in sweep.measures}, "records": [
            {"seed": seed, **{name: values[at].tolist() for name, values in curve.items()}}
            for seed, curve in case.learned() for at in [records(curve["accuracy"].tolist())]],
    }
    return {**found, "curves": _curves(case)} if curves and case.rows else found


def _curves(case: SweepCase) -> dict[str, Any]:
    found = {over: curve for over in OVER if (curve := case.curve(over)) is not None}
    played = [np.array(row["round_s"]) for row in case.rows.values() if len(row["round_s"])]
    if played:
        common = min(map(len, played))      # rounds that all seeds have
        rounds = [np.arange(1.0, common + 1)] * len(played)
        found["times"] = mean_curve(rounds, [each[:common] for each in played], MOST_POINTS)
    return {name: {"x": places.tolist(), **{part: [getattr(one, part) for one in estimates]
                                            for part in ("mean", "low", "high")}}
            for name, (places, estimates) in found.items()}


def write_tables(sweep: SweepStatistics, folder: Path, against: str | None) -> list[Path]:
    """Write ``cases`` and ``differences``, each as .csv, .json and .tex; return the paths."""
    make_folder(folder)
    writers: dict[str, Callable[[pl.DataFrame], str]] = {
        "csv": lambda table: safe_table(table).write_csv(),
        "json": lambda table: json.dumps(table.to_dicts(), indent=1) + "\n", "tex": latex}
    written = []
    for name, table in (("cases", sweep.summary), ("differences", sweep.differences(against))):
        for ending, text in writers.items():
            path = folder / f"{name}.{ending}"
            replace_text(path, text(table))
            written.append(path)
    return written


def latex(table: pl.DataFrame) -> str:
    r"""Return a LaTeX tabular of means with intervals, for ``\input``; it needs no package."""
    measures = [name for name in KINDS if name in table.columns and table[name].null_count() < table.height]
    scales = {name: scale_of(table[name], KINDS[name]) for name in measures}
    heads = ["case", "seeds", *(f"{WORDS[name]} ({scales[name][1]})" if scales[name][1] else WORDS[name]
                                for name in measures)]
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", "\\hline",
             " & ".join(map(escaped, heads)) + " \\\\", "\\hline"]
    for row in table.iter_rows(named=True):
        cells = [escaped(row["case"]), str(row["seeds"])]
        if row["seeds"] or not row.get("reason"):
            cells += [with_interval(row[name], row[f"{name}_high"], scales[name][0]) for name in measures]
        else:
            cells.append(f"\\multicolumn{{{len(measures)}}}{{l}}{{failed: {escaped(row['reason'])}}}")
        lines.append(" & ".join(cells) + " \\\\")
    return "\n".join([*lines, "\\hline", "\\end{tabular}", ""])


def with_interval(mean: float | None, high: float | None, scale: float) -> str:
    r"""Return a number in LaTeX, with the digits that its interval supports.

    >>> with_interval(0.15234, 0.15534, 1e-3), with_interval(2.0, None, 1.0), with_interval(None, None, 1.0)
    ('$152.3 \\pm 3.0$', '$2$', '--')
    """
    if mean is None:
        return "--"
    if high is None:
        return f"${mean / scale:.4g}$"
    half = (high - mean) / scale
    digits = 0 if half == 0 else max(0, 1 - math.floor(math.log10(half)))
    return f"${mean / scale:.{digits}f} \\pm {half:.{digits}f}$"


def escaped(text: str) -> str:
    return "".join(SPECIAL.get(mark, mark) for mark in text)
