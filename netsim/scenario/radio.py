"""The table ``[cell]`` of a scenario: band, channels, link model and downlink."""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, GetJsonSchemaHandler, Strict, Tag, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from netsim.base.fields import (
    MOST_DB,
    OWN,
    DataSize,
    Decibels,
    Deviation,
    Frequency,
    Length,
    Model,
    NoiseDensity,
    OpenTable,
    Power,
    SpectralEfficiency,
    Time,
    default,
    field_error,
    key,
    named_in,
)
from netsim.base.pluralize import pluralize
from netsim.scenario.time_varying import RISING, Instants, at_least


class OrPath:
    """Marks a table that a scenario file may also name by the path of a CSV file; the loader reads it in."""

    def __init__(self, **choices: JsonSchemaValue) -> None:
        self.choices = choices      # keys beside ``file``, of a table that names the file

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        path = {"type": "string", "description": "a CSV file, relative to the scenario file"}
        table = {"type": "object", "required": ["file"], "additionalProperties": False,
                 "properties": {"file": path, **self.choices}}
        return {"anyOf": [path, *([table] if self.choices else []), handler(schema)]}


class LogDistance(Model):
    """Mean path loss over distance: intercept + slope * log10(distance in km)."""

    model: Literal["log-distance"] = "log-distance"
    intercept: Annotated[Decibels, key("path loss at 1 km")] = default("128.1 dB", "decibels")
    slope: Annotated[Decibels, key("path loss per decade of distance")] = default("37.6 dB", "decibels")


class FreeSpace(Model):
    """Free-space path loss (Friis): 20 log10(4 pi distance / wavelength)."""

    model: Literal["free-space"]
    frequency: Annotated[Frequency, key("carrier frequency")]


class OwnPathLoss(OpenTable):
    """A path loss of your own: a function of the distances in metres, and of its options, that returns decibels."""

    model: Annotated[str, Field(pattern=OWN)]


PathLoss = Annotated[
    Annotated[LogDistance, Tag("log-distance")] | Annotated[FreeSpace, Tag("free-space")]
    | Annotated[OwnPathLoss, Tag("own")], Discriminator(lambda table: named_in(table, "model", "log-distance"))]


class Shadowing(Model):
    """Spatially correlated shadowing of moving devices (Gudmundson)."""

    sd: Annotated[Deviation, key("standard deviation")]
    correlation: Annotated[Length, key("distance at which the correlation is 1/e")]


Coherence = Annotated[Time, at_least(1e-5, "at least 0.01 ms", "No channel changes faster, and every change costs "
                                     "computing time")] | Literal["round"]


class Rayleigh(Model):
    """Rayleigh fading: the received power is exponentially distributed around its mean."""

    model: Literal["rayleigh"]
    coherence: Annotated[Coherence, key('coherence time, such as "20 ms"; "round": one draw per round')] = "round"


class Rician(Model):
    """Rician fading: line of sight with K times the power of all other paths."""

    model: Literal["rician"]
    k: Annotated[Decibels, key("K factor")]
    coherence: Annotated[Coherence, key('coherence time, such as "20 ms"; "round": one draw per round')] = "round"


Fading = Annotated[Rayleigh | Rician, Field(discriminator="model")]


def _check_times(t: tuple[float, ...], rows: int) -> None:
    """Raise an error unless there is a time for each row of a recording, the first 0."""
    if len(t) != rows:
        raise field_error("wrong-length", "t", found=pluralize(len(t), "instant"),
                          expected=f"one for each of {pluralize(rows, 'row')}")
    if t[0] != 0:
        raise field_error("out-of-range", "t", 0, found=f"{t[0]:g} s", expected="0 s for the first row")


class GainTrace(Model):
    """Recorded channel gains: one column per device, one row per round or time; repeats at its end."""

    db: Annotated[
        tuple[Annotated[tuple[Annotated[float, Field(ge=-MOST_DB, le=MOST_DB)], ...], Strict(False)], ...],
        Strict(False), Field(min_length=1),
        key("gains in dB, such as [[-95.2, -101.7], [-96.0, -99.8]]"),
    ]
    t: Annotated[
        Annotated[Instants, Strict(False), Field(min_length=2), RISING] | None,
        key("times in seconds at which the rows start to apply, the first 0; by default one row per round")] = None

    @model_validator(mode="after")
    def _even(self) -> Self:
        widths = {len(row) for row in self.db}
        if len(widths) != 1 or 0 in widths:
            raise field_error("wrong-length", found=f"rows of {str(sorted(widths))[1:-1]} gains",
                              expected="one for each device in every row")
        if self.t is not None:
            _check_times(self.t, len(self.db))
        return self

    @property
    def period_s(self) -> float:
        """Period in seconds after which the trace repeats: its last row lasts as long as the one before."""
        if self.t is None:
            raise ValueError("this trace has no times")
        return 2 * self.t[-1] - self.t[-2]

    def row_at(self, t: float) -> int:
        """The row that holds at an instant, in seconds; the first one of a trace without times."""
        return 0 if self.t is None else bisect_right(self.t, t % self.period_s) - 1


Cap = Annotated[SpectralEfficiency, at_least(          # the most robust code of LTE has 0.15
    0.1, "at least 0.1 bit/s/Hz", "No radio is so slow, and an upload would not end")]


class Rate(Model):
    """Link model relative to Shannon's limit: efficiency * min(b log2(1 + J/b), max_spectral_efficiency * b) bit/s."""

    model: Literal["shannon"] | None = None
    max_spectral_efficiency: Annotated[Cap | None, key("of the highest modulation and code")] = None
    efficiency: Annotated[float, Field(gt=0, le=1), key("fraction of Shannon's limit that the link reaches")] = 1.0


class MeasuredLink(Model):
    """Measured rates (radio.rate): devices share the airtime, or each has its own link."""

    model: Literal["airtime", "dedicated"]


class OwnRate(OpenTable):
    """A link model of your own: a class with rate(hz, snr_hz) and its inverse bandwidth(rate, snr_hz)."""

    model: Annotated[str, Field(pattern=OWN)]


LinkTable = Annotated[
    Annotated[Rate, Tag("shannon")] | Annotated[MeasuredLink, Tag("airtime")] | Annotated[OwnRate, Tag("own")],
    Discriminator(lambda table: {"dedicated": "airtime"}.get(kind := named_in(table, "model", "shannon"), kind))]


class RateTrace(Model):
    """Measured rates over time: one row per time, one column per device; repeats at its end."""

    t: Annotated[Instants, Strict(False), Field(min_length=2), RISING,
                 key("times in seconds at which the rows start to apply, the first 0")]
    bit_per_s: Annotated[
        tuple[Annotated[tuple[Annotated[float, Field(gt=0, le=1e15)], ...], Strict(False)], ...],
        Strict(False), Field(min_length=2), key("rates in bit/s, one row per time")]

    @model_validator(mode="after")
    def _even(self) -> Self:
        if len({len(row) for row in self.bit_per_s}) != 1:
            raise field_error("wrong-length", "bit_per_s", expected="one rate for each device in every row")
        _check_times(self.t, len(self.bit_per_s))
        return self

    @property
    def period_s(self) -> float:
        """Period in seconds after which the trace repeats: its last row lasts as long as the one before."""
        return 2 * self.t[-1] - self.t[-2]


class DownlinkTable(Model):
    """Transmission of the model to the devices, at the rate of the link model with the base station's power."""

    mode: Annotated[Literal["broadcast", "unicast"], key(
        '"broadcast": one transmission to all devices that start together, at the rate of the worst channel; '
        '"unicast": one per device, each with an equal share of bandwidth and power')] = "broadcast"
    power: Annotated[Power | None, key("transmit power of the base station; needed unless rates are measured")] = None
    bandwidth: Annotated[Frequency | None, key("bandwidth, in a separate band; by default that of the uplink")] = None
    bits: Annotated[DataSize | None, key("size of a download; by default that of an upload")] = None
    receive_power: Annotated[Power | None, key("power that receiving draws from a device; by default 0")] = None


class Cell(Model):
    """The radio cell with the base station at its centre."""

    radius: Annotated[Length, key("radius of the disc over which devices are placed uniformly")]
    bandwidth: Annotated[Frequency, key("uplink bandwidth B, shared by the active uploads")]
    noise: Annotated[NoiseDensity, key("noise power density N0")] = default("-174 dBm/Hz", "noise density")
    path_loss: Annotated[PathLoss, key("mean path loss over distance")] = LogDistance()
    shadowing: Annotated[
        Deviation | Shadowing,
        key("standard deviation of the shadowing, drawn once per device; a table for moving devices")] = default(
        "0 dB", "decibels")
    fading: Annotated[
        Literal["none", "rayleigh"] | Fading,
        key('"rayleigh": a power factor of mean 1 per round and device; a table has more options')] = "none"
    gain_trace: Annotated[GainTrace | None, OrPath(), key("recorded gains instead of path loss and shadowing")] = None
    channel: Annotated[str | None, key('a channel of your own, "package.module:Name" of installed code')] = None
    link: Annotated[LinkTable | None, key(
        "link model: Shannon's limit with an efficiency and a cap, a link model of your own, or for measured rates "
        '(radio.rate) shared "airtime" or "dedicated" links')] = None
    scheduler: Annotated[str | None, key(
        'bandwidth of each active upload: "planned" (the default), "equal", "adaptive", "tdma", or '
        '"package.module:Name"')] = None
    noise_figure: Annotated[Deviation | None, key("noise figure of the receiver, added to N0")] = None
    downlink: Annotated[DownlinkTable | None, key(
        "downlink; by default the model arrives in zero time, as in the paper")] = None

    @model_validator(mode="after")
    def _one_channel(self) -> Self:
        if self.gain_trace is not None and self.fading != "none":
            raise field_error("conflict", "fading", expected='"none"', hint="A recorded gain_trace includes fading")
        if self.channel is not None and (self.gain_trace is not None or self.fading != "none"):
            raise field_error("conflict", "channel", expected="neither fading nor gain_trace beside it",
                              hint="A channel of your own determines the gains")
        return self

    @property
    def shadowing_db(self) -> float:
        return self.shadowing.sd if isinstance(self.shadowing, Shadowing) else self.shadowing

    @property
    def noise_w_per_hz(self) -> float:
        """Noise density in W/Hz, with the noise figure of the receiver."""
        added = 1.0 if self.noise_figure is None else 10.0 ** (self.noise_figure / 10.0)
        return float(self.noise) * added
