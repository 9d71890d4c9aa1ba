"""Files of strangers: read within bounds, written through no link."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netsim.base import files
from netsim.base.errors import MOST_CHARACTERS, InputError, readable

READERS: list[Callable[..., Any]] = [files.read_bytes, files.read_text, files.read_json, files.read_toml]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "large", "link to a pipe"])
def test_only_plain_files_of_a_bounded_size_are_read(tmp_path: Path, read: Callable[..., Any], kind: str) -> None:
    place = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place = Path("/dev/zero")
    elif kind == "folder":
        place.mkdir()
    elif kind == "large":
        with place.open("wb") as file:
            file.truncate(files.MOST_BYTES + 1)
    else:
        os.mkfifo(tmp_path / "pipe")
        place.symlink_to("pipe")
    with pytest.raises(InputError) as error:
        read(place, "a test")
    assert (error.value.code, error.value.key) == ("unreadable", str(place))


@pytest.mark.parametrize("text", [
    "a = " + "[" * 100_000, "a = " + "[" * 60 + "]" * 60, "a = " + "{a = " * 60 + "1" + "}" * 60,
    ".".join("a" * 100) + " = 1", ".".join("a" * 200_000) + " = 1", "[" + " . ".join("a" * 100_000) + "]",
    "[[" + ".".join(['"a b"'] * 100_000) + "]]", ".".join(["'x'"] * 1000) + " = 1",
])
def test_toml_that_is_nested_too_deeply(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="nested too deeply"):
        files.read_toml(tmp_path / "deep.toml", "a test")


def test_toml_that_only_looks_so(tmp_path: Path) -> None:
    lines = ["a = [" + "0.5, " * 10_000 + "]", f"b = '{'word. Word ' * 1000}'", f"c = '{'x' * 1_000_000}'",
             ".".join("d" * 40) + " = 1"]
    (tmp_path / "wide.toml").write_text("\n".join(lines), encoding="utf-8")
    assert len(files.read_toml(tmp_path / "wide.toml", "a test")["a"]) == 10_000


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 60 + "]" * 60, '{"a":' * 60 + "1" + "}" * 60])
def test_json_that_is_nested_too_deeply(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="nested too deeply"):
        files.read_json(tmp_path / "deep.json", "a test")


def test_a_number_of_thousands_of_digits_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b"9" * 5000)
    with pytest.raises(InputError) as error:
        files.read_json(tmp_path / "bad.json", "a test")
    assert error.value.code == "malformed"


WRITERS: dict[str, Callable[[Path], Any]] = {
    "open_to_write": lambda path: files.open_to_write(path).close(),
    "open_to_write, kept": lambda path: files.open_to_write(path, keep=True).close(),
    "allocate_file": lambda path: files.allocate_file(path, 10),
    "make_folder": files.make_folder,
    "make_folder, one above": lambda path: files.make_folder(path / "inner", levels=2),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("target", ["a file", "a folder", "nothing"])
def test_nothing_is_written_through_a_link(tmp_path: Path, write: Callable[[Path], Any], target: str) -> None:
    outside = tmp_path / "outside"
    if target == "a file":
        outside.write_bytes(b"precious")
    elif target == "a folder":
        outside.mkdir()
    link = tmp_path / "link"
    link.symlink_to(outside)
    with pytest.raises(InputError) as error:
        write(link)
    assert (error.value.code, error.value.key, error.value.found) == ("unwritable", str(link), "a link")
    if target == "a file":
        assert outside.read_bytes() == b"precious"
    else:
        assert not outside.exists() or not list(outside.iterdir())


@pytest.mark.parametrize("name", ["file", "file.tmp"])
def test_a_file_that_is_replaced_takes_the_place_of_a_link(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    (tmp_path / name).symlink_to(outside)
    files.replace_text(tmp_path / "file", "new")
    assert outside.read_bytes() == b"precious"
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_file_that_is_kept_or_emptied(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"old")
    files.open_to_write(tmp_path / "lock", keep=True).close()
    assert (tmp_path / "lock").read_bytes() == b"old"
    files.open_to_write(tmp_path / "lock").close()
    assert (tmp_path / "lock").read_bytes() == b""


def test_a_lock_waits_for_workers_that_are_about_to_die_and_for_nobody_else(tmp_path: Path) -> None:
    taken = files.hold(tmp_path / "lock", "held")
    worker = os.fork()
    if worker == 0:                     # has the lock as well, and lives for a little longer than its parent
        time.sleep(0.3)
        os._exit(0)
    taken.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "LET_GO_S", 0.0)
        with pytest.raises(InputError) as error:
            files.hold(tmp_path / "lock", "held")
        assert (error.value.code, error.value.key) == ("busy", str(tmp_path))
    files.hold(tmp_path / "lock", "held").close()
    os.waitpid(worker, 0)


def test_a_message_is_short_and_steers_no_terminal() -> None:
    long = str(InputError("missing", "begin" + "x" * 100_000, hint="end!"))
    assert len(long) == MOST_CHARACTERS
    assert long.startswith("begin")
    assert long.endswith("end!")
    assert readable("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS
    assert readable("a\x1b[31mb\r\u202ec\nd\te") == "a\\x1b[31mb\\r\\u202ec\nd\te"


@pytest.mark.slow
def test_a_passing_folder_goes_with_its_owner_and_without_a_word() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        folder = files.TemporaryFolder()
        path = folder.path
        (path / "inside").mkdir()
        assert path.is_dir()
        del folder
        gc.collect()
    assert not path.exists()
    assert not [each for each in said if str(path) in str(each.message)]


def test_passing_folders_are_removed_at_once_where_a_process_ends_at_once() -> None:
    held = [files.TemporaryFolder() for _ in range(3)]
    files.TemporaryFolder.remove_all()
    assert not any(folder.path.exists() for folder in held)
