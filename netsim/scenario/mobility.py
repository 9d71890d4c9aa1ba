"""How devices move: the table ``population.mobility`` of a scenario."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Strict, Tag, model_validator

from netsim.base.field_errors import field_error
from netsim.base.fields import MOST, Duration, Model, Speed, Time, default, key
from netsim.scenario.distributions import Drawn, Spread, Uniform, highest, lowest
from netsim.scenario.faults import check_rises

Instants = tuple[Annotated[float, Field(ge=0, le=1e12), Strict(False)], ...]
LEAST_S = 1e-3      # from a change of places to the next
Metres = tuple[Annotated[float, Field(ge=-MOST, le=MOST), Strict(False)], ...]


def _not_too_often(seconds: float) -> float:
    if seconds < LEAST_S:
        raise field_error("out-of-range", expected="at least 1 ms", hint="Every change takes time to compute")
    return seconds


class RandomWaypoint(Model):
    """Straight to a point drawn evenly over the disc, a pause there, and on; begun as if it had gone on for ever."""

    model: Literal["random-waypoint"]
    speed: Annotated[Spread, Drawn(Speed), key("of each leg: one for all, or uniform")]
    pause: Annotated[Duration, key("rest at each point")] = default("0 s", "time")
    every: Annotated[Time, AfterValidator(_not_too_often), key("how often the gains follow the places")] = default(
        "100 ms", "time")

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

    t: Annotated[Instants, Strict(False), Field(min_length=1), key("seconds")]
    x: Annotated[Metres, Strict(False), key("metres east of the base station")]
    y: Annotated[Metres, Strict(False), key("metres north of the base station")]

    @model_validator(mode="after")
    def _even(self) -> Self:
        if not len(self.t) == len(self.x) == len(self.y):
            raise field_error("wrong-length", found=f"{len(self.t)} times, {len(self.x)} x and {len(self.y)} y",
                              expected="as many places as times")
        for row, (before, after) in enumerate(pairwise(self.t), 1):
            check_rises(before, after, "t", row)
        return self


class Recorded(Model):
    """Places over time, device by device."""

    model: Literal["recorded"]
    tracks: Annotated[tuple[Track, ...], Strict(False), Field(min_length=1),
                      key("one a device, or the path of a CSV file with the columns device, t, x, y (s, m)")]
    every: Annotated[Time, AfterValidator(_not_too_often), key("how often the gains follow the places")] = default(
        "100 ms", "time")


Mobility = Annotated[
    Annotated[RandomWaypoint, Tag("random-waypoint")] | Annotated[Recorded, Tag("recorded")], Discriminator("model")]
