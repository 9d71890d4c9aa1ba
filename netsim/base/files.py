"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from netsim.base.errors import InputError


def replace_file(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let ``write`` fill a temporary file, flush it to the disk, then give it its name.

    A crash at any moment leaves the old file or the new one, never a piece.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.unlink(missing_ok=True)      # what a crash left, or a link into somebody's files
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
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
    with path.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except AttributeError:              # macOS
            file.truncate(size)
        except OSError as error:
            error.filename = str(path)
            raise


def packed(write: Callable[[IO[bytes]], Any]) -> Callable[[IO[bytes]], Any]:
    """Let ``write`` fill memory first, for libraries that turn a full disk into an error of their own."""
    def write_at_once(file: IO[bytes]) -> None:
        content = BytesIO()
        write(content)
        file.write(content.getbuffer())

    return write_at_once


def replace_text(path: Path, text: str) -> None:
    """The same for a text."""
    replace_file(path, lambda file: file.write(text.encode()))


def expanded(path: str, where: str) -> Path:
    """With ~ for the user's own folder; raises InputError for what can be no path."""
    if "\0" in path:
        raise InputError(f"{where} = {path!r}; a path has no zero bytes")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError(f'{where} = "{path}"; there is no such user here') from None
