"""The tables ``[cell]`` and ``[[population]]`` of a scenario: the radio, and the devices in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, GetJsonSchemaHandler, Strict, Tag, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from netsim.base.fields import (
    MOST_DB,
    OWN,
    Coordinate,
    Decibels,
    Deviation,
    Energy,
    Frequency,
    Gain,
    Length,
    Model,
    Natural,
    NoiseDensity,
    Positive,
    Power,
    default,
    key,
    refuse,
)
from netsim.scenario.distributions import Drawn, Spread, highest, lowest

MOST_DEVICES = 10_000_000


class OrPath:
    """Marks a table that a scenario file may also name by the path of a CSV file; the loader reads it in."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        path = {"type": "string", "description": "a CSV file, relative to the scenario file"}
        return {"anyOf": [path, handler(schema)]}


class LogDistance(Model):
    """Mean path loss over distance: intercept + slope * log10(distance in km)."""

    model: Literal["log-distance"] = "log-distance"
    intercept: Annotated[Decibels, key("path loss at 1 km")] = default("128.1 dB", "decibels")
    slope: Annotated[Decibels, key("path loss added by a tenfold distance")] = default("37.6 dB", "decibels")


class FreeSpace(Model):
    """Mean path loss where nothing stands in the way (Friis): 20 log10(4 pi distance / wavelength)."""

    model: Literal["free-space"]
    frequency: Annotated[Frequency, key("carrier frequency")]


class OwnPathLoss(Model):
    """A path loss of your own: a function of the distances in metres, and of its options, that returns decibels."""

    model_config = ConfigDict(extra="allow")
    model: Annotated[str, Field(pattern=OWN)]


def _law(table: Any) -> Any:
    law = table.get("model", "log-distance") if isinstance(table, Mapping) else getattr(table, "model", None)
    return "own" if isinstance(law, str) and ":" in law else law


PathLoss = Annotated[
    Annotated[LogDistance, Tag("log-distance")] | Annotated[FreeSpace, Tag("free-space")]
    | Annotated[OwnPathLoss, Tag("own")], Discriminator(_law)]


class GainTrace(Model):
    """Recorded channel gains: a row a round, a column a device; it starts over when it ends."""

    db: Annotated[
        tuple[Annotated[tuple[Annotated[float, Field(ge=-MOST_DB, le=MOST_DB)], ...], Strict(False)], ...],
        Strict(False), Field(min_length=1),
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
    path_loss: Annotated[PathLoss, key("mean path loss over distance")] = LogDistance()
    shadowing: Annotated[Deviation, key("standard deviation of the shadowing, drawn once a device")] = default(
        "0 dB", "decibels")
    fading: Annotated[
        Literal["none", "rayleigh"], key("rayleigh: every round and device draws a power factor of mean 1")] = "none"
    gain_trace: Annotated[GainTrace | None, OrPath(), key("recorded gains instead of path loss and shadowing")] = None
    channel: Annotated[str | None, key('a channel of your own, "package.module:Name" of installed code')] = None

    @model_validator(mode="after")
    def _one_channel(self) -> Self:
        if self.gain_trace is not None and self.fading != "none":
            raise refuse('a recorded gain_trace has its fading in it; allowed beside it: "none"', "fading")
        if self.channel is not None and (self.gain_trace is not None or self.fading != "none"):
            raise refuse("a channel of your own says how gains change: take fading and gain_trace away", "channel")
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


class Fleet(Model):
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


class PopulationTable(Model):
    """A kind of devices: so many drawn ones, ones at given places, or the rows of a CSV file."""

    name: Annotated[str, Field(min_length=1, max_length=100), key("how --set and base files address it")] = "device"
    count: Annotated[Natural | None, Field(le=MOST_DEVICES), key("number of devices")] = None
    places: Annotated[
        tuple[Annotated[tuple[Coordinate, Coordinate], Strict(False)], ...] | None, Strict(False), Field(min_length=1),
        key('fixed places, such as [["120 m", "0 m"], ["-40 m", "90 m"]]; the base station is at 0, 0')] = None
    devices: Annotated[Fleet | None, OrPath(), key("the devices one by one, instead of count")] = None
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


def _check_order(low_name: str, low: Spread, high_name: str, high: Spread) -> None:
    if highest(low) > lowest(high):
        raise refuse(f"{low_name} may be above {high_name} ({highest(low):g} > {lowest(high):g} in SI units)")
