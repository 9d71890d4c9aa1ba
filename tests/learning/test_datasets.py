"""Datasets made up on the spot: found, read, cached, and refused where they are broken."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from refused import refused

from netsim.base.errors import InputError
from netsim.base.types import Ints
from netsim.learning import dataset_files, datasets
from netsim.learning.datasets import describe, fetch, load_dataset
from netsim.learning.partition import Split, class_counts, draw_split


@pytest.fixture(autouse=True)
def _caches_of_this_test_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets._load.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setattr(dataset_files, "DEBIAN_FASHION_MNIST", tmp_path / "debian")


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, labels: Ints, packed: bool = False) -> None:
    """Images whose pixels all have the value of their label."""
    folder.mkdir(parents=True, exist_ok=True)
    images = np.broadcast_to(labels[:, None, None], (len(labels), 28, 28))
    for name, array in zip(dataset_files.IDX_FILES, (images, labels, images[::-1], labels[::-1]), strict=True):
        content = idx(np.asarray(array))
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)


def write_folder(root: Path, classes: dict[str, tuple[int, ...]], count: int = 2) -> None:
    for part in ("train", "test"):
        for name, colour in classes.items():
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                mode = "L" if len(colour) == 1 else "RGB"
                Image.new(mode, (6, 5), colour[0] if mode == "L" else colour).save(root / part / name / f"{number}.png")


def test_digits_are_always_there() -> None:
    data = load_dataset("digits")
    assert (data.shape, data.classes, len(data.train_labels), len(data.test_labels)) == ((1, 28, 28), 10, 1442, 355)
    assert data.train_images.dtype == np.uint8
    assert data.train_images.max() > 240
    assert np.bincount(data.test_labels).min() > 30
    assert data.mean == pytest.approx(data.train_images.mean())
    assert data.deviation == pytest.approx(data.train_images.std())
    assert "1,442 training and 355 test images, 28x28 grey, 10 classes" in describe("digits")
    assert fetch("digits") is data


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read_packed_or_not(packed: bool, tmp_path: Path) -> None:
    labels = np.arange(30) % 10
    write_mnist(tmp_path / "MNIST" / "raw", labels, packed)
    data = load_dataset("mnist", tmp_path)
    assert data.train_labels.tolist() == labels.tolist()
    assert data.test_labels.tolist() == labels[::-1].tolist()
    assert data.test_images[0].max() == labels[-1]
    assert isinstance(data.train_images, np.memmap)


def test_debians_fashion_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mnist(tmp_path / "debian", np.arange(10), packed=True)
    monkeypatch.setattr(
        datasets, "FASHION_MNIST",
        datasets.Source(lambda root: dataset_files.find_idx([root, tmp_path / "debian"]),
                        lambda files: dataset_files.read_idx(files, dataset_files.FASHION_CLASSES)))    # fmt: skip
    assert load_dataset("fashion-mnist", tmp_path / "elsewhere").names[9] == "Ankle boot"


def test_an_image_folder_is_read_class_by_class_in_alphabetical_order(tmp_path: Path) -> None:
    write_folder(tmp_path, {"red": (255, 0, 0), "blue": (0, 0, 255)}, count=3)
    (tmp_path / "train" / "red" / "notes.txt").write_text("not an image")
    data = load_dataset("image-folder", tmp_path)
    assert data.names == ("blue", "red")
    assert data.train_labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.shape == (3, 5, 6)
    assert data.train_images[0, 0, 0].tolist() == [0, 0, 255]
    assert data.mean == pytest.approx([127.5, 0, 127.5])
    assert data.deviation == pytest.approx([127.5, 1, 127.5])    # a channel without spread is not divided by nothing


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    write_folder(tmp_path, {"dark": (10,), "light": (200,)})
    assert load_dataset("image-folder", tmp_path).shape == (1, 5, 6)


def test_cifar10_may_be_an_image_folder(tmp_path: Path) -> None:
    write_folder(tmp_path / "cifar10-images", {"cat": (1, 2, 3), "dog": (4, 5, 6)})
    assert load_dataset("cifar10", tmp_path).names == ("cat", "dog")


def test_decoding_happens_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path, {"a": (1,), "b": (2,)})
    first = load_dataset("image-folder", tmp_path)
    datasets._load.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(dataset_files, "_decode", lambda files: pytest.fail("decoded again"))
        again = load_dataset("image-folder", tmp_path)
    assert (again.train_images == first.train_images).all()
    datasets._load.cache_clear()
    Image.new("L", (6, 5), 99).save(tmp_path / "train" / "a" / "0.png")    # a changed file is noticed
    assert load_dataset("image-folder", tmp_path).train_images[0].max() == 99


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": (1,), "b": (2,)})
    load_dataset("image-folder", tmp_path)
    (images,) = (tmp_path / ".netsim-cache").glob("*/train_images.npy")
    images.write_bytes(images.read_bytes()[:100])
    datasets._load.cache_clear()
    assert load_dataset("image-folder", tmp_path).train_images.shape == (4, 5, 6, 1)


def test_the_cache_goes_to_the_user_where_the_data_are_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data"
    write_folder(root, {"a": (1,), "b": (2,)})
    (root / ".netsim-cache").write_text("a file, so that no folder can be made there")
    assert isinstance(load_dataset("image-folder", root).train_images, np.memmap)
    assert list((tmp_path / "user-cache" / "netsim").glob("image-folder-*"))


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    hints = {"mnist": "netsim dataset fetch mnist", "cifar10": "cifar-10-batches-py", "image-folder": "train/CLASS"}
    for name, says in hints.items():
        with refused("no-such-file", f"dataset {name}"):
            load_dataset(name, tmp_path)
        assert says in describe(name, tmp_path)


def test_a_fetch_without_a_network_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Offline:
        @staticmethod
        def MNIST(root: Path, download: bool) -> None:  # noqa: N802
            raise RuntimeError("Error downloading")

    monkeypatch.setattr(dataset_files, "torchvision_datasets", lambda: Offline)
    with refused("unreadable", str(tmp_path)) as error:
        fetch("mnist", tmp_path)
    assert "Error downloading" in str(error.value.found)
    assert "MNIST/raw" in error.value.hint


@pytest.mark.slow
def test_torchvision_can_be_loaded_whatever_it_was_built_for() -> None:
    assert dataset_files.torchvision_datasets().MNIST is dataset_files.torchvision_datasets().MNIST


def broken_file(root: Path) -> None:
    (root / "train" / "a" / "1.png").write_bytes(b"\x89PNG and then nothing")


def truncated_file(root: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (5, 6), dtype=np.uint8)
    Image.fromarray(noise).save(root / "test" / "b" / "1.png")
    content = (root / "test" / "b" / "1.png").read_bytes()
    (root / "test" / "b" / "1.png").write_bytes(content[:-25])


def other_size(root: Path) -> None:
    Image.new("L", (7, 5)).save(root / "train" / "b" / "0.png")


def no_such_class_in_test(root: Path) -> None:
    shutil.rmtree(root / "test" / "b")


def empty_class(root: Path) -> None:
    for file in (root / "train" / "b").iterdir():
        file.unlink()


def no_test_part(root: Path) -> None:
    shutil.rmtree(root / "test")


@pytest.mark.parametrize(
    ("break_it", "code", "key", "found"),
    [
        (broken_file, "unreadable", "train/a/1.png", "UnidentifiedImageError"),
        (truncated_file, "unreadable", "test/b/1.png", ""),
        (other_size, "conflict", "train/b/0.png", "7x5 pixels"),
        (no_such_class_in_test, "conflict", "", "class b"),
        (empty_class, "missing", "", "no training image of class b"),
        (no_test_part, "conflict", "", "class a, b"),
    ],
)
def test_an_image_folder_at_fault(
    break_it: Callable[[Path], None], code: str, key: str, found: str, tmp_path: Path,
) -> None:
    write_folder(tmp_path, {"a": (1,), "b": (2,)})
    break_it(tmp_path)
    with refused(code, str(tmp_path / key)) as error:
        load_dataset("image-folder", tmp_path)
    assert found in str(error.value.found)


@pytest.mark.parametrize("kind", ["DDS", "BLP", "EPS", "AVIF", "ICO", "PDF"])
def test_an_image_of_another_format_than_its_name_promises_is_refused(kind: str, tmp_path: Path) -> None:
    """Only formats that are named are tried: EPS would start ghostscript, and others fail with errors of their own."""
    write_folder(tmp_path, {"a": (1,), "b": (2,)})
    picture = Image.new("P" if kind == "BLP" else "RGB", (6, 5))
    try:
        picture.save(tmp_path / "train" / "a" / "0.png", format=kind)
    except (KeyError, OSError):
        pytest.skip(f"this Pillow writes no {kind}")
    with refused("unreadable", "train/a/0.png"):
        load_dataset("image-folder", tmp_path)


@pytest.mark.parametrize("content", [
    b"DDS |\0\0\0" + bytes(120), b"BLP2" + bytes(200), b"BLP1" + bytes(200), b"%!PS-Adobe-3.0 EPSF-3.0\n",
    b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf" + bytes(64), b"II*\0\x08\0\0\0" + b"\xff" * 64,
])
def test_damaged_images_of_any_kind_are_refused(content: bytes, tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": (1,), "b": (2,)})
    (tmp_path / "train" / "a" / "0.png").write_bytes(content)
    with refused("unreadable", "train/a/0.png"):
        load_dataset("image-folder", tmp_path)


def test_an_idx_file_at_fault(tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    write_mnist(raw, np.arange(10))
    file = raw / "train-images-idx3-ubyte"
    whole = file.read_bytes()
    for content in (whole[:-1], b"", b"<html>", whole[:10]):
        file.write_bytes(content)
        with refused("damaged", str(file)):
            load_dataset("mnist", tmp_path)
    file.write_bytes(idx(np.zeros((9, 28, 28))))
    with refused("wrong-length", str(file)):
        load_dataset("mnist", tmp_path)
    write_mnist(raw, np.arange(9))
    with refused("missing", str(raw)):
        load_dataset("mnist", tmp_path)
    write_mnist(raw, np.arange(12))
    with refused("out-of-range", str(file)):
        load_dataset("mnist", tmp_path)
    packed = raw / "train-images-idx3-ubyte.gz"
    packed.write_bytes(gzip.compress(whole)[:-20])
    file.unlink()
    with refused("unreadable", str(packed)):
        load_dataset("mnist", tmp_path)


@pytest.mark.slow
def test_a_picture_of_the_split(tmp_path: Path) -> None:
    counts = class_counts(np.array([0, 0, 1, 1]), [np.array([0, 1, 2]), np.array([3])], 2)
    assert counts.tolist() == [[2, 1], [0, 1]]
    split = Split("digits", "by hand", counts, ["a", "b"])
    draw_split(split, tmp_path / "split.png")
    with Image.open(tmp_path / "split.png") as picture:
        assert picture.width > 500
    with pytest.raises(InputError, match="nowhere"):
        draw_split(split, tmp_path / "nowhere" / "split.png")
    with pytest.raises(InputError, match="xyz"):
        draw_split(split, tmp_path / "split.xyz")


def test_two_datasets_with_the_same_file_names_are_not_mixed_up(tmp_path: Path) -> None:
    write_mnist(tmp_path / "idx", np.arange(10))
    assert load_dataset("mnist", tmp_path / "idx").names[0] == "0"
    with refused("no-such-file", "dataset fashion-mnist"):
        load_dataset("fashion-mnist", tmp_path / "idx")
    write_mnist(tmp_path / "Fashion" / "idx", np.arange(10))
    assert load_dataset("fashion-mnist", tmp_path / "Fashion" / "idx").names[0] == "T-shirt/top"
    with refused("no-such-file", "dataset mnist"):
        load_dataset("mnist", tmp_path / "Fashion" / "idx")


def test_images_of_more_than_eight_bits_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, {"cat": (10,), "dog": (200,)})
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(tmp_path / "train" / "cat" / "deep.png")
    with refused("unsupported", "deep.png"):
        load_dataset("image-folder", tmp_path)


def test_a_data_folder_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="a user of this machine"):
        load_dataset("mnist", "~nobody-here/data")
