"""A calibrated fleet as a scenario, and the uncertainty of its parameters in a file beside it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base.checksummed import read_object, write_object
from netsim.base.errors import InputError
from netsim.base.files import reading, replace_text
from netsim.base.types import Floats, Ints
from netsim.calibration.fits import Fits
from netsim.calibration.laws import Laws
from netsim.calibration.log import Log
from netsim.scenario import Scenario, load_scenario, toml_text

FORMAT = 1
CLOCK_HZ = 1e9               # nominal: cycles are seconds at this clock, so that it cancels
LEAST = 1e-9                 # cycles per sample, or watts, that stand for none
MOST_SPREAD = 3.0            # of population.variation
FLEET = "fleet"              # name of the calibrated population


@dataclass(frozen=True, eq=False)
class CalibratedFleet:
    """Calibrated devices: the tables of their scenario, and the laws that their columns come from."""

    tables: dict[str, Any]
    names: tuple[str, ...]
    laws: Mapping[str, Fits]

    @cached_property
    def scenario(self) -> Scenario:
        return Scenario.of(self.tables)

    def drawn(self, rng: np.random.Generator, rounds: int) -> Scenario:
        """Return the scenario of this number of rounds with parameters drawn from their distribution."""
        tables = with_columns(self.tables, self.names, columns_of(self.laws, rng))
        return Scenario.of({**tables, "end": {**tables["end"], "rounds": rounds}})


def columns_of(laws: Mapping[str, Fits], rng: np.random.Generator | None = None) -> dict[str, list[Any]]:
    """Return the calibrated columns of a population: fitted values, or one draw of them."""
    values = {name: (law.value, law.sd) if rng is None else law.draw_once(rng) for name, law in laws.items()}
    cost, spread = values["compute"]
    found: dict[str, list[Any]] = {
        "cycles_per_batch": _short(cost[:, 0] * CLOCK_HZ),
        "cycles_per_sample": _short(np.maximum(cost[:, 1] * CLOCK_HZ, LEAST)),
        "compute_variation": _short(np.minimum(np.nan_to_num(spread), MOST_SPREAD))}
    found["power"] = ["200 mW"] * len(cost)
    if "energy" in values:
        watts, _ = values["energy"]
        found |= {"power": [f"{max(each, LEAST):.6g} W" for each in np.nan_to_num(watts[:, 0]).tolist()],
                  "capacitance": _short(_known(watts[:, 1]) / CLOCK_HZ**3)}
    for name, column in (("upload", "rate"), ("download", "downlink_rate")):
        if name in values and "upload" in values:
            found[column] = [f"{1 / each:.6g} bit/s" for each in _known(values[name][0][:, 1]).tolist()]
    if "upload" in values:
        found["upload_variation"] = _short(np.minimum(np.nan_to_num(values["upload"][1]), MOST_SPREAD))
    return found


def _known(values: Floats) -> Floats:
    """Return the values; a device without measurements has the median of the others."""
    good = np.isfinite(values) & (values > 0)
    return np.where(good, values, np.median(values[good]) if good.any() else LEAST)


def _short(values: Floats) -> list[float]:
    """Return values with six significant digits."""
    return [float(f"{each:.6g}") for each in values.tolist()]


def fleet_of(log: Log, laws: Laws, off_times: Mapping[str, Any] | None, base: Scenario | None) -> CalibratedFleet:
    """Return the fleet of a log: devices with at least one finished job; of several models, the most frequent one's.

    ``off_times`` is the fitted availability (mean durations ``on_s`` and ``off_s``), ``base`` a scenario whose
    learning, selection, server, rounds and end are used.
    """
    units = _units(log, laws)
    chosen = log.only(np.isin(log.unit, units))
    names = tuple(log.names[unit] for unit in units.tolist())
    kept = {name: Fits(**{field.name: getattr(law, field.name)[units] for field in fields(Fits)})
            for name, law in laws.items()}
    tables = _tables_of(base, chosen, len(names))
    passes = tables["learning"].get("local_epochs") or 1
    samples = np.maximum(np.rint(_medians(chosen.finished) / passes), 1).astype(int).tolist()
    devices: dict[str, list[Any]] = {
        "name": list(names), "samples": samples, "cpu_min": ["1 GHz"] * len(names), "cpu_max": ["1 GHz"] * len(names)}
    population: dict[str, Any] = {"name": FLEET, "budget": "none", "devices": devices}
    if off_times is not None and off_times["on_s"] is not None:
        population["availability"] = {"model": "on-off", "on": f"{max(off_times['on_s'], 1e-3)!r} s",
                                      "off": f"{max(off_times['off_s'], 1e-3)!r} s", "on_interrupt": "abort"}
    tables["population"] = [population]
    return CalibratedFleet(with_columns(tables, names, columns_of(kept)), names, kept)


def _units(log: Log, laws: Laws) -> Ints:
    """Return the units with a finished job; of several models, those of the most frequent one."""
    rows = laws["compute"].rows
    units = np.flatnonzero(rows > 0)
    _, number = np.unique(np.array(log.models)[units], return_inverse=True)
    chosen: Ints = units[number == np.bincount(number, weights=rows[units]).argmax()]
    return chosen


def _medians(log: Log) -> Floats:
    """Return the median samples of each unit of a log, by rising number."""
    order = np.lexsort((log["samples"], log.unit))
    _, first, rows = np.unique(log.unit[order], return_index=True, return_counts=True)
    found: Floats = log["samples"][order][first + (rows - 1) // 2]
    return found


def _tables_of(base: Scenario | None, log: Log, size: int) -> dict[str, Any]:
    """Return the scenario without its devices: that of the base, or rounds like those of the log."""
    learning = {"bits": f"{np.median(log.bits):.0f} bit"}
    cell: dict[str, Any] = {"radius": "100 m", "bandwidth": "20 MHz"}
    if "upload_s" in log.columns:
        cell["link"] = {"model": "dedicated"}
        if "download_s" in log.columns:
            cell["downlink"] = {"bits": f"{np.median(log.download_bits):.0f} bit"}
    if base is not None:
        tables = tomllib.loads(base.to_toml())
        cohort = min(int(tables["selection"]["cohort"]), size)
        scheduler = {name: value for name, value in tables["cell"].items() if name == "scheduler"}
        return {**tables, "name": FLEET, "cell": tables["cell"] if "upload_s" not in log.columns else cell | scheduler,
                "learning": tables["learning"] | ({} if "bits" in log.columns else learning),
                "selection": {**tables["selection"], "cohort": cohort}}
    cohort = round(float(np.median(np.bincount(log.round)[np.unique(log.round)]))) if log.has_rounds else size
    return {
        "name": FLEET, "description": f"{size} devices calibrated from {Path(log.path).name}", "cell": cell,
        "learning": {**learning, "local_epochs": 1, "batch_size": round(float(np.median(log.finished["batch"])))},
        "selection": {"method": "fedavg", "cohort": min(max(cohort, 1), size)},
        "allocation": {"method": "equal"}, "rounds": {"first": "cohort"}, "end": {"rounds": 50}}


def with_columns(tables: Mapping[str, Any], names: tuple[str, ...], columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    populations = [{**table, "devices": {**table["devices"], **columns}}
                   if tuple(table.get("devices", {}).get("name", ())) == names else table
                   for table in tables["population"]]
    return {**tables, "population": populations}


def write_fleet(fleet: CalibratedFleet, path: Path) -> list[Path]:
    """Write the scenario and, beside it, its uncertainty; return both paths."""
    beside = uncertainty_beside(path)
    laws = {name: {field.name: _plain(getattr(law, field.name)) for field in fields(Fits)}
            for name, law in fleet.laws.items()}
    assert fleet.scenario.size >= len(fleet.names)
    replace_text(path, "# Written by `netsim calibrate`. Predict with:  netsim predict " + path.name + "\n\n"
                 + toml_text.dumps(fleet.tables))
    write_object(beside, {"format": FORMAT, "names": list(fleet.names), "laws": laws})
    return [path, beside]


def _plain(array: Any) -> Any:
    """Return an array as lists, with None for NaN."""
    return np.where(np.isnan(array), np.array(None), array).tolist() if array.dtype.kind == "f" else array.tolist()


def uncertainty_beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.calibration.json")


def read_fleet(path: Path, overrides: Sequence[str] = ()) -> CalibratedFleet:
    """Read a scenario that `netsim calibrate` wrote, with its uncertainty.

    Other keys of the scenario may have been changed since; the calibrated columns may not, since they are drawn.
    """
    beside = uncertainty_beside(path)
    tables = tomllib.loads(load_scenario(str(path), list(overrides)).to_toml())
    with reading(beside, f"`netsim calibrate LOG -o {path.name}` writes it beside the scenario"):
        stored = read_object(beside, "the uncertainty of a calibrated scenario")
    if stored.get("format") != FORMAT:
        raise InputError("other-version", str(beside), f"format {stored.get('format')}", f"format {FORMAT}")
    try:
        names = tuple(stored["names"])
        laws = {name: Fits(**{field.name: np.array(law[field.name], dtype=TYPES.get(field.name, np.float64))
                              for field in fields(Fits)}) for name, law in stored["laws"].items()}
        assert all(law.value.shape == (len(names), 2) for law in laws.values())
    except (KeyError, TypeError, ValueError, AssertionError):
        raise InputError("damaged", str(beside), expected="what `netsim calibrate` writes") from None
    _check_columns(path, tables, names, columns_of(laws))
    return CalibratedFleet(tables, names, laws)


TYPES = {"separable": np.bool_, "rows": np.int64}


def _check_columns(path: Path, tables: Mapping[str, Any], names: tuple[str, ...], fitted: Mapping[str, Any]) -> None:
    """Raise InputError if the calibrated population is missing, or a calibrated column was changed."""
    listed = [table["devices"] for table in tables["population"]
              if tuple(table.get("devices", {}).get("name", ())) == names]
    if not listed:
        raise InputError("conflict", str(path), "other devices", f"the {len(names)} calibrated ones",
                         "Calibrate again after a change of the fleet")
    for name, values in fitted.items():
        if [str(value) for value in listed[0].get(name, [])] != [str(value) for value in values]:
            raise InputError("no-effect", f"population.{FLEET}.devices.{name}", "other values than the fitted ones",
                             hint="`netsim predict` draws this column from the calibration; use `netsim run` for other "
                             "values", source=str(path))
