"""Units, files, registries and options, imports."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from refusals import Provoke, Row, call

from netsim.base import checksummed, files, rng, units
from netsim.base.fields import Time
from netsim.base.figures import new_figure, save_figure
from netsim.base.imports import check_made_for_netsim, installed_object
from netsim.base.options import with_options
from netsim.base.registry import Entry, Registry, first_called


@dataclass(frozen=True)
class Tea:
    cups: Annotated[int, Field(ge=1)]
    steep: Time = 180.0


def pour(cup: str) -> str:
    return cup


DRINKS = Registry("drink", "party.drink", {
    "tea": Entry(f"{__name__}:Tea", "hot", {"mugs": "cups"}), "chai": Entry(f"{__name__}:Tea", "hot too")})
WAYS = Registry("way", "party.way", {"pour": Entry(f"{__name__}:pour", "from high up")}, given=1,
                check=first_called("cup", "party.way"))


def made(prepare: Callable[[Path], Any], then: Callable[..., Any], *arguments: Any) -> Provoke:
    """Make something called "file" in the folder, then do something with it."""
    def provoke(folder: Path) -> None:
        prepare(folder / "file")
        then(folder / "file", *arguments)

    return provoke


def content(text: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(text)


def empty(size: int) -> Callable[[Path], Any]:
    return lambda path: files.allocate_file(path, 1) or os.truncate(path, size)


def link(path: Path) -> None:
    path.symlink_to("elsewhere")


def held(path: Path) -> None:
    with files.hold(path, "a test"):
        before, files.LET_GO_S = files.LET_GO_S, 0.0
        try:
            files.hold(path, "a test")
        finally:
            files.LET_GO_S = before


ROWS: dict[str, Row] = {
    # units
    "unit in small letters": (call(units.parse, "20 mhz", "frequency"), "wrong-unit", ""),
    "no unit": (call(units.parse, "20", "frequency"), "wrong-unit", ""),
    "a unit of something else": (call(units.parse, "20 mJ", "power"), "wrong-unit", ""),
    "no number": (call(units.parse, "MHz", "frequency"), "malformed", ""),
    "not a number": (call(units.parse, "nan J", "energy"), "malformed", ""),
    "an endless number": (call(units.parse, "1e999 J", "energy"), "out-of-range", ""),
    "an endless level": (call(units.parse, "1e300 dBm", "power"), "out-of-range", ""),
    "bare number": (call(units.parse, 2.5, "energy"), "wrong-unit", ""),
    "truth": (call(units.parse, True, "energy"), "wrong-unit", ""),
    "a table": (call(units.parse, {"low": 1}, "energy"), "wrong-unit", ""),
    # files
    "read: a pipe": (made(os.mkfifo, files.read_bytes, "a test"), "unreadable", "FOLDER/file"),
    "read: a folder": (made(Path.mkdir, files.read_json, "a test"), "unreadable", "FOLDER/file"),
    "read: too large": (made(empty(files.MOST_BYTES + 1), files.read_text, "a test"), "unreadable", "FOLDER/file"),
    "read: larger than it says": (call(files.read_bytes, Path("/proc/self/status"), "a test", most=10),
                                  "unreadable", "/proc/self/status"),
    "read: no UTF-8": (made(content(b"\xff\xfe\x00"), files.read_text, "a test"), "malformed", "FOLDER/file"),
    "read: no JSON": (made(content(b"{"), files.read_json, "a test"), "malformed", "FOLDER/file"),
    "read: JSON nested too deeply": (made(content(b"[" * 60 + b"]" * 60), files.read_json, "a test"),
                                     "malformed", "FOLDER/file"),
    "read: a key of many parts": (made(content(b".".join([b"a"] * 100) + b" = 1"), files.read_toml, "a test"),
                                  "malformed", "FOLDER/file"),
    "read: a zero byte": (call(files.read_text, Path("a\0b"), "a test"), "malformed", "'a\\x00b'"),
    "read: a checksum": (made(content(b'{"a": 1, "sha256": ""}'), checksummed.read_object, "a test"),
                         "damaged", "FOLDER/file"),
    "read: no object": (made(content(b"[]"), checksummed.read_object, "a test"), "damaged", "FOLDER/file"),
    "write: a pipe": (made(os.mkfifo, files.open_to_write), "unwritable", "FOLDER/file"),
    "write: a link": (made(link, files.open_to_write), "unwritable", "FOLDER/file"),
    "write: a folder that is a link": (made(link, files.make_folder), "unwritable", "FOLDER/file"),
    "write: a lock": (made(content(b""), held), "busy", "FOLDER"),
    "picture in no folder": (lambda folder: save_figure(new_figure(1, 1), folder / "no" / "x.png"),
                             "unwritable", "FOLDER/no/x.png"),
    # names, options, imports
    "unknown name": (call(DRINKS.make, "te", {}), "unknown-name", "party.drink"),
    "unknown option": (call(DRINKS.make, "tea", {"cup": 1}), "unknown-option", "party.cup"),
    "renamed option": (call(DRINKS.make, "tea", {"mugs": 1}), "renamed", "party.mugs"),
    "missing option": (call(DRINKS.make, "tea", {}), "missing", "party.cups"),
    "option out of range": (call(DRINKS.make, "tea", {"cups": 0}), "out-of-range", "party.cups"),
    "option of another type": (call(DRINKS.make, "tea", {"cups": "two"}), "wrong-type", "party.cups"),
    "option without a unit": (call(DRINKS.make, "tea", {"cups": 1, "steep": 3}), "wrong-unit", "party.steep"),
    "another function": (call(WAYS.make, "os:system", {}), "wrong-interface", "party.way"),
    "object of another session": (call(DRINKS.permit, "session:tea"), "import-failed", "party.drink"),
    "options in a word": (call(with_options, "fedl:lambda=2,tuned"), "malformed", "fedl:lambda=2,tuned"),
    "import: no path": (call(installed_object, "a.b", "party.drink"), "malformed", "party.drink"),
    "import: private": (call(installed_object, "venv.__main__:x", "party.drink"), "import-refused", "party.drink"),
    "import: no such module": (call(installed_object, "nowhere:x", "party.drink"), "import-failed", "party.drink"),
    "import: no such name": (call(installed_object, "json:x", "party.drink"), "import-failed", "party.drink"),
    "import: a part of Python": (call(check_made_for_netsim, "os:system", "party.drink"),
                                 "import-refused", "party.drink"),
    "import: another package": (call(check_made_for_netsim, "numpy:load", "party.drink"),
                                "import-refused", "party.drink"),
    "import: nothing there": (call(check_made_for_netsim, "nowhere.at:all", "party.drink"),
                              "import-failed", "party.drink"),
    "too far ahead": (call(rng.advance, 9_999_999, "a device moves", 1e9), "too-large", "1e+09 s ahead"),
}
