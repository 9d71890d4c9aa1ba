"""A method and its options in one word, as the command line takes them: ``fedl:lambda=2``."""

from __future__ import annotations

import tomllib
from typing import Any

from netsim.base.errors import InputError, quoted


def with_options(text: str) -> tuple[str, dict[str, Any]]:
    """``"fedl:lambda=2,…"`` as a method and its options; ``"package.module:Name"`` stays a method.

    >>> with_options("fedl:lambda=tuned")
    ('fedl', {'lambda': 'tuned'})
    >>> with_options("mylab.by_need:solve:exponent=0.5")
    ('mylab.by_need:solve', {'exponent': 0.5})
    """
    head, equals, _ = text.partition("=")
    name, colon, _ = head.rpartition(":")
    if not (equals and colon):
        return text, {}
    rest = text[len(name) + 1:]
    options = {}
    for pair in rest.split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError("malformed", text, quoted(pair), f"{name}:key=value,key=value")
        try:
            options[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):      # not TOML, or a number of thousands of digits
            options[key.strip()] = value.strip()
    return name, options
