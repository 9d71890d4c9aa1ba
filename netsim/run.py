"""A simulated run, read back from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netsim.analysis.analysed_run import AnalysedRun
from netsim.base import html
from netsim.base.counts import counted
from netsim.base.errors import InputError
from netsim.trace.run_directory import is_being_written

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run(AnalysedRun):
    """What happened in a run: frames that are read when they are first asked for.

    ``rounds``   round, t0, t1, round_s, cohort, arrived, dropped, energy_j, compute_s, upload_s, wait_s, accuracy,
                 loss; the three parts are means over the devices that took part, and sum to round_s. Where jobs reach
                 from one round into the next, they say what those at work did meanwhile, whenever that ended
    ``jobs``     what was decided for each job and what came of it; columns as in netsim.trace.schema
    ``spans``    the trace's spans: round, name, device, job, t0, t1, value, energy_j
    ``events``   the whole trace; columns as in netsim.trace.schema
    ``links``    src, dst: what caused what
    ``devices``  the population as drawn
    """

    def _repr_html_(self) -> str:
        info, rounds = self.info, self.rounds
        columns = ["round", "cohort", "arrived", "round_s", "energy_j", "compute_s", "upload_s", "wait_s"]
        if not rounds["accuracy"].is_nan().all():
            columns.append("accuracy")
        title = f"{self.title}: {counted(rounds.height, 'round')} ({info['status']})"
        return html.table(title, columns, rounds.select(columns).rows())

    def figure(self, kind: str, round: int | None = None) -> Figure:
        """A matplotlib figure: "gantt" (of one ``round``), "breakdown", "energy", "band", "accuracy"."""
        from netsim.report.figures import draw

        return draw(self, kind, round)


def load_run(path: Path | str) -> Run:
    """Open the run that lies in a folder; one that was interrupted shows its complete rounds."""
    run = Run(path)
    if is_being_written(run.path):
        raise InputError(f"{path}: still being written (round {run.last_round} is complete); wait for it to finish")
    return run
