"""Types of scenario values, and the conversion of pydantic errors to InputError."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from netsim.base import units
from netsim.base.error_codes import ERROR_CODES
from netsim.base.errors import OWN_CODE, InputError, quoted, unknown
from netsim.base.pluralize import pluralize

TYPES = {      # expected values of pydantic's error types, in words that fit a TOML file
    "model_type": "a table", "model_attributes_type": "a table", "dict_type": "a table", "int_type": "a whole number",
    "int_from_float": "a whole number", "float_type": "a number", "string_type": "text", "tuple_type": "a list",
    "list_type": "a list", "bool_type": "true or false",
}
CODES = {"extra_forbidden": "unknown-key", "string_too_short": "empty", "finite_number": "not-finite"}
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
LENGTHS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}


def field_error(
    code: str, *at: str | int, found: object = None, expected: str = "", hint: str = "",
) -> PydanticCustomError:
    """Return an error for a validator to raise at a path in its table; ``found`` is by default the value there."""
    return PydanticCustomError(code, "{problem}", {     # the type of a fault is its code
        "problem": ERROR_CODES[code], "at": at, "found": found, "expected": expected, "hint": hint})


def as_field_error(error: InputError) -> PydanticCustomError:
    """Convert an InputError about a value to an error that a validator can raise."""
    return field_error(error.code, found=error.found, expected=error.expected, hint=error.hint)


def input_error(error: ErrorDetails, value: Any) -> InputError:
    """Convert one of pydantic's errors about a value to an InputError without a key."""
    kind, context = str(error["type"]), error.get("ctx", {})
    found = None if value is None or isinstance(value, dict | list) else quoted(value)
    if kind in ERROR_CODES:
        given = context.get("found")
        return InputError(kind, "", found if given is None else given, context.get("expected", ""),
                          context.get("hint", ""))
    if kind == "literal_error":
        return unknown("", value, names_in(context["expected"]))
    if kind in LENGTHS:
        word, bound = LENGTHS[kind]
        return InputError("wrong-length", "", found, f"{word} {pluralize(context[bound], 'entry', 'entries')}")
    if kind in CODES:
        return InputError(CODES[kind], "", found)
    bounds = [f"{word} {context[name]:,}".removesuffix(".0") for name, word in BOUNDS.items() if name in context]
    if bounds or kind in ("value_error", "assertion_error"):
        return InputError("out-of-range", "", found, *bounds or ("", re.sub("^[^,]*, ", "", error["msg"])))
    code = "wrong-type" if kind in TYPES or kind.endswith("_type") else "malformed"
    return InputError(code, "", found, TYPES.get(kind) or error["msg"].removeprefix("Input should be "))


def merged(errors: Sequence[InputError]) -> InputError:
    """Merge the errors of a value that matches none of its allowed forms."""
    expected = "; or ".join(dict.fromkeys(error.expected for error in errors if error.expected))
    hints = " ".join(dict.fromkeys(error.hint for error in errors if error.hint))
    return InputError(errors[0].code, errors[0].key, errors[0].found, expected, hints)


def names_in(text: str) -> list[str]:
    """Return the quoted names in a message of pydantic."""
    return re.findall(r"'([^']*)'", text)


def key(description: str) -> Any:
    """Return a field with a description, for the JSON Schema and messages."""
    return Field(description=description)


class Model(BaseModel):
    """A table of a scenario: frozen, strict about types, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="wrap")       # before validators that may replace the data by a copy
    @classmethod
    def _note_class(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Record the class that validates each table, so that an error can list its keys."""
        if info.context is not None and isinstance(data, dict):
            info.context[id(data)] = cls
        return handler(data)


class OpenTable(Model):
    """A table that names an object; its unknown keys are options, which the named object checks."""

    model_config = ConfigDict(extra="allow")

    @property
    def options(self) -> dict[str, Any]:
        """The options of the named object."""
        return dict(self.model_extra or {})


def options_in(table: Model | None, name: str = "model") -> dict[str, Any]:
    """Return all set keys of a table, except the key ``name``: the options of the named object."""
    given = {} if table is None else dict(table)
    return {key: value for key, value in given.items() if key != name and value is not None}


def named_in(table: Any, name: str, usual: str | None = None) -> Any:
    """Return the value of the key ``name`` of a table; "own" for an import path of the user."""
    kind = (table.get(name) if isinstance(table, Mapping) else getattr(table, name, None)) or usual
    return "own" if isinstance(kind, str) and ":" in kind else kind


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


LARGEST = 1e60      # largest magnitude of a value; products of such values are still finite
MOST_DB = 500
MOST = 1_000_000_000


@dataclass(frozen=True)
class Measure:
    """Marks a field as text with a unit of one dimension: ``Annotated[float, Measure("energy")]``.

    ``bare`` lets a number in SI units stand for itself, as Python code gives it.
    """

    dimension: str
    sign: Literal["positive", "not negative", "any"] = "positive"
    bare: bool = field(default=False, kw_only=True)

    def read(self, value: Any) -> Quantity:
        if isinstance(value, Quantity):
            return value
        bare = self.bare and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        try:
            si = float(value) if bare else units.parse(value, self.dimension)
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

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read, serialization=AS_WRITTEN)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": units.pattern(self.dimension), "title": self.dimension,
                "examples": [units.example(self.dimension).strip('"')]}


OWN = r"^[^:]+:[^:]+$"      # "package.module:Name"


def one_of(*names: str) -> tuple[Any, ...]:
    """Return marks of a field that takes these names, or an import path: ``Annotated[str, *one_of("a", "b")]``."""
    def read(value: Any) -> str:
        if not isinstance(value, str) or (value not in names and ":" not in value):
            raise as_field_error(unknown("", value, names, hint=OWN_CODE))
        return value

    return PlainValidator(read), WithJsonSchema(
        {"anyOf": [{"type": "string", "enum": list(names)}, {"type": "string", "pattern": OWN}]})


def default(text: str, dimension: str) -> Quantity:
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
Voltage = Annotated[float, Measure("voltage")]
DataRate = Annotated[float, Measure("data rate")]
DataSize = Annotated[float, Measure("data size")]
Natural = Annotated[int, Field(ge=1, le=MOST), BeforeValidator(_whole), "natural number"]     # named in the JSON Schema
Positive = Annotated[float, Field(gt=0, le=LARGEST), "positive number"]
NotNegative = Annotated[float, Field(ge=0, le=LARGEST), "number"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Tolerance = Annotated[float, Field(gt=0, lt=1, description="a number between 0 and 1")]
