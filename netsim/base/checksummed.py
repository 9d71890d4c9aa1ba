"""Checksummed files: named arrays (.npz) or a JSON object."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZIP_STORED, ZipFile

from netsim.base.errors import InputError
from netsim.base.files import MOST_BYTES, read_json, replace_file, replace_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from netsim.base.types import State

SEAL = "sha256"


def write_arrays(path: Path, state: State) -> None:
    """Write named arrays to an .npz file atomically, with a checksum."""
    import numpy as np

    seal = np.frombuffer(_of_arrays(state).encode(), "u1")
    replace_file(path, lambda file: np.savez(file, **state, **{SEAL: seal}))    # type: ignore[arg-type]


def read_arrays(path: Path) -> State:
    """Read the arrays of ``write_arrays``; raises ValueError and others for any other file."""
    state = arrays_in(path)
    if bytes(state.pop(SEAL)).decode("ascii") != _of_arrays(state):
        raise ValueError("its checksum differs from what it holds")
    return state


def arrays_in(file: Path | IO[bytes]) -> State:
    """Read the arrays of an .npz file of netsim; each is read to its end, which verifies its CRC-32.

    netsim packs nothing, so together they take the memory that the file takes on the disk. A file that would unpack to
    more, or an array that says to be larger than it is, raises ValueError before memory is taken for it.
    """
    with open(file, "rb") if isinstance(file, Path) else nullcontext(file) as verified, ZipFile(verified) as archive:
        entries = archive.infolist()
        size = verified.seek(0, os.SEEK_END)
        if any(entry.compress_type != ZIP_STORED for entry in entries) or sum(
                entry.file_size for entry in entries) > size:
            raise ValueError("it unpacks to more than netsim wrote")
        return {entry.filename.removesuffix(".npy"): _array(archive.read(entry)) for entry in entries}


def _array(content: bytes) -> NDArray[Any]:
    """Read one array of an .npz file; numpy would allocate the size that the header claims."""
    import numpy as np
    from numpy.lib import format as npy

    file = BytesIO(content)
    version = npy.read_magic(file)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = header(file)
    rest = memoryview(content)[file.tell():]
    if dtype.hasobject or not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError("an array is not as large as it says")
    return np.frombuffer(rest, dtype).reshape(shape, order="F" if by_columns else "C").copy()


def _of_arrays(state: State) -> str:
    import numpy as np

    digest = hashlib.sha256()
    for name, array in sorted(state.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write_object(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object with its checksum as the last entry, atomically."""
    replace_text(path, json.dumps({**content, SEAL: checksum_of(content)}, indent=2) + "\n")


def read_object(path: Path, what: str, most: int = MOST_BYTES, *, sealed: bool = True) -> dict[str, Any]:
    """Read the object of ``write_object``; raises InputError if it is damaged, OSError if it cannot be read.

    Without ``sealed``, an object may lack its checksum.
    """
    found = read_json(path, what, most)
    if not isinstance(found, dict):
        raise InputError("damaged", str(path), expected=what)
    if (sealed or SEAL in found) and found.pop(SEAL, None) != checksum_of(found):
        raise InputError("damaged", str(path), "a checksum that differs from what it says", "what netsim wrote")
    return found


def checksum_of(content: Mapping[str, Any]) -> str:
    """Return the checksum of an object, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
