"""A scenario file in the new spellings of its keys, with its comments and layout."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from netsim.scenario import toml_text
from netsim.scenario.aliases import ALIASES, Alias, Key, Table, canonical

MARK = "netsim-looks-for-this-key"


def upgraded(text: str, below: Mapping[str, Any] | None = None, source: str = "") -> tuple[str, bool]:
    """Return a valid scenario file in the new spellings, and whether its comments and layout were kept.

    ``below`` are the merged base files, ``source`` is the path of the file. The result has the same digest. If a key
    cannot be moved in place, the tables are written again without comments.
    """
    new, _ = canonical(tomllib.loads(text), below, source)
    changed = text
    for alias in ALIASES:
        if alias.applies(new, below or {}):
            changed = _renamed(changed, alias) if alias.old[:-1] == alias.new[:-1] else _moved(changed, alias)
    kept = _without_empty(_read(changed)) == _without_empty(new)
    return (changed, True) if kept else (toml_text.dumps(new), False)


def _read(text: str) -> Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _without_empty(table: Table) -> Table:
    return {name: value for name, value in table.items() if value != {}}


def _places(text: str, word: str, table: Key) -> list[tuple[int, int]]:
    """Return the places of a word in a TOML text, bare or in quotes, where it is a key of a table or its value.

    Each place is found by a trial: another word there changes the tables that are read.
    """
    if not _holds(_read(text), (*table, word)):
        return []
    places = [found.span() for found in re.finditer(rf"""(?<![\w-])(["']?){re.escape(word)}\1(?![\w-])""", text)]
    return [(start, end) for start, end in places
            if _holds(_read(f'{text[:start]}"{MARK}"{text[end:]}'), (*table, MARK))]


def _holds(found: Any, steps: Key) -> bool:
    """Return True if tables have a key, or a key with a value as its last step; lists are populations."""
    if isinstance(found, list):
        return any(_holds(each, steps) for each in found)
    if not isinstance(found, dict):
        return steps in ((), (found,))
    return not steps or (steps[0] in found and _holds(found[steps[0]], steps[1:]))


def _renamed(text: str, alias: Alias) -> str:
    """Rename a key that stays in its table, and its values."""
    for old, new, table in ((alias.old[-1], alias.new[-1], alias.old[:-1]),
                            *((old, f'"{new}"', alias.new) for old, new in alias.values.items())):
        for start, end in reversed(_places(text, old, table)):
            text = text[:start] + new + text[end:]
    return text


def _moved(text: str, alias: Alias) -> str:
    """Move a key to another table, with the rest of its line: to its end, or into a new table before the old one."""
    *above, name = alias.old
    for start, end in _places(text, name, alias.old[:-1]):
        begin, stop = text.rfind("\n", 0, start) + 1, _line_end(text, end)
        if dotted := re.search(rf"{re.escape('.'.join(above))}\.$", text[begin:start]):
            return text[:begin + dotted.start()] + ".".join(alias.new) + text[end:]
        headers = [found.start() for found in re.finditer(r"^[ \t]*\[", text[:begin], re.MULTILINE)]
        if text[begin:start].strip() or not headers:      # in an inline table
            return text
        line, header = f"{alias.new[-1]}{text[end:stop]}", headers[-1]
        if set(_read(text)[above[0]]) == {name}:          # the old table is empty
            begin, stop = header, stop + len(text[stop:]) - len(text[stop:].lstrip("\n"))
        beside = [key for key, value in _read(text).get(alias.new[0], {}).items() if not isinstance(value, dict)]
        ends = [_line_end(text, place[1]) for key in beside for place in _places(text, key, alias.new[:-1])]
        at, new = (max(ends), line) if ends else (header, f"[{alias.new[0]}]\n{line}\n")
        for first, last, inserted in sorted([(begin, stop, ""), (at, at, new)], reverse=True):
            text = text[:first] + inserted + text[last:]
        text = text.rstrip("\n") + "\n"
    return text


def _line_end(text: str, at: int) -> int:
    return (text + "\n").index("\n", at) + 1
