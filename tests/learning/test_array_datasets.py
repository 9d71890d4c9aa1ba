"""Datasets of arrays in a file: read, and refused where they do not fit, are broken or would take too much memory."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from refused import refused

from netsim.base.errors import InputError
from netsim.learning import dataset_files, datasets, npz_datasets
from netsim.learning.datasets import load_dataset


@pytest.fixture(autouse=True)
def _caches_of_this_test_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets._load.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setattr(dataset_files, "DEBIAN_FASHION_MNIST", tmp_path / "debian")


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


@pytest.mark.parametrize(("changed", "code", "key"), [
    ({"test_labels": None}, "missing", "test_labels"),
    ({"train_images": np.zeros((20, 5, 4))}, "wrong-type", "test_images"),
    ({"train_images": np.zeros(20)}, "wrong-type", "train_images"),
    ({"train_images": np.full((20, 5), np.nan), "test_images": np.zeros((6, 5))}, "not-finite", "images"),
    ({"train_images": np.zeros((20, 0, 4), np.uint8)}, "wrong-type", "train_images"),
    ({"train_labels": np.zeros(20)}, "wrong-type", "train_labels"),
    ({"train_labels": np.arange(20) % 2 - 1}, "out-of-range", "train_labels"),
    ({"test_images": np.zeros((6, 4, 4), np.uint8)}, "wrong-type", "test_images"),
    ({"names": np.array(["cat"])}, "wrong-length", "names"),
    ({"names": np.array(0.5)}, "wrong-type", "names"),
    ({"test_labels": np.zeros(6, int)}, "missing", "mine.npz"),
    ({"train_labels": np.array([{}] * 20, dtype=object)}, "unreadable", "mine.npz"),
])
def test_arrays_that_do_not_fit_are_refused(tmp_path, changed, code, key):
    np.savez(tmp_path / "mine.npz", **arrays(**changed))
    with refused(code, key):
        load_dataset("arrays", tmp_path / "mine.npz")


def npz(file: Path, compression: int = zipfile.ZIP_STORED, **members: bytes) -> None:
    """Arrays as bytes, as they lie in the file; those not given are sound."""
    np.savez(file, **arrays())
    with zipfile.ZipFile(file) as archive:
        sound = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in {**sound, **members}.items():
            archive.writestr(f"{name}.npy", content)


def npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize("content", [
    b"", b"\x93NUMPY", npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (20, 5,"), npy(b"(" * 9000),
    npy(b'"""'), npy(b"{'descr': 'O', 'fortran_order': False, 'shape': (20, 5, 4), }"),
    npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (20, 5, 4), }", bytes(399)),
    npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (-20, 5, -4), }", bytes(400))[:-400],
    npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (20, 5, %d), }" % 10**30),
])
def test_an_array_with_a_broken_header_is_refused(content: bytes, tmp_path: Path) -> None:
    npz(tmp_path / "mine.npz", train_images=content)
    with refused("unreadable", "mine.npz"):
        load_dataset("arrays", tmp_path / "mine.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_refused_and_a_whole_one_read(compression: int, tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    npz(file, compression)
    assert npz_datasets.read_arrays([file]).train_images.shape == (20, 5, 4, 1)
    whole = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        member = archive.getinfo("train_images.npy")
    start = member.header_offset + 30 + len(member.filename)
    whole[start + member.compress_size // 2 : start + member.compress_size] = b"\xff" * (
        member.compress_size - member.compress_size // 2)
    file.write_bytes(whole)
    with refused("unreadable", "mine.npz"):
        npz_datasets.read_arrays([file])


@pytest.mark.parametrize(("offset", "value"), [(6, 1), (8, 99), (4, 99)],
                         ids=["encrypted", "unknown compression", "new"])
def test_an_archive_that_python_cannot_unpack_is_refused(offset: int, value: int, tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    npz(file)
    content = bytearray(file.read_bytes())
    place = 0
    while (place := content.find(b"PK\x03\x04", place)) >= 0:      # a member says it before itself and at the end
        content[place + offset] = value
        place += 4
    while (place := content.find(b"PK\x01\x02", place + 1)) >= 0:
        content[place + offset + 2] = value
    file.write_bytes(content)
    with refused("unreadable", "mine.npz"):
        load_dataset("arrays", file)


@pytest.mark.slow
def test_arrays_beyond_the_memory_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file may unpack to gigabytes: headers and labels are looked at first."""
    count = 40_000
    labels = (np.arange(count) % 2).astype(np.int64)
    big = arrays(train_images=np.zeros((count, 50, 50), np.uint8), train_labels=labels,
                 test_images=np.zeros((6, 50, 50), np.uint8))
    np.savez_compressed(tmp_path / "mine.npz", **big)
    tracemalloc.start()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(dataset_files, "available_memory", lambda: 50_000_000)
            with refused("out-of-memory", "mine.npz"):
                load_dataset("arrays", tmp_path / "mine.npz")
        for number, changed in enumerate(({"train_labels": labels * 0}, {"train_labels": labels * 1.0})):
            np.savez_compressed(tmp_path / f"{number}.npz", **{**big, **changed})
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with pytest.raises(InputError):
                load_dataset("arrays", tmp_path / f"{number}.npz")
            assert tracemalloc.get_traced_memory()[1] - before < 10_000_000
    finally:
        tracemalloc.stop()


def test_arrays_with_huge_images_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "mine.npz", **arrays(
        train_images=np.zeros((1, 5000, 5000), np.uint8), train_labels=np.zeros(1, int),
        test_images=np.zeros((1, 5000, 5000), np.uint8), test_labels=np.zeros(1, int), names=None))
    with refused("out-of-range", "train_images"):
        load_dataset("arrays", tmp_path / "mine.npz")
