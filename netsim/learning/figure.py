"""A picture of who holds what: classes by devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.pictures import as_it_stands, new_figure, save_figure


def class_counts(labels: Ints, parts: Sequence[Ints], classes: int) -> Ints:
    """How many samples of each class (row) each device (column) holds."""
    return np.stack([np.bincount(labels[part], minlength=classes) for part in parts], axis=1)


def partition_figure(
    labels: Ints, parts: Sequence[Ints], names: Sequence[str], file: str | Path, title: str = ""
) -> None:
    """Writes a heat map of samples, classes by devices, with each device's number of samples on top."""
    counts = class_counts(labels, parts, len(names))
    classes, devices = counts.shape
    size = float(np.clip(2.5 + 0.09 * devices, 6, 14)), float(np.clip(1.8 + 0.28 * classes, 3, 12))
    figure = new_figure(*size)
    top, main = figure.subplots(2, 1, sharex=True, height_ratios=[1, max(3, 0.35 * classes)])
    top.stairs(counts.sum(axis=0), np.arange(devices + 1) - 0.5, fill=True, color="0.6")
    top.set_ylabel("samples\n$D_n$")
    top.spines[["top", "right"]].set_visible(False)
    shown = main.imshow(counts, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0)
    main.set_yticks(range(classes), [as_it_stands(name) for name in names] if classes <= 40 else [""] * classes)
    main.set_xlabel("device")
    main.set_ylabel("class")
    figure.colorbar(shown, ax=main, label="samples", pad=0.01)
    if title:
        figure.suptitle(as_it_stands(title))
    save_figure(figure, Path(file))
