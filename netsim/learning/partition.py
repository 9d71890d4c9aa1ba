"""Partitions of the training samples among devices: the non-iid splits of the paper and other common ones.

All random kinds draw the samples of a class without replacement, so devices share none until a class is used up. It is
then shuffled and drawn again: devices overlap, but a device holds a sample twice only if it needs more samples of a
class than exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base.errors import InputError
from netsim.base.fields import Fraction, Natural, Positive, options_in
from netsim.base.figures import as_it_stands, new_figure, save_figure
from netsim.base.files import MEGABYTE, expanded, read_json
from netsim.base.options import with_options
from netsim.base.pluralize import pluralize
from netsim.base.registry import Entry, Registry, first_called
from netsim.base.rng import stream
from netsim.base.types import Floats, Ints
from netsim.learning.datasets import load_dataset

MOST_BYTES = 500 * MEGABYTE      # largest partition file


def partition(labels: Ints, settings: Any, samples: Ints | None, devices: int, rng: np.random.Generator) -> list[Ints]:
    """Return the indices of each device's training samples; ``labels`` has the class of each training sample.

    ``settings`` is the table ``learning.partition``: ``kind`` and its options. A partition of the user's own, ``kind =
    "package.module:function"``, has the interface ``function(labels, samples, rng, **options) -> list of integer
    arrays``, one array per device. Devices with 0 ``samples``, or all if it is None, share the remaining samples
    evenly; kind ``file`` determines D_n itself.
    """
    rule = PARTITIONS.make(settings.kind, options_in(settings, "kind"))
    if len(labels) < devices:
        raise InputError("infeasible", "learning.partition", pluralize(len(labels), "training sample"),
                         f"at least one for each of {pluralize(devices, 'device')}")
    wanted = np.zeros(devices, dtype=np.int64) if samples is None else samples
    open_ended = wanted == 0
    if open_ended.any():
        share = (len(labels) - int(wanted.sum())) // int(open_ended.sum())
        wanted = np.where(open_ended, max(1, share), wanted)
    parts: list[Ints] = rule(labels, wanted, rng)
    if settings.kind not in PARTITIONS:
        return _checked(settings.kind, parts, devices, len(labels))
    return parts


def _checked(kind: str, parts: Any, devices: int, stock: int) -> list[Ints]:
    """Raise InputError unless a user's partition returned valid sample indices for every device."""
    if not isinstance(parts, list | tuple) or len(parts) != devices:
        found = pluralize(len(parts), "entry", "entries") if isinstance(parts, list | tuple) else type(parts).__name__
        raise InputError("wrong-answer", f"partition {kind}", found,
                         f"a list with an array for each of {pluralize(devices, 'device')}")
    for device, part in enumerate(map(np.asarray, parts)):
        whole = part.ndim == 1 and part.size > 0 and np.issubdtype(part.dtype, np.integer)
        if not whole or part.min() < 0 or part.max() >= stock:
            raise InputError("wrong-answer", f"partition {kind}: device {device}", f"{part.dtype} {part.shape}",
                             f"sample numbers, one at least, from 0 to {stock - 1}")
    return [np.asarray(part, dtype=np.int64) for part in parts]


def class_counts(labels: Ints, parts: Sequence[Ints], classes: int) -> Ints:
    """Return the number of samples by device (row) and class (column)."""
    return np.stack([np.bincount(labels[part], minlength=classes) for part in parts])


def majority(labels: Ints, samples: Ints, rng: np.random.Generator, sigma: Fraction = 0.8) -> list[Ints]:
    """Draw a share sigma from one class, chosen uniformly for each device, and the rest evenly from the others."""
    classes = int(labels.max()) + 1
    stock = SampleStock(labels, rng)
    parts = []
    for size in samples:
        favourite = rng.integers(classes)
        others = np.delete(np.arange(classes), favourite)
        most = int(np.rint(sigma * size)) if classes > 1 else int(size)
        counts = np.zeros(classes, dtype=np.int64)
        counts[favourite] = most
        if len(others):
            counts[others] += (size - most) // len(others)
            counts[rng.permutation(others)[: (size - most) % len(others)]] += 1
        parts.append(stock.deal(counts))
    return parts


def two_class(labels: Ints, samples: Ints, rng: np.random.Generator) -> list[Ints]:
    """Draw four fifths from one class and the rest from a second, both chosen uniformly for each device (case H)."""
    classes = int(labels.max()) + 1
    if classes < 2:
        raise InputError("needs", "learning.partition.kind", '"two-class"', "data of two classes at least")
    stock = SampleStock(labels, rng)
    parts = []
    for size in samples:
        first, second = rng.choice(classes, 2, replace=False)
        counts = np.zeros(classes, dtype=np.int64)
        counts[first] = np.rint(0.8 * size)
        counts[second] = size - counts[first]
        parts.append(stock.deal(counts))
    return parts


def iid(labels: Ints, samples: Ints, rng: np.random.Generator) -> list[Ints]:
    """Draw uniformly from all samples."""
    stock = SampleStock(np.zeros(len(labels), dtype=np.int64), rng)
    return [stock.deal(np.array([size])) for size in samples]


def dirichlet(labels: Ints, samples: Ints, rng: np.random.Generator, alpha: Positive = 0.5) -> list[Ints]:
    """Draw the class shares of each device from Dirichlet(alpha): a small alpha gives few classes per device."""
    classes = int(labels.max()) + 1
    stock = SampleStock(labels, rng)
    return [stock.deal(_round(rng.dirichlet(np.full(classes, alpha)) * size)) for size in samples]


def shards(labels: Ints, samples: Ints, rng: np.random.Generator, per_device: Natural = 2) -> list[Ints]:
    """Sort samples by class, cut them into shards and assign ``per_device`` random shards to each device.

    Shard i of size s_i starts at n * (s_0 + … + s_(i-1)) / sum s: shards spread over all n samples if they need fewer,
    and overlap their neighbours if they need more.
    """
    if per_device > samples.min():
        raise InputError("out-of-range", "learning.partition.per_device", per_device,
                         f"1 to {samples.min()}, the samples of a device")
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    sizes = np.concatenate([np.diff(np.arange(per_device + 1) * size // per_device) for size in samples])
    owners = np.repeat(np.arange(len(samples)), per_device)
    place = rng.permutation(len(sizes))
    starts = np.empty(len(sizes), dtype=np.int64)
    starts[place] = (np.cumsum(sizes[place]) - sizes[place]) * len(labels) // sizes.sum()
    shards = [order[(start + np.arange(size)) % len(labels)] for start, size in zip(starts, sizes, strict=True)]
    return [np.concatenate([shards[i] for i in np.flatnonzero(owners == device)]) for device in range(len(samples))]


def from_file(labels: Ints, samples: Ints, rng: np.random.Generator, path: str) -> list[Ints]:
    """Read the sample indices of each device from JSON, ``{"0": [sample, …], …}`` or lists."""
    file = expanded(path, "learning.partition.path")
    try:
        content = read_json(file, "a split", MOST_BYTES)
    except OSError as error:
        raise InputError("unreadable", str(file), error.strerror, "a split") from None
    devices = len(samples)
    rows = dict(enumerate(content)) if isinstance(content, list) else content
    if not isinstance(rows, dict) or {str(key) for key in rows} != {str(device) for device in range(devices)}:
        found = f"{len(rows)} entries" if isinstance(rows, dict) else type(rows).__name__
        raise InputError("wrong-length", str(file), found, f'devices "0" to "{devices - 1}"')
    by_device = {int(key): row for key, row in rows.items()}
    for device, row in sorted(by_device.items()):
        listed = row if isinstance(row, list) else []
        wrong = [entry for entry in listed if type(entry) is not int or not 0 <= entry < len(labels)]
        if not listed or wrong:
            raise InputError("out-of-range", f"{file}: device {device}", repr(wrong[0]) if wrong else "no samples",
                             f"a list of sample numbers, 0 to {len(labels) - 1}")
    return [np.array(by_device[device], dtype=np.int64) for device in range(devices)]


PARTITIONS = Registry("partition", "learning.partition.kind", {
    "majority": Entry("netsim.learning.partition:majority", "a share sigma of one class, the rest of the others"),
    "two-class": Entry("netsim.learning.partition:two_class", "two classes a device, four to one (case H)"),
    "iid": Entry("netsim.learning.partition:iid", "uniform over all samples"),
    "dirichlet": Entry("netsim.learning.partition:dirichlet", "class shares drawn from Dirichlet(alpha)"),
    "shards": Entry("netsim.learning.partition:shards", "samples sorted by class and cut, per_device pieces each"),
    "file": Entry("netsim.learning.partition:from_file", "sample indices from a JSON file"),
}, given=3, check=first_called("labels", "learning.partition.kind"))


class SampleStock:
    """Shuffled samples of each class, drawn without replacement; a class that is used up is shuffled again."""

    def __init__(self, labels: Ints, rng: np.random.Generator) -> None:
        self._rng = rng
        self._all = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
        self._left = [rng.permutation(members) for members in self._all]

    def deal(self, counts: Ints) -> Ints:
        """Draw ``counts`` samples of each class, in random order."""
        hand = [self._deal(label, int(count)) for label, count in enumerate(counts) if count]
        return self._rng.permutation(np.concatenate(hand))

    def _deal(self, label: int, count: int) -> Ints:
        if len(self._all[label]) == 0:
            raise InputError("missing", "learning.dataset", f"no training sample of class {label}")
        hand, self._left[label] = np.split(self._left[label], [min(count, len(self._left[label]))])
        while len(hand) < count:
            fresh = self._rng.permutation(self._all[label])
            held = np.isin(fresh, hand)
            fresh = np.concatenate([fresh[~held], fresh[held]])    # samples that this device already holds come last
            more, self._left[label] = np.split(fresh, [min(count - len(hand), len(fresh))])
            hand = np.concatenate([hand, more])
        return hand


def _round(shares: Floats) -> Ints:
    """Round shares to integers with the same sum, by largest remainders."""
    counts = np.floor(shares).astype(np.int64)
    left = round(float(shares.sum())) - int(counts.sum())
    counts[np.argsort(counts - shares, kind="stable")[:left]] += 1
    return counts


# Preview of a partition: one line of text, and a figure.

@dataclass(frozen=True, eq=False)
class Split:
    """Number of samples by device (row) and class (column)."""

    dataset: str
    rule: str
    counts: Ints
    names: Sequence[str]       # of the classes


def split_dataset(
    name: str, root: str | Path, rule: str, devices: int, samples: int | None, seed: int, *, allow_import: bool = True,
) -> Split:
    """Split a dataset as a scenario under this seed does; ``rule`` has the form ``kind:key=value``."""
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
    """Return one line with the samples per device and the mean share of the most frequent class."""
    sizes = split.counts.sum(axis=1)
    share = float(np.mean(split.counts.max(axis=1) / sizes))
    most = pluralize(int(sizes.max()), "sample")
    return (f"{split.rule}: {pluralize(len(sizes), 'device')} with {sizes.min()} to {most}; {share:.0%} of a "
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
