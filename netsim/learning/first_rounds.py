"""What devices trained in a first round, kept in a folder for other runs that begin alike.

Runs of one seed that differ in the selection or the allocation alone train the same devices from the same model in
their first round, with every device of the cell. What training gives is a function of its arguments, so it can be
looked up by them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from netsim.base.arrays import Weights
from netsim.base.files import make_folder, open_to_read, replace_file
from netsim.base.machine import versions
from netsim.learning.datasets import Dataset
from netsim.learning.trainer import Task, Update

MOST_BYTES = 4 << 30     # beyond this the oldest go


def key_of(work: object, data: Dataset, weights: Weights, tasks: Sequence[Task], gradient: Weights | None) -> str:
    """A name for just this training; ``work`` says everything about itself in its ``repr``."""
    made_with = repr((work, versions(), data.mean.tolist(), data.deviation.tolist()))
    parts = [made_with.encode(), weights.tobytes(), b"" if gradient is None else gradient.tobytes()]
    for task in tasks:
        parts += [repr((task.device, task.rng.bit_generator.state)).encode(), task.samples.tobytes(),
                  data.train_images[task.samples].tobytes(), data.train_labels[task.samples].tobytes()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def trained_once(folder: Path, key: str, train: Callable[[], list[Update]]) -> list[Update]:
    """What is kept under the key, or else what ``train`` gives, which is then kept if there is room for it."""
    path = folder / f"{key}.npz"
    with suppress(OSError, ValueError, KeyError, BadZipFile):
        return _read(path)
    updates = train()
    with suppress(OSError):
        make_folder(folder)
        mine = path.with_suffix(f".{os.getpid()}")      # another worker may be writing the same
        replace_file(mine, lambda file: np.savez(file, **_columns(updates)))    # type: ignore[arg-type]
        mine.replace(path)
        _make_room(folder)
    return updates


def _columns(updates: Sequence[Update]) -> dict[str, np.ndarray]:
    gradients = [update.gradient for update in updates if update.gradient is not None]
    return {
        "device": np.array([update.device for update in updates]), "weights": np.stack([u.weights for u in updates]),
        "loss": np.array([update.loss for update in updates]),
        "gradient_norm": np.array([update.gradient_norm for update in updates]),
        "samples": np.array([update.samples for update in updates]),
        **({"gradient": np.stack(gradients)} if gradients else {}),
    }


def _read(path: Path) -> list[Update]:
    with open_to_read(path, "a first round", MOST_BYTES) as file, np.load(file, allow_pickle=False) as stored:
        columns = {name: stored[name] for name in stored.files}
    gradients = columns.get("gradient", [None] * len(columns["device"]))
    return [
        Update(int(device), weights, float(loss), float(norm), int(samples), gradient)
        for device, weights, loss, norm, samples, gradient in zip(
            columns["device"], columns["weights"], columns["loss"], columns["gradient_norm"], columns["samples"],
            gradients, strict=True)
    ]


def _make_room(folder: Path) -> None:
    files = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in folder.glob("*.npz")), reverse=True)
    total = 0
    for _, size, path in files:
        total += size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
