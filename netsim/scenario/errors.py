"""What is wrong with a scenario, said so that it can be mended: file, key, value, what is allowed, nearest spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from netsim.base.errors import MOST_TOLD, and_more, one_of
from netsim.base.options import in_words, quoted, shown
from netsim.scenario.fleet import Sheet

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
    complaints: dict[Path, list[ErrorDetails]] = {}
    for error in problem.errors(include_url=False):
        complaints.setdefault(_path(table, error), []).append(error)
    around = {path[:length] for path in complaints for length in range(len(path))}      # all tables with one inside
    told = [path for path, errors in complaints.items() if not (path in around and _too_short(errors))]
    lines = [f"{_place(path, table, layers, sheets)}: "
             f"{_join([_what(error, path, table, classes) for error in complaints[path]])}"
             for path in told[:MOST_TOLD]]      # only these: a CSV file may be wrong in each of a million rows
    return "\n".join([*lines, *and_more(len(told))])


def _path(table: Any, error: ErrorDetails) -> Path:
    """Where in the file an error lies.

    Pydantic's locations also name the kind of a union ("uniform"); such steps lead nowhere in the file.
    """
    path: list[str | int] = []
    here = table
    for place, step in enumerate(error["loc"]):
        absent = error["type"] == "missing" and place == len(error["loc"]) - 1
        if isinstance(here, dict) and (absent or step in here):
            here = here.get(step)
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        else:
            continue
        path.append(step)
    return (*path, *error.get("ctx", {}).get("at", ()))


def _at(table: Any, path: Path) -> Any:
    """What the file has there, or None."""
    for step in path:
        if isinstance(table, dict):
            table = table.get(str(step))
        elif isinstance(table, list) and isinstance(step, int) and step < len(table):
            table = table[step]
        else:
            return None
    return table


def _place(path: Path, table: dict[str, Any], layers: Sequence[Layer], sheets: Mapping[int, Sheet]) -> str:
    """File, key and value."""
    found = _at(table, path)
    if len(path) == 5 and path[1] in sheets and path[2] == "devices":
        _, place, _, column, row = path
        sheet = sheets[int(place)]
        return f'{sheet.path}, line {sheet.lines[int(row) + 1]}, column "{column}": {shown(found)}'
    named = _by_name(table, path)
    key = ".".join(str(step) for step in named) or "the scenario"
    value = "" if found is None or isinstance(found, dict | list) else f" = {shown(found)}"
    return f"{_source(layers, named)}: {key}{value}"


def _join(whats: Sequence[str]) -> str:
    """Several complaints about one value: it fits none of the forms that are allowed."""
    return "; or ".join(dict.fromkeys(whats))


def _too_short(errors: Sequence[ErrorDetails]) -> bool:
    """Whether a list is only found too short, which it is where its entries are at fault."""
    return all(error["type"] == "too_short" for error in errors)


TAGS = {"uniform": "dist", "log-distance": "model"}     # the key that says which table it is, where it is not `kind`


def _what(error: ErrorDetails, path: Path, table: Any, classes: Mapping[int, type[BaseModel]]) -> str:
    """What is wrong, and what would be right."""
    kind, context = error["type"], error.get("ctx", {})
    last = str(path[-1]) if path else ""
    checked_by = classes.get(id(_at(table, path[:-1])))
    if kind == "extra_forbidden":
        return f"unknown key; {one_of(last, checked_by.model_fields)}" if checked_by else "unknown key"
    if kind == "missing" and isinstance(error["input"], list):
        return f"{len(error['input'])} entries are too few"
    if kind == "missing":
        field = checked_by.model_fields.get(last) if checked_by else None
        return f"is missing ({field.description})" if field is not None and field.description else "is missing"
    if kind == "union_tag_invalid":
        kinds = [name for name in quoted(context["expected_tags"]) if name not in ("constant", "word", "own")]
        if context["tag"] == "no dist":
            return f"a table here is a distribution and needs dist; {one_of('', kinds)}"
        tag = next((tag for name, tag in TAGS.items() if name in kinds), "kind")
        return f'unknown {tag} "{context["tag"]}"; {one_of(str(context["tag"]), kinds)}'
    if kind == "union_tag_not_found":
        tag = next(iter(quoted(context["discriminator"])), "kind")
        return f'expected a table with a {tag}, such as {{ {tag} = "..." }}'
    if kind == "too_short":
        return f"needs at least {context['min_length']} {'entry' if context['min_length'] == 1 else 'entries'}"
    return in_words(kind, error["msg"], context, error["input"])


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
            if holds(layer.table, path[:length]):
                return layer.source
    return next(layer.source for layer in reversed(layers) if layer.source != "--set")


def holds(table: Any, path: Path) -> bool:
    """Whether a table has a value there; a population goes by its name, or by its place."""
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
