"""Readers of dataset files: each returns the inputs and labels as a :class:`Dataset`."""

from __future__ import annotations

import gzip
import hashlib
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, open_to_read, read_bytes
from netsim.base.platform_info import available_memory
from netsim.base.types import Floats, Ints

DEBIAN_FASHION_MNIST = Path("/usr/share/dataset-fashion-mnist")
FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)
IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
MOST_BYTES = 500 * MEGABYTE          # of an IDX file, compressed or not; MNIST's largest has 47 MB
MOST_PIXELS = 16_000_000             # of one image: usual training images have a thousandth of that
MOST_IMAGE_BYTES = 100 * MEGABYTE
MOST_DECODED = 32_000 * MEGABYTE     # of all images of a dataset together
IMAGE_ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
IMAGE_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")      # Pillow's names of these formats
INPUTS = ("images of shape (samples, height, width[, channels]), bytes 0 to 255 or floats; float features of shape "
          "(samples, features); or tokens, whole numbers of shape (samples, length)")
FETCH_AGAIN = "Fetch it again"


# Images (samples, height, width, channels), uint8 or float32; features (samples, features), float32; or tokens
# (samples, length), int64.
Images = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test inputs with labels 0 … classes - 1, and the class names."""

    train_images: Images
    train_labels: Ints
    test_images: Images
    test_labels: Ints
    names: tuple[str, ...]
    mean: Floats               # of the training inputs, by channel or feature; empty for tokens
    deviation: Floats

    @property
    def classes(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input: (channels, height, width) of an image in torch's order, (features,) or (length,)."""
        _, *sides, last = self.train_images.shape
        return last, *sides

    @property
    def tokens(self) -> bool:
        """True if inputs are token numbers, which a model embeds, instead of quantities."""
        return self.train_images.dtype == np.int64

    @property
    def sha256(self) -> str:
        """Digest of inputs, labels and class names."""
        digest = hashlib.sha256(repr((self.names, self.train_images.shape, self.train_images.dtype)).encode())
        for array in (self.train_images, self.train_labels, self.test_images, self.test_labels):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def in_memory(self) -> Dataset:
        """Return the dataset with plain arrays instead of mapped files."""
        return replace(self, train_images=np.asarray(self.train_images), test_images=np.asarray(self.test_images))


def stored_type(shape: Sequence[int], dtype: np.dtype[Any]) -> type[np.generic] | None:
    """Return the type in which inputs of this shape are kept; None if they are no inputs."""
    if len(shape) not in (2, 3, 4) or 0 in shape or dtype.kind not in "biuf":
        return None
    if len(shape) == 2 and dtype.kind in "iu":
        return np.int64
    return np.uint8 if dtype == np.uint8 else np.float32


def decoded(images: Any, labels: Any, train: int, names: Sequence[str]) -> Dataset:
    """Build a dataset from arrays; a user's own dataset function returns its result.

    ``images`` are the inputs, the ``train`` training samples first, then the test samples: images (samples, height,
    width[, channels]) of bytes or floats, a table of float features (samples, features), or tokens (samples, length),
    whole numbers such as the letters of a text. ``labels`` are classes from 0 to len(names) - 1.

    Images and features are standardised by the mean and standard deviation of each channel, or of each feature, over
    the training samples. Tokens reach the model as they are.
    """
    try:
        images, labels = np.asarray(images), np.asarray(labels)
    except (ValueError, TypeError, RuntimeError) as error:      # rows of unequal length, tensors with gradients
        raise InputError("wrong-type", "decoded: images", str(error), INPUTS) from None
    kept = stored_type(images.shape, images.dtype)
    if kept is None:
        raise InputError("wrong-type", "decoded: images", f"{images.dtype} {images.shape}", INPUTS)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError("wrong-type", "decoded: labels", f"{labels.dtype} {labels.shape}",
                         "whole numbers, one for each image")
    if len(labels) != len(images) or isinstance(train, bool) or not (
            hasattr(train, "__index__") and 0 < train < len(images)):
        raise InputError("wrong-length", "decoded", f"{len(images)} images, {len(labels)} labels, train = {train!r}",
                         f"a label for each image, and train, how many of them are to train on, from 1 to "
                         f"{len(images) - 1}")
    if labels.min() < 0 or labels.max() >= len(names):
        raise InputError("out-of-range", "decoded: labels", f"{labels.min()} to {labels.max()}",
                         f"0 to {len(names) - 1}, the number of names less 1")
    with np.errstate(over="ignore"):
        images = np.ascontiguousarray(images[..., None] if images.ndim == 3 else images, dtype=kept)
    if kept is np.float32 and not np.isfinite(images).all():
        raise InputError("not-finite", "decoded: images", expected="finite 32-bit floats",
                         hint="Replace missing values")
    labels = labels.astype(np.int64, copy=False)
    mean, deviation = _grey_statistics(images[:train]) if kept is np.uint8 else _statistics(images[:train])
    return Dataset(images[:train], labels[:train], images[train:], labels[train:], tuple(names), mean, deviation)


def _grey_statistics(images: Images) -> tuple[Floats, Floats]:
    """Return mean and deviation by channel: counting grey levels is exact and needs no float copy of the images."""
    levels = np.arange(256)
    counts = [np.bincount(images[:, :, :, channel].ravel(), minlength=256) for channel in range(images.shape[3])]
    mean = np.array([np.average(levels, weights=count) for count in counts])
    spread = [np.sqrt(np.average((levels - m) ** 2, weights=c)) for m, c in zip(mean, counts, strict=True)]
    return mean, np.maximum(spread, 1.0)


def _statistics(images: Images) -> tuple[Floats, Floats]:
    """Return mean and deviation of floats by channel or feature (1 for a constant one); empty arrays for tokens."""
    if images.dtype == np.int64:
        return np.zeros(0), np.zeros(0)
    axes = tuple(range(images.ndim - 1))
    mean = images.mean(axis=axes, dtype=np.float64)
    blocks = [images[start : start + 1000] for start in range(0, len(images), 1000)]      # no float64 copy of all
    square = sum(np.square(block - mean).sum(axis=axes) for block in blocks) / (images.size / images.shape[-1])
    deviation: Floats = np.sqrt(square)
    return mean, np.where(deviation > 0.0, deviation, 1.0)


def read_digits(root: Path | None = None) -> Dataset:
    """Return scikit-learn's digits, scaled from 8x8 to 28x28 and to levels 0 … 255; a fifth of each class is for tests.

    They are part of scikit-learn; ``root`` is not used.
    """
    import torch
    from sklearn.datasets import load_digits
    from torch.nn import functional

    small, labels = load_digits(return_X_y=True)
    levels = torch.from_numpy(small.reshape(-1, 1, 8, 8) / 16 * 255)
    large = functional.interpolate(levels, size=(28, 28), mode="bilinear", align_corners=False)
    images = large.round().to(torch.uint8).numpy().transpose(0, 2, 3, 1)
    test = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        test[np.flatnonzero(labels == digit)[4::5]] = True
    order = np.concatenate([np.flatnonzero(~test), np.flatnonzero(test)])
    names = [str(digit) for digit in range(10)]
    return decoded(np.ascontiguousarray(images[order]), labels[order].astype(np.int64), int((~test).sum()), names)


def plain(root: Path, *, fashion: bool) -> list[Path]:
    """Return the folder itself, unless its path names the other of MNIST and Fashion-MNIST: file names are equal."""
    return [root] if ("fashion" in "/".join(root.parts[-2:]).lower()) == fashion else []


def find_idx(folders: list[Path]) -> list[Path]:
    """Return the four IDX files of MNIST or Fashion-MNIST, gzipped or not, from the first folder with all of them."""
    for folder in folders:
        files = [next((f for f in (folder / n, folder / f"{n}.gz") if f.is_file()), None) for n in IDX_FILES]
        if all(files):
            return [file for file in files if file]
    return []


def read_idx(files: list[Path], names: Sequence[str]) -> Dataset:
    """Read four IDX files: training images, training labels, test images, test labels."""
    train_images, train_labels, test_images, test_labels = (_idx(file) for file in files)
    for images, labels, file in ((train_images, train_labels, files[0]), (test_images, test_labels, files[2])):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels) or len(labels) == 0:
            raise InputError("wrong-length", str(file), f"{images.shape} images and {labels.shape} labels",
                             "a label for each image", FETCH_AGAIN)
        if labels.max() >= len(names):
            raise InputError("out-of-range", str(file), f"label {labels.max()}", f"at most {len(names) - 1}",
                             FETCH_AGAIN)
    if train_images.shape[1:] != test_images.shape[1:]:
        raise InputError("conflict", str(files[0]), f"images of {train_images.shape[1:]}",
                         f"the size of those of {files[2]}, {test_images.shape[1:]}", FETCH_AGAIN)
    every: Ints = np.concatenate([train_labels, test_labels]).astype(np.int64)
    check_classes(every, len(train_labels), names, files[0].parent)
    return decoded(np.concatenate([train_images, test_images])[..., None], every, len(train_labels), names)


def _idx(file: Path) -> NDArray[np.uint8]:
    """Read an IDX file: two zero bytes, type 8, number of dimensions, big-endian dimensions, data bytes."""
    try:
        raw = _unpacked(file) if file.suffix == ".gz" else read_bytes(file, "an IDX file", MOST_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError("unreadable", str(file), str(error), "an IDX file", FETCH_AGAIN) from error
    dimensions = raw[3] if len(raw) >= 4 and raw[:3] == b"\0\0\x08" else 0
    start = 4 + 4 * dimensions
    shape = tuple(int(size) for size in np.frombuffer(raw[4:start], ">i4")) if len(raw) >= start else ()
    if not dimensions or len(shape) != dimensions or len(raw) != start + int(np.prod(shape)):
        raise InputError("damaged", str(file), f"{len(raw):,} bytes", "a whole IDX file", FETCH_AGAIN)
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _unpacked(file: Path) -> bytes:
    """Decompress at most MOST_BYTES: a small file may decompress to more than the memory."""
    with open_to_read(file, "an IDX file", MOST_BYTES) as packed, gzip.open(packed) as content:
        raw = content.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise InputError("out-of-range", str(file), f"more than {MOST_BYTES / MEGABYTE:g} MB unpacked", "an IDX file")
    return raw


def find_folder(root: Path) -> list[Path]:
    """Return the images below root/train and root/test, sorted by class and by file name."""
    return [
        file
        for part in ("train", "test")
        for folder in _classes(root / part)
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in IMAGE_ENDINGS
    ]


def _classes(part: Path) -> list[Path]:
    return sorted(folder for folder in part.iterdir() if folder.is_dir()) if part.is_dir() else []


def read_folder(files: list[Path]) -> Dataset:
    """Read images from one folder per class; all are colour images if any is."""
    root = files[0].parents[2]
    names = {part: [folder.name for folder in _classes(root / part)] for part in ("train", "test")}
    odd = set(names["train"]) ^ set(names["test"])
    if odd:
        raise InputError("conflict", str(root), f"class {', '.join(sorted(odd))} in one of train/ and test/",
                         "the same classes in both")
    number = {name: label for label, name in enumerate(names["train"])}
    labels = np.array([number[file.parent.name] for file in files], dtype=np.int64)
    train = sum(file.parents[1].name == "train" for file in files)
    check_classes(labels, train, names["train"], root)
    return decoded(_decode(files), labels, train, names["train"])


def check_classes(labels: Ints, train: int, names: Sequence[str], where: Path) -> None:
    for part, found in (("training", labels[:train]), ("test", labels[train:])):
        counts = np.bincount(found, minlength=len(names))
        missing = [name for name, count in zip(names, counts, strict=True) if not count]
        if missing:
            raise InputError("missing", str(where), f"no {part} image of class {', '.join(missing)}",
                             "training and test images of every class")


def check_memory(file: Path, size: int, what: str) -> None:
    """Raise InputError, before decoding, if the data exceed MOST_DECODED or the free memory."""
    room = min(MOST_DECODED, available_memory())
    if size > room:
        raise InputError("out-of-memory", str(file), f"{what}, {size // MEGABYTE:,} MB unpacked",
                         f"at most {room // MEGABYTE:,} MB", "Bring fewer or smaller images")


def _decode(files: list[Path]) -> NDArray[np.uint8]:
    first, colour = _pixels(files[0], len(files))
    images = np.empty((len(files), *first.shape), dtype=np.uint8)
    for position, file in enumerate(files):
        pixels, coloured = (first, colour) if position == 0 else _pixels(file, len(files))
        if pixels.shape != first.shape:
            (height, width), (first_height, first_width) = pixels.shape[:2], first.shape[:2]
            raise InputError("conflict", str(file), f"{width}x{height} pixels",
                             f"{first_width}x{first_height}, the size of {files[0]}", "Bring all to one size")
        images[position] = pixels
        colour = colour or coloured
    return images if colour else np.ascontiguousarray(images[..., :1])


def _pixels(file: Path, count: int) -> tuple[NDArray[np.uint8], bool]:
    """Return the red, green and blue of an image, one of ``count``, and whether its file may hold colours."""
    from PIL import Image

    try:
        with (warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning),
              open_to_read(file, "an image", MOST_IMAGE_BYTES) as opened,
              Image.open(opened, formats=IMAGE_FORMATS) as image):      # decoders of other formats are not run
            width, height = image.size
            if width * height > MOST_PIXELS:      # before anything is decoded
                raise InputError("out-of-range", str(file), f"{width}x{height} pixels",
                                 f"at most {MOST_PIXELS / 1e6:g} million")
            check_memory(file, 3 * width * height * count, f"{count:,} images of {width}x{height} pixels")
            if image.mode.startswith(("I", "F")):      # Pillow would clip values above 255
                raise InputError("unsupported", str(file), f"mode {image.mode}", "8 bits a pixel and channel")
            return np.asarray(image.convert("RGB")), image.mode not in ("1", "L", "LA")
    except InputError:
        raise
    except Exception as error:      # damaged images raise many exceptions
        raise InputError("unreadable", str(file), f"{type(error).__name__}: {error}",
                         f"an image ({', '.join(IMAGE_FORMATS)})", "Replace or delete it") from error


def find_cifar10(root: Path) -> list[Path]:
    """Return torchvision's batch files, or else the images of the folder ``cifar10-images``."""
    folder = root / "cifar-10-batches-py"
    batches = [folder / name for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")]
    return batches if all(file.is_file() for file in batches) else find_folder(root / "cifar10-images")


def read_cifar10(files: list[Path]) -> Dataset:
    """Read CIFAR-10 from torchvision's batches or from an image folder."""
    if files[0].name != "data_batch_1":
        return read_folder(files)
    datasets = torchvision_datasets()
    root = files[0].parents[1]
    try:    # torchvision compares checksums before it unpickles
        train, test = (datasets.CIFAR10(root, train=part) for part in (True, False))
    except (RuntimeError, OSError, EOFError) as error:
        raise InputError("unreadable", str(root), str(error), "CIFAR-10", FETCH_AGAIN) from error
    labels = np.array([*train.targets, *test.targets], dtype=np.int64)
    return decoded(np.concatenate([train.data, test.data]), labels, len(train.targets), train.classes)


def download(kind: str, root: Path) -> None:
    """Download with torchvision, which verifies checksums."""
    try:
        getattr(torchvision_datasets(), kind)(root, download=True)
    except (RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError("unreadable", str(root), f"{kind} cannot be downloaded: {reason}") from error


def torchvision_datasets() -> Any:
    """Return ``torchvision.datasets``, also if torchvision's compiled operators do not match torch."""
    try:
        import torchvision.datasets
    except RuntimeError:
        from netsim.models.build import declare_torchvision_operators

        declare_torchvision_operators()
        import torchvision.datasets
    return torchvision.datasets
