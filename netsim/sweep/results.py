"""The results of a sweep in Python: tables with intervals, figures, and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netsim.analysis.analysed_sweep import ABOUT, AnalysedSweep
from netsim.base import html
from netsim.base.counts import counted
from netsim.base.errors import InputError, found
from netsim.base.files import PassingFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class SweepResults(AnalysedSweep):
    """What a sweep came to.

    ``table``                  a row a finished point: what was varied, ``seed``, and the columns of the guide on sweeps
    ``summary``                a row a case: means over seeds, with ``_low`` and ``_high`` of their 95 % intervals
    ``differences(against)``   the same of the differences to one case, paired over the seeds of both
    ``to_target(accuracy)``    rounds, time and energy until an accuracy was reached
    ``cases``                  the cases themselves: ``label``, ``settings``, ``rows`` and ``failed`` by seed
    """

    def __init__(self, folder: Path | str, keep: PassingFolder | None = None) -> None:
        if not isinstance(folder, str | Path):
            raise InputError("wrong-type", "load_sweep_results", found(folder), "the folder of a sweep")
        super().__init__(folder)
        self._keep = keep      # a folder that lives as long as this

    def figure(self, kind: str | None = None) -> Figure:
        """A matplotlib figure, one column wide: "accuracy-rounds", "accuracy-time", "accuracy-energy", "round-time" or
        "energy"; without a word, accuracy against time where there is learning, else the time of a round.
        """
        from netsim.report.sweep_figures import draw_sweep

        return draw_sweep(self, kind or ("accuracy-time" if self.learns else "round-time"))

    def report(self, path: Path | str | None = None, against: str | None = None) -> Path:
        """Write the page, by default ``report.html`` in the sweep's folder, with tables and figures beside it."""
        from netsim.report.sweep_page import write_sweep_report

        return write_sweep_report(self, self.folder / "report.html" if path is None else Path(path), against)[0]

    def _repr_html_(self) -> str:
        title = f"{self.name}: means over {counted(len(self.seeds), 'seed')}, ± half of a 95 % interval (Student's t)"
        heads = [*(self.keys or ["case"]), "seeds"]
        failed = ["failed"] if any(case.failed for case in self.cases) else []
        rows = []
        for case in self.cases:
            named, found = self.named(case), [(name, case.over(name)) for name in self.measures]
            rows.append([*(named[name] for name in heads), *(
                html.cell(name, one.mean) + ("" if one.half is None else f" ± {html.cell(name, one.half)}")
                for name, one in found), *(next(iter(case.failed.values()), "") for _ in failed)])
        return html.table(title, [*heads, *self.measures, *failed], rows, most=40)


def load_sweep_results(folder: Path | str) -> SweepResults:
    """Open the sweep that lies in a folder; points that are not finished are left out."""
    return SweepResults(folder)


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of a sweep, and not of a run."""
    return (folder / ABOUT).is_file() or ((folder / "cells").is_dir() and (folder / "runs").is_dir())
