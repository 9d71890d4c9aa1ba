"""What happens to devices in time: keys of ``[[population]]``.

When they are there, when they crash, what becomes of their uploads, how they move, what comes into their batteries and
how warm they get.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from netsim.base.counts import counted
from netsim.base.fields import MOST, Duration, Frequency, Model, Natural, Power, Speed, Time, default, field_error, key
from netsim.scenario.distributions import Drawn, Spread, Uniform, highest, lowest


def at_least(least: float, expected: str, hint: str = "") -> AfterValidator:
    """A check that a value is not less than this, in SI units."""
    def check(value: float) -> float:
        if value < least:
            raise field_error("out-of-range", expected=expected, hint=hint)
        return value

    return AfterValidator(check)


def _check_rises(before: float, after: float, *at: str | int) -> None:
    """Raise a fault for instants that do not rise."""
    if not before < after:
        raise field_error("out-of-range", *at, found=f"{after:g} s after {before:g} s", expected="times that rise")


def _rising(instants: tuple[float, ...]) -> tuple[float, ...]:
    for row, (before, after) in enumerate(pairwise(instants), 1):
        _check_rises(before, after, row)
    return instants


# With shorter dwell times or steps a run would only count changes.
Dwell = Annotated[Time, at_least(1e-3, "a mean of at least 1 ms")]
Step = Annotated[Time, at_least(1e-3, "at least 1 ms", "Every change takes time to compute"),
                 key("how often the gains follow the places")]
Work = Annotated[Literal["pause", "lose", "drop"], key(
    'a device that goes off at work: "pause" (it goes on where it was), "lose" (the job starts over), or "drop" (the '
    "job ends)")]
Instants = tuple[Annotated[float, Field(ge=0, le=1e12), Strict(False)], ...]
RISING = AfterValidator(_rising)
Metres = tuple[Annotated[float, Field(ge=-MOST, le=MOST), Strict(False)], ...]


class OnOff(Model):
    """There and away by turns, for exponential times; begun as if it had gone on for ever."""

    model: Literal["on-off"]
    on: Annotated[Dwell, key("mean time that a device is there")]
    off: Annotated[Dwell, key("mean time that it is away")]
    work: Work = "pause"


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
            _check_rises(before, after, ("on", "off")[place % 2], place // 2)
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


Availability = Annotated[OnOff | RecordedOnOff, Field(discriminator="model")]


class Crash(Model):
    """Breaks down at random, and is repaired; begun as if it had gone on for ever."""

    every: Annotated[Dwell, key("mean time from a repair to the next crash")]
    repair: Annotated[Dwell, key("mean time that a repair takes")]
    work: Work = "lose"


class Loss(Model):
    """Uploads that do not get through and are sent again: as a whole, or packet by packet."""

    probability: Annotated[float, Field(gt=0, le=1), key("that an upload, or a packet, is lost, each time anew")]
    tries: Annotated[Natural, Field(le=1000), key("how often an upload, or a packet, is sent at most")] = 4
    packets: Annotated[Natural | None, key(
        "how many packets an upload has; those lost are sent again. Without it uploads are lost as a whole")] = None


class RandomWaypoint(Model):
    """Straight to a point drawn evenly over the disc, a pause there, and on; begun as if it had gone on for ever."""

    model: Literal["random-waypoint"]
    speed: Annotated[Spread, Drawn(Speed), key("of each leg: one for all, or uniform")]
    pause: Annotated[Duration, key("rest at each point")] = default("0 s", "time")
    every: Step = default("100 ms", "time")

    @model_validator(mode="after")
    def _one_or_uniform(self) -> Self:
        if not isinstance(self.speed, float | Uniform):
            raise field_error("unsupported", "speed", expected='one speed such as "1.4 m/s", or { dist = "uniform", '
                              'low = "1 m/s", high = "2 m/s" }')
        return self

    @property
    def speeds(self) -> tuple[float, float]:
        """The slowest and the fastest leg."""
        return lowest(self.speed), highest(self.speed)


class Track(Model):
    """Where one device is at some instants; in between it moves straight, afterwards it stays."""

    t: Annotated[Instants, Strict(False), Field(min_length=1), RISING, key("seconds")]
    x: Annotated[Metres, Strict(False), key("metres east of the base station")]
    y: Annotated[Metres, Strict(False), key("metres north of the base station")]

    @model_validator(mode="after")
    def _even(self) -> Self:
        if not len(self.t) == len(self.x) == len(self.y):
            raise field_error("wrong-length", found=f"{len(self.t)} times, {len(self.x)} x and {len(self.y)} y",
                              expected="as many places as times")
        return self


class Recorded(Model):
    """Places over time, device by device."""

    model: Literal["recorded"]
    tracks: Annotated[tuple[Track, ...], Strict(False), Field(min_length=1),
                      key("one a device, or the path of a CSV file with the columns device, t, x, y (s, m)")]
    every: Step = default("100 ms", "time")


Mobility = Annotated[RandomWaypoint | Recorded, Field(discriminator="model")]
CLOCK = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


def _of_a_day(value: Any) -> Any:
    hours, colon, minutes = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not (colon and hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2
            and int(hours) < 24 and int(minutes) < 60):
        raise field_error("malformed", expected='a time of day, such as "22:00"')
    return f"{int(hours):02}:{int(minutes):02}"


TimeOfDay = Annotated[str, BeforeValidator(_of_a_day), Field(pattern=CLOCK)]


def seconds_of(clock: str) -> float:
    """Since midnight: "22:30" is 81,000 s."""
    hours, minutes = map(int, clock.split(":"))
    return hours * 3600.0 + minutes * 60.0


class Charging(Model):
    """Hours of every day in which a device is charged; they may reach over midnight."""

    power: Annotated[Power, key("what comes in meanwhile")]
    start: Annotated[TimeOfDay, key('time of day, such as "22:00"')]
    end: Annotated[TimeOfDay, key('time of day, such as "06:00"')]

    @model_validator(mode="after")
    def _some_hours(self) -> Self:
        if self.start == self.end:
            raise field_error("out-of-range", "end", expected="a time after start", hint="For all day, give harvest")
        return self


class Throttle(Model):
    """A lower clock after so many seconds of load; in a rest the processor cools evenly, until it is cold."""

    after: Annotated[Time, key("seconds of computing above the lower clock that a cold processor bears")]
    to: Annotated[Frequency, key("the clock that it falls to; computing at it, or below, warms nothing")]
    recovers: Annotated[Time, key("how long a hot processor has to rest until it is cold")]
