"""Keys without effect in a scenario, and what overrides them: a key that is set and has no effect is an error.

A key counts as set if the loaded file or a change on top of it sets it. Keys of base files may be overridden without an
error. A file that sets every key, such as the ``scenario.toml`` of a run, is not checked either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError
from netsim.base.fields import Quantity
from netsim.scenario.devices import KEY_OF, NEEDED, PopulationTable
from netsim.scenario.errors import Layer
from netsim.scenario.tables import at
from netsim.scenario.toml_text import inline, is_section

if TYPE_CHECKING:
    from netsim.scenario.schema import Scenario

Key = tuple[str, ...]      # a population goes by its name
LONGEST = 60               # characters of a value in a title


@dataclass(frozen=True)
class UnusedKey:
    """A key without effect, what overrides it, and a sentence about it."""

    key: Key
    by: Key                         # a change of this key above a file excuses the file
    why: str
    needed: bool = False            # a required key: only setting it again has no effect
    changes_only: bool = False      # a file may set it for another command or method
    called: str = ""                # name in the error, if it is not a key


@dataclass(frozen=True)
class Provenance:
    """Sources of the keys of a scenario: its files, lowest first, then the changes; ignored by comparisons."""

    files: tuple[Layer, ...] = field(default=(), compare=False)
    changes: tuple[Layer, ...] = field(default=(), compare=False)
    spelled_out: bool = field(default=False, compare=False)       # the topmost file sets every key

    @property
    def changed(self) -> list[str]:
        """The values of the changed keys, each as ``cell.bandwidth = 10MHz``."""
        values = {key: value for layer in self.changes for key, value in flat(layer.table)}
        return [f"{key} = {value}" for key, value in values.items()]

    def refuse(self, idle: Iterable[UnusedKey]) -> None:
        """Raise InputError for the first key that was set without effect, unless a layer above it overrides it."""
        layers = (*self.files, *self.changes)
        for key in idle:
            lenient = self.spelled_out or key.changes_only
            for place in range(max(0, len(self.files) - (not lenient)), len(layers)):
                overridden = any(at(other.table, key.by) is not None for other in layers[place + 1:])
                again = not key.needed or any(at(other.table, key.key) is not None for other in layers[:place])
                if at(layers[place].table, key.key) is not None and again and not overridden:
                    raise InputError("no-effect", key.called or layers[place].as_written(key.key), hint=key.why,
                                     source=layers[place].source)


def flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key with its value as short text; populations are addressed by name."""
    for name, value in table.items():
        if isinstance(value, Mapping) and "dist" not in value:
            yield from flat(value, f"{above}{name}.")
        elif name == "population" and is_section(value):
            for each in value:
                yield from flat({key: item for key, item in each.items() if key != "name"},
                                f"{name}.{each.get('name', 'device')}.")
        else:
            text = value.text if isinstance(value, Quantity) else value if isinstance(value, str) else (
                "null" if value is None else inline(value))
            yield f"{above}{name}", text if len(text) <= LONGEST else f"{text[:LONGEST - 1]}…"


def unused_keys(scenario: Scenario) -> Iterator[UnusedKey]:
    """Yield the keys without effect in this scenario, for any methods and server."""
    yield from _of_the_cell(scenario)
    for table in scenario.population:
        yield from _of_a_population(table)
    if not scenario.trains:
        yield from unused_without_training(
            scenario, "Without a dataset (learning.dataset) nothing is trained; remove this key", changes_only=False)
    budgets = [table.values("budget") for table in scenario.population]
    if all(set(budget if isinstance(budget, tuple) else (budget,)) == {"none"} for budget in budgets):
        yield UnusedKey(("rounds", "on_budget_exceeded"), ("population",),
                        "No device has an energy budget; remove this key")
    if scenario.rounds.first == "cohort":
        yield UnusedKey(("rounds", "first_round_policy"), ("rounds", "first"),
                   'With rounds.first = "cohort" the first round is like every other; remove this key')


RATES_MEASURED = "The rates are measured (radio.rate); remove this key"


def _of_the_cell(scenario: Scenario) -> Iterator[UnusedKey]:
    cell = scenario.cell
    measured = [table for table in scenario.population if table.devices is not None and table.devices.gain is not None]
    for table in measured if cell.gain_trace is not None else ():
        yield UnusedKey(("population", table.name, "devices"), ("cell", "gain_trace"),
                        "The gains are recorded (cell.gain_trace); remove the column",
                        called=f"population.{table.name}.devices, column gain")
    if scenario.downlink_measured:
        yield UnusedKey(("cell", "downlink", "power"), ("population",),
                        "The download rates are measured (radio.downlink_rate); remove this key")
    for name in ("noise", "noise_figure") if scenario.rates_measured else ():
        yield UnusedKey(("cell", name), ("population",), RATES_MEASURED)
    yield from _of_the_path_loss(scenario, all_measured=len(measured) == len(scenario.population))
    if cell.fading == "none" and cell.channel is None:
        yield UnusedKey(("allocation", "channel_estimate"), ("cell", "fading"),
                        "Without fading (cell.fading) instantaneous and mean gains are equal; remove this key")


def _of_the_path_loss(scenario: Scenario, *, all_measured: bool) -> Iterator[UnusedKey]:
    by, why = Key(("population",)), "The gains are measured (the column gain of all devices); remove this key"
    if scenario.cell.gain_trace is not None:
        by, why = ("cell", "gain_trace"), "The gains are recorded (cell.gain_trace); remove this key"
    if scenario.rates_measured:
        by, why = ("population",), RATES_MEASURED
    if scenario.cell.channel is None and (by == ("cell", "gain_trace") or all_measured or scenario.rates_measured):
        for name in ("shadowing", "path_loss"):
            yield UnusedKey(("cell", name), by, why)
        yield UnusedKey(("cell", "radius"), by, why, needed=True)
    elif not any(_is_placed_at_random(table) for table in scenario.population):
        yield UnusedKey(("cell", "radius"), ("population",), "Every device has its own position; change that",
                        needed=True)


def _is_placed_at_random(table: PopulationTable) -> bool:
    if table.mobility is not None:
        return table.mobility.model == "random-waypoint"
    return table.places is None and (table.devices is None or (table.devices.x is None and table.devices.gain is None))


def _of_a_population(table: PopulationTable) -> Iterator[UnusedKey]:
    """Yield the keys that columns of the listed devices override."""
    columns = table.devices.columns() if table.devices is not None else {}
    above = ("population", table.name)
    for column, path in KEY_OF.items():
        if column in columns:
            yield UnusedKey((*above, *path), (*above, "devices"),
                            f"The listed devices have a column {column}; remove the column, or change its values",
                            needed=len(path) > 1 and column in NEEDED.get(path[0], ()))
    if table.cpu_table is not None:
        yield UnusedKey((*above, "cpu", "capacitance"), (*above, "cpu"), "The CPU's power is a table (cpu.power)")
    for name in ("cpu", "radio") if columns else ():
        more = [path[1] for column, path in KEY_OF.items()
                if path[0] == name and column not in (*NEEDED[name], *columns)]
        part = getattr(table, name)
        if set(NEEDED[name]) <= set(columns) and not (part and part.model_fields_set & set(more)):
            yield UnusedKey((*above, name), (*above, "devices"),
                       f"The listed devices have their own {', '.join(NEEDED[name])}; remove this table")


ONLY_TRAINED = ("root", "model", "partition", "buffers", "device", "batch_size", "learning_rate", "momentum",
                "weight_decay", "proximal", "fedl", "aggregation", "optimiser", "target_accuracy", "evaluation")


def unused_without_training(scenario: Scenario, why: str, *, changes_only: bool) -> Iterator[UnusedKey]:
    learning = scenario.learning
    asked = {"batch_size"} if learning.local_steps is not None or any(       # the size of a step
        table.values("cycles_per_batch") is not None for table in scenario.population) else set()
    if scenario.trains:      # model and data determine the size of an upload and the samples of a device
        asked |= {"root", "model", "partition", "buffers"}
    for name in ONLY_TRAINED:
        if name not in asked:
            yield UnusedKey(("learning", name), ("learning", "dataset"), why, changes_only=changes_only)


def is_complete(table: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Return True if a table sets every key of the whole, as the files that netsim writes do."""
    return all(table.get(name) is not None if not isinstance(value, Mapping)
               else isinstance(table.get(name), Mapping) and is_complete(table[name], value)
               for name, value in whole.items())
