"""What the page that compares runs shows, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from netsim.report.figures import sample
from netsim.report.run_data import MOST_POINTS, MOST_ROUNDS, accuracy, columns, left_out

if TYPE_CHECKING:
    from netsim.analysis.analysed_run import AnalysedRun


def comparison_data(runs: Sequence[AnalysedRun], labels: list[str]) -> dict[str, Any]:
    """Everything that the page draws, run by run."""
    longest = max(run.last_round for run in runs)
    notes = {
        "times": left_out(min(longest, MOST_ROUNDS), longest, "rounds, evenly spread"),
        "world": "" if same_world(runs) else
        "These runs do not share one world: their devices or seeds differ, so what differs below is not the methods' "
        "doing alone.",
    }
    return {
        "runs": [one(run, label) for run, label in zip(runs, labels, strict=True)],
        "notes": {name: note for name, note in notes.items() if note},
    }


def one(run: AnalysedRun, label: str) -> dict[str, Any]:
    """One run's part of the comparison."""
    breakdown = run.breakdown()
    rounds = sample(breakdown.rounds.with_columns(spent_j=pl.col("energy_j").cum_sum()), MOST_ROUNDS)
    evaluated = sample(run.rounds.drop_nulls("accuracy"), MOST_POINTS)
    return {
        "label": label,
        "selection": run.scenario.selection.method,
        "allocation": run.scenario.allocation.method,
        "seed": run.info["seed"],
        "totals": breakdown.totals,
        "rounds": columns(rounds.select("round", "t1", "round_s", "energy_j", "spent_j", "band_used")),
        "accuracy": accuracy(run),
        "best": max(evaluated["accuracy"], default=None),
        "last": None if evaluated.is_empty() else evaluated["accuracy"][-1],
    }


def same_world(runs: Sequence[AnalysedRun]) -> bool:
    """Whether all runs drew the very same devices from the same seed; their data count where all runs learn."""
    shared = [name for name in runs[0].devices.columns if all(name in run.devices.columns for run in runs)]
    first = runs[0].devices.select(shared)
    return all(run.info["seed"] == runs[0].info["seed"] and run.devices.select(shared).equals(first) for run in runs)


def labels_of(runs: Sequence[AnalysedRun]) -> list[str]:
    """The names of the runs' folders, with as much of the path as tells them apart."""
    paths = [run.path.resolve().parts for run in runs]
    deepest = max(map(len, paths))
    for depth in range(1, deepest + 1):
        labels = ["/".join(parts[-depth:]) for parts in paths]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{label} ({number})" for number, label in enumerate(labels, start=1)]     # the same run more than once
