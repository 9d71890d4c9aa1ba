"""The laws of a fleet, fitted to a log: compute time, link rates, power and availability of each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betaincinv

from netsim.base.pluralize import pluralize
from netsim.base.types import Bools, Floats
from netsim.calibration.fits import LEVEL, Fits, fit
from netsim.calibration.log import MIXED, Log


class Parameter(NamedTuple):
    """A parameter of a device: its law, the column of its coefficient, and its name and unit in tables."""

    law: str
    column: int
    words: str
    unit: str

    @property
    def inverse(self) -> bool:
        """True if the parameter is the inverse of the coefficient: rates, of which laws have seconds per bit."""
        return self.unit == "bit/s"


PARAMETERS = {      # by their names in the JSON output
    "seconds_per_batch": Parameter("compute", 0, "overhead per batch", "s"),
    "seconds_per_sample": Parameter("compute", 1, "time per sample", "s"),
    "upload_bits_per_s": Parameter("upload", 1, "upload rate", "bit/s"),
    "download_bits_per_s": Parameter("download", 1, "download rate", "bit/s"),
    "compute_w": Parameter("energy", 1, "power of computing", "W"),
    "transmit_w": Parameter("energy", 0, "power of sending", "W"),
}


class Laws(dict[str, Fits]):
    """Fitted laws of the units of a log, by name; without those for which the log has no column.

    ``compute`` is compute_s over batches and samples, ``upload`` and ``download`` are seconds over bits, ``energy`` is
    energy_j over upload_s and compute_s.
    """

    @classmethod
    def of(cls, log: Log) -> Laws:
        sent = log["upload_s"] if "upload_s" in log.columns else None
        columns = {"compute": ("compute_s", log.batches, log.work), "upload": ("upload_s", None, log.bits),
                   "download": ("download_s", None, log.download_bits), "energy": ("energy_j", sent, log["compute_s"])}
        return cls({name: fit(log.unit, x0, x1, log[y], len(log.names)) for name, (y, x0, x1) in columns.items()
                    if (np.isfinite(log[y]) & np.isfinite(x1)).any()})

    def draw(self, log: Log, rng: np.random.Generator, draws: int) -> tuple[Floats, Floats | None]:
        """Draw what the jobs of a log take: seconds and joules, shape (draws, rows); joules None without energies.

        Only the durations that a row has are part of its seconds.
        """
        columns: dict[str, tuple[Floats | float, Floats]] = {
            "compute": (log.batches, log.work), "upload": (0.0, log.bits), "download": (0.0, log.download_bits)}
        drawn = {name: _draw(law, log, rng, draws, *columns[name]) for name, law in self.items() if name in columns}
        seconds = np.sum([np.where(np.isfinite(log[f"{name}_s"]), values, 0.0) for name, values in drawn.items()],
                         axis=0)
        if "energy" not in self:
            return seconds, None
        return seconds, _draw(self["energy"], log, rng, draws, drawn.get("upload", 0.0), drawn["compute"])

    def covers(self, log: Log) -> Bools:
        """Return whether each row can be predicted: its device has all the laws that the row's columns need."""
        known = [~np.isfinite(log[f"{name}_s"]) | (law.rows > 0)[log.unit] & (law.df > 0)[log.unit]
                 for name, law in self.items() if name != "energy"]
        found: Bools = np.all(known, axis=0)
        return found

    def parameters(self, log: Log, unit: int) -> dict[str, dict[str, float | None]]:
        """Return the parameters of a unit with the ends of their 95 % intervals; None where rows are too few."""
        found: dict[str, dict[str, float | None]] = {}
        for name, each in PARAMETERS.items():
            law = self.get(each.law)
            if law is None or not law.rows[unit] or (each.column == 0 and not law.separable[unit]) or (
                    each.inverse and "bits" not in log.columns):
                continue
            ends = [float(values[unit, each.column]) for values in (law.value, law.low, law.high)]
            if each.inverse:
                ends = [1 / ends[0], 1 / ends[2], 1 / ends[1]]
            value, low, high = (end if np.isfinite(end) else None for end in ends)
            found[name] = {"value": value, "low": low, "high": high}
        return found


def _draw(
    law: Fits, log: Log, rng: np.random.Generator, draws: int, x0: Floats | float, x1: Floats,
) -> Floats:
    """Draw what a law gives for the rows of a log, shape (draws, rows)."""
    both, sd = law.draw(rng, np.arange(len(log.names)), draws)
    mean = both[:, log.unit, 0] * x0 + both[:, log.unit, 1] * x1
    found: Floats = mean * np.exp(sd[:, log.unit] * rng.standard_normal(mean.shape))
    return found


SAME_BATCHES = (
    "seconds_per_batch cannot be separated from seconds_per_sample for {}: the number of samples per batch does not "
    "vary, or there are fewer than 3 rows. seconds_per_sample includes the overhead of the logged batch size and does "
    "not hold for another one")


def notes_on(log: Log, laws: Laws) -> list[str]:
    """Return sentences about what the log cannot tell."""
    names, compute, energy = np.array(log.names), laws["compute"], laws.get("energy")
    notes, same = [], ~compute.separable
    if same.any():
        notes.append(SAME_BATCHES.format("every device" if same.sum() == (compute.rows > 0).sum() else
                                         listed(names[same])))
    if energy is not None and "upload_s" in log.columns and not energy.separable.all():
        notes.append(f"transmit_w cannot be separated from compute_w for {listed(names[~energy.separable])}: upload_s "
                     "is a constant share of compute_s. compute_w includes the energy of uploads")
    negative = compute.separable & (compute.free.min(axis=1) < 0)
    if negative.any():
        notes.append(f"a cost of {listed(names[negative])} is best fitted by a negative number and set to 0: time per "
                     "sample may grow with the batch size")
    if "upload_s" in log.columns and "bits" not in log.columns:
        notes.append("the log has no bits: uploads of another size cannot be predicted")
    notes += _different_units(log, compute)
    if len(names) == 1:
        notes.append("the log has one device: the spread between devices cannot be estimated")
    if log.ignored:
        notes.append(f"ignored columns: {', '.join(log.ignored[:10])}")
    if (compute.rows == 0).any():
        notes.append(f"{listed(names[compute.rows == 0])} never finished a job and is not part of the fleet")
    return notes


def _different_units(log: Log, compute: Fits) -> list[str]:
    """Return a note if some devices seem to have been logged in another unit than the others."""
    cost = compute.value[:, 1] + compute.ratio * compute.value[:, 0]
    for model in sorted(set(log.models)):
        units = [unit for unit in np.argsort(cost).tolist() if log.models[unit] == model and compute.rows[unit]]
        gaps = np.diff(np.log10(cost[units]))
        if len(gaps) and gaps.max() > MIXED:
            slow = [log.names[unit] for unit in units[int(gaps.argmax()) + 1:]]
            return [f"{listed(slow)} takes {10 ** gaps.max():,.0f} times as long for a sample as the next faster "
                    "device: check that compute_s is in seconds in every row"]
    return []


def listed(names: Sequence[str] | NDArray[np.str_]) -> str:
    """Return three names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {pluralize(len(names) - 3, 'more device')}" if len(names) > 3 else "")


def availability(log: Log, round_s: float) -> dict[str, Any] | None:
    """Fit the availability of the fleet to jobs that finished and jobs that failed; None if no job failed.

    A finished job shows a device that was on, a failed one a device that was off. Without a column ``t``, rounds are
    ``round_s`` seconds apart. ``share`` is that of finished jobs with its 95 % interval (Jeffreys); ``on_s`` and
    ``off_s`` are means of exponential durations by maximum likelihood, None if no device was seen twice.
    """
    if not log.failed.any():
        return None
    t = np.where(np.isfinite(log["t"]), log["t"], log.round * round_s)
    order = np.lexsort((t, log.unit))
    unit, on, t = log.unit[order], ~log.failed[order], t[order]
    pairs = (np.diff(unit) == 0) & (np.diff(t) > 0)
    good, bad = int(on.sum()), int((~on).sum())
    low, high = (float(betaincinv(good + 0.5, bad + 0.5, 0.5 + side * LEVEL / 2)) for side in (-1, 1))
    share = {"value": good / len(on), "low": low, "high": high}
    if not pairs.any():
        return {"share": share, "on_s": None, "off_s": None}
    gap = np.diff(t)[pairs]
    middle, half = np.log(np.median(gap)), np.log(good / bad) / 2
    found = minimize(_surprise, [middle + half, middle - half], (gap, on[:-1][pairs], on[1:][pairs]), "Nelder-Mead")
    on_s, off_s = np.exp(np.clip(found.x, middle - 7, middle + 7))
    return {"share": share, "on_s": float(on_s), "off_s": float(off_s)}


def _surprise(logs: Floats, gap: Floats, before: Bools, after: Bools) -> float:
    """Return the negative log-likelihood of mean durations on and off (their logarithms) for pairs of observations."""
    on_s, off_s = np.exp(np.clip(logs, -30, 30))
    steady = on_s / (on_s + off_s)
    forgets = np.exp(-gap * (1 / on_s + 1 / off_s))
    stays = np.where(before, steady + (1 - steady) * forgets, steady * (1 - forgets))
    return -float(np.sum(np.log(np.clip(np.where(after, stays, 1 - stays), 1e-12, 1))))
