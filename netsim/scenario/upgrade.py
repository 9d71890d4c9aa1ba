"""A scenario file in the new spellings of its keys, with its comments and layout."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from netsim.base.options import toml_value
from netsim.scenario import toml_text
from netsim.scenario.aliases import ALIASES, Alias, Key, Table, canonical

_STRING = r"""\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\])*"|'[^']*'"""
_TOKEN = re.compile(rf"""[ \t]+|\#[^\n]*|(?P<text>{_STRING}|[^\s\[\]{{}}=,#"']+)|(?P<sign>[\[\]{{}}=,\n])""", re.DOTALL)
_NAME = re.compile(rf"{_STRING}|[^.\s]+")
Edit = tuple[int, int, str]      # start and end in the text, and what replaces it


@dataclass(frozen=True)
class _Name:
    """A name in the text: its key path, its place, and the place of the value if it ends the key of one."""

    path: Key
    start: int
    end: int
    value: tuple[int, int] | None = None


def upgraded(text: str, below: Mapping[str, Any] | None = None, source: str = "") -> tuple[str, bool]:
    """Return a valid scenario file in the new spellings, and whether its comments and layout were kept.

    ``below`` are the merged base files, ``source`` is the path of the file. The result has the same digest. If a key
    cannot be moved in place, the tables are written again without comments.
    """
    old = tomllib.loads(text)
    new, _ = canonical(old, below, source)
    aliases = [alias for alias in ALIASES if alias.applies(new, below or {})]
    changed = _moved(_in_place(text, aliases), aliases)
    try:
        kept = _without_empty(tomllib.loads(changed)) == _without_empty(new)
    except tomllib.TOMLDecodeError:
        kept = False
    return (changed, True) if kept else (toml_text.dumps(new), False)


def _without_empty(table: Table) -> Table:
    return {name: value for name, value in table.items() if value != {}}


def _edited(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _in_place(text: str, aliases: list[Alias]) -> str:
    """Rename keys and values that stay in their table."""
    edits: list[Edit] = []
    for name in _Reader(text).names():
        path = name.path
        for alias in aliases:
            if alias.old[:-1] == alias.new[:-1] and path[:len(alias.old)] == alias.old:
                if path == alias.old:
                    edits.append((name.start, name.end, alias.new[-1]))
                path = (*alias.new, *path[len(alias.old):])
            if path == alias.new and name.value:
                value = alias.values.get(str(toml_value(text[slice(*name.value)])))
                edits += [(*name.value, f'"{value}"')] if value else []
    return _edited(text, edits)


def _moved(text: str, aliases: list[Alias]) -> str:
    """Move keys to another table, with the rest of their line: to its end, or into a new table before the old one."""
    for alias in aliases:
        names = list(_Reader(text).names())
        found = next((name for name in names if name.path == alias.old and name.value), None)
        if found is None or found.value is None or alias.old[:-1] == alias.new[:-1]:
            continue
        begin, end = text.rfind("\n", 0, found.start) + 1, _line_end(text, found.value[1])
        header = next((name for name in names if not name.value and name.path == alias.old[:-1]), None)
        if header is None or header.start >= begin:      # a dotted key; one in an inline table stays where it is
            return text if "{" in text[begin:found.start] else _edited(text, [(begin, found.end, ".".join(alias.new))])
        above = text.rfind("\n", 0, header.start) + 1
        line = f"{alias.new[-1]}{text[found.end:end]}"
        if not any(name.value and name.path[:-1] == alias.old[:-1] and name != found for name in names):
            begin, end = above, end + len(text[end:]) - len(text[end:].lstrip("\n"))      # the old table is empty
        target = [name.value[1] for name in names if name.value and name.path[:-1] == alias.new[:-1]]
        at = _line_end(text, target[-1]) if target else above
        line = line if target else f"[{'.'.join(alias.new[:-1])}]\n{line}\n"
        text = _edited(text, [(begin, end, ""), (at, at, line)]).rstrip("\n") + "\n"
    return text


def _line_end(text: str, at: int) -> int:
    return (text + "\n").index("\n", at) + 1


class _Reader:
    """Reads the names of keys in a valid TOML text, with their places."""

    def __init__(self, text: str) -> None:
        self.text = text if text.endswith("\n") else f"{text}\n"
        self.tokens = [found for found in _TOKEN.finditer(self.text) if found.lastgroup]
        self.at = 0

    def next_is(self, signs: str) -> bool:
        token = self.tokens[self.at]
        return token.lastgroup == "sign" and token[0] in signs

    def skip(self, signs: str) -> None:
        while self.at < len(self.tokens) and self.next_is(signs):
            self.at += 1

    def span(self) -> tuple[int, int]:
        """Read to the next sign."""
        first = self.at
        while not self.next_is("[]{}=,\n"):
            self.at += 1
        return self.tokens[first].start(), self.tokens[self.at - 1].end()

    def names(self) -> Iterator[_Name]:
        """Yield the names of the document in order; those of a header have no value."""
        table: Key = ()
        self.skip("\n")
        while self.at < len(self.tokens):
            if self.next_is("["):
                self.skip("[")
                parts = self.parts((), *self.span())
                yield from parts
                table = parts[-1].path
                self.skip("]")
            else:
                yield from self.pair(table)
            self.skip("\n")

    def parts(self, above: Key, start: int, end: int) -> list[_Name]:
        """Split a dotted key."""
        found = list(_NAME.finditer(self.text, start, end))
        steps = [toml_value(part[0]) if part[0][0] in "'\"" else part[0] for part in found]
        return [_Name((*above, *steps[:count]), part.start(), part.end()) for count, part in enumerate(found, 1)]

    def pair(self, above: Key) -> Iterator[_Name]:
        """Read a key and its value, and the keys of tables in it."""
        *parts, last = self.parts(above, *self.span())
        self.skip("=")
        first = self.at
        inner = list(self.value(last.path))
        yield from parts
        yield replace(last, value=(self.tokens[first].start(), self.tokens[self.at - 1].end()))
        yield from inner

    def value(self, path: Key) -> Iterator[_Name]:
        """Read a value, and yield the names of keys in it."""
        if not self.next_is("[{"):
            self.span()
            return
        closing, read = ("]", self.value) if self.next_is("[") else ("}", self.pair)
        self.at += 1
        self.skip(",\n")
        while not self.next_is(closing):
            yield from read(path)
            self.skip(",\n")
        self.at += 1
