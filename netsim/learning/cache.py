"""Decoded datasets on disk, made once, with images as memory-mapped arrays."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np

from netsim.base.errors import InputError
from netsim.base.files import make_folder, replace_file
from netsim.learning.sources import Dataset


def cached(name: str, root: Path, files: list[Path], read: Callable[[list[Path]], Dataset]) -> Dataset:
    """What ``read`` makes of the files, from the cache unless a file has changed since.

    The cache lies beside the data, or in the user's cache directory where that cannot be written; without either
    the images stay in memory.
    """
    key = f"{name}-{_fingerprint(files)}"
    folders = [root / ".netsim-cache", _user_cache()]
    for folder in folders:
        with suppress(OSError, ValueError, KeyError, EOFError):    # missing or damaged: written again
            return _open(folder / key)
    data = read(files)
    for folder in folders:
        with suppress(OSError, InputError):      # may not be written, or leads elsewhere
            _write(folder / key, data)
            return _open(folder / key)
    return data


def _fingerprint(files: list[Path]) -> str:
    digest = hashlib.sha256(b"2")    # the cache's own format
    for file in files:
        status = file.stat()
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netsim"


def _write(target: Path, data: Dataset) -> None:
    """A file for each field; written beside the target and renamed, so that no reader ever sees half a cache."""
    make_folder(target.parent)
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        scratch.chmod(0o755)
        for name, array in vars(data).items():
            replace_file(scratch / f"{name}.npy", partial(np.save, arr=array))
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _open(folder: Path) -> Dataset:
    arrays = {field.name: np.load(folder / f"{field.name}.npy", mmap_mode="r" if "images" in field.name else None)
              for field in fields(Dataset)}
    return Dataset(**{**arrays, "names": tuple(arrays["names"].tolist())})
