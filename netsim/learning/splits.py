"""A dataset's training samples split over devices, to look at before any training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.counts import counted
from netsim.base.errors import InputError
from netsim.base.method_options import with_options
from netsim.base.streams import stream
from netsim.learning.datasets import Dataset, load_dataset
from netsim.learning.figure import partition_figure
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
