"""The datasets that devices learn from, decoded once and shared by all workers.

| name | where it comes from |
|---|---|
| ``digits`` | scikit-learn's 1,797 handwritten digits, scaled to 28x28; always there |
| ``mnist``, ``fashion-mnist`` | the IDX files below ROOT, as torchvision lays them out; Debian's package for Fashion |
| ``cifar10`` | torchvision's layout below ROOT, or an image folder ``cifar10-images`` |
| ``image-folder`` | ``ROOT/train/CLASS/*`` and ``ROOT/test/CLASS/*``, images of one size |

Decoded images are kept as one memory-mapped array (netsim.learning.cache), so that forked workers share its pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError, one_of
from netsim.base.files import expanded
from netsim.learning import sources
from netsim.learning.cache import cached

Images = NDArray[np.uint8]    # (samples, height, width, channels)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test images with labels 0 … classes - 1; ``names`` are what the classes are called."""

    name: str
    train_images: Images
    train_labels: Ints
    test_images: Images
    test_labels: Ints
    names: tuple[str, ...]
    mean: Floats               # of the training images, by channel, on the scale 0 … 255
    deviation: Floats

    @property
    def classes(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image, as torch counts them."""
        _, height, width, channels = self.train_images.shape
        return channels, height, width


@dataclass(frozen=True)
class Source:
    """How one dataset is found, read and fetched; ``find`` answers the files that hold it, or none."""

    find: Callable[[Path], list[Path]]
    read: Callable[[list[Path]], sources.Decoded]
    fetch: Callable[[Path], None] | None = None
    hint: str = ""


SOURCES: dict[str, Source] = {
    "mnist": Source(
        lambda root: sources.find_idx([root / "MNIST" / "raw", *sources.plain(root, fashion=False)]),
        lambda files: sources.read_idx(files, [str(digit) for digit in range(10)]),
        lambda root: sources.download("MNIST", root),
        "MNIST/raw/train-images-idx3-ubyte and the three files beside it (or their .gz)",
    ),
    "fashion-mnist": Source(
        lambda root: sources.find_idx(
            [root / "FashionMNIST" / "raw", *sources.plain(root, fashion=True), sources.DEBIAN_FASHION_MNIST]),
        lambda files: sources.read_idx(files, sources.FASHION_CLASSES),
        lambda root: sources.download("FashionMNIST", root),
        "FashionMNIST/raw/train-images-idx3-ubyte and the three files beside it (or their .gz), "
        "or Debian's package dataset-fashion-mnist",
    ),
    "cifar10": Source(
        lambda root: sources.find_cifar10(root),
        lambda files: sources.read_cifar10(files),
        lambda root: sources.download("CIFAR10", root),
        "cifar-10-batches-py/, or the images as cifar10-images/train/CLASS/* and cifar10-images/test/CLASS/*",
    ),
    "image-folder": Source(
        sources.find_folder,
        sources.read_folder,
        None,
        "train/CLASS/* and test/CLASS/*, with the same classes in both",
    ),
}
NAMES = ("digits", *SOURCES)
ROOT = "data"    # where datasets lie unless told otherwise


def load_dataset(name: str, root: str | Path = ROOT) -> Dataset:
    """The dataset, from its cache where that is fresh; InputError says what to do where it is missing or broken."""
    return _load(name, str(expanded(str(root), "the data folder").resolve()))


@lru_cache(maxsize=4)
def _load(name: str, root: str) -> Dataset:
    if name == "digits":
        return _dataset(name, sources.read_digits())
    source = _source(name)
    files = source.find(Path(root))
    if not files:
        fetch = f'run "netsim data {name} --root {root}" where there is a network, or ' if source.fetch else ""
        raise InputError(f'dataset "{name}" is not in {root}: {fetch}put there {source.hint}')
    return _dataset(name, cached(name, Path(root), files, source.read))


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise InputError(f'dataset "{name}" is not known; {one_of(name, NAMES)}')
    return SOURCES[name]


def _dataset(name: str, data: sources.Decoded) -> Dataset:
    cut = data.train
    return Dataset(
        name, data.images[:cut], data.labels[:cut], data.images[cut:], data.labels[cut:],
        data.names, data.mean, data.deviation,
    )


def fetch(name: str, root: str | Path = ROOT) -> Dataset:
    """Downloads the dataset if it is not there yet, decodes and checks it; the only place that uses a network."""
    folder = expanded(str(root), "the data folder").resolve()
    if name != "digits":
        source = _source(name)
        if source.fetch and not source.find(folder):
            try:
                source.fetch(folder)
            except InputError as error:
                raise InputError(f"{error}; without a network put into {folder} {source.hint}") from None
    return load_dataset(name, folder)


def describe(name: str, root: str | Path = ROOT) -> str:
    """One line: what is there, or what to do without a network."""
    try:
        data = load_dataset(name, root)
    except InputError as error:
        return str(error)
    channels, height, width = data.shape
    colour = "grey" if channels == 1 else "colour"
    return (
        f"{name}: {len(data.train_labels):,} training and {len(data.test_labels):,} test images, "
        f"{height}x{width} {colour}, {data.classes} classes ({', '.join(data.names)})"
    )
