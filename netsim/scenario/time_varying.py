"""Keys of ``[[population]]`` for time-varying devices.

Availability, crashes, packet loss, mobility, charging, thermal throttling and random variation of jobs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from netsim.base.fields import MOST, Duration, Frequency, Model, Natural, Power, Speed, Time, default, field_error, key
from netsim.base.pluralize import pluralize
from netsim.scenario.distributions import Drawn, Spread, Uniform, highest, lowest


def at_least(least: float, expected: str, hint: str = "") -> AfterValidator:
    """Return a check that a value is at least ``least``, in SI units."""
    def check(value: float) -> float:
        if value < least:
            raise field_error("out-of-range", expected=expected, hint=hint)
        return value

    return AfterValidator(check)


def _check_rises(before: float, after: float, *at: str | int) -> None:
    """Raise an error for times that do not increase."""
    if not before < after:
        raise field_error("out-of-range", *at, found=f"{after:g} s after {before:g} s", expected="increasing times")


def _rising(instants: tuple[float, ...]) -> tuple[float, ...]:
    for row, (before, after) in enumerate(pairwise(instants), 1):
        _check_rises(before, after, row)
    return instants


# With shorter times a run would spend its time on changes.
Dwell = Annotated[Time, at_least(1e-3, "a mean of at least 1 ms")]
Step = Annotated[Time, at_least(1e-3, "at least 1 ms", "Every change costs computing time"),
                 key("interval at which the gains follow the positions")]
OnInterrupt = Annotated[Literal["pause", "restart", "abort"], key(
    'job of a device that becomes unavailable: "pause" (it resumes later), "restart" (from the beginning) or "abort"')]
Instants = tuple[Annotated[float, Field(ge=0, le=1e12), Strict(False)], ...]
RISING = AfterValidator(_rising)
Metres = tuple[Annotated[float, Field(ge=-MOST, le=MOST), Strict(False)], ...]


class OnOff(Model):
    """Alternates between on and off with exponential durations; starts in steady state."""

    model: Literal["on-off"]
    on: Annotated[Dwell, key("mean duration on")]
    off: Annotated[Dwell, key("mean duration off")]
    on_interrupt: OnInterrupt = "pause"


class Intervals(Model):
    """Times at which one device is available; it is off before, between and after."""

    on: Annotated[Instants, Strict(False), key("times in seconds at which it becomes available")]
    off: Annotated[Instants, Strict(False), key("times in seconds at which it goes off")]
    period: Annotated[Annotated[float, Field(gt=0, le=1e12), Strict(False)] | None, key(
        "period in seconds after which the intervals of this device repeat; by default that of all devices")] = None

    @model_validator(mode="after")
    def _even(self) -> Self:
        if len(self.on) != len(self.off):
            raise field_error("wrong-length", "off", found=pluralize(len(self.off), "end"),
                              expected=f"one for each of {pluralize(len(self.on), 'start')}")
        edges = [edge for pair in zip(self.on, self.off, strict=True) for edge in pair]
        for place, (before, after) in enumerate(pairwise(edges), 1):
            _check_rises(before, after, ("on", "off")[place % 2], place // 2)
        return self


class RecordedOnOff(Model):
    """Recorded intervals of availability of each device."""

    model: Literal["recorded"]
    intervals: Annotated[
        tuple[Intervals, ...], Strict(False), Field(min_length=1),
        key("one entry per device, or the path of a CSV file with the columns device, on, off (s)")]
    period: Annotated[Time | None, key("period after which the intervals repeat; by default they end")] = None
    on_interrupt: OnInterrupt = "pause"

    @model_validator(mode="after")
    def _within_the_period(self) -> Self:
        for device, each in enumerate(self.intervals):
            period = self.period if each.period is None else each.period
            if period is not None and each.off and each.off[-1] > period:
                raise field_error("out-of-range", "period", expected=f"at least {each.off[-1]:g} s (device {device})")
        return self


Availability = Annotated[OnOff | RecordedOnOff, Field(discriminator="model")]


class Crash(Model):
    """Random failures and repairs with exponential durations; starts in steady state."""

    mean_time_between_failures: Annotated[Dwell, key("mean time from a repair to the next failure")]
    mean_repair_time: Annotated[Dwell, key("mean duration of a repair")]
    on_interrupt: OnInterrupt = "restart"


class Loss(Model):
    """Loss of whole uploads or of packets, which are sent again."""

    probability: Annotated[float, Field(gt=0, le=1), key("that an upload or packet is lost, for each attempt")]
    max_attempts: Annotated[Natural, Field(le=1000), key("maximum number of attempts of an upload or packet")] = 4
    packets: Annotated[Natural | None, key(
        "number of packets of an upload; by default uploads are lost as a whole")] = None


class Variation(Model):
    """Job-to-job variation of times: each job draws a log-normal factor of median 1 for computing and for uploading."""

    compute: Annotated[float, Field(ge=0, le=3), key("standard deviation of ln(compute time)")] = 0.0
    upload: Annotated[float, Field(ge=0, le=3), key("standard deviation of ln(upload time)")] = 0.0

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.compute and not self.upload:
            raise field_error("no-effect", hint="Both deviations are 0: give one, or remove the table")
        return self


class RandomWaypoint(Model):
    """Random waypoint: straight to a uniformly drawn point of the disc, then a pause; starts in steady state."""

    model: Literal["random-waypoint"]
    speed: Annotated[Spread, Drawn(Speed), key("speed of each leg: constant or uniform")]
    pause: Annotated[Duration, key("pause at each point")] = default("0 s", "time")
    update_interval: Step = default("100 ms", "time")

    @model_validator(mode="after")
    def _one_or_uniform(self) -> Self:
        if not isinstance(self.speed, float | Uniform):
            raise field_error("unsupported", "speed", expected='one speed such as "1.4 m/s", or { dist = "uniform", '
                              'low = "1 m/s", high = "2 m/s" }')
        return self

    @property
    def speeds(self) -> tuple[float, float]:
        return lowest(self.speed), highest(self.speed)


class Track(Model):
    """Positions of one device over time, linearly interpolated; it stays at the last one."""

    t: Annotated[Instants, Strict(False), Field(min_length=1), RISING, key("times in seconds")]
    x: Annotated[Metres, Strict(False), key("metres east of the base station")]
    y: Annotated[Metres, Strict(False), key("metres north of the base station")]

    @model_validator(mode="after")
    def _even(self) -> Self:
        if not len(self.t) == len(self.x) == len(self.y):
            raise field_error("wrong-length", found=f"{len(self.t)} times, {len(self.x)} x and {len(self.y)} y",
                              expected="one position per time")
        return self


class Recorded(Model):
    """Recorded positions of each device."""

    model: Literal["recorded"]
    tracks: Annotated[tuple[Track, ...], Strict(False), Field(min_length=1),
                      key("one per device, or the path of a CSV file with the columns device, t, x, y (s, m)")]
    update_interval: Step = default("100 ms", "time")


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
    """Return the seconds since midnight: "22:30" is 81,000 s."""
    hours, minutes = map(int, clock.split(":"))
    return hours * 3600.0 + minutes * 60.0


class Charging(Model):
    """Daily charging hours, which may span midnight."""

    power: Annotated[Power, key("charging power")]
    start: Annotated[TimeOfDay, key('time of day, such as "22:00"')]
    end: Annotated[TimeOfDay, key('time of day, such as "06:00"')]

    @model_validator(mode="after")
    def _some_hours(self) -> Self:
        if self.start == self.end:
            raise field_error("out-of-range", "end", expected="a time after start",
                              hint="For all day, give harvest_power")
        return self


class Throttle(Model):
    """Thermal throttling: a lower clock after a time of load; an idle CPU cools linearly."""

    after: Annotated[Time, key("computing time above the lower clock after which a cold CPU throttles")]
    to: Annotated[Frequency, key("lower clock; computing at or below it does not heat")]
    recovery_time: Annotated[Time, key("idle time after which a hot CPU is cold")]
