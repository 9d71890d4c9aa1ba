"""Distributions: a value of a scenario is a constant, or a table with a distribution to draw from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, Union

from pydantic import Discriminator, Field, GetCoreSchemaHandler, Strict, Tag, model_validator
from pydantic_core import CoreSchema

from netsim.base.fields import Model, NotNegative, Quantity, field_error
from netsim.base.pluralize import pluralize

if TYPE_CHECKING:
    import numpy as np

    from netsim.base.types import Floats

Q = TypeVar("Q", bound=float)
TAIL = 8.0      # standard deviations within which draws without bounds lie, but for less than 1e-15 of them


def check_order(table: Model, low_name: str, high_name: str) -> None:
    """Raise an error if a draw of the first key may exceed one of the second; not if one is missing."""
    low, high = getattr(table, low_name), getattr(table, high_name)
    if low is None or high is None or highest(low) <= lowest(high):
        return
    shown = [value.text if isinstance(value, Quantity) else f"{float(value)!r} (SI)"
             for value in (highest(low), lowest(high))]
    upto = "up to " if isinstance(low, Distribution) else ""
    raise field_error("out-of-range", low_name, found=f"{upto}{shown[0]}",
                      expected=f"at most {high_name}, which may be {shown[1]}")


def ordered(low_name: str, high_name: str) -> Any:
    """Return a validator of tables in which one key must not exceed the other."""
    def check(table: Model) -> Model:
        check_order(table, low_name, high_name)
        return table

    return model_validator(mode="after")(check)


class Distribution(Model):
    """Base class of distributions; draws are clipped to their bounds."""

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest draw."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        raise NotImplementedError

    # The same distribution of another dimension is another class; the name in the JSON Schema has the dimension.
    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        marks = [getattr(mark, "dimension", mark) for mark in getattr(params[0], "__metadata__", ())]
        names = [mark.title().replace(" ", "") for mark in marks if isinstance(mark, str)]
        return "".join([cls.__name__, *names])


class Uniform(Distribution, Generic[Q]):
    """Uniform between low and high."""

    dist: Literal["uniform"]
    low: Q
    high: Q
    _ordered = ordered("low", "high")

    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.uniform(self.low, self.high, count)


class Bounded(Distribution, Generic[Q]):
    """A distribution with optional bounds, to which draws are clipped."""

    min: Annotated[Q | None, Field(description="lower bound, to which draws are clipped")] = None
    max: Annotated[Q | None, Field(description="upper bound, to which draws are clipped")] = None
    _ordered = ordered("min", "max")

    def reach(self) -> tuple[float, float]:
        """Return the range of draws without bounds."""
        raise NotImplementedError

    def bounds(self) -> tuple[float, float]:
        low, high = self.reach()
        return low if self.min is None else self.min, high if self.max is None else self.max


class Normal(Bounded[Q], Generic[Q]):
    """Normal with mean and standard deviation sd."""

    dist: Literal["normal"]
    mean: Q
    sd: Q

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if isinstance(self.sd, Quantity) and "dB" in self.sd.text:
            raise field_error("wrong-unit", "sd", expected="W or mW", hint="Draws are in watts; dBm is a level")
        if lowest(self) <= 0:
            raise field_error("out-of-range", found=f"a mean of less than {TAIL:g} sd", expected="draws above 0",
                              hint="Give min")
        return self

    def reach(self) -> tuple[float, float]:
        return self.mean - TAIL * self.sd, self.mean + TAIL * self.sd

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.normal(self.mean, self.sd, count)


class LogNormal(Bounded[Q], Generic[Q]):
    """Log-normal with a median; sigma is the standard deviation of the natural logarithm."""

    dist: Literal["lognormal"]
    median: Q
    sigma: Annotated[float, Field(ge=0, le=5)]

    def reach(self) -> tuple[float, float]:
        return self.median * math.exp(-TAIL * self.sigma), self.median * math.exp(TAIL * self.sigma)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.lognormal(math.log(self.median), self.sigma, count)


class Exponential(Bounded[Q], Generic[Q]):
    """Exponential with a mean."""

    dist: Literal["exponential"]
    mean: Q

    def reach(self) -> tuple[float, float]:
        return self.mean * 1e-15, math.inf

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.exponential(self.mean, count)


class OneOf(Distribution, Generic[Q]):
    """One of several values, with equal probabilities or by weights."""

    dist: Literal["choice"]
    values: Annotated[tuple[Q, ...], Strict(False), Field(min_length=1, max_length=10_000)]
    weights: Annotated[tuple[NotNegative, ...] | None, Strict(False)] = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.weights is not None:
            if len(self.weights) != len(self.values):
                raise field_error("wrong-length", "weights", found=pluralize(len(self.weights), "weight"),
                                  expected=f"one for each of {pluralize(len(self.values), 'value')}")
            if not 0 < sum(self.weights) < math.inf:
                raise field_error("out-of-range", "weights", expected="a weight above 0, and a finite sum")
        return self

    def bounds(self) -> tuple[float, float]:
        return min(self.values), max(self.values)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        chances = None if self.weights is None else [weight / sum(self.weights) for weight in self.weights]
        drawn: Floats = rng.choice([float(value) for value in self.values], size=count, p=chances)
        return drawn


Spread = float | Distribution              # a constant, or a distribution
Values = Spread | tuple[float, ...]        # or one entry per device


class Drawn:
    """Marks a field that is a constant or a distribution: ``Annotated[Spread, Drawn(Energy)]``.

    ``word`` is a name that is accepted instead, such as "mains" for a battery; ``table`` a table without ``dist``.
    """

    KINDS: ClassVar[dict[str, Any]] = {
        "uniform": Uniform, "normal": Normal, "lognormal": LogNormal, "exponential": Exponential, "choice": OneOf,
    }

    def __init__(self, quantity: Any, word: str | None = None, table: type[Model] | None = None) -> None:
        self.quantity = quantity
        self.word = word
        self.table = table

    def _tag(self, value: Any) -> str:
        if isinstance(value, dict):
            return str(value["dist"]) if "dist" in value else "no dist" if self.table is None else "table"
        if self.table is not None and isinstance(value, self.table):
            return "table"
        if isinstance(value, Distribution):
            return str(getattr(value, "dist", ""))
        return "word" if self.word is not None and value == self.word else "constant"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = [Annotated[self.quantity, Tag("constant")]]
        choices += [Annotated[kind[self.quantity], Tag(name)] for name, kind in self.KINDS.items()]
        if self.word is not None:
            choices.append(Annotated[Literal[self.word], Tag("word")])
        if self.table is not None:
            choices.append(Annotated[self.table, Tag("table")])
        union: Any = Union[tuple(choices)]      # noqa: UP007
        return handler.generate_schema(Annotated[union, Discriminator(self._tag)])


def lowest(value: Values) -> float:
    """Return the smallest value of any device."""
    return value.bounds()[0] if isinstance(value, Distribution) else min(value) if isinstance(value, tuple) else value


def highest(value: Values) -> float:
    """Return the largest value of any device."""
    return value.bounds()[1] if isinstance(value, Distribution) else max(value) if isinstance(value, tuple) else value
