"""A dataset's training samples split over devices, to look at before any training: in a line, and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.counts import counted
from netsim.base.errors import InputError
from netsim.base.options import with_options
from netsim.base.pictures import as_it_stands, new_figure, save_figure
from netsim.base.streams import stream
from netsim.learning.datasets import Dataset, load_dataset
from netsim.learning.partition import PARTITIONS, majority_classes, partition


@dataclass(frozen=True, eq=False)
class Split:
    """Who holds which samples."""

    data: Dataset
    rule: str
    parts: list[Ints]


def split_dataset(
    name: str, root: str | Path, rule: str, devices: int, samples: int | None, seed: int, *, allow_import: bool = True,
) -> Split:
    """A dataset split as a scenario under this seed would; ``rule`` is written ``kind:key=value``."""
    from pydantic import TypeAdapter, ValidationError

    from netsim.scenario.learning import Partition

    kind, options = with_options(rule)
    PARTITIONS.permit(kind, allow_import=allow_import)
    try:
        settings = TypeAdapter(Partition).validate_python({"kind": kind, **options})
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(key) for key in first["loc"] if key != kind)
        raise InputError("malformed", "--partition", f"{where + ': ' if where else ''}{first['msg']}",
                         hint=f"It says {rule}") from None
    data = load_dataset(name, root)
    wanted = None if samples is None else np.full(devices, samples, np.int64)
    return Split(data, rule, partition(data.train_labels, settings, wanted, devices, stream(seed, "partition")))


def describe_split(split: Split) -> str:
    """How many samples the devices hold, and how many of them are of one class, in a line."""
    labels, parts = split.data.train_labels, split.parts
    sizes = np.array([len(part) for part in parts])
    majority = majority_classes(labels, parts)
    shares = [float((labels[part] == top).mean()) for part, top in zip(parts, majority, strict=True)]
    most = counted(int(sizes.max()), "sample")
    return (f"{split.rule}: {counted(len(parts), 'device')} with {sizes.min()} to {most}; {np.mean(shares):.0%} of a "
            "device's samples are of its most frequent class")


def draw_split(split: Split, file: Path) -> None:
    """The picture: classes by devices."""
    title = f"{split.data.name}, {split.rule}"
    partition_figure(split.data.train_labels, split.parts, split.data.names, file, title)


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
