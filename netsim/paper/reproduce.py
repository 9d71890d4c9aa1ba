"""Registry of the paper's tables and figures, and their reproduction."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.base.errors import require_known
from netsim.base.files import replace_text
from netsim.paper.report import RULE, About, Report, overview, write_report

if TYPE_CHECKING:
    from netsim.executors.factory import ExecutorFactory


@dataclass(frozen=True)
class Context:
    """Options of a reproduction: quick or full, data folder, number of trials, output folders."""

    out: Path
    quick: bool = False
    trials: int | None = None        # trials of learning, or layouts of an allocation target; None: the target's number
    data: str = "data"               # folder of the datasets; partitions/ in it has the published partitions, if any
    workers: int | None = None
    stored: bool = False             # use stored trials only
    datasets: tuple[str, ...] = ()   # train on these only, use stored trials of others; empty: train on all
    cluster: str | None = None       # run trials on the Dask cluster at this address, not on this machine
    beyond: Path | None = None       # output folder of targets beyond the paper; None: that of the others

    def trains(self, dataset: str) -> bool:
        """Return whether missing trials on a dataset are run."""
        return not self.stored and (not self.datasets or dataset in self.datasets)

    def count(self, full: int, quick: int | None = None) -> int:
        """Return the number of trials or layouts: the user's, or else the target's full or quick one."""
        return self.trials or (quick if self.quick and quick else full)

    @property
    def place(self) -> ExecutorFactory:
        """Return the executor factory of trials."""
        from netsim.executors.factory import place_for

        return place_for(self.workers, self.cluster)

    def folder(self, target: str) -> Path:
        """Return the output folder of a target."""
        return (self.beyond or self.out) if target in BEYOND else self.out

    @property
    def cells(self) -> Path:
        """Folder of the records of finished trials."""
        return self.out / "cells"

    @property
    def runs(self) -> Path:
        """Folder of the run directories of unfinished trials."""
        return self.out.parent / "sweeps" / self.out.name / "runs"


@dataclass(frozen=True)
class Target:
    """Table or figure: its title, and the function that makes its report."""

    title: str
    function: str            # "module:function" below netsim.paper; returns None without stored trials

    def __call__(self, context: Context) -> Report | None:
        module, _, name = self.function.partition(":")
        make: Callable[[Context], Report | None] = getattr(import_module(f"netsim.paper.{module}"), name)
        return make(context)


TARGETS = {
    "fig4": Target("distances between devices' models, layer by layer", "first_round:fig4"),
    "table1": Target("weight divergence of a device against what choosing it does", "divergence_accuracy:table1"),
    "table2": Target("parameters by layer, and model sizes", "model_sizes:table2"),
    "fig5": Target("energy of each device, total energy and delay: SAO and FEDL", "delay_figures:fig5"),
    "fig6": Target("delay of a round against transmit power", "delay_figures:fig6"),
    "fig7": Target("delay of a round against the energy budget", "delay_figures:fig7"),
    "fig8": Target("running time of K-means by layer", "first_round:fig8"),
    "fig9": Target("adjusted Rand index of K-means by layer", "first_round:fig9"),
    "fig10": Target("accuracy over rounds, by selection method", "accuracy_figures:fig10"),
    "fig11": Target("rounds to the target accuracy, by selection method", "accuracy_figures:fig11"),
    "fig12": Target("divergence selection against RRA", "accuracy_figures:fig12"),
    "table3": Target("improvement over FedAvg", "accuracy_figures:table3"),
    "fig13": Target("cohort size against rounds, delay and energy", "accuracy_figures:fig13"),
    "fig14": Target("the best transmit power", "delay_figures:fig14"),
    "theorem1": Target("the optimum and its cost as the paper's theory has them", "theorem1:theorem1"),
    "choices": Target("what the choices that the paper leaves open do", "open_choices:choices"),
}
BEYOND = {
    "sharing": Target("the band shared in time: how much shorter can a round be?", "time_varying_bandwidth:sharing"),
    "asynchronous": Target("waiting or not: time and energy to a target accuracy, by server",
                           "asynchronous:asynchronous"),
    "real-devices": Target("computing as phones need it: who wins, and by how much?", "real_devices:real_devices"),
}
# modules whose targets need no downloaded dataset
NO_DATA = ("open_choices", "delay_figures", "time_varying_bandwidth", "model_sizes", "theorem1", "real_devices")
INTRODUCTION = f"""\
# The paper's tables and figures, measured

Generated by `netsim reproduce`; do not edit. Each row: what the paper says (in our words), what was measured, whether
they agree, the command that measures it again, and how long it computed (on a machine with two cores; summed over
trials that ran side by side; of a trial that was interrupted, the time since it went on). A number that was not
measured is not here. How the paper's open questions were settled:
[choices that the paper leaves open](../../docs/choices-the-paper-leaves-open.md).

{RULE}

"""
NAMES = (*TARGETS, *BEYOND, "all")
BEYOND_THE_PAPER = """\
# Beyond the paper, measured

Generated by `netsim reproduce`; do not edit. Each row: a statement about what netsim adds to the paper's model, what
was measured, whether it holds, the command that measures it again, and how long it computed.

"""


def chosen(names: Sequence[str]) -> list[str]:
    """Return the named targets in the order of the paper; "all" or no name selects all of the paper's."""
    require_known("TARGET", names, NAMES)
    return [name for name in TARGETS if not names or "all" in names or name in names] + [
        name for name in BEYOND if name in names]


def reproduce(names: Sequence[str], context: Context, say: Callable[[str], None] = lambda line: None) -> list[Report]:
    """Write the reports of these targets below ``context.out`` and update its overview table."""
    from netsim.paper.trials import datasets

    require_known("--dataset", context.datasets, datasets(context))
    reports = []
    for name in chosen(names):
        target = (TARGETS | BEYOND)[name]
        start = time.monotonic()
        say(f"{name}: {target.title}")
        report = target(context)
        if report is None:
            say("  left as it is: nothing is stored to draw it from")
            continue
        seconds = time.monotonic() - start if report.seconds is None else report.seconds
        about = About(name, target.title, command(name, context), round(seconds, 1), context.quick,
                      "statement" if name in BEYOND else "the paper")
        write_report(context.folder(name) / name, report, about)
        for finding in report.findings:
            say(f"  {finding.verdict}: {finding.paper} -- {finding.measured}")
        reports.append(report)
    if context.out.is_dir():      # missing if there was nothing to report
        replace_text(context.out / "README.md", INTRODUCTION + overview(context.out, list(TARGETS)))
    if context.beyond and context.beyond.is_dir():
        table = overview(context.beyond, list(BEYOND), "statement")
        replace_text(context.beyond / "README.md", BEYOND_THE_PAPER + table)
    return reports


def command(name: str, context: Context) -> str:
    """Return the command line that makes this report, without the data folder."""
    needs_data = not context.quick and (TARGETS | BEYOND)[name].function.split(":")[0] not in NO_DATA
    return " ".join([
        "netsim reproduce", name, *(["--quick"] if context.quick else []),
        *([f"--trials {context.trials}"] if context.trials else []), *(["--data DIR"] if needs_data else [])])
