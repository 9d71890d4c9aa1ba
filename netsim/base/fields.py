"""The values that a scenario's keys take: quantities with units, and numbers in their ranges."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from netsim.base import units
from netsim.base.errors import OWN_CODE, InputError, unknown
from netsim.base.field_errors import as_field_error, field_error


def key(description: str) -> Any:
    """What a key means, for the JSON Schema and for messages."""
    return Field(description=description)


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


LARGEST = 1e60      # no honest value is beyond it, and products of such values are still numbers
MOST_DB = 500
MOST = 1_000_000_000


class Measure:
    """Marks a field as text with a unit of one dimension: ``Annotated[float, Measure("energy")]``.

    ``bare`` lets a number in SI units stand for itself, as Python code gives it.
    """

    def __init__(
        self, dimension: str, sign: Literal["positive", "not negative", "any"] = "positive", *, bare: bool = False,
    ) -> None:
        self.dimension = dimension
        self.sign = sign
        self.bare = bare

    def read(self, value: Any) -> Quantity:
        if isinstance(value, Quantity):
            return value
        try:
            si = self._si(value)
        except InputError as problem:
            raise as_field_error(problem) from None
        if (self.sign == "positive" and si <= 0) or (self.sign == "not negative" and si < 0):
            raise field_error("out-of-range", expected=f"a {self.dimension} "
                              f"{'above' if self.sign == 'positive' else 'of at least'} 0")
        if abs(si) > LARGEST or 0 < abs(si) < 1 / LARGEST or (self.dimension == "decibels" and abs(si) > MOST_DB):
            raise field_error("out-of-range", expected=f"at most {MOST_DB} dB" if self.dimension == "decibels" else
                              f"a {self.dimension} from {1 / LARGEST:g} to {LARGEST:g} in SI units")
        if self.dimension == "data size" and si < 1.0:
            raise field_error("out-of-range", expected="at least 1 bit")
        return Quantity(si, str(value))

    def _si(self, value: Any) -> float:
        if self.bare and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        return units.parse(value, self.dimension)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read, serialization=AS_WRITTEN)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": units.pattern(self.dimension), "title": self.dimension,
                "examples": [units.example(self.dimension).strip('"')]}


OWN = r"^[^:]+:[^:]+$"      # "package.module:Name"


class Named:
    """Marks a field as one of these names, or an import path of the user's own: ``Annotated[str, Named("a", "b")]``."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or (value not in self.names and ":" not in value):
            raise as_field_error(unknown("", value, self.names, hint=OWN_CODE))
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "enum": list(self.names)}, {"type": "string", "pattern": OWN}]}


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
Duration = Annotated[float, Measure("time", "not negative")]
Speed = Annotated[float, Measure("speed")]
SpectralEfficiency = Annotated[float, Measure("spectral efficiency")]
Seconds = Annotated[float, Measure("time", bare=True)]      # of methods that are called from Python too
Joules = Annotated[float, Measure("energy", bare=True)]
DataSize = Annotated[float, Measure("data size")]
Natural = Annotated[int, Field(ge=1, le=MOST), BeforeValidator(_whole), "natural number"]     # named in the JSON Schema
Positive = Annotated[float, Field(gt=0, le=LARGEST), "positive number"]
NotNegative = Annotated[float, Field(ge=0, le=LARGEST), "number"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Tolerance = Annotated[float, Field(gt=0, lt=1, description="a number between 0 and 1")]
