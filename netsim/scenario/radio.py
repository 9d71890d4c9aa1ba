"""The table ``[cell]`` of a scenario: the band, and the radio channels to the base station."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, GetJsonSchemaHandler, Strict, Tag, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from netsim.base.counts import counted
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
from netsim.scenario.time_varying import RISING, Instants, at_least


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


class OwnPathLoss(OpenTable):
    """A path loss of your own: a function of the distances in metres, and of its options, that returns decibels."""

    model: Annotated[str, Field(pattern=OWN)]


PathLoss = Annotated[
    Annotated[LogDistance, Tag("log-distance")] | Annotated[FreeSpace, Tag("free-space")]
    | Annotated[OwnPathLoss, Tag("own")], Discriminator(lambda table: named_in(table, "model", "log-distance"))]


class Shadowing(Model):
    """Shadowing that changes along the way of a device that moves (Gudmundson)."""

    sd: Annotated[Deviation, key("standard deviation")]
    correlation: Annotated[Length, key("distance after which the correlation has fallen to 1/e")]


Coherence = Annotated[Time, at_least(1e-5, "at least 0.01 ms", "No channel changes faster, and every change takes time "
                                     "to compute")] | Literal["round"]


class Rayleigh(Model):
    """Fading without a line of sight: the received power is exponentially distributed around its mean."""

    model: Literal["rayleigh"]
    coherence: Annotated[Coherence, key('how long a draw lasts, such as "20 ms"; "round": one a round')] = "round"


class Rician(Model):
    """Fading with a line of sight, K times as strong as all the rest together."""

    model: Literal["rician"]
    k: Annotated[Decibels, key("K")]
    coherence: Annotated[Coherence, key('how long a draw lasts, such as "20 ms"; "round": one a round')] = "round"


Fading = Annotated[Rayleigh | Rician, Field(discriminator="model")]


class GainTrace(Model):
    """Recorded channel gains, a column a device; a row a round, or from an instant on. It starts over when it ends."""

    db: Annotated[
        tuple[Annotated[tuple[Annotated[float, Field(ge=-MOST_DB, le=MOST_DB)], ...], Strict(False)], ...],
        Strict(False), Field(min_length=1),
        key("gains in dB, such as [[-95.2, -101.7], [-96.0, -99.8]]"),
    ]
    t: Annotated[
        Annotated[Instants, Strict(False), Field(min_length=2), RISING] | None,
        key("seconds from which on each row holds, the first 0; without it a row is a round")] = None

    @model_validator(mode="after")
    def _even(self) -> Self:
        widths = {len(row) for row in self.db}
        if len(widths) != 1 or 0 in widths:
            raise field_error("wrong-length", found=f"rows of {str(sorted(widths))[1:-1]} gains",
                              expected="one for each device in every row")
        if self.t is not None and len(self.t) != len(self.db):
            raise field_error("wrong-length", "t", found=counted(len(self.t), "instant"),
                              expected=f"one for each of {counted(len(self.db), 'row')}")
        if self.t is not None and self.t[0] != 0:
            raise field_error("out-of-range", "t", 0, found=f"{self.t[0]:g} s", expected="0 s for the first row")
        return self

    @property
    def period_s(self) -> float:
        """After which a trace in time starts over: its last row holds as long as the one before."""
        if self.t is None:
            raise ValueError("this trace has no times")
        return 2 * self.t[-1] - self.t[-2]


Cap = Annotated[SpectralEfficiency, at_least(          # the most robust code of LTE carries 0.15
    0.1, "at least 0.1 bit/s/Hz", "No radio is so slow at its best, and an upload would not end")]


class Rate(Model):
    """How far a real radio stays behind Shannon's limit: efficiency * min(b log2(1 + J/b), cap * b)."""

    model: Literal["shannon"] | None = None
    cap: Annotated[Cap | None, key("what the highest modulation and code carry")] = None
    efficiency: Annotated[float, Field(gt=0, le=1), key("share of the limit that is reached")] = 1.0


class OwnRate(OpenTable):
    """A link model of your own: a class with rate(hz, snr_hz) and its inverse bandwidth(rate, snr_hz)."""

    model: Annotated[str, Field(pattern=OWN)]


LinkTable = Annotated[Annotated[Rate, Tag("shannon")] | Annotated[OwnRate, Tag("own")],
                      Discriminator(lambda table: named_in(table, "model", "shannon"))]


class DownlinkTable(Model):
    """How the model gets to the devices before they compute; Shannon's rate at the base station's power."""

    to: Annotated[Literal["all", "each"], key(
        '"all": one broadcast for those who start together, at the rate of the worst channel; "each": a transmission '
        "for each, in an equal part of band and power")] = "all"
    power: Annotated[Power, key("transmit power of the base station")]
    bandwidth: Annotated[Frequency | None, key("by default as much as the uplink has, in a band of its own")] = None
    bits: Annotated[DataSize | None, key("size of a download; by default that of an upload")] = None
    reception: Annotated[Power | None, key("what receiving draws from a device; by default nothing")] = None


class Cell(Model):
    """The radio cell with the base station at its centre."""

    radius: Annotated[Length, key("devices without a place of their own are spread evenly over this disc")]
    bandwidth: Annotated[Frequency, key("uplink bandwidth B that a cohort shares")]
    noise: Annotated[NoiseDensity, key("noise power density N0")] = default("-174 dBm/Hz", "noise density")
    path_loss: Annotated[PathLoss, key("mean path loss over distance")] = LogDistance()
    shadowing: Annotated[
        Deviation | Shadowing,
        key("standard deviation of the shadowing, drawn once a device; a table where it changes on the way")] = default(
        "0 dB", "decibels")
    fading: Annotated[
        Literal["none", "rayleigh"] | Fading,
        key('"rayleigh": every round and device draws a power factor of mean 1; a table says more')] = "none"
    gain_trace: Annotated[GainTrace | None, OrPath(), key("recorded gains instead of path loss and shadowing")] = None
    channel: Annotated[str | None, key('a channel of your own, "package.module:Name" of installed code')] = None
    rate: Annotated[LinkTable | None, key(
        "what a bandwidth carries: Shannon's limit with efficiency and cap, or a link model of your own")] = None
    noise_figure: Annotated[Deviation | None, key("noise that the receiver adds; raises N0 by so many dB")] = None
    downlink: Annotated[DownlinkTable | None, key(
        "how the model gets to the devices; without it in no time, as in the paper")] = None

    @model_validator(mode="after")
    def _one_channel(self) -> Self:
        if self.gain_trace is not None and self.fading != "none":
            raise field_error("conflict", "fading", expected='"none"', hint="A recorded gain_trace includes fading")
        if self.channel is not None and (self.gain_trace is not None or self.fading != "none"):
            raise field_error("conflict", "channel", expected="neither fading nor gain_trace beside it",
                              hint="A channel of your own says how gains change")
        return self

    @property
    def shadowing_db(self) -> float:
        """Standard deviation of the shadowing."""
        return self.shadowing.sd if isinstance(self.shadowing, Shadowing) else self.shadowing

    @property
    def noise_w_per_hz(self) -> float:
        """Noise density with what the receiver adds."""
        added = 1.0 if self.noise_figure is None else 10.0 ** (self.noise_figure / 10.0)
        return float(self.noise) * added
