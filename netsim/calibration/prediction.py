"""Prediction of a calibrated fleet: runs with parameters drawn from their distribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

from netsim.base.errors import InputError
from netsim.base.rng import stream
from netsim.base.types import Floats
from netsim.calibration.fits import LEVEL
from netsim.calibration.fleet_file import read_fleet
from netsim.run import PARTS
from netsim.simulation import simulate
from netsim.trace.schema import ARRIVED


@dataclass(frozen=True, eq=False)
class Prediction:
    """Runs of a calibrated fleet, one per seed: arrays of shape (seeds,); ``round_s`` has all rounds of all runs."""

    rounds: int
    time_s: Floats
    energy_j: Floats | None          # None if the log has no energies
    dropped: Floats
    round_s: Floats
    limits: dict[str, float]         # share of rounds in which a device arrived last
    parts: dict[str, float]          # share of those jobs' time

    def as_json(self) -> dict[str, Any]:
        """Return medians and 95 % prediction intervals.

        Returns
        -------
        dict
            ``rounds``, ``seeds``; ``time_s``, ``energy_j`` (None without energies in the log), ``dropped`` (jobs that
            failed) and ``round_s`` (of a single round), each with ``value``, ``low`` and ``high``; ``limits``: devices
            with the share of rounds in which they arrived last, the largest first; ``limited_by``: shares of those
            devices' time spent on compute, upload and waiting.
        """
        low, median, high = np.quantile(self.round_s, [0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2])
        return {
            "rounds": self.rounds, "seeds": len(self.time_s), "time_s": interval_of(self.time_s),
            "energy_j": None if self.energy_j is None else interval_of(self.energy_j),
            "dropped": interval_of(self.dropped),
            "round_s": {"value": float(median), "low": float(low), "high": float(high)},
            "limits": [{"device": name, "share": share} for name, share in
                       sorted(self.limits.items(), key=lambda entry: -entry[1])], "limited_by": self.parts}


def interval_of(values: Floats) -> dict[str, float]:
    """Return the median of runs, and the interval in which one more run lies with a probability of 95 % (t)."""
    logs = bool((values > 0).all())
    given = np.log(values) if logs else values
    half = float(stdtrit(len(values) - 1, 0.5 + LEVEL / 2)) * given.std(ddof=1) * np.sqrt(1 + 1 / len(values))
    ends = given.mean() + half * np.array([-1.0, 1.0])
    low, high = np.exp(ends) if logs else np.maximum(ends, 0.0)
    return {"value": float(np.median(values)), "low": float(low), "high": float(high)}


def predict(
    fleet: Path | str, rounds: int = 50, seeds: int = 20, overrides: Sequence[str] = (), *,
    progress: Callable[[int], None] | None = None,
) -> Prediction:
    """Predict time, energy, drop-outs and limiting devices of a calibrated fleet.

    Each seed draws all parameters from their fitted distribution, then simulates the scenario, in which cohorts,
    availability and the times of jobs are random.

    Parameters
    ----------
    fleet : str or Path
        Scenario file that :meth:`Calibration.save` wrote, with its ``.calibration.json`` beside it.
    rounds : int
        Rounds to simulate.
    seeds : int
        Runs, at least 2.
    overrides : sequence of str
        Changes of other keys of the scenario, each as ``"selection.cohort=4"``.
    progress : callable, optional
        Called with the number of finished runs.

    Returns
    -------
    Prediction
        The runs, with medians and intervals.

    Raises
    ------
    InputError
        The files are missing, damaged, or do not belong together.
    """
    if rounds < 1 or seeds < 2:
        raise InputError("out-of-range", "rounds" if rounds < 1 else "seeds", rounds if rounds < 1 else seeds,
                         "at least 1 round and 2 seeds")
    calibrated = read_fleet(Path(fleet), overrides)
    summaries = []
    last, parts = Counter[str](), dict.fromkeys(PARTS, 0.0)      # devices that arrived last, seconds of their jobs
    for seed in range(seeds):
        run = simulate(calibrated.drawn(stream(seed, "calibration", 1), rounds), seed=seed, learning=False)
        summaries.append(run.summary)
        jobs = run.jobs.filter(pl.col("outcome") == ARRIVED).sort("t1").group_by("round").last()
        last.update(jobs.join(run.devices.select("device", "name"), on="device")["name"].to_list())
        for part in PARTS:
            parts[part] += float(jobs[f"{part}_s"].sum())
        if progress is not None:
            progress(seed + 1)
    time_s, energy_j, dropped = (np.array([summary[name] for summary in summaries], dtype=float)
                                 for name in ("simulated_s", "energy_j", "dropped"))
    total, seconds = sum(last.values()) or 1, sum(parts.values()) or 1.0
    return Prediction(
        rounds, time_s, energy_j if "energy" in calibrated.laws else None, dropped,
        np.concatenate([summary["round_s"] for summary in summaries]),
        {name: count / total for name, count in last.items()}, {part: s / seconds for part, s in parts.items()})
