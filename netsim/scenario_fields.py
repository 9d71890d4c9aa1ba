"""The values that a scenario's keys take: quantities with units, and distributions of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from netsim import units
from netsim.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from netsim.arrays import Floats


def refuse(message: str, *at: str | int) -> PydanticCustomError:
    """A complaint, its text taken as it is; ``at`` leads from the table that complains to the key at fault."""
    return PydanticCustomError("netsim", "{message}", {"message": message, "at": at})


class Model(BaseModel):
    """A table of a scenario: frozen, strict about types, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _note_class(cls, data: Any, info: ValidationInfo) -> Any:
        """Leave word which class checked which table, so that an error can say what that class allows."""
        if info.context is not None and isinstance(data, dict):
            info.context[id(data)] = cls
        return data


class Quantity(float):
    """An SI value that remembers how it was written, so that a resolved scenario reads like the original."""

    text: str

    def __new__(cls, value: float, text: str) -> Self:
        quantity = super().__new__(cls, value)
        quantity.text = text
        return quantity

    def __getnewargs__(self) -> tuple[float, str]:      # type: ignore[override]
        return float(self), self.text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.any_schema(serialization=AS_WRITTEN)


AS_WRITTEN = core_schema.plain_serializer_function_ser_schema(lambda quantity: quantity.text, when_used="json")


class Measure:
    """Marks a field as text with a unit of one dimension: ``Annotated[float, Measure("energy")]``."""

    def __init__(self, dimension: str, sign: Literal["positive", "not negative", "any"] = "positive") -> None:
        self.dimension = dimension
        self.sign = sign

    def read(self, value: Any) -> Quantity:
        if isinstance(value, Quantity):
            return value
        try:
            si = units.parse(value, self.dimension)
        except InputError as problem:
            raise refuse(str(problem)) from None
        if (self.sign == "positive" and si <= 0) or (self.sign == "not negative" and si < 0):
            bound = "above" if self.sign == "positive" else "at least"
            raise refuse(f"the {self.dimension} must be {bound} 0")
        return Quantity(si, value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read, serialization=AS_WRITTEN)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": units.pattern(self.dimension), "title": self.dimension,
                "examples": [units.example(self.dimension).strip('"')]}


def default(text: str, dimension: str) -> Quantity:
    """A quantity to stand where a scenario says nothing."""
    return Measure(dimension, "any").read(text)


def _whole(value: Any) -> Any:
    """``1e6`` for 1000000: what TOML reads as a float may still be a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Length = Annotated[float, Measure("length")]
Coordinate = Annotated[float, Measure("length", "any")]
Frequency = Annotated[float, Measure("frequency")]
Power = Annotated[float, Measure("power")]
Energy = Annotated[float, Measure("energy")]
NoiseDensity = Annotated[float, Measure("noise density")]
Gain = Annotated[float, Measure("gain")]
Decibels = Annotated[float, Measure("decibels", "any")]
Deviation = Annotated[float, Measure("decibels", "not negative")]
Time = Annotated[float, Measure("time")]
DataSize = Annotated[float, Measure("data size")]
Natural = Annotated[int, Field(ge=1), BeforeValidator(_whole), "natural number"]      # the names go to the JSON Schema
Positive = Annotated[float, Field(gt=0), "positive number"]
NotNegative = Annotated[float, Field(ge=0), "number"]
Fraction = Annotated[float, Field(ge=0, le=1)]

Q = TypeVar("Q", bound=float)
TAIL = 8.0      # standard deviations that a draw without bounds may go: beyond them lies less than 1e-15


class Distribution(Model):
    """Something to draw from; every draw is moved into [lowest, highest]."""

    @property
    def lowest(self) -> float:
        raise NotImplementedError

    @property
    def highest(self) -> float:
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

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _check_order("low", self.low, "high", self.high)
        return self

    @property
    def lowest(self) -> float:
        return self.low

    @property
    def highest(self) -> float:
        return self.high

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.uniform(self.low, self.high, count)


class Bounded(Distribution, Generic[Q]):
    """A distribution with optional bounds; what falls outside is moved to the nearest one."""

    min: Annotated[Q | None, Field(description="draws below are moved up to it")] = None
    max: Annotated[Q | None, Field(description="draws above are moved down to it")] = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min is not None and self.max is not None:
            _check_order("min", self.min, "max", self.max)
        return self

    def reach(self) -> tuple[float, float]:
        """Where draws without bounds can fall."""
        raise NotImplementedError

    @property
    def lowest(self) -> float:
        return self.reach()[0] if self.min is None else self.min

    @property
    def highest(self) -> float:
        return self.reach()[1] if self.max is None else self.max


class Normal(Bounded[Q], Generic[Q]):
    """The bell curve around mean, with standard deviation sd."""

    dist: Literal["normal"]
    mean: Q
    sd: Q

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if isinstance(self.sd, Quantity) and "dB" in self.sd.text:
            raise refuse(f'sd = "{self.sd.text}" is a level; draws are made in watts, so give sd in W or mW')
        if self.lowest <= 0:
            raise refuse(f"draws may fall to 0 and below (mean less than {TAIL:g} sd); give min")
        return self

    def reach(self) -> tuple[float, float]:
        return self.mean - TAIL * self.sd, self.mean + TAIL * self.sd

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.normal(self.mean, self.sd, count)


class LogNormal(Bounded[Q], Generic[Q]):
    """A value whose logarithm is normal: half of the draws lie below median, sigma is the sd of the logarithm."""

    dist: Literal["lognormal"]
    median: Q
    sigma: Annotated[float, Field(ge=0, le=20)]

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


class Choice(Distribution, Generic[Q]):
    """One of a list of values, with equal chances or by weights."""

    dist: Literal["choice"]
    values: Annotated[tuple[Q, ...], Strict(False), Field(min_length=1, max_length=10_000)]
    weights: Annotated[tuple[NotNegative, ...] | None, Strict(False)] = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.weights is not None:
            if len(self.weights) != len(self.values):
                raise refuse(f"{len(self.weights)} weights for {len(self.values)} values; give one for each")
            if not 0 < sum(self.weights) < math.inf:
                raise refuse("the weights must not all be 0")
        return self

    @property
    def lowest(self) -> float:
        return min(self.values)

    @property
    def highest(self) -> float:
        return max(self.values)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        chances = None if self.weights is None else [weight / sum(self.weights) for weight in self.weights]
        drawn: Floats = rng.choice([float(value) for value in self.values], size=count, p=chances)
        return drawn


Spread = float | Distribution       # a constant, or something to draw from


class Drawn:
    """Marks a field that is a constant or a distribution: ``Annotated[Spread, Drawn(Energy)]``.

    ``word`` is a name that may stand there instead, such as "mains" for a battery.
    """

    KINDS: ClassVar[dict[str, Any]] = {
        "uniform": Uniform, "normal": Normal, "lognormal": LogNormal, "exponential": Exponential, "choice": Choice,
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


def lowest(value: Spread) -> float:
    """The smallest value that can be drawn."""
    return value.lowest if isinstance(value, Distribution) else value


def highest(value: Spread) -> float:
    """The largest value that can be drawn."""
    return value.highest if isinstance(value, Distribution) else value


def _check_order(low_name: str, low: float, high_name: str, high: float) -> None:
    if low > high:
        shown = [value.text if isinstance(value, Quantity) else f"{value:g}" for value in (low, high)]
        raise refuse(f"{low_name} ({shown[0]}) must not be above {high_name} ({shown[1]})")
