"""What is wrong with a scenario, said so that it can be mended: file, key, value, what is allowed, nearest spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from netsim.errors import one_of
from netsim.fleet import Sheet

MOST_SHOWN = 20
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Layer:
    """The keys that one file, or the command line, gives."""

    source: str
    table: dict[str, Any]


def explain(
    problem: ValidationError, table: dict[str, Any], layers: Sequence[Layer], classes: Mapping[int, type[BaseModel]],
    sheets: Mapping[int, Sheet],
) -> str:
    """All complaints about a scenario, a line each.

    ``classes`` tells which model checked which table (by the table's id), ``sheets`` which CSV file a population's
    devices came from.
    """
    lines = []
    for error in problem.errors():
        path, found, parent = _locate(table, error["loc"])
        what = _what(error, parent, classes)
        named = _by_name(table, path)
        source = _source(layers, named)
        shown = ".".join(f"{step}" for step in named) or "the scenario"
        missing = error["type"] == "missing"
        sheet = sheets.get(path[1]) if len(path) == 5 and isinstance(path[1], int) and path[2] == "devices" else None
        if sheet is not None and isinstance(path[4], int):
            lines.append(f'{sheet.path}, line {sheet.lines[path[4] + 1]}, column "{path[3]}": {_show(found)}: {what}')
        elif missing or isinstance(found, dict | list):
            lines.append(f"{source}: {shown}: {what}")
        else:
            lines.append(f"{source}: {shown} = {_show(found)}: {what}")
    lines = list(dict.fromkeys(lines))
    if len(lines) > MOST_SHOWN:
        lines = [*lines[:MOST_SHOWN], f"... and {len(lines) - MOST_SHOWN} more"]
    return "\n".join(lines)


def _locate(table: Any, loc: Sequence[str | int]) -> tuple[Path, Any, Any]:
    """Where in the file an error lies: its path, what was found there, and the table around it.

    Pydantic's locations also name the kind of a union ("uniform"); such steps lead nowhere in the file.
    """
    path: list[str | int] = []
    parent, here = None, table
    for place, step in enumerate(loc):
        if isinstance(here, dict) and (step in here or place == len(loc) - 1):
            parent, here = here, here.get(step)
            path.append(step)
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            parent, here = here, here[step]
            path.append(step)
    return tuple(path), here, parent


def _what(error: ErrorDetails, parent: Any, classes: Mapping[int, type[BaseModel]]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    last = str(error["loc"][-1]) if error["loc"] else ""
    checked_by = classes.get(id(parent))
    if kind == "extra_forbidden":
        return f"unknown key; {one_of(last, checked_by.model_fields)}" if checked_by else "unknown key"
    if kind == "missing":
        field = checked_by.model_fields.get(last) if checked_by else None
        return f"is missing ({field.description})" if field is not None and field.description else "is missing"
    if kind == "literal_error":
        return f"unknown value; {one_of(str(error['input']), _quoted(context['expected']))}"
    if kind == "union_tag_invalid":
        kinds = [name for name in _quoted(context["expected_tags"]) if name not in ("constant", "word")]
        tag_key = "dist" if "constant" in context["expected_tags"] else "kind"
        if context["tag"] == "no dist":
            return f"a table of a distribution needs dist; {one_of('', kinds)}"
        return f'unknown {tag_key} "{context["tag"]}"; {one_of(str(context["tag"]), kinds)}'
    if kind == "union_tag_not_found":
        return "expected a table with a kind, such as { kind = \"iid\" }"
    message = error["msg"]
    return re.sub(r"^Input should be ", "should be ", message)


def _quoted(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text)


def _by_name(table: dict[str, Any], path: Path) -> Path:
    """The path with the population's name for its place in the list."""
    if len(path) >= 2 and path[0] == "population" and isinstance(path[1], int):
        entry = table["population"][path[1]]
        name = entry.get("name") if isinstance(entry, dict) else None
        return (path[0], name if isinstance(name, str) else path[1], *path[2:])
    return path


def _source(layers: Sequence[Layer], path: Path) -> str:
    """The topmost layer that holds the key, or the nearest table around it."""
    for length in range(len(path), 0, -1):
        for layer in reversed(layers):
            if _holds(layer.table, path[:length]):
                return layer.source
    return next(layer.source for layer in reversed(layers) if layer.source != "--set")


def _holds(table: Any, path: Path) -> bool:
    for step in path:
        if isinstance(table, dict) and step in table:
            table = table[step]
        elif isinstance(table, list):
            named = [entry for place, entry in enumerate(table)
                     if place == step or (isinstance(entry, dict) and entry.get("name") == step)]
            if not named:
                return False
            table = named[0]
        else:
            return False
    return True


def _show(found: Any) -> str:
    text = f'"{found}"' if isinstance(found, str) else str(found).lower() if isinstance(found, bool) else str(found)
    return text if len(text) <= 80 else text[:77] + "..."
