"""A whole scenario as frozen models: what a scenario file can hold, its text and its fingerprint."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, Strict, model_validator

from netsim.base import html
from netsim.base.counts import counted
from netsim.base.errors import InputError, found
from netsim.base.fields import Model, Natural, OpenTable, Time, field_error, key
from netsim.base.files import MEGABYTE, read_bytes
from netsim.scenario import toml_text
from netsim.scenario.devices import IN_TIME, MOST_DEVICES, PopulationTable
from netsim.scenario.effect import Said, flat, idle_keys, is_spelled_out
from netsim.scenario.learning import LearningTable
from netsim.scenario.radio import Cell, Shadowing
from netsim.scenario.time_varying import TimeOfDay, seconds_of

BITS_A_PARAMETER = 32
MOST_BYTES = 500 * MEGABYTE      # of a file whose content counts


class MethodTable(OpenTable):
    """A method by name; all other keys are its options, which the method itself checks."""

    method: Annotated[str, Field(min_length=1), key('a built-in method, or "package.module:Name" of installed code')]


class SelectionTable(MethodTable):
    """Who takes part in a round."""

    cohort: Annotated[Natural, key("S: devices in a round")]


class AllocationTable(MethodTable):
    """How bandwidth, CPU frequency and power are shared out."""

    method: Annotated[str, Field(min_length=1), key("such as sao or equal")] = "sao"
    channel: Annotated[Literal["now", "mean"] | None, key(
        'what a plan believes of channels: their gains "now" (the default), or in the "mean", without fading')] = None
    sharing: Annotated[str | None, key(
        'how those who send share the band: "planned" (the default), "equal", "adaptive", "tdma", or '
        '"package.module:Name"')] = None


class ServerTable(OpenTable):
    """Who dispatches jobs, waits for them and aggregates; all keys but the kind are its options."""

    kind: Annotated[str, Field(min_length=1), key(
        '"synchronous", "first-k", "window", "fedbuff", "fedasync", "port", or "package.module:Name"')]


class Rounds(Model):
    """The rules of a round."""

    first: Annotated[
        Literal["all", "cohort"], key("all: every device takes part in the first round (Algorithm 1)")] = "all"
    first_infeasible: Annotated[
        Literal["waves", "relax"],
        key("first round of all without a plan: groups of the cohort's size in turn, or scaled budgets")] = "waves"
    infeasible: Annotated[
        Literal["largest", "error", "waves", "relax"],
        key("a cohort without a plan: the largest part that fits, an error, groups in turn, or scaled budgets"),
    ] = "largest"
    deadline: Annotated[Time | None, key(
        "how long a wave may take: a plan that takes longer is none, and who is not done by then is dropped")] = None
    over_budget: Annotated[Literal["go on", "drop"] | None, key(
        'a budget that is spent in mid-upload: "go on" (the default), or "drop" the job')] = None
    wait: Annotated[Time | None, key("how long a round takes in which no device fits; by default 1 s")] = None
    starts_at: Annotated[TimeOfDay | None, key("time of day at which a run begins; by default midnight")] = None

    @property
    def wait_s(self) -> float:
        """How long a round takes in which no device fits."""
        return 1.0 if self.wait is None else float(self.wait)

    @property
    def midnight_s(self) -> float:
        """When it was midnight last, as the run begins: 0 or less."""
        return 0.0 if self.starts_at is None else -seconds_of(self.starts_at)


class FlowerTable(Model):
    """What `netsim flower` asks besides; a run without a Flower app has no use for it."""

    evaluation: Annotated[Literal["free", "charged"], key(
        "what it costs a device to evaluate a model: nothing, or computing one pass and sending the metrics")] = "free"


class End(Model):
    """When a run is over, if the target accuracy was not reached before."""

    rounds: Annotated[Natural, key("number of rounds")] = 100
    time: Annotated[Time | None, key("simulated time; the round that passes it is the last")] = None


class Scenario(Model):
    """A cell, its devices, and the rules of their learning."""

    name: Annotated[str, Field(min_length=1), key("default: the file's name")] = "scenario"
    description: Annotated[str, key("a line for `netsim scenarios`")] = ""
    cell: Cell
    population: Annotated[tuple[PopulationTable, ...], Strict(False), Field(min_length=1), key("kinds of devices")]
    learning: LearningTable
    selection: SelectionTable
    allocation: AllocationTable = AllocationTable()
    rounds: Rounds = Rounds()
    server: Annotated[ServerTable | None, key("who dispatches jobs; synchronous rounds where it is not given")] = None
    end: End = End()
    flower: Annotated[FlowerTable | None, key("for `netsim flower` alone")] = None
    _said: Said = PrivateAttr(Said())

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [table.name for table in self.population]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise field_error("duplicate", "population", found=f'the name "{twice[0]}"', expected="one for each table")
        there = self.size
        if there > MOST_DEVICES:
            raise field_error("out-of-range", "population", found=f"{there:,} devices",
                              expected=f"at most {MOST_DEVICES:,}")
        if self.selection.cohort > there:
            raise field_error("more-than-devices", "selection", "cohort", expected=f"at most {there:,}")
        trace = self.cell.gain_trace
        if trace is not None and len(trace.db[0]) != there:
            raise field_error("wrong-length", "cell", "gain_trace", found=counted(len(trace.db[0]), "column"),
                              expected=f"one for each of {counted(there, 'device')}")
        moving = [table.name for table in self.population if table.mobility is not None]
        if moving and (trace is not None or self.cell.channel is not None):
            raise field_error("conflict", "cell", "channel" if trace is None else "gain_trace",
                              expected=f"no mobility of {moving[0]} beside it",
                              hint="It says what the gains are, so places have no effect")
        if not moving and isinstance(self.cell.shadowing, Shadowing):
            raise field_error("no-effect", "cell", "shadowing", "correlation", hint="No device moves: give a "
                              f'population mobility, or shadowing = "{self.cell.shadowing.sd:g} dB"')
        if self.rounds.starts_at is not None and all(table.charging is None for table in self.population):
            raise field_error("no-effect", "rounds", "starts_at", hint="No population has charging hours")
        auto = [place for place, table in enumerate(self.population) if table.samples == "auto"]
        if auto and not self.trains:
            raise field_error("needs", "population", auto[0], "samples", expected="a dataset to split, or a number")
        if auto and len(auto) < len(self.population):
            raise field_error("conflict", "population", auto[0], "samples", expected='"auto" for every population or '
                              "for none", hint="It shares out the whole dataset")
        return self

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Scenario:
        """A scenario of tables as a file would hold them; ``base`` may name one to start from.

        >>> Scenario.of({"base": "tiny", "cell": {"bandwidth": "10 MHz"}}).cell.bandwidth
        10000000.0
        """
        from netsim.scenario.loading import scenario_of

        return scenario_of(table)

    def with_(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Scenario:
        """The same with other values, by their key paths.

        >>> tiny = Scenario.of({"base": "tiny"})
        >>> tiny.with_({"cell.bandwidth": "10 MHz"}).cell.bandwidth
        10000000.0
        """
        from netsim.scenario.loading import scenario_of

        if changes is not None and not isinstance(changes, Mapping):
            raise InputError("wrong-type", "with_", found(changes), 'a dict such as {"cell.bandwidth": "10 MHz"}')
        return scenario_of(tomllib.loads(self.to_toml()), {**(changes or {}), **more}, source=f"scenario {self.name}",
                           said=self._said)

    @property
    def said(self) -> Said:
        """Who said what of it: its file, and the changes on top."""
        return self._said

    def as_said(self, said: Said) -> Scenario:
        """The same, with who has said what of it; InputError for a key that was set and has no effect."""
        whole = self.model_dump(exclude_none=True, exclude={"population": True, "cell": {"gain_trace"}})
        spelled_out = said.spelled_out or (bool(said.files) and is_spelled_out(said.files[-1].table, whole))
        self._said = replace(said, spelled_out=spelled_out)
        self._said.refuse(idle_keys(self))
        return self

    def _repr_html_(self) -> str:
        """The tables that it is made of, with units."""
        tables = self.model_dump(exclude_none=True, exclude={"name", "description"})
        return html.listing(f"{self.name}: {counted(self.size, 'device')}. {self.description}", dict(flat(tables)))

    @property
    def living(self) -> str | None:
        """The key, if any, by which things change while a round is played."""
        cell = self.cell
        moving = next((f"{table.name}.{key}" for table in self.population for key in IN_TIME
                       if getattr(table, key) is not None), None)
        return next((key for key, there in (
            ("cell.fading.coherence", getattr(cell.fading, "coherence", "round") != "round"),
            (f"population.{moving}", moving is not None),
            ("cell.gain_trace", cell.gain_trace is not None and cell.gain_trace.t is not None),
            ("cell.rate", cell.rate is not None), ("cell.downlink", cell.downlink is not None),
            ("rounds.over_budget", self.rounds.over_budget == "drop"),
        ) if there), None)

    @property
    def size(self) -> int:
        """N, the number of devices."""
        return sum(table.size for table in self.population)

    @property
    def numbers(self) -> tuple[range, ...]:
        """The numbers of the devices of each population."""
        ends = accumulate(table.size for table in self.population)
        return tuple(range(end - table.size, end) for table, end in zip(self.population, ends, strict=True))

    @property
    def trains(self) -> bool:
        """Whether there is something to learn from."""
        return self.learning.dataset is not None

    def bits(self, parameters: int | None = None) -> float:
        """z, the size of an upload; ``parameters`` is the size of the model, for ``bits = "auto"``."""
        if isinstance(self.learning.bits, float):
            return float(self.learning.bits)
        if parameters is None:
            raise InputError("needs", "learning.bits", '"auto"', "the size of an upload, such as --set "
                             'learning.bits="448 kbit"', "The model is not built without learning")
        return float(BITS_A_PARAMETER * parameters)

    def to_toml(self) -> str:
        """The scenario with all defaults filled in, as a file that loads to an equal scenario from any folder."""
        return toml_text.dumps(self.model_dump(exclude_none=True))

    @property
    def digest(self) -> str:
        """SHA-256 of what the scenario says, however it is spelled; its name and where the data lie do not count.

        Of a split, a policy or arrays in a file, what the file holds counts; of a folder of images, their names and
        sizes.
        """
        plain = self.model_dump(exclude_none=True, exclude={"name", "description"})
        learning, partition, selection = plain["learning"], plain["learning"]["partition"], plain["selection"]
        learning["server"] = learning.pop("optimiser")      # its name when the stored trials were made
        root = learning.pop("root", None)
        if learning.get("dataset") == "image-folder" and root:
            learning["images"] = _listing(Path(root))
        if learning.get("dataset") == "arrays" and root:
            learning["arrays"] = _content(root)
        if partition["kind"] == "file":
            partition["path"] = _content(partition["path"])
        if isinstance(selection.get("policy"), str):
            selection["policy"] = _content(selection["policy"])
        return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to other processes as its own text: the classes of distributions are made on the fly."""
        return _from_toml, (self.to_toml(), Said(changes=self._said.changes))


def _content(path: str) -> str:
    """The hash of a file; the path itself where it can't be read, which is reported when the file is needed."""
    with suppress(OSError, InputError):
        return hashlib.sha256(read_bytes(Path(path), "part of a scenario", MOST_BYTES)).hexdigest()
    return path


def _listing(folder: Path) -> str:
    """The hash of the names and sizes of all files below a folder, wherever that lies."""
    files = sorted((file.relative_to(folder).as_posix(), file.stat().st_size)
                   for part in ("train", "test") for file in (folder / part).rglob("*") if file.is_file())
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def _from_toml(text: str, said: Said) -> Scenario:
    scenario = Scenario.model_validate(tomllib.loads(text))
    scenario._said = said
    return scenario


def _needed_without_a_base(schema: dict[str, Any]) -> dict[str, Any]:
    """Takes the needed keys of all top tables out of a schema: with a base they are there already."""
    needed: dict[str, Any] = {"required": schema.pop("required"), "properties": {}}
    for name, place in schema["properties"].items():
        table = place.get("$ref", place.get("items", {}).get("$ref", "")).removeprefix("#/$defs/")
        keys = schema["$defs"].get(table, {}).pop("required", None)
        if keys is not None:
            inside = {"required": keys}
            needed["properties"][name] = {"items": inside} if "items" in place else inside
    return needed


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file, for editors and other tools."""
    schema = Scenario.model_json_schema()
    names = {old: table["title"].removesuffix("Table") for old, table in schema["$defs"].items() if "title" in table}
    text = json.dumps(schema)
    for old, new in sorted(names.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(f'"{old}"', f'"{new}"').replace(f'"#/$defs/{old}"', f'"#/$defs/{new}"')
    named: dict[str, Any] = json.loads(text)
    named["properties"]["base"] = {
        "type": "string", "description": "a scenario file or built-in scenario that this one changes"}
    named |= {"if": {"required": ["base"]}, "else": _needed_without_a_base(named)}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "netsim scenario", **named}
