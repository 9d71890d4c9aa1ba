"""Prediction of a calibrated fleet: runs with parameters drawn from their distribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from netsim.base.errors import InputError
from netsim.base.rng import stream
from netsim.base.types import Floats
from netsim.calibration.fits import LEVEL
from netsim.calibration.fleet_file import read_fleet
from netsim.simulation import simulate
from netsim.trace.schema import ARRIVED

if TYPE_CHECKING:
    from netsim.run import Run


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
            devices' time spent on download, compute, upload and waiting.
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
    """Return the median of runs, and the interval in which one more run lies with a probability of 95 % (t).

    >>> import numpy as np
    >>> interval_of(np.array([1.0, 1.0, 1.0]))
    {'value': 1.0, 'low': 1.0, 'high': 1.0}
    """
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
    found: list[tuple[float, float, int, list[float]]] = []
    last: Counter[str] = Counter()
    parts: dict[str, float] = {}
    for seed in range(seeds):
        scenario = calibrated.drawn(stream(seed, "calibration", 1), rounds)
        run = simulate(scenario, seed=seed, learning=False)
        summary = run.summary
        found.append((summary["simulated_s"], summary["energy_j"], summary["dropped"], summary["round_s"]))
        _count_limits(run, last, parts)
        if progress is not None:
            progress(seed + 1)
    time_s, energy_j, dropped = (np.array(values, dtype=float) for values in list(zip(*found, strict=True))[:3])
    round_s = np.concatenate([np.array(run[3]) for run in found])
    total, seconds = sum(last.values()) or 1, sum(parts.values()) or 1.0
    return Prediction(
        rounds, time_s, energy_j if "energy" in calibrated.laws else None, dropped, round_s,
        {name: count / total for name, count in last.items()}, {name: part / seconds for name, part in parts.items()})


def _count_limits(run: Run, last: Counter[str], parts: dict[str, float]) -> None:
    """Count the devices that arrived last in their rounds, and the seconds of their jobs by part."""
    import polars as pl

    columns = [name for name in ("download_s", "compute_s", "upload_s", "wait_s") if name in run.jobs.columns]
    jobs = run.jobs.filter(pl.col("outcome") == ARRIVED).sort("t1").group_by("round").last()
    jobs = jobs.join(run.devices.select("device", "name"), on="device")
    last.update(jobs["name"].to_list())
    for name in columns:
        part = name.removesuffix("_s")
        parts[part] = parts.get(part, 0.0) + float(jobs[name].sum())
