"""Scenario files: TOML, with base files and overrides, to a checked and frozen ``Scenario``.

A scenario is put together from layers, lowest first: the base file's base, the base file, the file itself, and the
``--set`` overrides. Layers merge as plain dicts; the models of ``netsim.scenario.schema`` check the result as a whole,
and an error is traced back to the layer that its key came from.
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

from netsim.base.errors import InputError, found, quoted, unknown
from netsim.base.files import MEGABYTE, as_text, expanded, native, read_toml
from netsim.base.options import toml_value
from netsim.scenario.effect import Said
from netsim.scenario.errors import Layer, at, explain
from netsim.scenario.fleet import read_by_device, read_fleet, read_gains
from netsim.scenario.schema import Scenario

MOST_BYTES = 500 * MEGABYTE      # a fleet of millions, written out with the run
MOST_BASES = 20
NEEDS_ENDING = "A file needs its ending .toml."
Steps = tuple[str, ...]
# Keys that may name a CSV file, and what reads it in; a step into the list of populations leads to each of them.
READERS: Mapping[Steps, Callable[[str], Any]] = {
    ("cell", "gain_trace"): read_gains,
    ("population", "devices"): read_fleet,
    ("population", "mobility", "tracks"): partial(read_by_device, columns=("t", "x", "y")),
    ("population", "availability", "intervals"): partial(read_by_device, columns=("on", "off")),
}
PATHS: tuple[Steps, ...] = (*READERS, ("learning", "root"), ("learning", "partition", "path"), ("selection", "policy"))

# Keys that exclude each other: a layer that gives one of them takes the others of the layers below away.
ALTERNATIVES = ({"count", "places", "devices"}, {"local_iterations", "local_steps"})
# The keys by which a table is something else, so that nothing of the old one fits; elsewhere dist and kind.
TAGS = {"path_loss": ("model",), "availability": ("model",), "rate": ("model",), "model": ("name",)}
METHOD_KEEPS = {"cohort"}      # another method has other options, but the cohort stays


def builtin_scenarios() -> dict[str, Path]:
    """The scenarios that come with the program, by name."""
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
        raise InputError("wrong-type", "load_scenario", found(name_or_path), "the name or the path of a scenario",
                         "Scenario.of(…) makes one of a dict")
    path = _find(str(name_or_path))
    return _assembled(as_text(path.stem), _read_layers(path), (overrides, on_top), "--set")


def scenario_of(
    table: Mapping[str, Any], overrides: Overrides = (), source: str = "Scenario.of", said: Said | None = None,
) -> Scenario:
    """A scenario of tables as a file would hold them, ``base`` among them; see :meth:`Scenario.of`.

    ``said`` is who said what of it, where the tables are those of a scenario that was loaded before.
    """
    if not isinstance(table, Mapping):
        raise InputError("wrong-type", source, found(table), "a dict such as {'cell': {…}, 'population': […], …}")
    layers = _layers_of(source, _plain(table, "", source), Path.cwd() / "scenario.toml")
    return _assembled("scenario", layers, (overrides,), "with_", said)


def _assembled(
    name: str, layers: list[Layer], changes: Sequence[Overrides], source: str, said: Said | None = None,
) -> Scenario:
    """The scenario that layers and changes make up, once it is clear that no key is set in vain."""
    below: dict[str, Any] = {"name": name}
    for layer in layers:
        below = _merge(below, layer.table)
    said = said or Said(files=tuple(layers))
    read = [list(_each_override(each, source)) for each in changes if each is not None]
    if any(read):
        joined = _layer_of(itertools.chain(*read), below, source)             # one, since options go with their method
        layers.append(Layer(source, _absolute(joined, Path.cwd(), source)))
        said = replace(said, changes=(
            *said.changes, *(Layer(source, _layer_of(each, below, source)) for each in read if each)))
        below = _merge(below, layers[-1].table)
    for steps, read_in in READERS.items():
        below = _with_files(below, steps, read_in)
    tables: dict[int, Any] = {}
    try:
        scenario = Scenario.model_validate(below, context=tables)
    except ValidationError as problem:
        raise explain(problem, below, layers, tables) from None
    return scenario.as_said(said)


def _find(name: str) -> Path:
    """The file behind a name: a built-in scenario, or a path."""
    if "/" in name or "\\" in name or name.endswith(".toml"):
        return Path(name)
    builtin = builtin_scenarios()
    if name not in builtin:
        raise unknown("scenario", name, builtin, hint=NEEDS_ENDING)
    return builtin[name]


def _read_layers(path: Path, above: tuple[Path, ...] = ()) -> list[Layer]:
    """A file and, below it, the files that it is based on."""
    place = path.resolve()
    if place in above:
        chain = " -> ".join(str(file) for file in (*above[above.index(place):], place))
        raise InputError("conflict", "base", f"a circle of base files: {chain}", source=str(path))
    if len(above) > MOST_BASES:
        raise InputError("too-large", "base", "more base files on top of each other", f"at most {MOST_BASES}",
                         source=str(path))
    try:
        table = read_toml(path, "a scenario", MOST_BYTES)
    except FileNotFoundError:
        raise InputError("no-such-file", str(path), hint="Built-in scenarios have no ending: "
                         f"{', '.join(builtin_scenarios())}") from None
    except OSError as problem:
        raise InputError("unreadable", str(path), problem.strerror) from None
    return _layers_of(str(path), table, place, above)


def _layers_of(source: str, table: dict[str, Any], place: Path, above: tuple[Path, ...] = ()) -> list[Layer]:
    """A table that lies in a place and, below it, the files that it is based on."""
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
    """Paths hold from the folder of the file that names them."""
    for steps in PATHS:
        def path(text: str, steps: Steps = steps) -> str:
            named = text or steps[0] == "population"
            return str(folder / expanded(text, ".".join(steps), source)) if named else text

        table = _with_files(table, steps, path)
    return table


def _with_files(table: Any, steps: Steps, change: Callable[[str], Any]) -> Any:
    """A copy of a table, with what ``change`` makes of the path of a file to which these steps lead."""
    if not steps:
        return change(table) if isinstance(table, str) else table
    if isinstance(table, list):
        return [_with_files(entry, steps, change) for entry in table]
    if isinstance(table, dict) and steps[0] in table:
        return {**table, steps[0]: _with_files(table[steps[0]], steps[1:], change)}
    return table


def _merge(
    below: dict[str, Any], above: dict[str, Any], tags: tuple[str, ...] = ("dist", "kind"),
) -> dict[str, Any]:
    """``above`` over ``below``, table by table, key by key; ``tags`` say what kind of thing a table is."""
    if any(tag in above and below.get(tag) != above[tag] for tag in tags):
        return dict(above)      # another kind of thing: nothing of the old one fits
    if "method" in above and below.get("method") != above["method"]:
        below = {name: value for name, value in below.items() if name in METHOD_KEEPS}
    gone = {name for group in ALTERNATIVES if group & set(above) for name in group}
    merged = {name: value for name, value in below.items() if name not in gone}
    for name, value in above.items():
        old = merged.get(name)
        if name == "model" and isinstance(old, str):
            old = {"name": old}      # the short form of a network without options
        if isinstance(old, dict) and isinstance(value, dict):
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
    """Overrides as one layer; a population is addressed by its name."""
    layer: dict[str, Any] = {}
    for path, value in overrides:
        steps = _key_path(path, source)
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


def _each_override(overrides: Overrides, source: str) -> Iterator[tuple[str, Any]]:
    """The key path of each override, and its value."""
    if isinstance(overrides, Mapping):
        for path, value in overrides.items():
            if not isinstance(path, str):
                raise InputError("wrong-type", source, found(path), 'key paths such as "cell.bandwidth"')
            yield path, _plain(value, path, source)
        return
    if isinstance(overrides, str) or not isinstance(overrides, Iterable):
        raise InputError("wrong-type", source, found(overrides), 'a list such as ["cell.bandwidth=10MHz"] or a dict '
                         'such as {"cell.bandwidth": "10 MHz"}')
    for override in overrides:
        if not isinstance(override, str):
            raise InputError("wrong-type", source, found(override), "text such as cell.bandwidth=10MHz")
        text = as_text(override)
        path, equals, value = text.partition("=")
        if not equals:
            raise InputError("malformed", source, quoted(text), "key.path=value, such as cell.bandwidth=10MHz")
        yield path, toml_value(value.strip())


def _plain(value: Any, key: str, source: str = "") -> Any:
    """A value as a file could hold it: copied, so that what was given stays as it is."""
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise InputError("wrong-type", key, found(name), "names as keys", source=source)
        return {name: _plain(item, f"{key}.{name}" if key else name, source) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, key, source) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:      # a number of numpy's
        return value.item()
    if isinstance(value, bool | int | float | str):
        return value
    raise InputError("wrong-type", key, found(value), 'a number, text such as "10 MHz", true or false, a list or a '
                     "dict", source=source)


def _population_layer(
    path: str, steps: list[str], layer: dict[str, Any], below: dict[str, Any], source: str,
) -> dict[str, Any]:
    listed = below.get("population")
    names = [str(table.get("name", "device")) for table in (listed if isinstance(listed, list) else [])
             if isinstance(table, dict)]
    if len(steps) < 3 or steps[1] not in names:
        raise unknown(path, steps[1] if len(steps) > 1 else "", names, "unknown-key", "A population is addressed by "
                      f"its name, such as population.{names[0] if names else 'phone'}.count=10", source)
    table: dict[str, Any] | None = at(layer, ("population", steps[1]))
    if table is None:
        table = {"name": steps[1]}
        layer.setdefault("population", []).append(table)
    return table


def _key_path(text: str, source: str) -> list[str]:
    """``a.b."c d"`` as its steps, by TOML's own rules for keys."""
    try:
        table: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        table = {}
    steps: list[str] = []
    while isinstance(table, dict) and len(table) == 1:
        step, table = next(iter(table.items()))
        steps.append(step)
    if isinstance(table, dict):      # none, or more than one: the text held a line break or the like
        raise InputError("malformed", source, quoted(text), "a key path such as cell.bandwidth")
    return steps
