"""Writer of TOML, which the standard library lacks; quantities are written as they were read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date, time
from typing import Any

from netsim.base.fields import Quantity

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile("[\x7f\ud800-\udfff]")


def dumps(document: Mapping[str, Any]) -> str:
    """Return a document as TOML: plain keys, then ``[table]`` and ``[[table]]``; deeper tables are inline."""
    plain = {name: item for name, item in document.items() if not is_section(item)}
    blocks = [_lines(plain)] if plain else []
    for name, item in document.items():
        if isinstance(item, Mapping):
            blocks.append(f"[{_key(name)}]\n{_lines(item)}")
        elif is_section(item):
            blocks += [f"[[{_key(name)}]]\n{_lines(table)}" for table in item]
    return "\n".join(blocks)


def is_section(item: Any) -> bool:
    return isinstance(item, Mapping) or (
        isinstance(item, list | tuple) and bool(item) and all(isinstance(table, Mapping) for table in item))


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {inline(item)}\n" for name, item in table.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """Quote a string: TOML has the escapes of JSON, and forbids a few more characters."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def inline(item: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, str | Quantity):
        return _string(item.text if isinstance(item, Quantity) else item)
    if isinstance(item, float):
        return repr(float(item)) if math.isfinite(item) else str(float(item))
    if isinstance(item, Mapping):
        entries = ", ".join(f"{_key(name)} = {inline(value)}" for name, value in item.items())
        return f"{{ {entries} }}"
    if isinstance(item, list | tuple):
        return "[" + ", ".join(inline(value) for value in item) + "]"
    return item.isoformat() if isinstance(item, date | time) else str(item)
