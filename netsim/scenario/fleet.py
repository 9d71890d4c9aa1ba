"""CSV files that a scenario names: a fleet of devices, or recorded channel gains."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.base.counts import counted
from netsim.base.errors import InputError, quoted, unknown
from netsim.base.files import MEGABYTE, read_text

MOST_BYTES = 500 * MEGABYTE


@dataclass(frozen=True)
class Sheet:
    """The rows of a CSV file with the line each one ends on; blank lines are left out."""

    path: Path
    rows: list[list[str]]
    lines: list[int]


def read_sheet(path: Path) -> Sheet:
    """Read a CSV file, or say what is wrong with it."""
    rows, lines = [], []
    try:
        reader = csv.reader(io.StringIO(read_text(path, "a table", MOST_BYTES), newline=""), strict=True)
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except FileNotFoundError:
        raise InputError("no-such-file", str(path)) from None
    except OSError as problem:
        raise InputError("unreadable", str(path), problem.strerror) from None
    except csv.Error as problem:
        raise InputError("malformed", str(path), f"line {len(lines) + 1} or after: {problem}", "CSV") from None
    if not rows:
        raise InputError("empty", str(path))
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(rows[0]):
            raise InputError("wrong-length", f"{path}, line {line}", counted(len(row), "cell"),
                             f"{len(rows[0])}, as the first row has")
    return Sheet(path, rows, lines)


def read_fleet(path: Path, columns: dict[str, bool]) -> tuple[dict[str, list[Any]], Sheet]:
    """A fleet as columns by name, as the scenario's ``devices`` table takes them.

    The first row names the columns; ``columns`` says which there may be, and whether they hold plain numbers.
    """
    sheet = read_sheet(path)
    header, body = sheet.rows[0], sheet.rows[1:]
    for place, name in enumerate(header, 1):
        if name not in columns:
            raise unknown(f"column {place}", name, columns, "unknown-key", source=f"{path}, line {sheet.lines[0]}",
                          secret=True)
        if header.count(name) > 1:
            raise InputError("duplicate", f'column "{name}"', source=f"{path}, line {sheet.lines[0]}")
    if not body:
        raise InputError("empty", str(path), "a header", "a device below it")
    for row, line in zip(body, sheet.lines[1:], strict=True):
        if "" in row:
            raise InputError("empty", f'column "{header[row.index("")]}"', hint="Fill it in, or leave the whole column "
                             "out, and the population's own keys hold", source=f"{path}, line {line}")
    return {
        name: [_number(row[place]) if columns[name] else row[place] for row in body]
        for place, name in enumerate(header)
    }, sheet


def read_gains(path: Path) -> dict[str, Any]:
    """Recorded gains in dB, a row a round and a column a device; a first row of names is left out.

    A first column called ``t`` are the seconds from which on a row holds.
    """
    sheet = read_sheet(path)
    start = 0 if all(isinstance(_number(cell), float | int) for cell in sheet.rows[0]) else 1
    gains = [list(_gains(sheet, row)) for row in range(start, len(sheet.rows))]
    if not gains:
        raise InputError("empty", str(path), "a header", "gains below it")
    if start and sheet.rows[0][0].strip() == "t":
        return {"t": [row[0] for row in gains], "db": [row[1:] for row in gains]}
    return {"db": gains}


def read_by_device(path: Path, columns: tuple[str, ...]) -> list[dict[str, list[float]]]:
    """Columns of numbers beside the column device, device by device: places or intervals, in seconds and metres."""
    sheet = read_sheet(path)
    names = [cell.strip() for cell in sheet.rows[0]]
    if sorted(names) != sorted(("device", *columns)):
        raise InputError("malformed", str(path), "other columns", f"device, {', '.join(columns)}")
    devices: dict[int, dict[str, list[float]]] = {}
    for row in range(1, len(sheet.rows)):
        cells = dict(zip(names, (_number(cell) for cell in sheet.rows[row]), strict=False))
        device = cells.get("device")
        wrong = [name for name in columns if not isinstance(cells.get(name), float | int)]
        if not isinstance(device, int) or wrong:
            at = "device" if not isinstance(device, int) else wrong[0]
            raise InputError("wrong-type", f'column "{at}"', quoted(cells.get(at, "")), "a number",
                             source=f"{path}, line {sheet.lines[row]}")
        of = devices.setdefault(device, {name: [] for name in columns})
        for name, values in of.items():
            values.append(float(cells[name]))
    if sorted(devices) != list(range(len(devices))):
        raise InputError("malformed", str(path), f"devices {str(sorted(devices)[:10])[1:-1]}",
                         "devices numbered from 0 without gaps")
    return [devices[device] for device in sorted(devices)]


def _gains(sheet: Sheet, row: int) -> Iterator[float]:
    timed = sheet.rows[0][0].strip() == "t"
    for column, cell in enumerate(sheet.rows[row]):
        value = _number(cell.removesuffix("dB"))
        if timed and column == 0 and isinstance(value, float | int):
            yield float(value)
            continue
        if not isinstance(value, float | int) or not -500 <= value <= 500:
            raise InputError("malformed", f"column {column + 1}", None, "a gain in dB, such as -95.2",
                             source=f"{sheet.path}, line {sheet.lines[row]}")
        yield float(value)


def _number(cell: str) -> int | float | str:
    """A number if it is one; the scenario's own check deals with the rest."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
