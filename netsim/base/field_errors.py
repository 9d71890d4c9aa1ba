"""Faults that pydantic finds in a scenario or in options, as InputError: code, found, expected, hint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic_core import ErrorDetails, PydanticCustomError

from netsim.base.counts import counted
from netsim.base.error_codes import ERROR_CODES
from netsim.base.errors import InputError, quoted, unknown

TYPES = {      # what pydantic's commonest complaints expect, in words that fit a TOML file
    "model_type": "a table", "model_attributes_type": "a table", "dict_type": "a table", "int_type": "a whole number",
    "int_from_float": "a whole number", "float_type": "a number", "string_type": "text", "tuple_type": "a list",
    "list_type": "a list", "bool_type": "true or false",
}
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def field_error(
    code: str, *at: str | int, found: object = None, expected: str = "", hint: str = "",
) -> PydanticCustomError:
    """A fault for a validator to raise; ``at`` leads from the table that complains to the key at fault.

    Where nothing is said of what was found, it is the value of that key.
    """
    return PydanticCustomError(code, "{problem}", {     # the type of a fault is its code
        "problem": ERROR_CODES[code], "at": at, "found": found, "expected": expected, "hint": hint})


def as_field_error(error: InputError) -> PydanticCustomError:
    """The fault of a value, read by a function that raises InputError, for a validator to raise."""
    return field_error(error.code, found=error.found, expected=error.expected, hint=error.hint)


def input_error(error: ErrorDetails, value: Any) -> InputError:
    """One of pydantic's complaints about a value, without the key at which the value stands."""
    kind, context = str(error["type"]), error.get("ctx", {})
    found = None if value is None or isinstance(value, dict | list) else quoted(value)
    if kind in ERROR_CODES:
        given = context.get("found")
        return InputError(kind, "", found if given is None else given, context.get("expected", ""),
                          context.get("hint", ""))
    if kind == "literal_error":
        return unknown("", value, names_in(context["expected"]))
    if kind in ("too_short", "too_long"):
        word, length = ("at least", context.get("min_length")) if kind == "too_short" else (
            "at most", context.get("max_length"))
        return InputError("wrong-length", "", found, f"{word} {counted(int(length or 0), 'entry', 'entries')}")
    if kind == "extra_forbidden":
        return InputError("unknown-key", "", found)
    if kind == "string_too_short":
        return InputError("empty", "", found)
    if kind == "finite_number":
        return InputError("not-finite", "", found)
    bounds = [f"{word} {context[name]:,}".removesuffix(".0") for name, word in BOUNDS.items() if name in context]
    if bounds or kind in ("value_error", "assertion_error"):
        return InputError("out-of-range", "", found, *bounds or ("", re.sub("^[^,]*, ", "", error["msg"])))
    code = "wrong-type" if kind in TYPES or kind.endswith("_type") else "malformed"
    return InputError(code, "", found, TYPES.get(kind) or error["msg"].removeprefix("Input should be "))


def merged(errors: Sequence[InputError]) -> InputError:
    """Several complaints about one value, which fits none of the forms that it may have."""
    expected = "; or ".join(dict.fromkeys(error.expected for error in errors if error.expected))
    hints = " ".join(dict.fromkeys(error.hint for error in errors if error.hint))
    return InputError(errors[0].code, errors[0].key, errors[0].found, expected, hints)


def names_in(text: str) -> list[str]:
    """The names in a message of pydantic's."""
    return re.findall(r"'([^']*)'", text)
