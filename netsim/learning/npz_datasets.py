"""Reader of datasets in a ``.npz`` file: checks the headers, then reads labels, then images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from netsim.base.errors import InputError
from netsim.base.files import open_to_read
from netsim.base.types import Ints
from netsim.learning.dataset_files import (
    INPUTS,
    MOST_DECODED,
    MOST_PIXELS,
    Dataset,
    Images,
    check_classes,
    check_memory,
    decoded,
    stored_type,
)

ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
MOST_CLASSES = 1_000_000


@dataclass(frozen=True)
class Header:
    """Shape and type of one array, read from its header."""

    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"

    @property
    def kept(self) -> type[np.generic] | None:
        """Type in which the inputs are kept; None if the array holds no inputs."""
        return stored_type(self.shape, self.dtype)


def find_arrays(root: Path) -> list[Path]:
    """Return the root itself if it is a file, else the only ``.npz`` file in it."""
    files = [root] if root.is_file() else sorted(root.glob("*.npz"))
    if len(files) > 1:
        raise InputError("conflict", str(root), f"several .npz files, {', '.join(file.name for file in files[:5])}",
                         "one", "Set learning.root to one of them")
    return files


def read_arrays(files: list[Path]) -> Dataset:
    """Read inputs, as :func:`~netsim.learning.dataset_files.decoded` takes them, and labels from a ``.npz`` file."""
    file = files[0]
    try:
        with open_to_read(file, "numpy arrays", MOST_DECODED) as content, ZipFile(content) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            headers = {name: _header(archive, members[name]) for name in (*ARRAYS, "names") if name in members}
            _check_headers(file, headers)
            labels, names = _labels(file, archive, headers)
            return decoded(_images(file, archive, headers), labels, headers["train_labels"].shape[0], names)
    except InputError:
        raise
    except Exception as error:      # damaged, encrypted and unknown compression raise different exceptions
        said = f"{type(error).__name__}: {error}"
        raise InputError("unreadable", str(file), said, "a file of numpy arrays") from None


def _header(archive: ZipFile, member: str) -> Header:
    """Read an array's header; raise ValueError if the size of the member does not match it."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        if dtype.hasobject:
            raise ValueError(f"{member} holds Python objects; save numbers")
        if stream.tell() + math.prod(shape) * dtype.itemsize != archive.getinfo(member).file_size:
            raise ValueError(f"{member} does not hold what its header says, {dtype} {shape}")
    return Header(member, shape, dtype)


def _check_headers(file: Path, headers: dict[str, Header]) -> None:
    missing = [name for name in ARRAYS if name not in headers]
    if missing:
        raise InputError("missing", f"{file}: {', '.join(missing)}", expected=", ".join(ARRAYS) + ", and names if "
                         "classes have some")
    first = headers[ARRAYS[0]]
    for images, labels in (ARRAYS[:2], ARRAYS[2:]):
        pixels, classes = headers[images], headers[labels]
        if pixels.kept is None or (pixels.kept, _sides(pixels)) != (first.kept, _sides(first)):
            raise InputError("wrong-type", f"{file}: {images}", str(pixels), f"{INPUTS}; all of one type and size")
        if math.prod(pixels.shape[1:3]) > MOST_PIXELS:
            raise InputError("out-of-range", f"{file}: {images}", str(pixels),
                             f"images of at most {MOST_PIXELS / 1e6:g} million pixels")
        if classes.dtype.kind not in "iu" or classes.shape != pixels.shape[:1]:
            raise InputError("wrong-type", f"{file}: {labels}", str(classes), "a whole number from 0 on for each image")
    names = headers.get("names")
    if names and (len(names.shape) != 1 or names.dtype.kind not in "USiu" or names.shape[0] > MOST_CLASSES):
        raise InputError("wrong-type", f"{file}: names", str(names), "a name for each class")
    _check_size(file, headers)


def _check_size(file: Path, headers: dict[str, Header]) -> None:
    first = headers[ARRAYS[0]]
    item = max(first.dtype.itemsize, np.dtype(first.kept).itemsize)
    sizes = [math.prod(headers[name].shape) * item for name in ARRAYS[::2]]
    beside = sum(math.prod(header.shape) * header.dtype.itemsize for name, header in headers.items()
                 if name not in ARRAYS[::2])
    check_memory(file, sum(sizes) + max(sizes) + 2 * beside, " and ".join(str(headers[name]) for name in ARRAYS[::2]))


def _sides(images: Header) -> tuple[int, ...]:
    """Height, width and channels of images; the length of features or tokens."""
    return (*images.shape[1:], 1)[:3] if len(images.shape) > 2 else images.shape[1:]


def _labels(file: Path, archive: ZipFile, headers: dict[str, Header]) -> tuple[Ints, list[str]]:
    """Return the labels of all images, training images first, and the class names."""
    train, test = (_array(archive, headers[name]) for name in ARRAYS[1::2])
    for name, labels in zip(ARRAYS[1::2], (train, test), strict=True):
        if labels.min() < 0 or labels.max() >= len(train):
            wrong = labels.min() if labels.min() < 0 else labels.max()
            raise InputError("out-of-range", f"{file}: {name}", f"label {wrong}", f"0 to {len(train) - 1}, the number "
                             "of training images less 1: every class from 0 on needs one")
    every = np.concatenate([train, test]).astype(np.int64)
    names = [str(name) for name in _array(archive, headers["names"])] if "names" in headers else [
        str(label) for label in range(every.max() + 1)]
    if every.max() >= len(names):
        raise InputError("wrong-length", f"{file}: names", len(names), f"{every.max() + 1}, a name for each label")
    check_classes(every, len(train), names, file)
    return every, names


def _images(file: Path, archive: ZipFile, headers: dict[str, Header]) -> Images:
    """Return all inputs in one array, training samples first."""
    train, test = (headers[name] for name in ARRAYS[::2])
    images = np.empty((train.shape[0] + test.shape[0], *_sides(train)), train.kept)
    images[: train.shape[0]] = _array(archive, train).reshape(-1, *_sides(train))
    images[train.shape[0] :] = _array(archive, test).reshape(-1, *_sides(train))
    return images


def _array(archive: ZipFile, header: Header) -> NDArray[Any]:
    """Read one array to the end of its member, which verifies the checksum."""
    with archive.open(header.member) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array
