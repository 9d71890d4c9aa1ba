"""A sweep as one HTML page that needs nothing but itself, with its tables and figures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.analysis.analysed_sweep import MEASURES, OVER, SweepCase
from netsim.analysis.over_seeds import Estimate, mean_curve, quantile, records
from netsim.base.counts import counted
from netsim.base.errors import InputError
from netsim.base.files import replace_text
from netsim.report.frames import left_out
from netsim.report.page import chart, page
from netsim.report.sweep_figures import write_figures
from netsim.report.sweep_tables import WORDS, write_tables

if TYPE_CHECKING:
    from netsim.analysis.analysed_sweep import AnalysedSweep

MOST_CASES = 500         # rows of a table
MOST_CURVES = 18         # lines that one can still tell apart
MOST_POINTS = 200        # of a line
MOST_FAILURES = 20
# id of a chart, whether it shows what was learned, heading, what one sees
CHARTS = (
    ("sweep-rounds", True, "Accuracy against rounds", ""),
    ("sweep-time", True, "Accuracy against simulated time", ""),
    ("sweep-energy", True, "Accuracy against energy", "Of all devices together, until then."),
    ("sweep-parts", False, "Where the time of a round went", "Means over rounds and seeds; the parts add up."),
    ("sweep-joules", False, "Energy", "All devices, whole run."),
    ("sweep-times", False, "Time of each round", ""),
)


def write_sweep_report(sweep: AnalysedSweep, path: Path, against: str | None = None) -> list[Path]:
    """The page at ``path``, and beside it the folders ``tables`` and ``figures``; returns all files."""
    text = sweep_page(sweep, against)
    try:
        replace_text(path, text)
        return [path, *write_tables(sweep, path.parent / "tables", against),
                *(write_figures(sweep, path.parent / "figures") if any(case.rows for case in sweep.cases) else [])]
    except OSError as error:
        raise InputError("unwritable", str(path), error.strerror or str(error)) from None


def sweep_page(sweep: AnalysedSweep, against: str | None = None) -> str:
    """The page itself; ``against`` is the case that others are compared with at first."""
    data = sweep_data(sweep, against)
    cases, failed = sweep.cases, sum(len(case.failed) for case in sweep.cases)
    seeds = len(sweep.seeds)
    told = f"{len(cases):,} {'case' if len(cases) == 1 else 'cases'} under {seeds} {'seed' if seeds == 1 else 'seeds'}"
    missing = len(cases) * seeds - failed - sum(len(case.rows) for case in cases)
    curves = left_out(min(MOST_CURVES, len(cases)), len(cases), "cases, the first ones")
    body = [
        f"<h1>Sweep {escape(sweep.name)}</h1>",
        f"<p class=lead>{escape(sweep.scenario)}: {told}</p>",
        failures(cases, len(cases) * seeds) if failed else "",
        f"<p class=warning>{counted(missing, 'point')} not finished yet.</p>" if missing else "",
        "<p class=sub>Means over seeds, with the half width of their 95 % interval (Student’s t; seeds are taken for "
        "independent draws). One seed has no interval.</p>",
        '<section><h2>The cases</h2><div id="cases" class="scroll"></div>'
        f'<p class=note>{escape(left_out(min(MOST_CASES, len(cases)), len(cases), "cases, the first ones"))}</p>'
        "</section>",
        "<section><h2>Differences, seed by seed</h2><p>Two cases under one seed meet the same devices and channels, so "
        "that what the world does to both cancels out. Bold: the interval does not hold zero.</p>"
        '<div class="controls" id="differences-controls"></div><div id="differences" class="scroll"></div></section>',
        *([('<section><h2>To a target</h2><p>What it took until the accuracy was first reached: means over those seeds '
            "that have, so a case that not all seeds have reached looks better than it is.</p>"
            '<div class="controls" id="target-controls"></div><div id="target" class="scroll"></div></section>')]
          if sweep.learns else []),
        '<div class="charts">',
        *(chart(name, title, text, f"{curves} {BANDS}".strip() if name in LINES else "")
          for name, learned, title, text in CHARTS if sweep.learns or not learned),
        "</div>",
    ]
    return page(f"sweep {sweep.name}", body, {"sweep": data})


def failures(cases: Sequence[SweepCase], cells: int) -> str:
    """Which cases failed, and why: the first reason of each."""
    failed = [case for case in cases if case.failed]
    told = [f"<li>{escape(case.label)}: {len(case.failed)} of {counted(len(case.failed) + len(case.rows), 'seed')}: "
            f"{escape(next(iter(case.failed.values())))}</li>" for case in failed[:MOST_FAILURES]]
    more = left_out(len(told), len(failed), "cases that failed")
    return (f"<div class=warning>{sum(len(case.failed) for case in failed)} of {counted(cells, 'point')} failed."
            f"<ul>{''.join(told)}</ul>{more}</div>")


LINES = ("sweep-rounds", "sweep-time", "sweep-energy", "sweep-times")
BANDS = "Lines are means over seeds, bands their intervals; a run that has ended keeps its last accuracy."


def sweep_data(sweep: AnalysedSweep, against: str | None = None) -> dict[str, Any]:
    """What the page's script is given: numbers by seed, for tables that follow what the reader chooses."""
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


def _case(sweep: AnalysedSweep, case: SweepCase, curves: bool) -> dict[str, Any]:
    named = sweep.named(case)
    found = {
        "label": case.label, "settings": ["" if named[key] is None else named[key] for key in sweep.keys],
        "seeds": list(case.rows), "failed": [[seed, reason] for seed, reason in case.failed.items()],
        "values": {name: case.values(name) for name in sweep.measures}, "records": [_records(case, seed, curve)
                                                                                  for seed, curve in case.learned()],
    }
    return {**found, "curves": _curves(case)} if curves and case.rows else found


def _records(case: SweepCase, seed: int, curve: dict[str, Any]) -> dict[str, Any]:
    at = records(curve["accuracy"].tolist())
    return {"seed": seed, **{name: values[at].tolist() for name, values in curve.items()}}


def _curves(case: SweepCase) -> dict[str, Any]:
    found = {over: curve for over in OVER if (curve := case.curve(over)) is not None}
    played = [np.array(row["round_s"]) for row in case.rows.values() if len(row["round_s"])]
    if played:
        common = min(map(len, played))      # rounds that all seeds have
        rounds = [np.arange(1.0, common + 1)] * len(played)
        found["times"] = mean_curve(rounds, [each[:common] for each in played], MOST_POINTS)
    return {name: _drawn(places.tolist(), estimates) for name, (places, estimates) in found.items()}


def _drawn(places: list[float], estimates: list[Estimate]) -> dict[str, Any]:
    return {"x": places, "mean": [one.mean for one in estimates], "low": [one.low for one in estimates],
            "high": [one.high for one in estimates]}
