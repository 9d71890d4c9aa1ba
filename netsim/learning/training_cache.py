"""Cache of training and evaluation results in a folder shared by runs.

Runs of one seed that differ only in settings without effect on learning, such as the bandwidth or an allocation that
drops no device, train the same devices from the same models in every round. Results are a function of their arguments
and are stored under a hash of them: the first process computes a result, concurrent ones wait for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np

from netsim.base.checksummed import arrays_in
from netsim.base.files import make_folder, open_to_read, open_to_write, replace_file
from netsim.base.platform_info import versions
from netsim.base.types import Floats, Ints, State, Weights

if TYPE_CHECKING:
    from netsim.learning.dataset_files import Dataset, Images
    from netsim.learning.sgd import Task

MOST_BYTES = 4 << 30     # beyond this, the least recently used results are deleted
LOOK_AFTER = 32          # a process checks the size after writing 1/LOOK_AFTER of it
NOT_WHOLE = (OSError, ValueError, KeyError, EOFError, BadZipFile)


@dataclass(frozen=True)
class TrainingCache:
    """Cache folder of several runs; ``every_round`` False caches the first round only."""

    folder: Path
    every_round: bool = True


def key_of_training(
    work: object, data: Dataset, weights: Weights, tasks: Sequence[Task], gradient: Weights | None,
) -> str:
    """Return the cache key of a training task; the ``repr`` of ``work`` must be complete."""
    draws = [(task.device, task.rng.bit_generator.state) for task in tasks]
    own = [array for task in tasks for array in (
        task.samples, data.train_images[task.samples], data.train_labels[task.samples], task.buffers)]
    return _key(("train", work, draws), data, weights, gradient, *own)


def key_of_test(
    work: object, data: Dataset, weights: Weights, images: Images, labels: Ints, buffers: Floats | None,
) -> str:
    """Return the cache key of an evaluation of a model on these samples."""
    return _key(("test", work), data, weights, images, labels, buffers)


def _key(what: object, data: Dataset, *arrays: np.ndarray | None) -> str:
    made_with = what, versions(), data.mean.tolist(), data.deviation.tolist()
    digest = hashlib.sha256(repr(made_with).encode())
    for array in arrays:
        part = b"" if array is None else array.tobytes()
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def once(folder: Path, key: str, compute: Callable[[], State]) -> State:
    """Return the arrays stored under the key, or compute and store them."""
    path = folder / f"{key}.npz"
    with suppress(*NOT_WHOLE):
        return _read(path)
    with _alone(folder, key):
        with suppress(*NOT_WHOLE):      # another process has computed it meanwhile
            return _read(path)
        state = compute()
        with suppress(OSError):
            mine = folder / uuid4().hex      # own name: without file locks two processes may write the same key
            replace_file(mine, lambda file: np.savez(file, **state))    # type: ignore[arg-type]
            mine.replace(path)
            _evict(folder, path.stat().st_size)
    return state


def _read(path: Path) -> State:
    with open_to_read(path, "a shared result", MOST_BYTES) as file:
        state = arrays_in(file)
    os.utime(path)      # marks the last use
    return state


@contextmanager
def _alone(folder: Path, key: str) -> Iterator[None]:
    """Hold a file lock on the key, if the file system has locks; a process that ends releases it."""
    lock = None
    with suppress(OSError):
        lock = open_to_write(make_folder(folder) / f"lock-{key[:2]}", keep=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if lock:
            lock.close()


_written: Counter[Path] = Counter()      # bytes since this process last checked the size


def _evict(folder: Path, size: int) -> None:
    _written[folder] += size
    if _written[folder] < MOST_BYTES // LOOK_AFTER:
        return
    del _written[folder]
    kept: list[tuple[float, int, Path]] = []
    for path in folder.glob("*.npz"):
        with suppress(FileNotFoundError):      # deleted by another process
            kept.append((path.stat().st_mtime, path.stat().st_size, path))
    total = 0
    for _, size, path in sorted(kept, reverse=True):
        total += size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
