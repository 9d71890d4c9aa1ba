"""Datasets made up on the spot: found, read, cached, and refused where they are broken."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from netsim.base.arrays import Ints
from netsim.base.errors import InputError
from netsim.learning import datasets, sources
from netsim.learning.datasets import describe, fetch, load_dataset
from netsim.learning.figure import class_counts, partition_figure


@pytest.fixture(autouse=True)
def _caches_of_this_test_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets._load.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setattr(sources, "DEBIAN_FASHION_MNIST", tmp_path / "debian")


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, labels: Ints, packed: bool = False) -> None:
    """Images whose pixels all have the value of their label."""
    folder.mkdir(parents=True, exist_ok=True)
    images = np.broadcast_to(labels[:, None, None], (len(labels), 28, 28))
    for name, array in zip(sources.IDX_FILES, (images, labels, images[::-1], labels[::-1]), strict=True):
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
        datasets.Source(lambda root: sources.find_idx([root, tmp_path / "debian"]),
                        lambda files: sources.read_idx(files, sources.FASHION_CLASSES)))    # fmt: skip
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
        patch.setattr(sources, "_decode", lambda files: pytest.fail("decoded again"))
        again = load_dataset("image-folder", tmp_path)
    assert (again.train_images == first.train_images).all()
    datasets._load.cache_clear()
    Image.new("L", (6, 5), 99).save(tmp_path / "train" / "a" / "0.png")    # a changed file is noticed
    assert load_dataset("image-folder", tmp_path).train_images[0].max() == 99


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": (1,), "b": (2,)})
    load_dataset("image-folder", tmp_path)
    (images,) = (tmp_path / ".netsim-cache").glob("*/images.npy")
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
    hints = {"mnist": "netsim data mnist", "cifar10": "cifar-10-batches-py", "image-folder": "train/CLASS"}
    for name, says in hints.items():
        with pytest.raises(InputError, match=says):
            load_dataset(name, tmp_path)
        assert says in describe(name, tmp_path)
    with pytest.raises(InputError, match='did you mean "mnist"'):
        load_dataset("mnst", tmp_path)


def test_a_fetch_without_a_network_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Offline:
        @staticmethod
        def MNIST(root: Path, download: bool) -> None:  # noqa: N802
            raise RuntimeError("Error downloading")

    monkeypatch.setattr(sources, "torchvision_datasets", lambda: Offline)
    with pytest.raises(InputError, match="cannot be downloaded"):
        fetch("mnist", tmp_path)


@pytest.mark.slow
def test_torchvision_can_be_loaded_whatever_it_was_built_for() -> None:
    assert sources.torchvision_datasets().MNIST is sources.torchvision_datasets().MNIST


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
    ("break_it", "says"),
    [
        (broken_file, r"train/a/1\.png cannot be decoded"),
        (truncated_file, r"test/b/1\.png cannot be decoded"),
        (other_size, r"b/0\.png is 7x5 pixels, .*a/0\.png is 6x5"),
        (no_such_class_in_test, "class b is only in one of"),
        (empty_class, "no training image of class b"),
        (no_test_part, "class a, b is only in one of"),
    ],
)
def test_an_image_folder_at_fault(break_it: object, says: str, tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": (1,), "b": (2,)})
    assert callable(break_it)
    break_it(tmp_path)
    with pytest.raises(InputError, match=says):
        load_dataset("image-folder", tmp_path)


def test_an_idx_file_at_fault(tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    write_mnist(raw, np.arange(10))
    file = raw / "train-images-idx3-ubyte"
    whole = file.read_bytes()
    for content in (whole[:-1], b"", b"<html>", whole[:10]):
        file.write_bytes(content)
        with pytest.raises(InputError, match="train-images-idx3-ubyte is not a whole IDX file"):
            load_dataset("mnist", tmp_path)
    file.write_bytes(idx(np.zeros((9, 28, 28))))
    with pytest.raises(InputError, match="do not go with"):
        load_dataset("mnist", tmp_path)
    write_mnist(raw, np.arange(9))
    with pytest.raises(InputError, match="no training image of class 9"):
        load_dataset("mnist", tmp_path)
    write_mnist(raw, np.arange(12))
    with pytest.raises(InputError, match="label 11 is beyond"):
        load_dataset("mnist", tmp_path)
    packed = raw / "train-images-idx3-ubyte.gz"
    packed.write_bytes(gzip.compress(whole)[:-20])
    file.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        load_dataset("mnist", tmp_path)


@pytest.mark.slow
def test_a_picture_of_the_split(tmp_path: Path) -> None:
    labels = np.array([0, 0, 1, 1])
    parts = [np.array([0, 1, 2]), np.array([3])]
    assert class_counts(labels, parts, 2).tolist() == [[2, 0], [1, 1]]
    partition_figure(labels, parts, ["a", "b"], tmp_path / "split.png", "two devices")
    with Image.open(tmp_path / "split.png") as picture:
        assert picture.width > 500
    with pytest.raises(InputError, match="cannot be written"):
        partition_figure(labels, parts, ["a", "b"], tmp_path / "nowhere" / "split.png")
    with pytest.raises(InputError, match='no picture format ".xyz"'):
        partition_figure(labels, parts, ["a", "b"], tmp_path / "split.xyz")


def test_two_datasets_with_the_same_file_names_are_not_mixed_up(tmp_path: Path) -> None:
    write_mnist(tmp_path / "idx", np.arange(10))
    assert load_dataset("mnist", tmp_path / "idx").names[0] == "0"
    with pytest.raises(InputError, match="fashion-mnist"):
        load_dataset("fashion-mnist", tmp_path / "idx")
    write_mnist(tmp_path / "Fashion" / "idx", np.arange(10))
    assert load_dataset("fashion-mnist", tmp_path / "Fashion" / "idx").names[0] == "T-shirt/top"
    with pytest.raises(InputError, match='"mnist" is not in'):
        load_dataset("mnist", tmp_path / "Fashion" / "idx")


def test_images_of_more_than_eight_bits_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, {"cat": (10,), "dog": (200,)})
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(tmp_path / "train" / "cat" / "deep.png")
    with pytest.raises(InputError, match=r"deep\.png has more than 8 bits a pixel"):
        load_dataset("image-folder", tmp_path)


def test_a_data_folder_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="no such user"):
        load_dataset("mnist", "~nobody-here/data")


def arrays(**changed):
    rng = np.random.default_rng(1)
    given = {"train_images": rng.integers(0, 256, (20, 5, 4)).astype(np.uint8), "train_labels": np.arange(20) % 2,
             "test_images": rng.integers(0, 256, (6, 5, 4)).astype(np.uint8), "test_labels": np.arange(6) % 2,
             "names": np.array(["cat", "dog"])}
    return {name: array for name, array in {**given, **changed}.items() if array is not None}


def test_arrays_in_a_file_are_a_dataset(tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays())
    for root in (tmp_path, tmp_path / "mine.npz"):
        data = load_dataset("arrays", root)
        assert data.shape == (1, 5, 4)
        assert data.names == ("cat", "dog")
        assert (data.train_images[..., 0] == arrays()["train_images"]).all()
        assert data.test_labels.tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(("changed", "told"), [
    ({"test_labels": None}, "no array test_labels; needed: train_images"),
    ({"train_images": np.zeros((20, 5, 4))}, r"train_images must be bytes \(uint8\).*found float64"),
    ({"train_labels": np.zeros(20)}, "train_labels must be a whole number from 0 on for each image, found float64"),
    ({"test_images": np.zeros((6, 4, 4), np.uint8)}, "test_images must be bytes"),
    ({"names": np.array(["cat"])}, "label 1 has no name; there are 1 names"),
    ({"test_labels": np.zeros(6, int)}, "no test image of class dog"),
    ({"train_labels": np.array([{}] * 20, dtype=object)}, "not a file of numpy arrays"),
])
def test_arrays_that_do_not_fit_are_refused(tmp_path, changed, told):
    np.savez(tmp_path / "mine.npz", **arrays(**changed))
    with pytest.raises(InputError, match=told):
        load_dataset("arrays", tmp_path / "mine.npz")
