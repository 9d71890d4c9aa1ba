"""Validation of a scenario before a run: everything it names exists, may be imported, and fits together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from netsim.allocation import METHODS as ALLOCATION
from netsim.allocation import LinkModel, check_method
from netsim.allocation.methods import require_link
from netsim.base.errors import InputError, describe_value, quoted, unknown
from netsim.base.fields import options_in
from netsim.base.registry import Registry
from netsim.cell.schedulers import SCHEDULERS
from netsim.devices.link_model import LINKS, PATH_LOSSES, link_of
from netsim.environment.channel import CHANNELS
from netsim.learning.aggregation import needs_chances
from netsim.learning.registries import DATASETS, MODELS, check_learning, layers_of, permit_learning
from netsim.scenario import Scenario, load_scenario
from netsim.scenario.aliases import canonical_key
from netsim.scenario.loading import scenario_of
from netsim.scenario.unused_keys import UnusedKey, unused_without_training
from netsim.selection import METHODS as SELECTION
from netsim.selection import Selection, make_selection
from netsim.server import SERVERS


def user_objects(scenario: Scenario) -> list[tuple[Registry[Any], str, Mapping[str, Any]]]:
    """Return registry, name and options of the scheduler, channel, server, path loss and link model of a scenario."""
    server, loss, link = scenario.server, scenario.cell.path_loss, scenario.cell.link
    named: list[tuple[Registry[Any], str | None, Mapping[str, Any]]] = [
        (SCHEDULERS, scenario.cell.scheduler, {}), (CHANNELS, scenario.cell.channel, {}),
        (SERVERS, server.kind if server else None, server.options if server else {}),
        (PATH_LOSSES, loss.model, options_in(loss)),
        (LINKS, link.model if link else None, options_in(link))]
    return [(registry, name, options) for registry, name, options in named if name is not None]


# keyword arguments of simulate(...) for objects of a Python session: registry, and scenario key that they replace
BROUGHT: dict[str, tuple[Registry[Any], str]] = {
    "allocation": (ALLOCATION, "allocation.method"), "selection": (SELECTION, "selection.method"),
    "model": (MODELS, "learning.model"), "dataset": (DATASETS, "learning.dataset"),
    "channel": (CHANNELS, "cell.channel"), "link": (LINKS, "cell.link.model"),
}


def as_scenario(given: Any, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Return a scenario, given as a Scenario, a name, a path or a dict, with changes."""
    if isinstance(given, Scenario):
        return given.with_(changes) if changes else given
    if isinstance(given, str | Path):
        return load_scenario(given, changes or {})
    if isinstance(given, Mapping):
        return scenario_of(given, changes or {})
    raise InputError("wrong-type", "scenario", describe_value(given),
                     "a Scenario, the name or the path of one, or a dict",
                     source="simulate")


def _is_whole(value: Any, least: int) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__") and int(value) >= least


# arguments of simulate(...): code of the error, what is accepted, and the check
ARGUMENTS: dict[str, tuple[str, str, Callable[[Any], bool]]] = {
    "learning": ("wrong-type", "True or False", lambda value: isinstance(value, bool)),
    "progress": ("wrong-type", "a function, to be called after each round",
                 lambda value: value is None or callable(value)),
    "seed": ("out-of-range", "a whole number from 0 on", lambda value: _is_whole(value, 0)),
    "workers": ("out-of-range", "a whole number from 1 on", lambda value: value is None or _is_whole(value, 1)),
    "out": ("wrong-type", "the path of a folder for the run", lambda value: isinstance(value, str | Path | None)),
    "cluster": ("wrong-type", "the address of a Dask scheduler", lambda value: isinstance(value, str | None)),
}


def check_arguments(own: Mapping[str, Any], *, resume: bool = False, **given: Any) -> None:
    """Raise InputError for invalid arguments of ``simulate``, by name, and for unknown objects of the session."""
    for name in own:
        if name not in BROUGHT:
            raise unknown(name, name, BROUGHT, "unknown-option", "Pass objects under one of these names", "simulate")
    for name, value in given.items():
        code, expected, accepts = ARGUMENTS[name]
        if not accepts(value):
            raise InputError(code, name, describe_value(value), expected, source="simulate")
    if resume and given["out"] is None:
        raise InputError("needs", "resume", expected="the folder of the run to resume, as out", source="simulate")
    if resume and own:
        raise InputError("unsupported", "resume", f"objects of a Python session ({', '.join(own)})", source="simulate",
                         hint="They may have changed since the run began: start a new run")
    why = ("workers" if given["workers"] is not None else "learning = False" if not given["learning"] else
           "a model of this session" if {"model", "dataset"} & own.keys() else None)
    if given.get("cluster") is not None and why is not None:
        raise InputError("conflict", "cluster", why, source="simulate", hint="Only training and evaluation use a "
                         "cluster, instead of worker processes; its workers import models and datasets by name")


@contextmanager
def with_own(given: Any, own: Mapping[str, Any]) -> Iterator[Scenario]:
    """Replace what a scenario names with objects of this session, for the duration of the ``with`` block."""
    with ExitStack() as stack:
        names = {}
        for what, thing in own.items():
            registry, key = BROUGHT[what]
            if not callable(thing):
                raise InputError("wrong-type", what, describe_value(thing), "a function or class",
                                 f"Set {key} of the scenario to use a built-in one", source="simulate")
            names[key] = stack.enter_context(registry.lend(thing))
        yield as_scenario(given, names)


def validate(scenario: Scenario, *, learning: bool, allow_import: bool = False) -> Selection:
    """Check everything that a scenario names, and return its selection method."""
    SELECTION.permit(scenario.selection.method, allow_import=allow_import)
    permit_learning(scenario, allow_import=allow_import)
    link = validate_cell(scenario, allow_import=allow_import)
    selection = make_selection(scenario.selection.method, scenario.selection.options)
    require_link("selection.method", scenario.selection.method, getattr(selection, "links", "any"), link,
                 tables=scenario.has_cpu_tables)
    if scenario.server:
        SERVERS.make(scenario.server.kind, scenario.server.options).check(scenario, selection)
    _check_selection(scenario, selection, learning=learning)
    if learning:
        check_learning(scenario)
    scenario.said.refuse(unused_by_method(scenario, learning=learning))
    return selection


def _check_selection(scenario: Scenario, selection: Selection, *, learning: bool) -> None:
    """Raise InputError if aggregation needs more than the selection method gives, or the method needs learning."""
    aggregation = scenario.learning.aggregation
    if needs_chances(aggregation) and "chances" not in getattr(selection, "gives", ()):
        raise InputError("needs", "learning.aggregation", quoted(aggregation), "a selection that draws by known "
                         "probabilities", 'Use selection.method icas, or "weighted"')
    if selection.needs and not learning:
        raise InputError(
            "needs", "selection.method", quoted(scenario.selection.method),
            f"{' and '.join(sorted(selection.needs))} of the devices, which only learning gives",
            "Set a dataset and enable learning (without --no-learning; in a sweep file, without learning = false), "
            "or use another method (fedavg, round-robin)")


def validate_cell(scenario: Scenario, *, allow_import: bool = False) -> LinkModel:
    """Check what a scenario names for the cell only, for Flower apps; return the link model of the cell.

    All imports are permitted before the first of them is made.
    """
    named = user_objects(scenario)
    ALLOCATION.permit(scenario.allocation.method, allow_import=allow_import)
    for registry, name, _ in named:
        registry.permit(name, allow_import=allow_import)
    for registry, name, options in named:
        registry.options(name, options)
    link = link_of(scenario)
    method = scenario.allocation.method
    check_method(method, scenario.allocation.options, link, tables=scenario.has_cpu_tables)
    if method in ALLOCATION and ALLOCATION[method].powers and any(
            table.radio is not None and table.radio.circuit_power is not None for table in scenario.population):
        raise InputError("unsupported", "allocation.method", f'"{method}" with radio.circuit_power', "a method with "
                         "fixed powers, such as sao", "It chooses the power as if all that a radio draws were radiated")
    return link


def unused_by_method(scenario: Scenario, *, learning: bool) -> Iterator[UnusedKey]:
    """Yield the keys without effect for the scenario's methods, server and data partition, or without learning."""
    if learning and scenario.learning.partition.kind == "file":
        for table in scenario.population:
            yield UnusedKey(("population", table.name, "samples"), ("learning", "partition"), "The partition file "
                       "(learning.partition) defines the samples of each device; change that file", changes_only=True)
    if scenario.server:
        kind, options = scenario.server.kind, scenario.server.options
        for key, why in SERVERS.make(kind, options).idle(scenario).items():
            yield UnusedKey(tuple(canonical_key(key).split(".")), ("server",), f'server.kind "{kind}" {why}',
                       needed=key == "selection.cohort")
    method = scenario.allocation.method
    if method in ALLOCATION:
        yield from _idle_powers(scenario, method, chosen=ALLOCATION[method].powers)


def refuse_untrained(scenario: Scenario) -> None:
    """Raise InputError for a change of a learning key in a run without learning."""
    if scenario.trains:
        scenario.said.refuse(unused_without_training(
            scenario, "The run is without learning; remove this key, or enable learning", changes_only=True))


def _idle_powers(scenario: Scenario, method: str, *, chosen: bool) -> Iterator[UnusedKey]:
    """Yield the keys of transmit power without effect: the range for a fixed power, or the power for a chosen one."""
    for table in scenario.population:
        above, radio = ("population", table.name, "radio"), table.radio
        if not chosen:
            for end in ("min_power", "max_power"):
                yield UnusedKey((*above, end), ("allocation", "method"),
                                f"Allocation method {method} uses the fixed power; "
                           "change radio.power, or use sao-joint", changes_only=True)
        elif radio is not None and radio.min_power is not None and radio.max_power is not None:
            yield UnusedKey((*above, "power"), ("allocation", "method"),
                            f"Allocation method {method} chooses the power, "
                       "between min_power and max_power; change those", changes_only=True)


def check_layers(selection: Selection, layers: Mapping[str, slice]) -> None:
    """Check the model's layers with a selection method that reads model weights."""
    check = getattr(selection, "check_model", None)
    if check:
        check(layers)


def check_whole(scenario: Scenario, *, allow_import: bool = False) -> None:
    """Check a scenario as far as possible without its data: as ``prepare``, and build and try its model."""
    selection = validate(scenario, learning=scenario.trains, allow_import=allow_import)
    layers = layers_of(scenario) if scenario.trains else None
    if layers is not None:
        check_layers(selection, layers)


# allocation methods whose plans let all devices of a cohort end at the same instant
ENDS_TOGETHER = ("sao", "algorithm5", "algorithm6", "sao-common-power", "sao-joint", "fedl", "rra")


def warnings_of(scenario: Scenario) -> list[str]:
    """Return warnings about valid settings that defeat their purpose, one sentence each."""
    server, method, cohort = scenario.server, scenario.allocation.method, scenario.selection.cohort
    buffer = server.options.get("buffer", cohort) if server is not None and server.kind == "first-k" else cohort
    if buffer < cohort and method in ENDS_TOGETHER and scenario.cell.scheduler in (None, "planned"):
        return [f'server.kind "first-k" saves no time with allocation.method "{method}": all {cohort} devices end '
                f"together by its plans, and the {cohort - buffer} cancelled ones have already used their energy; set "
                f'selection.cohort to {buffer}, or use "equal" or "tdma"']
    return []
