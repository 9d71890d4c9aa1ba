"""When devices are there, when they crash, and what becomes of their uploads: keys of ``[[population]]``."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Strict, Tag, model_validator

from netsim.base.counts import counted
from netsim.base.field_errors import field_error
from netsim.base.fields import Model, Natural, Time, key

LEAST_S = 1e-3       # of a mean dwell time: with shorter ones a run would do nothing but count changes

Work = Annotated[Literal["pause", "lose", "drop"], key(
    'a device that goes off at work: "pause" (it goes on where it was), "lose" (the job starts over), or "drop" (the '
    "job ends)")]
Instants = tuple[Annotated[float, Field(ge=0, le=1e12), Strict(False)], ...]


class OnOff(Model):
    """There and away by turns, for exponential times; begun as if it had gone on for ever."""

    model: Literal["on-off"]
    on: Annotated[Time, key("mean time that a device is there")]
    off: Annotated[Time, key("mean time that it is away")]
    work: Work = "pause"

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        for name in ("on", "off"):
            _check_dwell(name, getattr(self, name))
        return self


class Intervals(Model):
    """When one device is there; it is away before, between and after."""

    on: Annotated[Instants, Strict(False), key("seconds at which it comes")]
    off: Annotated[Instants, Strict(False), key("seconds at which it goes")]

    @model_validator(mode="after")
    def _even(self) -> Self:
        if len(self.on) != len(self.off):
            raise field_error("wrong-length", "off", found=counted(len(self.off), "end"),
                              expected=f"one for each of {counted(len(self.on), 'start')}")
        edges = [edge for pair in zip(self.on, self.off, strict=True) for edge in pair]
        for place, (before, after) in enumerate(pairwise(edges), 1):
            check_rises(before, after, ("on", "off")[place % 2], place // 2)
        return self


class RecordedOnOff(Model):
    """There in recorded intervals, device by device."""

    model: Literal["recorded"]
    intervals: Annotated[
        tuple[Intervals, ...], Strict(False), Field(min_length=1),
        key("one entry a device, or the path of a CSV file with the columns device, on, off (s)")]
    period: Annotated[Time | None, key("after which the intervals start over; without it they end")] = None
    work: Work = "pause"

    @model_validator(mode="after")
    def _within_the_period(self) -> Self:
        for device, each in enumerate(self.intervals):
            if self.period is not None and each.off and each.off[-1] > self.period:
                raise field_error("out-of-range", "period", expected=f"at least {each.off[-1]:g} s (device {device})")
        return self


Availability = Annotated[
    Annotated[OnOff, Tag("on-off")] | Annotated[RecordedOnOff, Tag("recorded")], Discriminator("model")]


class Crash(Model):
    """Breaks down at random, and is repaired; begun as if it had gone on for ever."""

    every: Annotated[Time, key("mean time from a repair to the next crash")]
    repair: Annotated[Time, key("mean time that a repair takes")]
    work: Work = "lose"

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        for name in ("every", "repair"):
            _check_dwell(name, getattr(self, name))
        return self


class Loss(Model):
    """Uploads that do not get through and are sent again: as a whole, or packet by packet."""

    probability: Annotated[float, Field(gt=0, le=1), key("that an upload, or a packet, is lost, each time anew")]
    tries: Annotated[Natural, Field(le=1000), key("how often an upload, or a packet, is sent at most")] = 4
    packets: Annotated[Natural | None, key(
        "how many packets an upload has; those lost are sent again. Without it uploads are lost as a whole")] = None


def _check_dwell(name: str, seconds: float) -> None:
    if seconds < LEAST_S:
        raise field_error("out-of-range", name, expected="a mean of at least 1 ms")


def check_rises(before: float, after: float, *at: str | int) -> None:
    """Raise a fault for instants that do not rise."""
    if not before < after:
        raise field_error("out-of-range", *at, found=f"{after:g} s after {before:g} s", expected="times that rise")
