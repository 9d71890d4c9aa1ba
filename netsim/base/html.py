"""Results as a notebook shows them: small tables of HTML, with units on every number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from netsim.base import units
from netsim.base.tolerances import SHOWN_SUM

DIMENSIONS = {"_s": "time", "_j": "energy", "_hz": "frequency", "_w": "power"}      # by how a name ends
MOST_ROWS = 12
_CELL = "style='text-align:left;padding:0.1em 0.8em 0.1em 0;border:0'"


def cell(name: str, value: Any) -> str:
    """A value as text, with the unit that its name says."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    dimension = next((found for ending, found in DIMENSIONS.items() if name.endswith(ending)), None)
    if dimension and isinstance(value, int | float):
        return units.format(float(value) if abs(value) > SHOWN_SUM else 0.0, dimension)
    if isinstance(value, float):
        return f"{100 * value:.1f} %" if "share" in name or name in ("band_used", "accuracy") else f"{value:.4g}"
    return str(value)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int = MOST_ROWS) -> str:
    """A table with a header; of many rows the first, and how many more there are."""
    listed = list(rows)
    head = "".join(f"<th {_CELL}>{escape(column_name(name))}</th>" for name in columns)
    lines = [[cell(name, value) for name, value in zip(columns, row, strict=True)] for row in listed[:most]]
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{escape(text)}</td>' for text in line)}</tr>" for line in lines)
    more = f"<tr><td {_CELL} colspan={len(columns)}>... and {len(listed) - most:,} more</td></tr>" if (
        len(listed) > most) else ""
    return _titled(title, f"<thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody>")


def listing(title: str, values: Mapping[str, Any]) -> str:
    """Names and values, a line each."""
    body = "".join(f"<tr><th {_CELL}>{escape(column_name(name))}</th><td {_CELL}>{escape(cell(name, value))}</td></tr>"
                   for name, value in values.items())
    return _titled(title, f"<tbody>{body}</tbody>")


def _titled(title: str, inside: str) -> str:
    return f"<p><b>{escape(title)}</b></p><table style='border-collapse:collapse'>{inside}</table>"


def column_name(name: str) -> str:
    """A column's name, with the word for what its ending measures; a key path stays as it is."""
    if "." in name:
        return name
    ending = next((each for each in DIMENSIONS if name.endswith(each)), "")
    plain, word = name.removesuffix(ending).replace("_", " "), DIMENSIONS.get(ending, "")
    return plain if not word or plain.endswith(word) or word == "frequency" else f"{plain} {word}"
