"""Every error has a code that the documentation lists, and every code is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import netsim
from netsim.base.error_codes import ERROR_CODES

HOME = Path(netsim.__file__).parent
PACKAGES = [HOME, HOME.parent / "models"]
MAKERS = {"InputError": 0, "field_error": 0, "unknown": 3}      # functions that take a code, and as which argument


def calls() -> Iterator[tuple[Path, int, str | None]]:
    """Every call that makes an error: file, line, and its code where that is a constant."""
    for folder in PACKAGES:
        for file in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
                if isinstance(node, ast.Call) and name in MAKERS:
                    yield file, node.lineno, code_of(node, MAKERS[name])


def code_of(call: ast.Call, place: int) -> str | None:
    """The code that a call gives; unknown() has one by default."""
    given = [word.value for word in call.keywords if word.arg == "code"] or call.args[place:place + 1]
    if not given:
        return "unknown-name" if place else None
    parts = [given[0].body, given[0].orelse] if isinstance(given[0], ast.IfExp) else given
    constants = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return constants[0] if constants else "" if isinstance(given[0], ast.JoinedStr) else None


def test_every_code_is_in_the_table() -> None:
    wrong = [f"{file.relative_to(HOME.parent)}:{line}: {code!r}" for file, line, code in calls()
             if code is not None and code not in ERROR_CODES]
    assert not wrong


def test_every_code_is_used() -> None:
    text = "".join(file.read_text(encoding="utf-8") for folder in PACKAGES for file in folder.rglob("*.py")
                   if file.name != "error_codes.py")
    assert not [code for code in ERROR_CODES if f'"{code}"' not in text]
