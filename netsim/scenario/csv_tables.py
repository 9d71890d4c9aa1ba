"""CSV files that a scenario names: a fleet of devices, or recorded channel gains."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.base.errors import InputError, did_you_mean, nearest, quoted, require_known, unknown
from netsim.base.files import MEGABYTE, read_text, reading
from netsim.base.pluralize import pluralize
from netsim.base.units import parse
from netsim.scenario.devices import MOST_DEVICES, Fleet
from netsim.scenario.tables import at, populations, size_of

MOST_BYTES = 500 * MEGABYTE
# columns of a fleet without units
NUMBERS = ("cycles_per_sample", "cycles_per_batch", "flops_per_cycle", "capacitance", "samples", "compute_variation",
           "upload_variation")


@dataclass(frozen=True)
class Sheet:
    """Rows of a CSV file with the line on which each ends, without blank lines."""

    path: str
    rows: list[list[str]]
    lines: list[int]

    def at(self, row: int) -> str:
        return f"{self.path}, line {self.lines[row]}"


class Columns(dict[str, list[Any]]):
    """Columns by name, with the sheet that they were read from."""

    def __init__(self, sheet: Sheet, columns: dict[str, list[Any]]) -> None:
        super().__init__(columns)
        self.sheet = sheet


def read_sheet(path: str) -> Sheet:
    """Read a CSV file; raise InputError if it is malformed."""
    rows, lines = [], []
    with reading(path):
        text = read_text(Path(path), "a table", MOST_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except csv.Error as problem:
        raise InputError("malformed", path, f"line {len(lines) + 1} or after: {problem}", "CSV") from None
    if not rows:
        raise InputError("empty", path)
    sheet = Sheet(path, rows, lines)
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InputError("wrong-length", sheet.at(number), pluralize(len(row), "cell"),
                             f"{len(rows[0])}, as the first row has")
    return sheet


def read_fleet(given: str | Mapping[str, Any]) -> Any:
    """Read the columns of the ``devices`` table of a population; the first row has their names.

    ``given`` is a path, or a table with the keys ``file``, ``rename`` and ``ignore``; other tables list the devices.
    A column may carry its unit in brackets, such as ``battery [Wh]``.
    """
    table: Mapping[str, Any] = {"file": given} if isinstance(given, str) else given
    if not isinstance(table.get("file"), str):
        return given
    sheet = read_sheet(table["file"])
    _check_choice(sheet, table)
    rename, ignore, body = table.get("rename", {}), table.get("ignore", []), sheet.rows[1:]
    columns: dict[str, list[Any]] = {}
    for place, header in enumerate(sheet.rows[0]):
        name, unit = _name_and_unit(rename.get(header, header))
        if header in ignore or (ignore == "others" and name not in Fleet.model_fields):
            continue
        if name not in Fleet.model_fields:
            raise unknown(f"column {place + 1}", name, Fleet.model_fields, "unknown-key", source=sheet.at(0),
                          hint=HOW_TO_CHOOSE, secret=True)
        if name in columns:
            raise InputError("duplicate", f'column "{name}"', source=sheet.at(0))
        columns[name] = [_cell(sheet, row, place, name, unit) for row in range(1, len(sheet.rows))]
    if not body:
        raise InputError("empty", table["file"], "a header", "a device below it")
    return Columns(sheet, columns)


HOW_TO_CHOOSE = 'To rename or ignore columns, give devices = { file = "...", rename = { ... }, ignore = ["..."] }.'


def _check_choice(sheet: Sheet, table: Mapping[str, Any]) -> None:
    """Raise InputError unless all columns to rename or to ignore exist, and none is both."""
    key, rename, ignore = "population.devices", table.get("rename", {}), table.get("ignore", [])
    require_known(key, table, ("file", "rename", "ignore"), "unknown-key")
    if not isinstance(rename, Mapping) or not all(isinstance(name, str) for name in rename.values()):
        raise InputError("wrong-type", f"{key}.rename", quoted(rename), 'a table such as { tx = "power [dBm]" }')
    if ignore != "others" and not (isinstance(ignore, list) and all(isinstance(name, str) for name in ignore)):
        raise InputError("wrong-type", f"{key}.ignore", quoted(ignore), 'a list of columns, or "others"')
    chosen = [("rename", name) for name in rename] + [("ignore", name) for name in ignore if ignore != "others"]
    for choice, name in chosen:
        if name not in sheet.rows[0]:
            raise InputError("unknown-name", f"{key}.{choice}", quoted(name), f"a column of {sheet.path}")
    both = [name for name in rename if name in ignore and ignore != "others"]
    if both:
        raise InputError("conflict", f"{key}.ignore", f'"{both[0]}", which rename uses', "one of both")


def _name_and_unit(header: str) -> tuple[str, str]:
    """Split ``battery [Wh]`` into the column and the unit of its plain numbers."""
    name, bracket, unit = header.removesuffix("]").partition("[")
    return (name.strip(), unit.strip()) if bracket and header.endswith("]") else (header, "")


def _cell(sheet: Sheet, row: int, place: int, name: str, unit: str) -> Any:
    cell = sheet.rows[row][place]
    if not cell:
        raise InputError("empty", f'column "{name}"', hint="Fill it in, or remove the column to use the "
                         "keys of the population", source=sheet.at(row))
    if name in NUMBERS:
        return as_number(cell)
    return f"{cell} {unit}" if unit and not isinstance(as_number(cell), str) else cell


class RecordedGains(dict[str, list[Any]]):
    """Recorded gains, with the names of their columns and the sheet that they were read from."""

    def __init__(self, sheet: Sheet, table: dict[str, list[Any]], names: list[str]) -> None:
        super().__init__(table)
        self.sheet, self.names = sheet, names

    def of(self, devices: list[str], *, named: bool) -> dict[str, list[Any]]:
        """Return the gains with one column per device, matched by name.

        Without names of their own (``named``), devices are matched only if the columns have their usual names, such as
        "phone 3"; otherwise by position.
        """
        if not self.names or not (named or set(self.names) & set(devices)):
            return dict(self)
        order = _positions(devices, self.sheet.path)
        offset = len(self.sheet.rows[0]) - len(self.names)
        for place, name in enumerate(self.names):
            if name not in order:
                raise InputError("unknown-name", f"column {place + 1 + offset}", None, "the name of a device",
                                 "No device has this name", source=self.sheet.at(0))
        column = _positions(self.names, self.sheet.path)
        missing = [name for name in devices if name not in column]
        if missing:
            raise InputError("missing", self.sheet.path, None, f"a column for every device, {missing[0]} among them")
        return {**self, "db": [[row[column[name]] for name in devices] for row in self["db"]]}


def read_gains(path: str) -> RecordedGains:
    """Read recorded gains in dB: one row per round, one column per device; a first row may name the devices.

    A first column ``t`` has the times in seconds at which the rows start to apply.
    """
    sheet = read_sheet(path)
    header = sheet.rows[0]
    named = any(isinstance(as_number(cell), str) for cell in header)
    timed = header[0] == "t"
    gains = [[_gain(sheet, row, column, timed) for column in range(len(header))]
             for row in range(int(named), len(sheet.rows))]
    if not gains:
        raise InputError("empty", path, "a header", "gains below it")
    table: dict[str, list[Any]] = {"db": gains}
    if timed:
        table = {"t": [row[0] for row in gains], "db": [row[1:] for row in gains]}
    return RecordedGains(sheet, table, header[int(timed):] if named else [])


def read_rates(path: str) -> dict[str, list[Any]] | str:
    """Read measured rates over time: a first column t in seconds, and one column per device in bit/s, or with a unit.

    Other text than the name of a CSV file is a rate, and is returned unchanged.
    """
    if not path.lower().endswith(".csv"):
        return path
    sheet = read_sheet(path)
    if sheet.rows[0][0] != "t" or len(sheet.rows[0]) < 2:
        raise InputError("malformed", path, "other columns", "t, and one per device")

    def cell(row: int, column: int) -> float:
        text = sheet.rows[row][column]
        try:
            value = as_number(text)
            return float(value) if not isinstance(value, str) else parse(text, "data rate")
        except InputError:
            raise InputError("malformed", f"column {column + 1}", None, "seconds" if column == 0 else
                             "a rate in bit/s, such as 5e6 or 5 Mbit/s", source=sheet.at(row)) from None

    rows = [[cell(row, column) for column in range(len(sheet.rows[0]))] for row in range(1, len(sheet.rows))]
    return {"t": [row[0] for row in rows], "bit_per_s": [row[1:] for row in rows]}


def _gain(sheet: Sheet, row: int, column: int, timed: bool) -> float:
    """Return the number in a cell: decibels, or seconds in the first column of a sheet with times."""
    value = as_number(sheet.rows[row][column].removesuffix("dB"))
    if isinstance(value, str) or not (-500 <= value <= 500 or (timed and column == 0)):
        raise InputError("malformed", f"column {column + 1}", None, "a gain in dB, such as -95.2", source=sheet.at(row))
    return float(value)


@dataclass(frozen=True)
class ByDevice:
    """Columns of numbers for each device of a file, by the name or number in its column device."""

    sheet: Sheet
    columns: tuple[str, ...]
    entries: dict[str, dict[str, list[float]]]
    rows: dict[str, int]                           # first row of each device

    def of(self, devices: list[str]) -> list[dict[str, list[float]]]:
        """Return the entries in the order of the devices, matched by name, else by number from 0.

        A device that the file does not name has no times: it is never available.
        """
        if not set(self.entries) & set(devices):
            return self._by_number()
        known = _positions(devices, self.sheet.path)
        for name, row in self.rows.items():
            if name not in known:
                raise InputError("unknown-name", 'column "device"', quoted(name), "the name of a device",
                                 did_you_mean(nearest(name, devices)), self.sheet.at(row))
        return [self.entries.get(name, {column: [] for column in self.columns}) for name in devices]

    def _by_number(self) -> list[dict[str, list[float]]]:
        for name, row in self.rows.items():
            if not isinstance(as_number(name), int):
                raise InputError("unknown-name", 'column "device"', quoted(name), "the name of a device, or its number",
                                 "Names of devices are in the column name of their file", self.sheet.at(row))
        numbers = {int(name): entry for name, entry in self.entries.items()}
        if sorted(numbers) != list(range(len(numbers))):
            raise InputError("malformed", self.sheet.path, f"devices {str(sorted(numbers)[:10])[1:-1]}",
                             "devices numbered from 0 without gaps")
        return [numbers[number] for number in sorted(numbers)]


def read_by_device(path: str, columns: tuple[str, ...]) -> ByDevice:
    """Read columns of numbers by device: positions or intervals, in seconds and metres."""
    sheet = read_sheet(path)
    names = sheet.rows[0]
    if sorted(names) != sorted(("device", *columns)):
        raise InputError("malformed", path, "other columns", f"device, {', '.join(columns)}")
    found = ByDevice(sheet, columns, {}, {})
    for row in range(1, len(sheet.rows)):
        cells = dict(zip(names, sheet.rows[row], strict=True))
        entry = found.entries.setdefault(cells["device"], {name: [] for name in columns})
        found.rows.setdefault(cells["device"], row)
        for name in columns:
            value = as_number(cells[name])
            if isinstance(value, str):
                raise InputError("wrong-type", f'column "{name}"', quoted(value), "a number", source=sheet.at(row))
            entry[name].append(float(value))
    return found


def _positions(names: list[str], path: str) -> dict[str, int]:
    """Return the position of each name; raise InputError for a repeated name."""
    positions = {name: place for place, name in enumerate(names)}
    if len(positions) < len(names):
        twice = next(name for place, name in enumerate(names) if positions[name] != place)
        raise InputError("duplicate", path, f"two devices called {quoted(twice)}", "names that differ",
                         "Its entries are matched by the names of devices")
    return positions


def match_names(table: dict[str, Any]) -> dict[str, Any]:
    """Order the entries of files with device names as the devices of the scenario."""
    recorded = [(each, key, inside) for each in populations(table)
                for key, inside in (("mobility", "tracks"), ("availability", "intervals"))
                if isinstance(at(each, (key, inside)), ByDevice)]
    gains = at(table, ("cell", "gain_trace"))
    if not recorded and not isinstance(gains, RecordedGains):
        return table
    names = _names_of(table)
    for each, key, inside in recorded:
        each[key] = {**each[key], inside: each[key][inside].of(names[id(each)])}
    if isinstance(gains, RecordedGains):
        named = any(at(each, ("devices", "name")) is not None for each in populations(table))
        devices = [name for each in names.values() for name in each]
        table = {**table, "cell": {**table["cell"], "gain_trace": gains.of(devices, named=named)}}
    return table


def _names_of(table: dict[str, Any]) -> dict[int, list[str]]:
    """Return the names of devices, as ``netsim.devices.population.DeviceNames``, by the id of their population."""
    names: dict[int, list[str]] = {}
    number = 0
    for each in populations(table):
        count = size_of(each)
        kinds = at(each, ("devices", "kind")) or [each.get("name", "device")] * min(count, MOST_DEVICES)
        names[id(each)] = [str(name) for name in at(each, ("devices", "name")) or [
            f"{kind} {place}" for place, kind in enumerate(kinds, number)]]
        number += count
    return names


def as_number(cell: str) -> int | float | str:
    """Return a number if the cell has one, else its text, which the scenario validates."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(cell)
    return cell
