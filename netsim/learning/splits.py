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
from netsim.learning.datasets import load_dataset
from netsim.learning.partition import PARTITIONS, class_counts, partition


@dataclass(frozen=True, eq=False)
class Split:
    """How many samples of each class (column) each device (row) holds."""

    dataset: str
    rule: str
    counts: Ints
    names: Sequence[str]       # of the classes


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
    parts = partition(data.train_labels, settings, wanted, devices, stream(seed, "partition"))
    return Split(name, rule, class_counts(data.train_labels, parts, data.classes), data.names)


def describe_split(split: Split) -> str:
    """How many samples the devices hold, and how many of them are of one class, in a line."""
    sizes = split.counts.sum(axis=1)
    share = float(np.mean(split.counts.max(axis=1) / sizes))
    most = counted(int(sizes.max()), "sample")
    return (f"{split.rule}: {counted(len(sizes), 'device')} with {sizes.min()} to {most}; {share:.0%} of a "
            "device's samples are of its most frequent class")


def draw_split(split: Split, file: Path) -> None:
    """Draw a heat map of samples, classes by devices, with each device's number of samples on top."""
    devices, classes = split.counts.shape
    size = float(np.clip(2.5 + 0.09 * devices, 6, 14)), float(np.clip(1.8 + 0.28 * classes, 3, 12))
    figure = new_figure(*size)
    top, main = figure.subplots(2, 1, sharex=True, height_ratios=[1, max(3, 0.35 * classes)])
    top.stairs(split.counts.sum(axis=1), np.arange(devices + 1) - 0.5, fill=True, color="0.6")
    top.set_ylabel("samples\n$D_n$")
    top.spines[["top", "right"]].set_visible(False)
    shown = main.imshow(split.counts.T, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0)
    main.set_yticks(range(classes), [as_it_stands(name) for name in split.names] if classes <= 40 else [""] * classes)
    main.set_xlabel("device")
    main.set_ylabel("class")
    figure.colorbar(shown, ax=main, label="samples", pad=0.01)
    figure.suptitle(as_it_stands(f"{split.dataset}, {split.rule}"))
    save_figure(figure, file)
