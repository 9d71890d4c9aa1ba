"""Distributions of quantities: a scenario's value may be a constant, or a table that says how to draw it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, Union

from pydantic import Discriminator, Field, GetCoreSchemaHandler, Strict, Tag, model_validator
from pydantic_core import CoreSchema

from netsim.base.counts import counted
from netsim.base.fields import Model, NotNegative, Quantity, field_error

if TYPE_CHECKING:
    import numpy as np

    from netsim.base.arrays import Floats

Q = TypeVar("Q", bound=float)
TAIL = 8.0      # standard deviations that a draw without bounds may go: beyond them lies less than 1e-15


def check_order(table: Model, low_name: str, high_name: str) -> None:
    """Raise a fault where a draw of the one key may be above a draw of the other; not where one is missing."""
    low, high = getattr(table, low_name), getattr(table, high_name)
    if low is None or high is None or highest(low) <= lowest(high):
        return
    shown = [value.text if isinstance(value, Quantity) else f"{float(value)!r} (SI)"
             for value in (highest(low), lowest(high))]
    upto = "up to " if isinstance(low, Distribution) else ""
    raise field_error("out-of-range", low_name, found=f"{upto}{shown[0]}",
                      expected=f"at most {high_name}, which may be {shown[1]}")


def ordered(low_name: str, high_name: str) -> Any:
    """A validator of tables in which one key must not be above the other."""
    def check(table: Model) -> Model:
        check_order(table, low_name, high_name)
        return table

    return model_validator(mode="after")(check)


class Distribution(Model):
    """Something to draw from; every draw is moved into its bounds."""

    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest draw."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        raise NotImplementedError

    # The same distribution over another dimension is another class: its name in the JSON Schema says which.
    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        marks = [getattr(mark, "dimension", mark) for mark in getattr(params[0], "__metadata__", ())]
        names = [mark.title().replace(" ", "") for mark in marks if isinstance(mark, str)]
        return "".join([cls.__name__, *names])


class Uniform(Distribution, Generic[Q]):
    """Any value between low and high, all equally likely."""

    dist: Literal["uniform"]
    low: Q
    high: Q
    _ordered = ordered("low", "high")

    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.uniform(self.low, self.high, count)


class Bounded(Distribution, Generic[Q]):
    """A distribution with optional bounds; what falls outside is moved to the nearest one."""

    min: Annotated[Q | None, Field(description="draws below are moved up to it")] = None
    max: Annotated[Q | None, Field(description="draws above are moved down to it")] = None
    _ordered = ordered("min", "max")

    def reach(self) -> tuple[float, float]:
        """Where draws without bounds can fall."""
        raise NotImplementedError

    def bounds(self) -> tuple[float, float]:
        low, high = self.reach()
        return low if self.min is None else self.min, high if self.max is None else self.max


class Normal(Bounded[Q], Generic[Q]):
    """The bell curve around mean, with standard deviation sd."""

    dist: Literal["normal"]
    mean: Q
    sd: Q

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if isinstance(self.sd, Quantity) and "dB" in self.sd.text:
            raise field_error("wrong-unit", "sd", expected="W or mW", hint="Draws are made in watts; dBm is a level")
        if lowest(self) <= 0:
            raise field_error("out-of-range", found=f"a mean of less than {TAIL:g} sd", expected="draws above 0",
                              hint="Give min")
        return self

    def reach(self) -> tuple[float, float]:
        return self.mean - TAIL * self.sd, self.mean + TAIL * self.sd

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.normal(self.mean, self.sd, count)


class LogNormal(Bounded[Q], Generic[Q]):
    """A value whose logarithm is normal: half of the draws lie below median, sigma is the sd of the logarithm."""

    dist: Literal["lognormal"]
    median: Q
    sigma: Annotated[float, Field(ge=0, le=5)]

    def reach(self) -> tuple[float, float]:
        return self.median * math.exp(-TAIL * self.sigma), self.median * math.exp(TAIL * self.sigma)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.lognormal(math.log(self.median), self.sigma, count)


class Exponential(Bounded[Q], Generic[Q]):
    """Exponentially distributed with the given mean."""

    dist: Literal["exponential"]
    mean: Q

    def reach(self) -> tuple[float, float]:
        return self.mean * 1e-15, math.inf

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.exponential(self.mean, count)


class OneOf(Distribution, Generic[Q]):
    """One of a list of values, with equal chances or by weights."""

    dist: Literal["choice"]
    values: Annotated[tuple[Q, ...], Strict(False), Field(min_length=1, max_length=10_000)]
    weights: Annotated[tuple[NotNegative, ...] | None, Strict(False)] = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.weights is not None:
            if len(self.weights) != len(self.values):
                raise field_error("wrong-length", "weights", found=counted(len(self.weights), "weight"),
                                  expected=f"one for each of {counted(len(self.values), 'value')}")
            if not 0 < sum(self.weights) < math.inf:
                raise field_error("out-of-range", "weights", expected="a weight above 0, and a finite sum")
        return self

    def bounds(self) -> tuple[float, float]:
        return min(self.values), max(self.values)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        chances = None if self.weights is None else [weight / sum(self.weights) for weight in self.weights]
        drawn: Floats = rng.choice([float(value) for value in self.values], size=count, p=chances)
        return drawn


Spread = float | Distribution              # a constant, or something to draw from
Values = Spread | tuple[float, ...]        # or an entry for each device


class Drawn:
    """Marks a field that is a constant or a distribution: ``Annotated[Spread, Drawn(Energy)]``.

    ``word`` is a name that may stand there instead, such as "mains" for a battery.
    """

    KINDS: ClassVar[dict[str, Any]] = {
        "uniform": Uniform, "normal": Normal, "lognormal": LogNormal, "exponential": Exponential, "choice": OneOf,
    }

    def __init__(self, quantity: Any, word: str | None = None) -> None:
        self.quantity = quantity
        self.word = word

    def _tag(self, value: Any) -> str:
        if isinstance(value, dict):
            return str(value["dist"]) if "dist" in value else "no dist"
        if isinstance(value, Distribution):
            return str(getattr(value, "dist", ""))
        return "word" if self.word is not None and value == self.word else "constant"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = [Annotated[self.quantity, Tag("constant")]]
        choices += [Annotated[kind[self.quantity], Tag(name)] for name, kind in self.KINDS.items()]
        if self.word is not None:
            choices.append(Annotated[Literal[self.word], Tag("word")])
        union: Any = Union[tuple(choices)]      # noqa: UP007
        return handler.generate_schema(Annotated[union, Discriminator(self._tag)])


def lowest(value: Values) -> float:
    """The smallest value of any device."""
    return value.bounds()[0] if isinstance(value, Distribution) else min(value) if isinstance(value, tuple) else value


def highest(value: Values) -> float:
    """The largest value of any device."""
    return value.bounds()[1] if isinstance(value, Distribution) else max(value) if isinstance(value, tuple) else value
