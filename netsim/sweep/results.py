"""Results of a sweep in Python: tables with confidence intervals, figures, and an HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.analysis.sweep_statistics import ABOUT, SweepStatistics
from netsim.base import html
from netsim.base.errors import InputError, describe_value
from netsim.base.files import TemporaryFolder
from netsim.base.frames import WithPandas
from netsim.base.pluralize import pluralize

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_SHOWN = 40      # cases of a table in a notebook or terminal
PRINTED = ("accuracy", "round_s", "simulated_s", "energy_j")      # measures that print() shows
WIDTH, LONGEST = 160, 60      # characters of a line and of a cell


class SweepResults(SweepStatistics, WithPandas):
    """Results of a sweep.

    ``table``                  one row per finished point: varied keys, ``seed``, and the columns of the sweep guide
    ``summary``                one row per case: means over seeds, ``_low`` and ``_high`` of their 95 % intervals, and
                               ``_median``
    ``differences(against)``   differences to one case, paired by seed, with the same columns
    ``to_target(accuracy)``    rounds, time and energy until an accuracy is reached
    ``cases``                  the cases: ``label``, ``settings``, ``rows`` and ``failed`` by seed
    ``to_pandas(table)``       a table for pandas

    ``print(results)`` prints the table of cases.
    """

    frames = ("table", "summary")

    def __init__(self, folder: Path | str, keep: TemporaryFolder | None = None) -> None:
        if not isinstance(folder, str | Path):
            raise InputError("wrong-type", "load_sweep_results", describe_value(folder), "the folder of a sweep")
        super().__init__(folder)
        self._keep = keep      # temporary folder, deleted with this object

    def figure(self, kind: str | None = None, target: float | None = None) -> Figure:
        """Draw a figure, one column wide; an axis is logarithmic where cases are far apart.

        Parameters
        ----------
        kind : str, optional
            "accuracy-rounds", "accuracy-time", "accuracy-energy", "round-time", "energy", "rounds-to-target",
            "time-to-target" or "energy-to-target". By default "accuracy-time" with learning, else "round-time".
        target : float, optional
            Accuracy of a figure to a target, from 0 to 1; by default the highest that every point has reached.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from netsim.report.sweep_figures import draw_sweep

        return draw_sweep(self, kind or ("accuracy-time" if self.learns else "round-time"), target)

    def report(self, path: Path | str | None = None, against: str | None = None) -> Path:
        """Write the HTML report, with tables and figures beside it.

        Parameters
        ----------
        path : path, optional
            File of the report; by default ``report.html`` in the sweep's folder.
        against : str, optional
            Label of the case that the others are compared with.

        Returns
        -------
        pathlib.Path
            The report.
        """
        from netsim.report.sweep_page import write_sweep_report

        return write_sweep_report(self, self.folder / "report.html" if path is None else Path(path), against)[0]

    def _shown(self, measures: Sequence[str]) -> tuple[str, list[str], list[list[str]]]:
        """Return title, heads and rows of the table of cases as text."""
        title = (f"{self.name}: means over {pluralize(len(self.seeds), 'seed')}, ± half of a 95 % interval (Student's "
                 "t), and medians in brackets")
        heads = [*(["case"] if any("label" in case for case in self._about["cases"]) or not self.keys else self.keys),
                 "seeds"]
        failed = ["failed"] if any(case.failed for case in self.cases) else []
        rows = []
        for case in self.cases:
            named, found = self.named(case), [(name, case.over(name)) for name in measures]
            rows.append([*("" if named[name] is None else str(named[name]) for name in heads), *(
                html.cell(name, one.mean) + ("" if one.half is None else
                                             f" ± {html.cell(name, one.half)} ({html.cell(name, one.median)})")
                for name, one in found), *(next(iter(case.failed.values()), "") for _ in failed)])
        return title, [*heads, *measures, *failed], rows

    def __str__(self) -> str:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        title, heads, rows = self._shown([name for name in PRINTED if name in self.measures])
        table = Table(*map(html.column_name, heads), title=title, title_justify="left", box=SIMPLE_HEAD,
                      show_edge=False, pad_edge=False)
        for row in rows[:MOST_SHOWN]:
            table.add_row(*(text if len(text) <= LONGEST else f"{text[:LONGEST - 1]}…" for text in row))
        console = Console(markup=False, width=WIDTH, color_system=None)
        with console.capture() as text:
            console.print(table)
        more = f"\n... and {len(rows) - MOST_SHOWN:,} more" if len(rows) > MOST_SHOWN else ""
        return "\n".join(line.rstrip() for line in text.get().splitlines()) + more

    def _repr_html_(self) -> str:
        title, heads, rows = self._shown(self.measures)
        return html.table(title, heads, rows, most=MOST_SHOWN)


def load_sweep_results(folder: Path | str) -> SweepResults:
    """Open the results of a sweep; unfinished points are left out.

    Parameters
    ----------
    folder : path
        Folder of the sweep, as ``results/sweeps/NAME``.

    Returns
    -------
    SweepResults
        Tables, figures and the report of the sweep.

    Raises
    ------
    InputError
        If the folder holds no sweep.
    """
    return SweepResults(folder)


def is_sweep(folder: Path) -> bool:
    """Return whether a folder holds a sweep rather than a run."""
    return (folder / ABOUT).is_file() or ((folder / "cells").is_dir() and (folder / "runs").is_dir())
