"""Options of user objects: the fields of a dataclass or the arguments of a function, checked by their types."""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from netsim.base.errors import InputError, quoted, unknown
from netsim.base.fields import input_error, merged

RULES = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)


@dataclasses.dataclass(frozen=True)
class Option:
    """A setting as the user writes it, and the argument that it becomes."""

    name: str
    argument: str
    hint: Any
    default: Any          # inspect.Parameter.empty where it must be given

    @property
    def description(self) -> str:
        """Description in the type annotation, or an empty text."""
        return _marked(self.hint, "description")

    @property
    def needed(self) -> bool:
        return self.default is inspect.Parameter.empty


@lru_cache(maxsize=256)
def options_of(thing: Callable[..., Any], given: int = 0) -> tuple[Option, ...]:
    """Return the options of a function or class: all arguments except the first ``given``, which netsim passes.

    ``Annotated[float, Field(alias="lambda")]`` is an argument that the user knows by another name.
    """
    hints = _hints(thing)
    arguments = list(inspect.signature(thing).parameters.values())[given:]
    return tuple(Option(_marked(hints.get(argument.name), "alias") or argument.name, argument.name,
                        hints.get(argument.name, Any), argument.default)
                 for argument in arguments if argument.kind in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY))


def checked(
    thing: Callable[..., Any], options: Mapping[str, Any], given: int, table: str, who: str,
    renamed: Mapping[str, str],
) -> dict[str, Any]:
    """Return the checked options as arguments; raise InputError for a wrong option.

    ``table`` is where the options stand in a scenario, ``who`` has them, ``renamed`` are other names for them.
    """
    known = options_of(thing, given)
    names, whose = [option.name for option in known], f"This option of {who}"
    for name in options:
        if name not in names:
            if name in renamed:
                raise InputError("renamed", f"{table}.{name}", hint=f'{whose} is called "{renamed[name]}"')
            raise unknown(f"{table}.{name}", name, names, "unknown-option", f"These are the options of {who}")
    for option in known:
        if option.needed and option.name not in options:
            raise InputError("missing", f"{table}.{option.name}", hint=f"It has no default in {who}")
    if not options:
        return {}
    try:
        model = _model(thing, given).model_validate(dict(options))
    except ValidationError as problem:
        raise _first_fault(problem, options, table, who) from None
    return {option.argument: getattr(model, f"field_{place}")
            for place, option in enumerate(known) if option.name in options}


@lru_cache(maxsize=256)
def _model(thing: Callable[..., Any], given: int) -> type[BaseModel]:
    """Return the options as a pydantic model; its fields have generated names, since an option may have any name."""
    fields: dict[str, Any] = {
        f"field_{place}": (option.hint, Field(... if option.needed else option.default, alias=option.name))
        for place, option in enumerate(options_of(thing, given))}
    return create_model("Options", __config__=RULES, **fields)


def _hints(thing: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the arguments; empty if their names cannot be resolved."""
    maker: Any = thing
    if isinstance(maker, type) and not dataclasses.is_dataclass(maker):
        maker = inspect.getattr_static(maker, "__init__")
    try:
        return get_type_hints(maker, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


def _marked(hint: Any, attribute: str) -> str:
    """Return an attribute of the pydantic annotations of a type, or an empty text."""
    marks = [getattr(mark, attribute) for mark in get_args(hint) if isinstance(mark, FieldInfo)]
    return next(filter(None, marks), "")


def _first_fault(problem: ValidationError, options: Mapping[str, Any], table: str, who: str) -> InputError:
    """Return all errors of the first wrong option, merged."""
    errors = problem.errors()
    first = _place(errors[0]["loc"], options)
    value: Any = options
    for key in first:
        value = value[key]
    fault = merged([input_error(error, value) for error in errors if _place(error["loc"], options) == first])
    within = [str(step) for step in errors[0].get("ctx", {}).get("at", ())]
    return InputError(fault.code, ".".join((table, *first, *within)), fault.found or quoted(value), fault.expected,
                      fault.hint or f"This is an option of {who}")


def _place(loc: Sequence[int | str], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that lead to the wrong value; pydantic adds the names of alternative types between them."""
    keys, found = [], options
    for key in map(str, loc):
        if isinstance(found, Mapping) and key in found:
            keys.append(key)
            found = found[key]
    return tuple(keys)


def with_options(text: str) -> tuple[str, dict[str, Any]]:
    """``"fedl:lambda=2,…"`` as a method and its options, as the command line takes them.

    ``"package.module:Name"`` stays a method.

    >>> with_options("fedl:lambda=tuned")
    ('fedl', {'lambda': 'tuned'})
    >>> with_options("mylab.by_need:solve:exponent=0.5")
    ('mylab.by_need:solve', {'exponent': 0.5})
    """
    match = re.fullmatch("([^=]*):([^:=]*=.*)", text, re.DOTALL)
    if match is None:
        return text, {}
    name, rest = match.groups()
    options = {}
    for pair in rest.split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError("malformed", text, quoted(pair), f"{name}:key=value,key=value")
        options[key.strip()] = toml_value(value.strip())
    return name, options


def toml_value(text: str) -> Any:
    """Return the value of a TOML text, or the text itself: ``10MHz`` needs no quotes."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):      # not TOML, or a number of thousands of digits
        return text
    return table["value"] if set(table) == {"value"} else text
