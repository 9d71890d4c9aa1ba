"""A sweep's tables as files: CSV, JSON and LaTeX, numbers as they are in the first two, for people in the last."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from netsim.analysis.analysed_sweep import MEASURES, TARGETS
from netsim.base.files import make_folder, replace_text
from netsim.base.spreadsheet import safe_table

if TYPE_CHECKING:
    from netsim.analysis.analysed_sweep import AnalysedSweep

KINDS = {**{name: kind for name, (kind, _) in MEASURES.items()}, **TARGETS}
WORDS = {"accuracy": "accuracy", "round_s": "a round", "simulated_s": "simulated time", "energy_j": "energy",
         "rounds": "rounds", "compute_s": "compute", "upload_s": "upload", "wait_s": "wait", "dropped": "dropped",
         "time_s": "time"}
STEPS = {"time": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")), "energy": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")),
         "share": ((0.01, "%"),), "count": ((1.0, ""),)}
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "µ": r"\textmu{}",
           **{mark: f"\\{mark}" for mark in "&%$#_{}"}}


def write_tables(sweep: AnalysedSweep, folder: Path, against: str | None) -> list[Path]:
    """``cases`` and ``differences``, each as .csv, .json and .tex."""
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
    r"""A tabular of means with their intervals, to be read in with ``\input``; it needs no package."""
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


def scale_of(values: pl.Series, kind: str) -> tuple[float, str]:
    """The unit in which the largest number of a column is short."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    steps = STEPS[kind]
    return next((step for step in steps if largest >= step[0]), steps[-1])


def with_interval(mean: float | None, high: float | None, scale: float) -> str:
    r"""A number in LaTeX, to as many digits as its interval tells apart.

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
    """Text that LaTeX prints as it is."""
    return "".join(SPECIAL.get(mark, mark) for mark in text)
