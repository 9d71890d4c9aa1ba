"""Atomic writes without following links, bounded reads of untrusted files, safe CSV."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import stat
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal
from weakref import WeakSet, finalize

from netsim.base.errors import InputError, quoted

if TYPE_CHECKING:
    import polars as pl

MEGABYTE = 1_000_000
MOST_BYTES = 64 * MEGABYTE       # default size limit of a file that is read whole
MOST_NESTED = 50                 # nested tables or lists in an untrusted file
LET_GO_S = 3.0                   # time for workers of a killed process to release its locks


class TemporaryFolder:
    """Temporary folder that is removed with this object, without a warning.

    A ``TemporaryDirectory`` that is not closed warns when it is collected, and this one is never closed.
    """

    _there: ClassVar[WeakSet[TemporaryFolder]] = WeakSet()

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="netsim-"))
        self._remove = finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        self._there.add(self)

    @classmethod
    def remove_all(cls) -> None:
        """Remove all folders, before a process ends without garbage collection."""
        for folder in list(cls._there):
            folder._remove()


def folder_for(out: Path | str | None) -> tuple[Path, TemporaryFolder | None]:
    """Return the folder ``out``, or a temporary one that lives as long as the second return value."""
    keep = TemporaryFolder() if out is None else None
    return keep.path if keep else Path(str(out)), keep


_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# A dotted key of more parts than may be nested: tomllib's time and memory grow with the square of their number.
_NAME = r"""(?>[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_NAME}(?:[ \t]*+\.[ \t]*+{_NAME}){{{MOST_NESTED}}}")


# Writing: each of these makes a file or folder where its name says, never where a link leads.

def open_to_write(path: Path, *, keep: bool = False) -> IO[bytes]:
    """Open a file for writing, made if it is missing and else emptied, or kept as it is; refuses a link.

    Whatever writes into a folder that may come from a stranger opens its files here, or by ``replace_file``.
    """
    refuse_link(path)
    nonblocking = getattr(os, "O_NONBLOCK", 0)      # a pipe without a reader would block
    flags = os.O_RDWR | os.O_CREAT | _NO_LINK | nonblocking
    try:
        number = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _is_link(path) from None
        raise
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise InputError("unwritable", str(path), "no plain file", hint="Remove it")
    file = os.fdopen(number, "r+b")
    if not keep:
        file.truncate()
    return file


def hold(path: Path, what: str, *, shared: bool = False) -> IO[bytes]:
    """Open a file and lock it until it is closed; InputError for its folder where another process holds it.

    ``what`` the lock protects, for the message: "this run". Several processes may hold a ``shared`` lock.
    """
    file = open_to_write(path, keep=True)
    give_up = time.monotonic() + LET_GO_S
    while True:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return file
        except OSError:
            if time.monotonic() > give_up:
                file.close()
                raise InputError("busy", str(path.parent), hint=f"Another process is writing {what}: wait for it, or "
                                 "stop it") from None
        time.sleep(0.02)


def make_folder(path: Path, levels: int = 1) -> Path:
    """Make a folder, with those above it; of its last ``levels`` names, those that we gave, none may be a link."""
    for folder in (path, *path.parents)[:levels]:
        refuse_link(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


def refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise _is_link(path)


def _is_link(path: Path) -> InputError:
    return InputError("unwritable", str(path), "a link", "no link here", "Remove it")


def replace_file(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a temporary file with ``write``, flush it to the disk, then rename it to ``path``.

    A crash at any moment leaves the old file or the new one, never a piece. A link of that name is replaced too.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.unlink(missing_ok=True)      # left by a crash, or a link to another file
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)      # the new name must reach the disk too
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)      # a full disk does not say which file it has no room for
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def allocate_file(path: Path, size: int) -> None:
    """A file of zeros that has all its room on the disk already, where the system can promise that."""
    with open_to_write(path) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except AttributeError:              # macOS
            file.truncate(size)
        except OSError as error:
            error.filename = str(path)
            raise


def packed(write: Callable[[IO[bytes]], Any]) -> Callable[[IO[bytes]], Any]:
    """Return a function that writes to memory first, for libraries that hide the error of a full disk."""
    def write_at_once(file: IO[bytes]) -> None:
        content = BytesIO()
        write(content)
        file.write(content.getbuffer())

    return write_at_once


def replace_text(path: Path, text: str) -> None:
    replace_file(path, lambda file: file.write(text.encode()))


# Reading: an untrusted file is a plain file of bounded size, or an InputError is raised.

@contextmanager
def reading(path: Path | str, hint: str = "") -> Iterator[None]:
    """Raise InputError if a file that is read in this block is missing, with a hint, or cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise InputError("no-such-file", str(path), hint=hint) from None
    except OSError as error:
        raise InputError("unreadable", str(path), error.strerror) from None


def open_to_read(path: Path, what: str, most: int = MOST_BYTES) -> IO[bytes]:
    """Open a plain file of at most ``most`` bytes; ``what`` describes it in messages: "a scenario".

    Raises OSError for a missing or unreadable file; InputError for a pipe, a device, a folder or a larger file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    try:
        number = os.open(path, flags)
    except ValueError:
        raise InputError("malformed", repr(str(path)), "a zero byte", "a path") from None
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise InputError("unreadable", str(path), "no plain file", what)
    if status.st_size > most:
        os.close(number)
        raise _too_large(path, what, most)
    return os.fdopen(number, "rb")


def read_bytes(path: Path, what: str, most: int = MOST_BYTES) -> bytes:
    """A stranger's file; refused as ``open_to_read`` does."""
    with open_to_read(path, what, most) as file:
        content = file.read(most + 1)      # some files, such as those of /proc, do not tell their size
    if len(content) > most:
        raise _too_large(path, what, most)
    return content


def _too_large(path: Path, what: str, most: int) -> InputError:
    return InputError("unreadable", str(path), "a larger file", f"{what} of at most {most / MEGABYTE:g} MB")


def read_text(path: Path, what: str, most: int = MOST_BYTES) -> str:
    """A stranger's text in UTF-8, with or without a byte order mark, its line ends as ``\\n``."""
    try:
        text = read_bytes(path, what, most).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError("malformed", str(path), f"{problem.reason} at byte {problem.start}", "UTF-8 text") from None
    return text.replace("\r\n", "\n") if "\r" in text else text


def read_toml(path: Path, what: str, most: int = MOST_BYTES) -> dict[str, Any]:
    text = read_text(path, what, most)
    if _LONG_KEY.search(text):
        raise _too_deep(path)
    table: dict[str, Any] = _parsed(path, "TOML", lambda: tomllib.loads(text))
    return table


def read_json(path: Path, what: str, most: int = MOST_BYTES) -> Any:
    text = read_text(path, what, most)
    return _parsed(path, "JSON", lambda: json.loads(text))


def _parsed(path: Path, kind: Literal["TOML", "JSON"], parse: Callable[[], Any]) -> Any:
    try:
        content = parse()
    except ValueError as problem:      # also a number of thousands of digits
        raise InputError("malformed", str(path), str(problem), f"valid {kind}") from None
    except RecursionError:
        raise _too_deep(path) from None
    level: list[Any] = [[content]]
    for _ in range(MOST_NESTED + 1):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)
                 if isinstance(inner, dict | list)]
        if not level:
            return content
    raise _too_deep(path)


def _too_deep(path: Path) -> InputError:
    return InputError("malformed", str(path), "tables or lists nested too deeply", f"at most {MOST_NESTED} levels")


def expanded(path: str, key: str, source: str = "") -> Path:
    """With ~ for the user's own folder; raises InputError at ``key`` for what can be no path."""
    if "\0" in path:
        raise InputError("malformed", key, repr(path), "a path without zero bytes", source=source)
    try:
        return Path(native(path)).expanduser()
    except RuntimeError:
        raise InputError("no-such-file", key, quoted(path), "a user of this machine after ~", source=source) from None


def native(path: str) -> str:
    """A path that stands in a file, as the system is to be asked for it: a locale may know no UTF-8."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return os.fsdecode(path.encode("utf-8", "surrogateescape"))
    return path


def as_text(given: str) -> str:
    """A word of the command line, or a file's name, as the UTF-8 that it is, whatever the locale made of it."""
    return os.fsencode(given).decode("utf-8", "replace") if any("\udc80" <= c <= "\udcff" for c in given) else given


# CSV: a spreadsheet takes a text that begins like a formula for one, and runs it.

# also the wide ones of East Asian keyboards
FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def safe_cell(value: Any) -> Any:
    """A text with an apostrophe before what would be run; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_MARKS) else value


def safe_table(table: pl.DataFrame) -> pl.DataFrame:
    """The same for all columns of text, and the names of all columns."""
    import polars as pl

    text = pl.col(pl.String)
    marks = "".join(FORMULA_MARKS).replace("-", "") + "-"
    safe = pl.when(text.str.contains(f"^[{marks}]")).then(pl.lit("'") + text).otherwise(text)
    return table.with_columns(safe.name.keep()).rename({name: safe_cell(name) for name in table.columns})
