"""Keys that do nothing in a scenario, and what overrides them: a key that is set and has no effect is an error.

A key counts as set by the file that is loaded and by the changes on top of it. What a base file says beneath them may
come to nothing: that is what a file over a base is for. Nor is a file held to its word that spells out every key, as a
run's own ``scenario.toml`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError
from netsim.base.fields import Quantity
from netsim.scenario.devices import KEY_OF, NEEDED, PopulationTable
from netsim.scenario.errors import Layer, at
from netsim.scenario.toml_text import inline, is_section

if TYPE_CHECKING:
    from netsim.scenario.schema import Scenario

Key = tuple[str, ...]      # a population goes by its name
LONGEST = 60               # characters of a value in a title


@dataclass(frozen=True)
class Idle:
    """A key without effect, what overrides it, and a sentence about it."""

    key: Key
    by: Key                         # where a change made it so, the file below is not to blame
    why: str
    needed: bool = False            # a scenario must give it: only saying it once more is in vain
    changes_only: bool = False      # a file may say it for another command or method
    called: str = ""                # what it is, where it is no key


@dataclass(frozen=True)
class Said:
    """Who said what of a scenario: its files, lowest first, then the changes. All are alike: it is what it is."""

    files: tuple[Layer, ...] = field(default=(), compare=False)
    changes: tuple[Layer, ...] = field(default=(), compare=False)
    spelled_out: bool = field(default=False, compare=False)       # the topmost file gives every key that there is

    @property
    def changed(self) -> list[str]:
        """What the changes come to, each as ``cell.bandwidth = 10MHz``."""
        values = {key: value for layer in self.changes for key, value in flat(layer.table)}
        return [f"{key} = {value}" for key, value in values.items()]

    def refuse(self, idle: Iterable[Idle]) -> None:
        """Raise InputError for the first key that was set and does nothing, unless it is overridden further up."""
        layers = (*self.files, *self.changes)
        for key in idle:
            lenient = self.spelled_out or key.changes_only
            for place in range(max(0, len(self.files) - (not lenient)), len(layers)):
                overridden = any(at(other.table, key.by) is not None for other in layers[place + 1:])
                again = not key.needed or any(at(other.table, key.key) is not None for other in layers[:place])
                if at(layers[place].table, key.key) is not None and again and not overridden:
                    raise InputError("no-effect", key.called or ".".join(key.key), hint=key.why,
                                     source=layers[place].source)


def flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Every key with its value, in short; populations go by their names."""
    for name, value in table.items():
        if isinstance(value, Mapping) and "dist" not in value:
            yield from flat(value, f"{above}{name}.")
        elif name == "population" and is_section(value):
            for each in value:
                yield from flat({key: item for key, item in each.items() if key != "name"},
                                f"{name}.{each.get('name', 'device')}.")
        else:
            text = value.text if isinstance(value, Quantity) else value if isinstance(value, str) else inline(value)
            yield f"{above}{name}", text if len(text) <= LONGEST else f"{text[:LONGEST - 1]}…"


def idle_keys(scenario: Scenario) -> Iterator[Idle]:
    """All keys that do nothing in this scenario, whatever methods and server it names."""
    yield from _of_the_cell(scenario)
    for table in scenario.population:
        yield from _of_a_population(table)
    if not scenario.trains:
        yield from idle_untrained(scenario, "Without a dataset (learning.dataset) nothing is trained; leave it out",
                                  changes_only=False)
    if scenario.rounds.first == "cohort":
        yield Idle(("rounds", "first_infeasible"), ("rounds", "first"),
                   'rounds.first = "cohort" makes the first round one like every other; leave it out')


def _of_the_cell(scenario: Scenario) -> Iterator[Idle]:
    cell = scenario.cell
    measured = all(table.devices is not None and table.devices.gain is not None for table in scenario.population)
    by, why = Key(("population",)), "The gains are measured (the column gain of all devices); leave it out"
    if cell.gain_trace is not None:
        by, why = ("cell", "gain_trace"), "The gains are recorded (cell.gain_trace); leave it out"
        for table in scenario.population:
            if table.devices is not None and table.devices.gain is not None:
                yield Idle(("population", table.name, "devices"), by, "The gains are recorded (cell.gain_trace); take "
                           "the column away", called=f"population.{table.name}.devices, column gain")
    if cell.channel is None and (cell.gain_trace is not None or measured):
        for name in ("shadowing", "path_loss"):
            yield Idle(("cell", name), by, why)
        yield Idle(("cell", "radius"), by, why, needed=True)
    elif not any(_is_placed_at_random(table) for table in scenario.population):
        yield Idle(("cell", "radius"), ("population",), "Every device has a place of its own; change that", needed=True)
    if cell.fading == "none" and cell.channel is None:
        yield Idle(("allocation", "channel"), ("cell", "fading"),
                   "Without fading (cell.fading) the gains of the moment are the mean ones; leave it out")


def _is_placed_at_random(table: PopulationTable) -> bool:
    if table.mobility is not None:
        return table.mobility.model == "random-waypoint"
    return table.places is None and (table.devices is None or (table.devices.x is None and table.devices.gain is None))


def _of_a_population(table: PopulationTable) -> Iterator[Idle]:
    """Keys in whose place the devices' own columns stand."""
    columns = table.devices.columns() if table.devices is not None else {}
    above = ("population", table.name)
    for column, path in KEY_OF.items():
        if column in columns:
            yield Idle((*above, *path), (*above, "devices"), f"The devices are listed with a column {column}; take the "
                       "column away, or change it there", needed=len(path) > 1 and column in NEEDED[path[0]])
    for name in ("cpu", "radio") if columns else ():
        more = [path[1] for column, path in KEY_OF.items()
                if path[0] == name and column not in (*NEEDED[name], *columns)]
        part = getattr(table, name)
        if set(NEEDED[name]) <= set(columns) and not (part and part.model_fields_set & set(more)):
            yield Idle((*above, name), (*above, "devices"),
                       f"The devices are listed with their own {', '.join(NEEDED[name])}; leave the table out")


ONLY_TRAINED = ("root", "model", "partition", "buffers", "batch_size", "learning_rate", "momentum",
                "weight_decay", "proximal", "fedl", "aggregation", "optimiser", "server", "target_accuracy",
                "evaluation")      # the server was once what the optimiser is now


def idle_untrained(scenario: Scenario, why: str, *, changes_only: bool) -> Iterator[Idle]:
    """Keys that only training asks for."""
    learning = scenario.learning
    asked = {"batch_size"} if learning.local_steps is not None else set()        # steps are cut out of batches
    if scenario.trains:      # what there is to learn, and from what, may say how large an upload or a device's part is
        asked |= {"root", "model", "partition", "buffers"}
    for name in ONLY_TRAINED:
        if name not in asked:
            yield Idle(("learning", name), ("learning", "dataset"), why, changes_only=changes_only)


def is_spelled_out(table: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Whether a table gives every key that the whole has, as netsim itself writes a scenario down."""
    old = {"optimiser": "server"}      # as a key was once called
    given = {name: table.get(name, table.get(old.get(name, name))) for name in whole}
    return all(given[name] is not None if not isinstance(value, Mapping)
               else isinstance(given[name], Mapping) and is_spelled_out(given[name], value)
               for name, value in whole.items())
