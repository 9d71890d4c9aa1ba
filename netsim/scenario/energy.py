"""What comes into batteries, what devices draw at rest, and how warm they get: keys of ``[[population]]``."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from netsim.base.field_errors import field_error
from netsim.base.fields import Frequency, Model, Power, Time, key

HOUR_S, MINUTE_S = 3600.0, 60.0
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
    hours, minutes = clock.split(":")
    return int(hours) * HOUR_S + int(minutes) * MINUTE_S


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
