"""Scenario files: TOML, with base files and overrides, to a checked and frozen ``Scenario``.

A scenario is merged from layers, lowest first: the base file's base, the base file, the file itself, and the ``--set``
overrides. Layers are plain dicts in the new spellings of keys (``netsim.scenario.aliases``); the models of
``netsim.scenario.schema`` validate the result, and an error names the layer of its key.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from netsim.base.errors import InputError, describe_value, quoted, unknown
from netsim.base.files import MEGABYTE, as_text, expanded, native, read_text, read_toml, reading
from netsim.base.options import toml_value
from netsim.scenario.aliases import canonical, canonical_key
from netsim.scenario.csv_tables import match_names, read_by_device, read_fleet, read_gains, read_rates
from netsim.scenario.errors import Layer, explain
from netsim.scenario.profiles import IN_PACKAGE, with_profiles
from netsim.scenario.recorded_traces import Files, resolved
from netsim.scenario.schema import Scenario
from netsim.scenario.tables import Place, at, populations, steps_of, with_files
from netsim.scenario.unused_keys import Provenance
from netsim.scenario.upgrade import upgraded

MOST_BYTES = 500 * MEGABYTE      # a fleet of millions, written with the run
MOST_BASES = 20
NEEDS_ENDING = "A file needs its ending .toml."
Steps = tuple[str, ...]
# Keys that may name a CSV file, and the function that reads it; the step population leads to every population.
READERS: Mapping[Steps, Callable[[Any], Any]] = {
    ("cell", "gain_trace"): read_gains,
    ("population", "devices"): read_fleet,
    ("population", "radio", "rate"): read_rates,
    ("population", "mobility", "tracks"): partial(read_by_device, columns=("t", "x", "y")),
    ("population", "availability", "intervals"): partial(read_by_device, columns=("on", "off")),
}
PATHS: tuple[Steps, ...] = (
    *READERS, *((*steps, "file") for steps in READERS), ("learning", "root"), ("learning", "partition", "path"),
    ("selection", "policy"), ("population", "profiles"))

# Keys that exclude each other: a layer that sets one removes the others of the layers below.
ALTERNATIVES = ({"count", "places", "devices"}, {"local_epochs", "local_steps"})
# Keys with the kind of a table: with another kind, nothing of the table below is kept. Elsewhere dist and kind.
TAGS = {"path_loss": ("model",), "availability": ("model",), "link": ("model",), "model": ("name",),
        "devices": ("file",)}
METHOD_KEEPS = {"cohort"}      # another method has other options, but the cohort stays


def builtin_scenarios() -> dict[str, Path]:
    folder = Path(str(files("netsim.scenarios")))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


Overrides = Sequence[str] | Mapping[str, Any]      # "key.path=value", or values by their key paths


def load_scenario(name_or_path: str | Path, overrides: Overrides = (), on_top: Overrides = ()) -> Scenario:
    """Load a scenario.

    Parameters
    ----------
    name_or_path : str or Path
        Name of a built-in scenario, or path of a TOML file.
    overrides : sequence of str, or mapping
        ``key.path=value`` each, or values by key path.
    on_top : sequence of str, or mapping
        Overrides of the overrides: the settings of one case of a sweep.

    Returns
    -------
    Scenario

    Raises
    ------
    InputError
        For invalid input; names file, key, value and what is allowed.

    Examples
    --------
    >>> load_scenario("tiny", ["cell.bandwidth=10MHz"]).cell.bandwidth
    10000000.0
    >>> load_scenario("tiny", {"cell.bandwidth": "10 MHz"}).cell.bandwidth
    10000000.0
    """
    if not isinstance(name_or_path, str | Path):
        raise InputError("wrong-type", "load_scenario", describe_value(name_or_path),
                         "the name or the path of a scenario",
                         "Scenario.of(…) makes one of a dict")
    path = _find(str(name_or_path))
    return _assembled(as_text(path.stem), _read_layers(path), (overrides, on_top), "--set")


def upgraded_text(name: str) -> tuple[str, bool]:
    """Return a scenario file in the new spellings of keys, and whether its comments and layout were kept."""
    path, below = _find(name), dict[str, Any]()
    *bases, _ = _read_layers(path)
    for layer in bases:
        below = _over(below, _canonical(layer, below).table)
    return upgraded(read_text(path, "a scenario", MOST_BYTES), below, str(path))


def scenario_of(
    table: Mapping[str, Any], overrides: Overrides = (), source: str = "Scenario.of", said: Provenance | None = None,
) -> Scenario:
    """Return a scenario from a dict (:meth:`Scenario.of`); ``said`` are the sources of the keys of a loaded one."""
    if not isinstance(table, Mapping):
        raise InputError("wrong-type", source, describe_value(table),
                         "a dict such as {'cell': {…}, 'population': […], …}")
    layers = _layers_of(source, _plain(table, "", source), Path.cwd() / "scenario.toml")
    return _assembled("scenario", layers, (overrides,), "with_", said)


def _assembled(
    name: str, layers: list[Layer], changes: Sequence[Overrides], source: str, said: Provenance | None = None,
) -> Scenario:
    """Merge and validate layers and changes; raise InputError for a key set without effect."""
    below: dict[str, Any] = {"name": name}
    for place, layer in enumerate(layers):
        layers[place] = _canonical(layer, below)
        below = _over(below, layers[place].table)
    said = said or Provenance(files=tuple(layers))
    read = [list(_each_override(each, source)) for each in changes if each is not None]
    if any(read):
        below = _merge(below, _layer_of(_cleared(itertools.chain(*read), below, source), below, source))
        joined = _layer_of(itertools.chain(*read), below, source)      # one: options belong to their method
        layers.append(_canonical(Layer(source, _absolute(joined, Path.cwd(), source)), below))
        said = replace(said, changes=(*said.changes, *(
            _canonical(Layer(source, _layer_of(each, below, source)), below) for each in read if each)))
        below = _over(below, layers[-1].table)
    below, files = read_files(below)
    tables: dict[int, Any] = {}
    try:
        scenario = Scenario.model_validate(below, context=tables)
    except ValidationError as problem:
        raise explain(problem, below, layers, tables) from None
    scenario._files = files
    return scenario.with_provenance(said)


def read_files(table: dict[str, Any]) -> tuple[dict[str, Any], Files]:
    """Return a scenario's tables with the content of the files that they name, and these files by key."""
    table, files = resolved(table, READERS)
    for steps in READERS:
        table = with_files(table, steps, lambda given, place: READERS[steps_of(place)](given))
    whole = match_names(with_profiles(table))
    moved = len(populations(whole)) != len(populations(table))      # a mix moves populations
    return whole, Files() if moved else files


def _find(name: str) -> Path:
    """Return the file of a built-in scenario or a path."""
    if "/" in name or "\\" in name or name.endswith(".toml"):
        return Path(name)
    builtin = builtin_scenarios()
    if name not in builtin:
        raise unknown("scenario", name, builtin, hint=NEEDS_ENDING)
    return builtin[name]


def _read_layers(path: Path, above: tuple[Path, ...] = ()) -> list[Layer]:
    """Return the layers of a file, its bases first."""
    place = path.resolve()
    if place in above:
        chain = " -> ".join(str(file) for file in (*above[above.index(place):], place))
        raise InputError("conflict", "base", f"circular base files: {chain}", source=str(path))
    if len(above) > MOST_BASES:
        raise InputError("too-large", "base", "more nested base files", f"at most {MOST_BASES}",
                         source=str(path))
    with reading(path, f"Built-in scenarios have no ending: {', '.join(builtin_scenarios())}"):
        table = read_toml(path, "a scenario", MOST_BYTES)
    return _layers_of(str(path), table, place, above)


def _layers_of(source: str, table: dict[str, Any], place: Path, above: tuple[Path, ...] = ()) -> list[Layer]:
    """Return the layers of a table at a path, its bases first."""
    base = table.pop("base", None)
    layer = Layer(source, _absolute(table, place.parent, source))
    if base is None:
        return [layer]
    if not isinstance(base, str):
        raise InputError("wrong-type", "base", quoted(base), 'a file or a built-in scenario, such as "paper.toml"',
                         source=source)
    beside = place.parent / native(base)
    builtin = builtin_scenarios().get(base.removesuffix(".toml"))
    lower = beside if base.endswith(".toml") and (beside.exists() or builtin is None) else builtin
    if lower is None:
        raise unknown("base", base, builtin_scenarios(), hint=NEEDS_ENDING, source=source)
    if not lower.exists():
        raise InputError("no-such-file", "base", quoted(base), hint=f"There is no file {lower}", source=source)
    return [*_read_layers(lower, (*above, place)), layer]


def _absolute(table: dict[str, Any], folder: Path, source: str) -> dict[str, Any]:
    """Resolve paths relative to the folder of the file that names them."""
    def path(text: Any, place: Place) -> Any:
        if isinstance(text, dict) or not (text or place[0] == "population") or (
                (place[-1] == "profiles" and IN_PACKAGE.fullmatch(text))
                or (place[-1] == "rate" and not text.lower().endswith(".csv"))):
            return text
        return str(folder / expanded(text, ".".join(steps_of(place)), source))

    for steps in PATHS:
        table = with_files(table, steps, path)
    return table


def _canonical(layer: Layer, below: Mapping[str, Any]) -> Layer:
    return Layer(layer.source, *canonical(layer.table, below, layer.source))


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge ``above`` over ``below``; another allocation method resets the scheduler, too, as digests require."""
    planned, cell = above.get("allocation"), below.get("cell")
    if isinstance(planned, dict) and "method" in planned and isinstance(cell, dict) and (
            at(below, ("allocation", "method")) != planned["method"]):
        below = {**below, "cell": {name: value for name, value in cell.items() if name != "scheduler"}}
    return _merge(below, above)


def _merge(
    below: dict[str, Any], above: dict[str, Any], tags: tuple[str, ...] = ("dist", "kind"),
) -> dict[str, Any]:
    """Merge ``above`` over ``below`` key by key; ``tags`` are the keys with the kind of a table."""
    if any(above.get(tag) is not None and below.get(tag) != above[tag] for tag in tags):
        return dict(above)      # another kind: nothing of the old table fits
    if above.get("method") is not None and below.get("method") != above["method"]:
        below = {name: value for name, value in below.items() if name in METHOD_KEEPS}
    given = {name for name, value in above.items() if value is not None}
    gone = {name for group in ALTERNATIVES if group & given for name in group} | set(above) - given
    merged = {name: value for name, value in below.items() if name not in gone}
    for name, value in ((name, above[name]) for name in above if name in given):
        old = merged.get(name)
        if name == "model" and isinstance(old, str):
            old = {"name": old}      # the short form of a model without options
        if isinstance(old, dict) and isinstance(value, dict) and name != "profile":
            merged[name] = _merge(old, value, TAGS.get(name, ("dist", "kind")))
        elif name == "population" and isinstance(old, list) and isinstance(value, list):
            merged[name] = _merge_by_name(old, value)
        else:
            merged[name] = value
    return merged


def _merge_by_name(below: list[Any], above: list[Any]) -> list[Any]:
    names = [table.get("name") if isinstance(table, dict) else None for table in below]
    merged = list(below)
    for table in above:
        name = table.get("name") if isinstance(table, dict) else None
        if name is None or name not in names:
            merged.append(table)
        else:
            merged[names.index(name)] = _merge(merged[names.index(name)], table)
    return merged


def _layer_of(overrides: Iterable[tuple[str, Any]], below: dict[str, Any], source: str) -> dict[str, Any]:
    """Return overrides as one layer; populations are addressed by name."""
    layer: dict[str, Any] = {}
    for path, value in overrides:
        steps = _key_path(path if value is not None else canonical_key(path, below), source)
        table = layer
        if steps[0] == "population" and not (len(steps) == 1 and isinstance(value, list)):
            if steps[2:] == ["name"]:
                raise InputError("unsupported", path, quoted(value), source=source,
                                 hint="A population is addressed by its name, so the name can't be set")
            table = _population_layer(path, steps, layer, below, source)
            steps = steps[2:]
        for step in steps[:-1]:
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                raise InputError("conflict", path, hint=f'"{step}" is set as a value and as a table', source=source)
        table[steps[-1]] = value
    return layer


class Whole(dict[str, Any]):
    """A table of ``--set``: it replaces the table below, while a Python dict changes single keys."""


def _cleared(
    overrides: Iterable[tuple[str, Any]], below: dict[str, Any], source: str,
) -> Iterator[tuple[str, None]]:
    """Yield the keys that overrides unset or replace; raise InputError for unsetting a key that is not set."""
    for path, value in overrides:
        if value is None and at(below, tuple(_key_path(canonical_key(path, below), source))) is None:
            raise InputError("no-effect", path, "null", hint="It is not set, so there is nothing to unset",
                             source=source)
        if value is None or isinstance(value, Whole):
            yield path, None


def _each_override(overrides: Overrides, source: str) -> Iterator[tuple[str, Any]]:
    """Yield the key path and the value of each override."""
    if isinstance(overrides, Mapping):
        for path, value in overrides.items():
            if not isinstance(path, str):
                raise InputError("wrong-type", source, describe_value(path), 'key paths such as "cell.bandwidth"')
            yield path, None if value is None else _plain(value, path, source)
        return
    if isinstance(overrides, str) or not isinstance(overrides, Iterable):
        raise InputError("wrong-type", source, describe_value(overrides),
                         'a list such as ["cell.bandwidth=10MHz"] or a dict '
                         'such as {"cell.bandwidth": "10 MHz"}')
    for override in overrides:
        if not isinstance(override, str):
            raise InputError("wrong-type", source, describe_value(override), "text such as cell.bandwidth=10MHz")
        text = as_text(override)
        path, equals, value = text.partition("=")
        if not equals:
            raise InputError("malformed", source, quoted(text), "key.path=value, such as cell.bandwidth=10MHz")
        read = None if value.strip() == "null" else toml_value(value.strip())
        yield path, Whole(read) if isinstance(read, dict) else read


def _plain(value: Any, key: str, source: str = "") -> Any:
    """Return a copy of a value in types that a file can hold."""
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise InputError("wrong-type", key, describe_value(name), "names as keys", source=source)
        return {name: _plain(item, f"{key}.{name}" if key else name, source) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, key, source) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:      # a NumPy number
        return value.item()
    if isinstance(value, bool | int | float | str):
        return value
    raise InputError("wrong-type", key, describe_value(value),
                     'a number, text such as "10 MHz", true or false, a list or a '
                     "dict", source=source)


def _population_layer(
    path: str, steps: list[str], layer: dict[str, Any], below: dict[str, Any], source: str,
) -> dict[str, Any]:
    names = [str(table.get("name", "device")) for table in populations(below)]
    if len(steps) < 3 or steps[1] not in names:
        raise unknown(path, steps[1] if len(steps) > 1 else "", names, "unknown-key", "A population is addressed by "
                      f"its name, such as population.{names[0] if names else 'phone'}.count=10", source)
    table: dict[str, Any] | None = at(layer, ("population", steps[1]))
    if table is None:
        table = {"name": steps[1]}
        layer.setdefault("population", []).append(table)
    return table


def _key_path(text: str, source: str) -> list[str]:
    """Split ``a.b."c d"`` by the rules of TOML."""
    try:
        table: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        table = {}
    steps: list[str] = []
    while isinstance(table, dict) and len(table) == 1:
        step, table = next(iter(table.items()))
        steps.append(step)
    if isinstance(table, dict):      # none, or more than one: the text has a line break or the like
        raise InputError("malformed", source, quoted(text), "a key path such as cell.bandwidth")
    return steps
