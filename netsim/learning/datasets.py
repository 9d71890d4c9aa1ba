"""Datasets for training, decoded once and cached on disk as memory-mapped arrays, so that workers share their pages.

A user's own dataset, ``"package.module:function"``, is a function of ``root``, the folder of ``learning.root``, that
returns ``netsim.learning.dataset_files.decoded(images, labels, train, names)``, or training and test set as torch's
datasets.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base.errors import InputError, UserCodeError, ask
from netsim.base.files import expanded, make_folder, replace_file
from netsim.base.pluralize import pluralize
from netsim.base.registry import Entry, Registry, first_called
from netsim.learning import dataset_files, npz_datasets
from netsim.learning.dataset_files import Dataset
from netsim.learning.torch_datasets import from_torch


@dataclass(frozen=True)
class Source:
    """Functions that find, read and download one dataset; ``find`` returns its files, or an empty list."""

    find: Callable[[Path], list[Path]]
    read: Callable[[list[Path]], Dataset]
    fetch: Callable[[Path], None] | None = None
    hint: str = ""


MNIST = Source(
    lambda root: dataset_files.find_idx([root / "MNIST" / "raw", *dataset_files.plain(root, fashion=False)]),
    lambda files: dataset_files.read_idx(files, [str(digit) for digit in range(10)]),
    lambda root: dataset_files.download("MNIST", root),
    "MNIST/raw/train-images-idx3-ubyte and the three files beside it (or their .gz)",
)
FASHION_MNIST = Source(
    lambda root: dataset_files.find_idx(
        [root / "FashionMNIST" / "raw", *dataset_files.plain(root, fashion=True), dataset_files.DEBIAN_FASHION_MNIST]),
    lambda files: dataset_files.read_idx(files, dataset_files.FASHION_CLASSES),
    lambda root: dataset_files.download("FashionMNIST", root),
    "FashionMNIST/raw/train-images-idx3-ubyte and the three files beside it (or their .gz), "
    "or Debian's package dataset-fashion-mnist",
)
CIFAR10 = Source(
    dataset_files.find_cifar10, dataset_files.read_cifar10, lambda root: dataset_files.download("CIFAR10", root),
    "cifar-10-batches-py/, or the images as cifar10-images/train/CLASS/* and cifar10-images/test/CLASS/*",
)
IMAGE_FOLDER = Source(
    dataset_files.find_folder, dataset_files.read_folder, None,
    "train/CLASS/* and test/CLASS/*, with the same classes in both")

ARRAYS = Source(
    npz_datasets.find_arrays, npz_datasets.read_arrays, None,
    f"a .npz file with {', '.join(npz_datasets.ARRAYS)}, and names if classes have some")

DATASETS = Registry("dataset", "learning.dataset", {
    "digits": Entry("netsim.learning.dataset_files:read_digits", "1,797 small handwritten digits; always available"),
    "mnist": Entry("netsim.learning.datasets:MNIST", "handwritten digits"),
    "fashion-mnist": Entry("netsim.learning.datasets:FASHION_MNIST", "greyscale images of clothes"),
    "cifar10": Entry("netsim.learning.datasets:CIFAR10", "small colour images"),
    "image-folder": Entry("netsim.learning.datasets:IMAGE_FOLDER", "your own images, one folder per class"),
    "arrays": Entry("netsim.learning.datasets:ARRAYS", "your own arrays, in the .npz file of learning.root"),
}, check=first_called("root", "learning.dataset"))
ROOT = "data"    # default folder of datasets
# Image shape and number of classes of the fixed datasets: models can be checked before the data are downloaded.
KNOWN = {"digits": ((1, 28, 28), 10), "mnist": ((1, 28, 28), 10), "fashion-mnist": ((1, 28, 28), 10),
         "cifar10": ((3, 32, 32), 10)}


def load_dataset(name: str, root: str | Path = ROOT) -> Dataset:
    """Return a dataset, from its cache if that is fresh; raise InputError if it is missing or damaged."""
    return _load(name, str(expanded(str(root), "the data folder").resolve()), DATASETS.find(name))


@lru_cache(maxsize=4)
def _load(name: str, root: str, source: Any) -> Dataset:
    if isinstance(source, Source):
        files = source.find(Path(root))
        if not files:
            put = (f'Run "netsim dataset fetch {name} --root {root}" where there is a network, or put' if source.fetch
                   else "Put")
            raise InputError("no-such-file", f"dataset {name}", root, hint=f"{put} there {source.hint}")
        return cached(name, Path(root), files, source.read)
    try:
        data = ask(f"dataset {name}", source, Path(root))
        if isinstance(data, tuple) and len(data) == 2:
            data = ask(f"dataset {name}", from_torch, *data)
    except UserCodeError:
        raise
    except InputError as error:
        raise error.at(source=f"dataset {name}") from None
    if not isinstance(data, Dataset):
        raise InputError("wrong-answer", f"dataset {name}", type(data).__name__,
                         "netsim.learning.dataset_files.decoded(images, labels, train, names), or two torch datasets, "
                         "(train, test)")
    return data


def fetch(name: str, root: str | Path = ROOT) -> Dataset:
    """Download a dataset unless its files exist, decode and check it; the only function that uses the network."""
    folder = expanded(str(root), "the data folder").resolve()
    source = DATASETS.find(name)
    if isinstance(source, Source) and source.fetch and not source.find(folder):
        try:
            source.fetch(folder)
        except InputError as error:
            raise InputError(error.code, error.key, error.found,
                             hint=f"Without a network, put into {folder} {source.hint}") from None
    return load_dataset(name, folder)


def describe(name: str, root: str | Path = ROOT) -> str:
    """Return one line that describes a dataset, or the error if it is not available."""
    try:
        data = load_dataset(name, root)
    except InputError as error:
        return str(error)
    first, *sides = data.shape
    each = "test image" if sides else "test sample"
    size = "x".join(map(str, sides)) + (" grey" if first == 1 else " colour") if sides else pluralize(
        first, "token" if data.tokens else "feature")
    return (
        f"{name}: {len(data.train_labels):,} training and {pluralize(len(data.test_labels), each)}, "
        f"{size}, {pluralize(data.classes, 'class', 'classes')} ({', '.join(data.names)})"
    )


def cached(name: str, root: Path, files: list[Path], read: Callable[[list[Path]], Dataset]) -> Dataset:
    """Return ``read(files)``, from the cache unless a file has changed since.

    The cache is beside the data, or in the user's cache directory if that folder is not writable; if neither is,
    the images stay in memory.
    """
    key = f"{name}-{_fingerprint(files)}"
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folders = [root / ".netsim-cache", users / "netsim"]
    for folder in folders:
        with suppress(OSError, ValueError, KeyError, EOFError):    # missing or damaged: write it again
            return _open(folder / key)
    data = read(files)
    for folder in folders:
        with suppress(OSError, InputError):      # not writable, or a link
            _write(folder / key, data)
            return _open(folder / key)
    return data


def _fingerprint(files: list[Path]) -> str:
    digest = hashlib.sha256(b"2")    # version of the cache format
    for file in files:
        status = file.stat()
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _write(target: Path, data: Dataset) -> None:
    """Write one file per field, beside the target and then renamed: readers never see a partial cache."""
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
