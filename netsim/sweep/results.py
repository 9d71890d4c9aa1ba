"""Results of a sweep in Python: tables with confidence intervals, figures, and an HTML report."""

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
    """Results of a sweep.

    ``table``                  one row per finished point: varied keys, ``seed``, and the columns of the sweep guide
    ``summary``                one row per case: means over seeds, ``_low`` and ``_high`` of their 95 % intervals
    ``differences(against)``   differences to one case, paired by seed, with the same columns
    ``to_target(accuracy)``    rounds, time and energy until an accuracy is reached
    ``cases``                  the cases: ``label``, ``settings``, ``rows`` and ``failed`` by seed
    """

    def __init__(self, folder: Path | str, keep: PassingFolder | None = None) -> None:
        if not isinstance(folder, str | Path):
            raise InputError("wrong-type", "load_sweep_results", found(folder), "the folder of a sweep")
        super().__init__(folder)
        self._keep = keep      # temporary folder, deleted with this object

    def figure(self, kind: str | None = None) -> Figure:
        """Draw a figure, one column wide.

        Parameters
        ----------
        kind : str, optional
            "accuracy-rounds", "accuracy-time", "accuracy-energy", "round-time" or "energy". By default
            "accuracy-time" with learning, else "round-time".

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from netsim.report.sweep_figures import draw_sweep

        return draw_sweep(self, kind or ("accuracy-time" if self.learns else "round-time"))

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
