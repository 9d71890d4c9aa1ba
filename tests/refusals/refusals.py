"""What a user may get wrong, as a table, and one file with the wordings.

A row is ``"id": (provoke, code, key)`` in the ``ROWS`` of a module ``rows_*.py`` of this folder; a package that wants
rows of its own adds such a module. ``provoke(folder)`` must raise InputError; it is called with an empty folder, which
is the current one. Below are the usual ways to provoke: :func:`small`, :func:`scenario`, :func:`command` and
:func:`call`. Code and key are those of the error; the folder's path reads FOLDER in keys and wordings.

``wordings.json`` holds the text of each row. After a change of rows or wordings write it again, and read the diff:

    python tests/refusals/refusals.py
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
for path in (HERE, HERE.parent):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from small_scenario import SMALL  # noqa: E402 - run as a program, it finds its neighbours only now

from netsim.base.errors import InputError  # noqa: E402
from netsim.scenario import load_scenario  # noqa: E402
from netsim.validation import check_whole  # noqa: E402

Provoke = Callable[[Path], Any]
Row = tuple[Provoke, str, str]
WORDINGS = HERE / "wordings.json"


def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Provoke:
    """Call something of netsim's."""
    return lambda folder: function(*arguments, **named)


def small(old: str = "", new: str = "", *overrides: str, files: Mapping[str, str] | None = None) -> Provoke:
    """Load the small scenario with another text in a place, overrides on top, and files beside it."""
    def provoke(folder: Path) -> None:
        assert old in SMALL
        write({"small.toml": SMALL.replace(old, new) if old else SMALL, **(files or {})})
        load_scenario(folder / "small.toml", overrides)

    return provoke


def scenario(name: str, *overrides: str, files: Mapping[str, str] | None = None) -> Provoke:
    """Load a scenario with overrides, and check all that can be checked of it before it is run."""
    def provoke(folder: Path) -> None:
        write(files or {})
        check_whole(load_scenario(name, overrides))

    return provoke


def command(words: str, files: Mapping[str, str] | None = None) -> Provoke:
    """Run a command in this process."""
    def provoke(folder: Path) -> None:
        from netsim.cli import app

        write(files or {})
        app(shlex.split(words), standalone_mode=False)

    return provoke


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def rows() -> dict[str, Row]:
    """All rows, by their ids; an id begins with the name of its module."""
    found: dict[str, Row] = {}
    for file in sorted(HERE.glob("rows_*.py")):
        module = importlib.import_module(file.stem)
        found |= {f"{file.stem.removeprefix('rows_')}: {name}": row for name, row in module.ROWS.items()}
    return found


def refused(provoke: Provoke, folder: Path) -> tuple[InputError, str]:
    """The error of a row, and its text; fails where there is none."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        provoke(folder)
    except InputError as error:
        return error, str(error).replace(str(folder), "FOLDER")
    finally:
        os.chdir(before)
    raise AssertionError("is not refused")


def main() -> None:
    """Write the wordings of all rows again; tell the rows whose code or key is another."""
    wordings = {}
    for name, (provoke, code, key) in rows().items():
        with TemporaryDirectory() as folder:
            error, wordings[name] = refused(provoke, Path(folder).resolve())
        found = error.code, error.key.replace(folder, "FOLDER")
        if found != (code, key):
            print(f"{name}: {found[0]!r}, {found[1]!r}\n    {wordings[name]}")
    WORDINGS.write_text(json.dumps(wordings, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
