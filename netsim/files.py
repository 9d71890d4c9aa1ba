"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def replace_file(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let ``write`` fill a temporary file, flush it to the disk, then give it its name.

    A crash at any moment leaves the old file or the new one, never a piece.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)      # the new name must reach the disk too
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_text(path: Path, text: str) -> None:
    """The same for a text."""
    replace_file(path, lambda file: file.write(text.encode()))
