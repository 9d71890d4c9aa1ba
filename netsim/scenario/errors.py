"""Errors of a scenario: file, key, value, what is allowed, and the nearest spelling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from netsim.base.errors import (
    MOST_LISTED,
    InputError,
    SeveralInputErrors,
    alternatives,
    did_you_mean,
    nearest,
    quoted,
    unknown,
)
from netsim.base.fields import TYPES, input_error, merged, names_in
from netsim.base.pluralize import pluralize
from netsim.scenario.aliases import Key, old_names
from netsim.scenario.csv_tables import Columns
from netsim.scenario.not_modelled import not_modelled
from netsim.scenario.tables import Place, at


@dataclass(frozen=True)
class Layer:
    """The keys of one file, or of the command line."""

    source: str
    table: dict[str, Any]                                             # in the new spellings
    written: Mapping[Key, Key] = field(default_factory=dict)          # keys that the source writes in an old one

    def as_written(self, path: Place) -> str:
        """Return a key as the source writes it."""
        shown = tuple(map(str, path))
        for new, old in reversed(list(self.written.items())):
            if shown[:len(new)] == new:
                shown = (*old, *shown[len(new):])
        return ".".join(shown)


def explain(
    problem: ValidationError, table: dict[str, Any], layers: Sequence[Layer], classes: Mapping[int, type[BaseModel]],
) -> InputError:
    """Return all errors of a scenario as one; ``classes`` is the model that validated each table, by the table's id."""
    complaints: dict[Place, list[ErrorDetails]] = {}
    for error in problem.errors(include_url=False):
        complaints.setdefault(_path(table, error), []).append(error)
    around = {path[:length] for path in complaints for length in range(len(path))}      # tables around an error
    faulty = [path for path, errors in complaints.items() if path not in around      # else its entries are wrong
            or any(error["type"] not in ("too_short", "literal_error", "wrong-unit", *TYPES) for error in errors)]
    faults = []
    for path in faulty[:MOST_LISTED]:
        fault = merged([_fault(error, path, table, classes) for error in complaints[path]])
        source, key = _place(path, table, layers)
        faults.append(fault.at(f"{key}{fault.key}", source))
    return faults[0] if len(faulty) == 1 else SeveralInputErrors(*faults, there=len(faulty))


def _path(table: Any, error: ErrorDetails) -> Place:
    """Return the key path of an error.

    Pydantic's locations also name the kind of a union ("uniform"); such steps are not in the file.
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


def _place(path: Place, table: dict[str, Any], layers: Sequence[Layer]) -> tuple[str, str]:
    """Return source and key: of the topmost layer with the key, or with the nearest table around it."""
    columns = at(table, path[:3])
    if len(path) == 5 and isinstance(columns, Columns):
        return columns.sheet.at(int(path[4]) + 1), f'column "{path[3]}"'
    if len(path) > 1 and path[0] == "population":
        name = at(table, (*path[:2], "name"))
        path = ("population", name if isinstance(name, str) else path[1], *path[2:])
    around = [path[:length] for length in range(len(path), 0, -1)]
    sources = [layer for part in around for layer in reversed(layers) if at(layer.table, part) is not None]
    sources += [layer for layer in reversed(layers) if layer.source != "--set"]
    return sources[0].source, sources[0].as_written(path) or "the scenario"


TAGS = {"uniform": "dist", "log-distance": "model"}     # key with the kind of a table, if it is not `kind`


def _fault(error: ErrorDetails, path: Place, table: Any, classes: Mapping[int, type[BaseModel]]) -> InputError:
    """Return the error of a key, without its path; its own key is a step to add to the path."""
    kind, context, value = error["type"], error.get("ctx", {}), at(table, path)
    last = str(path[-1]) if path else ""
    checked_by = classes.get(id(at(table, path[:-1])))
    if kind == "extra_forbidden":
        given = "" if isinstance(value, dict | list) else f" = {quoted(value)}"
        return _unknown_key(last, given, checked_by.model_fields if checked_by else (), old_names(path[:-1]))
    if kind == "missing" and isinstance(error["input"], list):
        return InputError("wrong-length", "", pluralize(len(error["input"]), "entry", "entries"), "more")
    if kind == "missing" and "expected" not in context:
        field = checked_by.model_fields.get(last) if checked_by else None
        return InputError("missing", "", None, (field.description or "") if field is not None else "")
    if kind == "union_tag_invalid":
        return _wrong_kind(context["tag"], names_in(context["expected_tags"]))
    if kind == "union_tag_not_found":
        tag = next(iter(names_in(context["discriminator"])), "kind")
        such = f'a table with a {tag}, such as {{ {tag} = "..." }}'
        return InputError("missing", f".{tag}", None, such) if isinstance(value, dict) else InputError(
            "wrong-type", "", quoted(value), such)
    return input_error(error, value)


def _unknown_key(name: str, given: str, known: Iterable[str], renamed: Mapping[str, str]) -> InputError:
    """Return the error for a key that a table does not have; ``renamed`` are old names and the new ones."""
    names = sorted(known)
    near = nearest(name, [*names, *renamed]) or ""
    return InputError("unknown-key", "", f"{name}{given}", alternatives(names) or "none",
                      not_modelled(name) or did_you_mean(renamed.get(near, near)))


def _wrong_kind(kind: str, allowed: Iterable[str]) -> InputError:
    """Return the error for the kind of a table, or for a table without a distribution."""
    kinds = [name for name in allowed if name not in ("constant", "word", "own")]
    if kind == "no dist":
        return InputError("missing", ".dist", None, alternatives(sorted(kinds)), "A table here is a distribution")
    tag = next((tag for name, tag in TAGS.items() if name in kinds), "kind")
    return unknown(f".{tag}", kind, kinds)
