"""A method and its options in one word, as the command line takes them: ``fedl:lambda=2``."""

from __future__ import annotations

import tomllib
from typing import Any

from netsim.base.errors import InputError


def with_options(text: str) -> tuple[str, dict[str, Any]]:
    """``"fedl:lambda=2,…"`` as a method and its options; ``"package.module:Name"`` stays a method.

    >>> with_options("fedl:lambda=tuned")
    ('fedl', {'lambda': 'tuned'})
    """
    name, _, rest = text.partition(":")
    if "=" not in rest:
        return text, {}
    options = {}
    for pair in rest.split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f'{text}: "{pair}" is no option; write {name}:key=value,key=value')
        try:
            options[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):      # not TOML, or a number of thousands of digits
            options[key.strip()] = value.strip()
    return name, options
