"""CSV files that a scenario names: a fleet of devices, or recorded channel gains."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.base.counts import counted
from netsim.base.errors import InputError, quoted, unknown
from netsim.base.files import MEGABYTE, read_text
from netsim.scenario.devices import Fleet

MOST_BYTES = 500 * MEGABYTE
NUMBERS = ("cycles_per_sample", "capacitance", "samples")      # columns of a fleet without units


@dataclass(frozen=True)
class Sheet:
    """The rows of a CSV file with the line each one ends on; blank lines are left out."""

    path: str
    rows: list[list[str]]
    lines: list[int]

    def at(self, row: int) -> str:
        """Where a row stands."""
        return f"{self.path}, line {self.lines[row]}"


class Columns(dict[str, list[Any]]):
    """Columns by name, which know the sheet that they were read from."""

    def __init__(self, sheet: Sheet, columns: dict[str, list[Any]]) -> None:
        super().__init__(columns)
        self.sheet = sheet


def read_sheet(path: str) -> Sheet:
    """Read a CSV file, or say what is wrong with it."""
    rows, lines = [], []
    try:
        reader = csv.reader(io.StringIO(read_text(Path(path), "a table", MOST_BYTES), newline=""), strict=True)
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except FileNotFoundError:
        raise InputError("no-such-file", path) from None
    except OSError as problem:
        raise InputError("unreadable", path, problem.strerror) from None
    except csv.Error as problem:
        raise InputError("malformed", path, f"line {len(lines) + 1} or after: {problem}", "CSV") from None
    if not rows:
        raise InputError("empty", path)
    sheet = Sheet(path, rows, lines)
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InputError("wrong-length", sheet.at(number), counted(len(row), "cell"),
                             f"{len(rows[0])}, as the first row has")
    return sheet


def read_fleet(path: str) -> Columns:
    """A fleet as columns by name, as the scenario's ``devices`` table takes them; the first row names them."""
    sheet = read_sheet(path)
    header, *body = sheet.rows
    for place, name in enumerate(header, 1):
        if name not in Fleet.model_fields:
            raise unknown(f"column {place}", name, Fleet.model_fields, "unknown-key", source=sheet.at(0), secret=True)
        if header.count(name) > 1:
            raise InputError("duplicate", f'column "{name}"', source=sheet.at(0))
    if not body:
        raise InputError("empty", path, "a header", "a device below it")
    for number, row in enumerate(body, 1):
        if "" in row:
            raise InputError("empty", f'column "{header[row.index("")]}"', hint="Fill it in, or leave the whole column "
                             "out, and the population's own keys hold", source=sheet.at(number))
    return Columns(sheet, {name: [_number(cell) if name in NUMBERS else cell for cell in column]
                           for name, column in zip(header, zip(*body, strict=True), strict=True)})


def read_gains(path: str) -> dict[str, list[Any]]:
    """Recorded gains in dB, a row a round and a column a device; a first row of names is left out.

    A first column called ``t`` are the seconds from which on a row holds.
    """
    sheet = read_sheet(path)
    named = any(isinstance(_number(cell), str) for cell in sheet.rows[0])
    timed = sheet.rows[0][0] == "t"
    gains = [[_gain(sheet, row, column, timed) for column in range(len(sheet.rows[0]))]
             for row in range(int(named), len(sheet.rows))]
    if not gains:
        raise InputError("empty", path, "a header", "gains below it")
    return {"t": [row[0] for row in gains], "db": [row[1:] for row in gains]} if timed else {"db": gains}


def _gain(sheet: Sheet, row: int, column: int, timed: bool) -> float:
    """The number in a cell: decibels, or seconds in the first column of a sheet with times."""
    value = _number(sheet.rows[row][column].removesuffix("dB"))
    if isinstance(value, str) or not (-500 <= value <= 500 or (timed and column == 0)):
        raise InputError("malformed", f"column {column + 1}", None, "a gain in dB, such as -95.2", source=sheet.at(row))
    return float(value)


def read_by_device(path: str, columns: tuple[str, ...]) -> list[dict[str, list[float]]]:
    """Columns of numbers beside the column device, device by device: places or intervals, in seconds and metres."""
    sheet = read_sheet(path)
    names = sheet.rows[0]
    if sorted(names) != sorted(("device", *columns)):
        raise InputError("malformed", path, "other columns", f"device, {', '.join(columns)}")
    devices: dict[int, dict[str, list[float]]] = {}
    for row in range(1, len(sheet.rows)):
        cells: dict[str, Any] = dict(zip(names, map(_number, sheet.rows[row]), strict=True))
        wrong = [name for name in ("device", *columns)
                 if not isinstance(cells[name], int if name == "device" else float | int)]
        if wrong:
            raise InputError("wrong-type", f'column "{wrong[0]}"', quoted(cells[wrong[0]]), "a number",
                             source=sheet.at(row))
        for name, values in devices.setdefault(cells["device"], {name: [] for name in columns}).items():
            values.append(float(cells[name]))
    if sorted(devices) != list(range(len(devices))):
        raise InputError("malformed", path, f"devices {str(sorted(devices)[:10])[1:-1]}",
                         "devices numbered from 0 without gaps")
    return [devices[device] for device in sorted(devices)]


def _number(cell: str) -> int | float | str:
    """A number if it is one; the scenario's own check deals with the rest."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(cell)
    return cell
