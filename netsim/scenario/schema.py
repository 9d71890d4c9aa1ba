"""A scenario as frozen models: its tables, its text as TOML and its digest."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, Strict, model_validator

from netsim.base import html
from netsim.base.errors import InputError, describe_value
from netsim.base.fields import Model, Natural, OpenTable, Time, key
from netsim.base.pluralize import pluralize
from netsim.scenario import toml_text
from netsim.scenario.aliases import as_stored
from netsim.scenario.consistency import check_consistency
from netsim.scenario.devices import IN_TIME, PopulationTable
from netsim.scenario.learning import LearningTable
from netsim.scenario.radio import Cell
from netsim.scenario.recorded_traces import Files, content_hash, referenced
from netsim.scenario.time_varying import TimeOfDay, seconds_of
from netsim.scenario.unused_keys import Provenance, flat, is_complete, unused_keys

BITS_A_PARAMETER = 32
# keys that are newer than stored results, with their defaults, which are not part of the digest
ADDED = {("learning", "device"): "cpu", ("flower", "queries"): "free", ("flower", "compute"): "measured"}


class MethodTable(OpenTable):
    """A method by name; all other keys are its options, which the method checks."""

    method: Annotated[str, Field(min_length=1), key('a built-in method, or "package.module:Name" of installed code')]


class SelectionTable(MethodTable):
    """Selection of the devices of a round."""

    cohort: Annotated[Natural, key("S: number of devices per round")]


class AllocationTable(MethodTable):
    """Allocation of bandwidth, CPU frequency and power."""

    method: Annotated[str, Field(min_length=1), key("such as sao or equal")] = "sao"
    channel_estimate: Annotated[Literal["instantaneous", "mean"] | None, key(
        'channel gains that a plan assumes: "instantaneous" at the start of the job (the default), or the "mean" '
        "without fading")] = None


class ServerTable(OpenTable):
    """The server, which dispatches jobs, waits for them and aggregates; all other keys are its options."""

    kind: Annotated[str, Field(min_length=1), key(
        '"synchronous", "first-k", "window", "fedbuff", "fedasync", "port", or "package.module:Name"')]


class Rounds(Model):
    """Rules of a round."""

    first: Annotated[
        Literal["all", "cohort"],
        key('devices of the first round: "all" (Algorithm 1), or a "cohort" as in every other round')] = "all"
    first_round_policy: Annotated[
        Literal["waves", "relax"],
        key('first round of all devices, if infeasible: "waves" of cohorts, or "relax" the budgets')] = "waves"
    infeasible_policy: Annotated[
        Literal["largest", "error", "waves", "relax"],
        key('infeasible cohort: its "largest" feasible subset, an "error", "waves", or "relax" the budgets'),
    ] = "largest"
    deadline: Annotated[Time | None, key(
        "longest duration of a wave; longer plans are infeasible, and late devices are dropped")] = None
    on_budget_exceeded: Annotated[Literal["continue", "abort"] | None, key(
        'job that has spent its energy budget during the upload: "continue" (the default), or "abort"')] = None
    retry_after: Annotated[Time | None, key(
        "wait before the next attempt if no device is feasible; by default 1 s")] = None
    starts_at: Annotated[TimeOfDay | None, key(
        "time of day at the start of the run, by default midnight; recorded times then count from midnight")] = None

    @property
    def wait_s(self) -> float:
        """Wait before the next attempt if no device is feasible, in s."""
        return 1.0 if self.retry_after is None else float(self.retry_after)

    @property
    def midnight_s(self) -> float:
        """Time of the last midnight relative to the start of the run, in s: 0 or less."""
        return 0.0 if self.starts_at is None else -seconds_of(self.starts_at)


class FlowerTable(Model):
    """Settings of `netsim flower`; other commands ignore them."""

    evaluation: Annotated[Literal["free", "charged"], key(
        'cost of evaluating a model on a device: "free", or "charged" (one epoch, and sending the metrics)')] = "free"
    queries: Annotated[Literal["free", "charged"], key(
        'cost of answering a query on a device: "free", or "charged" (one epoch, and sending the reply)')] = "free"
    compute: Annotated[Literal["measured", "flops"], key(
        'work of an app on devices with cycles_per_sample = "auto": FLOP counted by torch and other CPU time measured '
        "on this machine, or FLOP only, which is the same on every machine")] = "measured"


class End(Model):
    """End of a run that does not reach the target accuracy."""

    rounds: Annotated[Natural, key("number of rounds")] = 100
    time: Annotated[Time | None, key("simulated time; the round in which it passes is the last")] = None


class Scenario(Model):
    """A cell, its devices and their learning."""

    name: Annotated[str, Field(min_length=1), key("name of the scenario; by default that of the file")] = "scenario"
    description: Annotated[str, key("one line, listed by `netsim scenarios`")] = ""
    cell: Cell
    population: Annotated[tuple[PopulationTable, ...], Strict(False), Field(min_length=1), key("kinds of devices")]
    learning: LearningTable
    selection: SelectionTable
    allocation: AllocationTable = AllocationTable()
    rounds: Rounds = Rounds()
    server: Annotated[ServerTable | None, key("the server; by default synchronous rounds")] = None
    end: End = End()
    flower: Annotated[FlowerTable | None, key("settings of `netsim flower`")] = None
    _said: Provenance = PrivateAttr(Provenance())
    _files: Files = PrivateAttr(Files())

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_consistency(self)
        return self

    @property
    def has_cpu_tables(self) -> bool:
        return any(table.cpu_table is not None for table in self.population)

    @property
    def rates_measured(self) -> bool:
        """True if devices have measured upload rates instead of channel gains."""
        return self.population[0].values("rate") is not None

    @property
    def downlink_measured(self) -> bool:
        return self.population[0].values("downlink_rate") is not None

    @property
    def has_downlink(self) -> bool:
        return self.cell.downlink is not None or self.downlink_measured

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Scenario:
        """Return a scenario from a dict with the tables of a file; ``base`` may name a scenario to start from.

        >>> Scenario.of({"base": "tiny", "cell": {"bandwidth": "10 MHz"}}).cell.bandwidth
        10000000.0
        """
        from netsim.scenario.loading import scenario_of

        return scenario_of(table)

    def with_(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Scenario:
        """Return a copy with other values: ``changes`` by key path, ``more`` of top-level keys.

        >>> Scenario.of({"base": "tiny"}).with_({"cell.bandwidth": "10 MHz"}).cell.bandwidth
        10000000.0
        """
        from netsim.scenario.loading import scenario_of

        if changes is not None and not isinstance(changes, Mapping):
            raise InputError("wrong-type", "with_", describe_value(changes),
                             'a dict such as {"cell.bandwidth": "10 MHz"}')
        return scenario_of(tomllib.loads(self.to_toml()), {**(changes or {}), **more}, source=f"scenario {self.name}",
                           said=self._said)

    @property
    def said(self) -> Provenance:
        """Sources of its keys: files, and the changes on top."""
        return self._said

    def with_provenance(self, said: Provenance) -> Scenario:
        """Return the scenario with the sources of its keys; raise InputError for a key set without effect."""
        whole = self.model_dump(exclude_none=True, exclude={"population": True, "cell": {"gain_trace"}})
        spelled_out = said.spelled_out or (bool(said.files) and is_complete(said.files[-1].table, whole))
        self._said = replace(said, spelled_out=spelled_out)
        self._said.refuse(unused_keys(self))
        return self

    def _repr_html_(self) -> str:
        tables = self.model_dump(exclude_none=True, exclude={"name", "description"})
        return html.listing(f"{self.name}: {pluralize(self.size, 'device')}. {self.description}", dict(flat(tables)))

    @property
    def living(self) -> str | None:
        """The first key that lets something change during a round, or None."""
        cell = self.cell
        moving = next((f"{table.name}.{key}" for table in self.population for key in IN_TIME
                       if getattr(table, key) is not None), None)
        return next((key for key, there in (
            ("cell.fading.coherence", getattr(cell.fading, "coherence", "round") != "round"),
            (f"population.{moving}", moving is not None),
            ("cell.gain_trace", cell.gain_trace is not None and cell.gain_trace.t is not None),
            ("cell.link", cell.link is not None), ("cell.downlink", self.has_downlink),
            ("radio.rate", self.rates_measured),
            ("rounds.on_budget_exceeded", self.rounds.on_budget_exceeded == "abort"),
        ) if there), None)

    @property
    def size(self) -> int:
        return sum(table.size for table in self.population)

    @property
    def numbers(self) -> tuple[range, ...]:
        """The numbers of the devices of each population."""
        ends = accumulate(table.size for table in self.population)
        return tuple(range(end - table.size, end) for table, end in zip(self.population, ends, strict=True))

    @property
    def trains(self) -> bool:
        return self.learning.dataset is not None

    def bits(self, parameters: int | None = None) -> float:
        """Return z, the size of an upload in bits; ``bits = "auto"`` needs the number of parameters of the model."""
        if isinstance(self.learning.bits, float):
            return float(self.learning.bits)
        if parameters is None:
            raise InputError("needs", "learning.bits", '"auto"', "the size of an upload, such as --set "
                             'learning.bits="448 kbit"', "The model is not built without learning")
        return float(BITS_A_PARAMETER * parameters)

    def to_toml(self) -> str:
        """Return the scenario as TOML with all defaults; it loads to an equal scenario from any folder."""
        return toml_text.dumps(referenced(self.model_dump(exclude_none=True), self._files))

    @property
    def digest(self) -> str:
        """SHA-256 of the scenario, independent of its spelling, its name and the place of its data.

        Of a partition, policy or array file the content counts, of a folder of images the names and sizes.
        """
        plain = as_stored(self.model_dump(exclude_none=True, exclude={"name", "description"}))
        learning, partition, selection = plain["learning"], plain["learning"]["partition"], plain["selection"]
        root = learning.pop("root", None)
        for (table, name), default in ADDED.items():
            if plain.get(table, {}).get(name) == default:
                del plain[table][name]
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
        """Pickle as TOML: the classes of distributions are generated at runtime."""
        return _from_toml, (self.to_toml(), Provenance(changes=self._said.changes))


def _content(path: str) -> str:
    """Return the hash of a file, or its path if it cannot be read; that error is reported when the file is used."""
    return content_hash(path) or path


def _listing(folder: Path) -> str:
    """Return the hash of the names and sizes of all files below a folder, independent of its path."""
    files = sorted((file.relative_to(folder).as_posix(), file.stat().st_size)
                   for part in ("train", "test") for file in (folder / part).rglob("*") if file.is_file())
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def _from_toml(text: str, said: Provenance) -> Scenario:
    from netsim.scenario.loading import read_files

    tables, files = read_files(tomllib.loads(text))
    scenario = Scenario.model_validate(tables)
    scenario._said, scenario._files = said, files
    return scenario
