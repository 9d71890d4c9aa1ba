"""The tables and keys of a scenario file, as frozen models: the one place that says what a scenario can hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, Strict, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from netsim import toml_text
from netsim.errors import InputError
from netsim.scenario_fields import (
    Coordinate,
    DataSize,
    Decibels,
    Deviation,
    Drawn,
    Energy,
    Fraction,
    Frequency,
    Gain,
    Length,
    Model,
    Natural,
    NoiseDensity,
    NotNegative,
    Positive,
    Power,
    Quantity,
    Spread,
    Time,
    default,
    highest,
    lowest,
    refuse,
)

MOST_DEVICES = 10_000_000
BITS_A_PARAMETER = 32


def key(description: str) -> Any:
    """What a key means, for the JSON Schema and for messages."""
    return Field(description=description)


class FromFile(Model):
    """A table that a scenario file may also name by the path of a CSV file; the loader reads it in."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        path = {"type": "string", "description": "a CSV file, relative to the scenario file"}
        return {"anyOf": [path, handler(schema)]}


class PathLoss(Model):
    """Mean path loss over distance: intercept + slope * log10(distance in km)."""

    model: Literal["log-distance"] = "log-distance"
    intercept: Annotated[Decibels, key("path loss at 1 km")] = default("128.1 dB", "decibels")
    slope: Annotated[Decibels, key("path loss added by a tenfold distance")] = default("37.6 dB", "decibels")


class GainTrace(FromFile):
    """Recorded channel gains: a row a round, a column a device; it starts over when it ends."""

    db: Annotated[
        tuple[Annotated[tuple[float, ...], Strict(False)], ...], Strict(False), Field(min_length=1),
        key("gains in dB, such as [[-95.2, -101.7], [-96.0, -99.8]]"),
    ]

    @model_validator(mode="after")
    def _even(self) -> Self:
        widths = {len(row) for row in self.db}
        if len(widths) != 1 or 0 in widths:
            raise refuse(f"all rows need the same number of devices, found {sorted(widths)}")
        return self


class Cell(Model):
    """The radio cell with the base station at its centre."""

    radius: Annotated[Length, key("devices without a place of their own are spread evenly over this disc")]
    bandwidth: Annotated[Frequency, key("uplink bandwidth B that a cohort shares")]
    noise: Annotated[NoiseDensity, key("noise power density N0")] = default("-174 dBm/Hz", "noise density")
    path_loss: PathLoss = PathLoss()
    shadowing: Annotated[Deviation, key("standard deviation of the shadowing, drawn once a device")] = default(
        "0 dB", "decibels")
    fading: Annotated[
        Literal["none", "rayleigh"], key("rayleigh: every round and device draws a power factor of mean 1")] = "none"
    gain_trace: Annotated[GainTrace | None, key("recorded gains instead of path loss and shadowing")] = None

    @model_validator(mode="after")
    def _one_channel(self) -> Self:
        if self.gain_trace is not None and self.fading != "none":
            raise refuse('a recorded gain_trace has its fading in it; allowed beside it: "none"', "fading")
        return self


class Cpu(Model):
    """A device's processor: time = cycles / f, energy = capacitance * cycles * f^2."""

    min: Annotated[Spread, Drawn(Frequency), key("lowest clock frequency")]
    max: Annotated[Spread, Drawn(Frequency), key("highest clock frequency")]
    cycles_per_sample: Annotated[Spread, Drawn(Positive), key("C_n: CPU cycles to train on one sample once")]
    capacitance: Annotated[Spread, Drawn(Positive), key("alpha/2: half the effective switched capacitance")] = 1e-28

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _check_order("min", self.min, "max", self.max)
        return self


class Radio(Model):
    """A device's transmitter."""

    power: Annotated[Spread, Drawn(Power), key("transmit power p_n")]
    min_power: Annotated[Spread | None, Drawn(Power), key("least power that power-optimising methods may use")] = None
    max_power: Annotated[Spread | None, Drawn(Power), key("most power that power-optimising methods may use")] = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_power is not None and self.max_power is not None:
            _check_order("min_power", self.min_power, "max_power", self.max_power)
        if self.min_power is not None and self.max_power is None:
            _check_order("min_power", self.min_power, "power", self.power)
        if self.max_power is not None and self.min_power is None:
            _check_order("power", self.power, "max_power", self.max_power)
        return self


Mains = Literal["mains"]
Column = Strict(False), Field(min_length=1, max_length=MOST_DEVICES)


class Fleet(FromFile):
    """Devices one by one: each key is a column with an entry a device; missing ones come from the population's keys."""

    name: Annotated[tuple[str, ...] | None, *Column, key("what a device is called")] = None
    x: Annotated[tuple[Coordinate, ...] | None, *Column, key("place east of the base station")] = None
    y: Annotated[tuple[Coordinate, ...] | None, *Column, key("place north of the base station")] = None
    gain: Annotated[tuple[Gain, ...] | None, *Column, key("measured channel gain, instead of path loss")] = None
    power: Annotated[tuple[Power, ...] | None, *Column, key("transmit power")] = None
    min_power: Annotated[tuple[Power, ...] | None, *Column, key("least transmit power")] = None
    max_power: Annotated[tuple[Power, ...] | None, *Column, key("most transmit power")] = None
    budget: Annotated[tuple[Energy, ...] | None, *Column, key("energy allowed in one round")] = None
    battery: Annotated[tuple[Energy | Mains, ...] | None, *Column, key('energy at the start, or "mains"')] = None
    cpu_min: Annotated[tuple[Frequency, ...] | None, *Column, key("lowest clock frequency")] = None
    cpu_max: Annotated[tuple[Frequency, ...] | None, *Column, key("highest clock frequency")] = None
    cycles_per_sample: Annotated[tuple[Positive, ...] | None, *Column, key("C_n")] = None
    capacitance: Annotated[tuple[Positive, ...] | None, *Column, key("alpha/2")] = None
    samples: Annotated[tuple[Natural, ...] | None, *Column, key("D_n: samples that a device holds")] = None

    @model_validator(mode="after")
    def _even(self) -> Self:
        lengths = {name: len(column) for name, column in self.columns().items()}
        if not lengths:
            raise refuse("a fleet needs at least one column")
        if len(set(lengths.values())) > 1:
            raise refuse(f"all columns need the same number of devices, found {lengths}")
        if (self.x is None) != (self.y is None):
            raise refuse("a place needs both x and y")
        return self

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The columns that are there."""
        return {name: column for name, column in self if column is not None}

    def __len__(self) -> int:
        return len(next(iter(self.columns().values())))


class Population(Model):
    """A kind of devices: so many drawn ones, ones at given places, or the rows of a CSV file."""

    name: Annotated[str, Field(min_length=1, max_length=100), key("how --set and base files address it")] = "device"
    count: Annotated[Natural | None, Field(le=MOST_DEVICES), key("number of devices")] = None
    places: Annotated[
        tuple[Annotated[tuple[Coordinate, Coordinate], Strict(False)], ...] | None, Strict(False), Field(min_length=1),
        key('fixed places, such as [["120 m", "0 m"], ["-40 m", "90 m"]]; the base station is at 0, 0')] = None
    devices: Annotated[Fleet | None, key("the devices one by one, instead of count")] = None
    cpu: Annotated[Cpu | None, key("the processor")] = None
    radio: Annotated[Radio | None, key("the transmitter")] = None
    budget: Annotated[Spread | None, Drawn(Energy), key("e_n: energy that a device may spend in one round")] = None
    battery: Annotated[Spread | Mains, Drawn(Energy, "mains"), key("energy at the start")] = "mains"
    samples: Annotated[
        Spread | Literal["auto"], Drawn(Natural, "auto"),
        key('D_n: samples that a device holds; "auto": as many as the data split gives it')] = 500

    @model_validator(mode="after")
    def _whole(self) -> Self:
        columns = self.devices.columns() if self.devices is not None else {}
        if self.devices is not None and (self.count is not None or self.places is not None):
            raise refuse("devices lists every device: leave out count and places")
        if self.devices is None and self.count is None and self.places is None:
            raise refuse("how many devices? give count, places or devices")
        if self.places is not None and self.count not in (None, len(self.places)):
            raise refuse(f"there are {len(self.places)} places; leave count out", "count")
        needs = {"cpu": ("cpu_min", "cpu_max", "cycles_per_sample"), "radio": ("power",), "budget": ("budget",)}
        for table, instead in needs.items():
            if getattr(self, table) is None and not set(instead) <= set(columns):
                other = f" (or give the fleet the columns {', '.join(instead)})" if columns else ""
                raise refuse(f"is missing{other}", table)
        self._check_fleet("cpu_min", self.cpu and self.cpu.min, "cpu_max", self.cpu and self.cpu.max)
        power = columns.get("power", self.radio and self.radio.power)
        self._check_fleet("min_power", (self.radio and self.radio.min_power) or power,
                          "max_power", (self.radio and self.radio.max_power) or power)
        return self

    def _check_fleet(self, low: str, low_else: Any, high: str, high_else: Any) -> None:
        """Each device's least must not be above its most, wherever the two come from: a column or the table."""
        columns = self.devices.columns() if self.devices is not None else {}
        if not {low, high} & set(columns):
            return
        lows, highs = columns.get(low, low_else), columns.get(high, high_else)
        for row in range(len(next(iter(columns.values())))):
            least = lows[row] if isinstance(lows, tuple) else highest(lows)
            most = highs[row] if isinstance(highs, tuple) else lowest(highs)
            if least > most:
                at = high if high in columns else low
                raise refuse(f"{low} must not be above {high} ({least:g} > {most:g} in SI units)", "devices", at, row)

    @property
    def size(self) -> int:
        """The number of devices."""
        if self.devices is not None:
            return len(self.devices)
        return self.count if self.count is not None else len(self.places or ())


class Majority(Model):
    """A share sigma of a device's samples is of its majority class, the rest is drawn from the others."""

    kind: Literal["majority"]
    sigma: Annotated[Fraction, key("share of the majority class")] = 0.8


class TwoClass(Model):
    """Two classes a device, 80 % and 20 % (case H of the paper)."""

    kind: Literal["two-class"]


class Iid(Model):
    """Samples drawn at random, whatever their class."""

    kind: Literal["iid"]


class Dirichlet(Model):
    """Class shares of a device drawn from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"]
    alpha: Annotated[Positive, key("small: few classes a device; large: all alike")] = 0.5


class Shards(Model):
    """Samples sorted by class, cut into equal shards, so many of them dealt to each device."""

    kind: Literal["shards"]
    per_device: Annotated[Natural, key("shards that a device gets")] = 2


class PartitionFile(Model):
    """Sample indices of each device from a JSON file."""

    kind: Literal["file"]
    path: Annotated[str, Field(min_length=1), key("JSON: device number to list of sample indices")]


Partition = Annotated[
    Majority | TwoClass | Iid | Dirichlet | Shards | PartitionFile, Field(discriminator="kind")]


class NoServer(Model):
    """The aggregated model is the new global model."""

    kind: Literal["none"] = "none"


class ServerMomentum(Model):
    """The server moves along a running mean of the updates (FedAvgM)."""

    kind: Literal["momentum"]
    learning_rate: Positive = 1.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9


class ServerAdam(Model):
    """The server applies Adam to the updates (FedAdam)."""

    kind: Literal["adam"]
    learning_rate: Positive = 0.01
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    epsilon: Positive = 1e-3


ServerStep = Annotated[NoServer | ServerMomentum | ServerAdam, Field(discriminator="kind")]


class Evaluation(Model):
    """When and on how much the global model is tested."""

    every: Annotated[Natural, key("test after every so many rounds; the last one is always tested")] = 1
    samples: Annotated[Natural | Literal["all"], key("how many samples of the test set")] = "all"


class Learning(Model):
    """What a device computes and uploads in a round; with a dataset, it is trained for real."""

    dataset: Annotated[str | None, key('"digits" is always there; without a dataset nothing is trained')] = None
    root: Annotated[str | None, key("folder with the data, relative to the scenario file")] = None
    model: Annotated[str | None, key('a built-in network, or "package.module:Class" of an installed package')] = None
    bits: Annotated[DataSize | Literal["auto"], key('size of an upload; "auto": 32 bits a model parameter')] = "auto"
    partition: Annotated[Partition, key("how the samples are split over the devices")] = Majority(kind="majority")
    local_iterations: Annotated[
        Natural | None, key("L: passes over the device's samples in a round; cycles = L C_n D_n")] = None
    local_steps: Annotated[Natural | None, key("gradient steps in a round, instead of passes")] = None
    batch_size: Annotated[Natural, key("samples in a gradient step")] = 10
    learning_rate: Annotated[Positive, key("step size of local training")] = 0.05
    momentum: Annotated[float, Field(ge=0, lt=1), key("momentum of local training")] = 0.0
    weight_decay: Annotated[NotNegative, key("pull of the weights towards 0")] = 0.0
    proximal: Annotated[NotNegative, key("FedProx's mu: pull towards the global model")] = 0.0
    fedl: Annotated[Positive | None, key("FEDL's eta: steps follow the global gradient of the last round too")] = None
    aggregation: Annotated[
        Literal["weighted", "mean", "unbiased"],
        key("weighted by samples (eq. 4), a plain mean, or by the chances of selection (ICAS)")] = "weighted"
    server: Annotated[ServerStep, key("what the server does with the aggregate")] = NoServer()
    target_accuracy: Annotated[
        Annotated[float, Field(gt=0, le=1)] | None, key("the run ends when the test accuracy reaches it")] = None
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="before")
    @classmethod
    def _passes(cls, data: Any) -> Any:
        """One pass, unless the scenario says how many passes or steps."""
        if isinstance(data, Mapping) and not {"local_iterations", "local_steps"} & set(data):
            return {**data, "local_iterations": 1}
        return data

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.local_iterations is not None and self.local_steps is not None:
            raise refuse("local_iterations and local_steps exclude each other")
        if self.dataset is None and self.bits == "auto":
            raise refuse('without a dataset, give the size of an upload, such as "448 kbit"', "bits")
        if self.dataset is not None and self.model is None:
            raise refuse('is missing: the network to train, such as "mnist-cnn"', "model")
        return self


class Method(Model):
    """A method by name; all other keys are its options, which the method itself checks."""

    model_config = ConfigDict(extra="allow")
    method: Annotated[str, Field(min_length=1), key('a built-in method, or "package.module:Name" of installed code')]

    @property
    def options(self) -> dict[str, Any]:
        """The keys that belong to the method."""
        return dict(self.model_extra or {})


class Selection(Method):
    """Who takes part in a round."""

    cohort: Annotated[Natural, key("S: devices in a round")]


class Allocation(Method):
    """How bandwidth, CPU frequency and power are shared out."""

    method: Annotated[str, Field(min_length=1), key("such as sao or equal")] = "sao"


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
    deadline: Annotated[Time | None, key("devices that are not done by then are dropped from the round")] = None


class End(Model):
    """When a run is over, if the target accuracy was not reached before."""

    rounds: Annotated[Natural, key("number of rounds")] = 100
    time: Annotated[Time | None, key("simulated time; the round that passes it is the last")] = None


class Scenario(Model):
    """A cell, its devices, and the rules of their learning."""

    name: Annotated[str, Field(min_length=1), key("default: the file's name")] = "scenario"
    description: Annotated[str, key("a line for `netsim scenarios`")] = ""
    cell: Cell
    population: Annotated[tuple[Population, ...], Strict(False), Field(min_length=1), key("kinds of devices")]
    learning: Learning
    selection: Selection
    allocation: Allocation = Allocation()
    rounds: Rounds = Rounds()
    end: End = End()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [table.name for table in self.population]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise refuse(f'the name "{twice[0]}" stands for more than one table; give each its own', "population")
        there = self.size
        if there > MOST_DEVICES:
            raise refuse(f"{there} devices; at most {MOST_DEVICES} are allowed", "population")
        if self.selection.cohort > there:
            raise refuse(f"there are only {there} devices", "selection", "cohort")
        trace = self.cell.gain_trace
        if trace is not None and len(trace.db[0]) != there:
            raise refuse(f"has {len(trace.db[0])} columns for {there} devices", "cell", "gain_trace")
        auto = [place for place, table in enumerate(self.population) if table.samples == "auto"]
        if auto and not self.trains:
            raise refuse("there is no dataset to split; give a number", "population", auto[0], "samples")
        if auto and len(auto) < len(self.population):
            whole = "shares out the whole dataset: give it for every population or for none"
            raise refuse(whole, "population", auto[0], "samples")
        return self

    @property
    def size(self) -> int:
        """N, the number of devices."""
        return sum(table.size for table in self.population)

    @property
    def trains(self) -> bool:
        """Whether there is something to learn from."""
        return self.learning.dataset is not None

    def bits(self, parameters: int | None = None) -> float:
        """z, the size of an upload; ``parameters`` is the size of the model, for ``bits = "auto"``."""
        if isinstance(self.learning.bits, float):
            return float(self.learning.bits)
        if parameters is None:
            raise InputError(
                'learning.bits = "auto" is the size of the model, which is not built without learning: give the size, '
                'such as --set learning.bits="448 kbit"')
        return float(BITS_A_PARAMETER * parameters)

    def to_toml(self) -> str:
        """The scenario with all defaults filled in, as a file that loads to an equal scenario from any folder."""
        return toml_text.dumps(self._plain(lambda quantity: quantity.text))

    @property
    def digest(self) -> str:
        """SHA-256 of what the scenario says, however it is spelled; its name and where the data lie do not count."""
        plain = self._plain(float)
        del plain["name"], plain["description"]
        plain["learning"].pop("root", None)
        return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()

    def _plain(self, quantity: Callable[[Quantity], Any]) -> dict[str, Any]:
        def convert(value: Any) -> Any:
            if isinstance(value, Quantity):
                return quantity(value)
            if isinstance(value, Mapping):
                return {name: convert(item) for name, item in value.items()}
            return [convert(item) for item in value] if isinstance(value, list | tuple) else value

        plain: dict[str, Any] = convert(self.model_dump(exclude_none=True))
        return plain

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to other processes as its own text: the classes of distributions are made on the fly."""
        return _from_toml, (self.to_toml(),)


def _from_toml(text: str) -> Scenario:
    import tomllib

    return Scenario.model_validate(tomllib.loads(text))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file, for editors and other tools."""
    schema = Scenario.model_json_schema()
    names = {old: table["title"] for old, table in schema["$defs"].items() if "title" in table}
    text = json.dumps(schema)
    for old, new in sorted(names.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(f'"{old}"', f'"{new}"').replace(f'"#/$defs/{old}"', f'"#/$defs/{new}"')
    named: dict[str, Any] = json.loads(text)
    named["properties"]["base"] = {
        "type": "string", "description": "a scenario file or built-in scenario that this one changes"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "netsim scenario", **named}


def _check_order(low_name: str, low: Spread, high_name: str, high: Spread) -> None:
    if highest(low) > lowest(high):
        raise refuse(f"{low_name} may be above {high_name} ({highest(low):g} > {lowest(high):g} in SI units)")
