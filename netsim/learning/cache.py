"""Decoded images on disk: one memory-mapped array for each dataset, made once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from netsim.base.errors import InputError
from netsim.base.files import make_folder, read_json, replace_file, replace_text
from netsim.learning.sources import Decoded


def cached(name: str, root: Path, files: list[Path], read: Callable[[list[Path]], Decoded]) -> Decoded:
    """What ``read`` makes of the files, from the cache unless a file has changed since.

    The cache lies beside the data, or in the user's cache directory where that cannot be written; without either
    the images stay in memory.
    """
    key = f"{name}-{_fingerprint(files)}"
    folders = [root / ".netsim-cache", _user_cache()]
    for folder in folders:
        with suppress(OSError, ValueError, KeyError, EOFError):    # not there, or damaged: made anew
            return _open(folder / key)
    data = read(files)
    for folder in folders:
        with suppress(OSError, InputError):      # may not be written, or leads elsewhere
            _write(folder / key, data)
            return _open(folder / key)
    return data


def _fingerprint(files: list[Path]) -> str:
    digest = hashlib.sha256(b"1")    # the cache's own format
    for file in files:
        status = file.stat()
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netsim"


def _write(target: Path, data: Decoded) -> None:
    """Writes beside the target and renames, so that nobody ever sees half a cache."""
    make_folder(target.parent)
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        scratch.chmod(0o755)
        for name, array in (("images.npy", data.images), ("labels.npy", data.labels)):
            replace_file(scratch / name, partial(np.save, arr=array))
        meta = {"train": data.train, "names": data.names, "mean": list(data.mean), "deviation": list(data.deviation)}
        replace_text(scratch / "meta.json", json.dumps(meta))
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _open(folder: Path) -> Decoded:
    meta = read_json(folder / "meta.json", "a cache")
    return Decoded(
        np.load(folder / "images.npy", mmap_mode="r"),
        np.load(folder / "labels.npy"),
        meta["train"],
        tuple(meta["names"]),
        np.array(meta["mean"]),
        np.array(meta["deviation"]),
    )
