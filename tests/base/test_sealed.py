"""Files of arrays take no more memory than they take room on the disk."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from netsim.base.checksummed import arrays_in, read_arrays, write_arrays

STATE = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(3), "c": np.zeros((0, 2), np.int64), "d/e": np.array([True]),
         "f": np.asfortranarray(np.arange(6).reshape(2, 3)), "g": np.array("text")}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_arrays(tmp_path / "x.npz", STATE)
    found = read_arrays(tmp_path / "x.npz")
    assert found.keys() == STATE.keys()
    for name, array in STATE.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)
        assert found[name].flags.writeable


@pytest.mark.parametrize("way", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packed_file_is_not_unpacked(tmp_path: Path, way: int) -> None:
    """Zeros pack to a thousandth: a small file would take gigabytes."""
    content = BytesIO()
    np.save(content, np.zeros(1_000_000))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", way) as archive:
        archive.writestr("a.npy", content.getvalue())
    with pytest.raises(ValueError, match="unpacks to more"):
        arrays_in(tmp_path / "x.npz")


@pytest.mark.parametrize("shape", [(10**15,), (10**6, 10**9), (-1,), (2, -3), (7,), (5,)])
def test_an_array_that_is_not_as_large_as_it_says(tmp_path: Path, shape: tuple[int, ...]) -> None:
    content = BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": shape})
    content.write(bytes(6 * 8))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", content.getvalue())
    with pytest.raises(ValueError, match="not as large as it says"):
        arrays_in(tmp_path / "x.npz")


def test_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="not as large"):
        arrays_in(tmp_path / "x.npz")
