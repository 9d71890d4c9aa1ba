"""Files that know whether they are whole: named arrays, or a JSON object, with a checksum over all that they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZipFile

from netsim.base.errors import InputError
from netsim.base.files import read_json, replace_file, replace_text

if TYPE_CHECKING:
    from netsim.base.arrays import State

SEAL = "sha256"


def write_arrays(path: Path, state: State) -> None:
    """Named arrays as an .npz file, whole or not at all."""
    import numpy as np

    seal = np.frombuffer(_of_arrays(state).encode(), "u1")
    replace_file(path, lambda file: np.savez(file, **state, **{SEAL: seal}))    # type: ignore[arg-type]


def read_arrays(path: Path) -> State:
    """The arrays that ``write_arrays`` wrote; ValueError and others where the file is anything else."""
    state = arrays_in(path)
    if bytes(state.pop(SEAL)).decode("ascii") != _of_arrays(state):
        raise ValueError("its checksum differs from what it holds")
    return state


def arrays_in(file: Path | IO[bytes]) -> State:
    """The arrays of an .npz file; each is read to its end, which verifies its CRC-32, before anything is made of it."""
    import numpy as np

    with ZipFile(file) as archive:
        return {name.removesuffix(".npy"): np.load(BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()}


def _of_arrays(state: State) -> str:
    import numpy as np

    digest = hashlib.sha256()
    for name, array in sorted(state.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write_object(path: Path, content: Mapping[str, Any]) -> None:
    """A JSON object with its checksum as the last entry, whole or not at all."""
    replace_text(path, json.dumps({**content, SEAL: seal_of(content)}, indent=2) + "\n")


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The object that ``write_object`` wrote; InputError where it is damaged, OSError where it cannot be read."""
    found = read_json(path, what)
    if not isinstance(found, dict):
        raise InputError("damaged", str(path), expected=what)
    return opened(path, found, found.pop(SEAL, None))


def opened(path: Path, content: dict[str, Any], seal: object) -> dict[str, Any]:
    """The content of a file if its seal is not broken."""
    if seal != seal_of(content):
        raise InputError("damaged", str(path), "a checksum that differs from what it says", "what netsim wrote")
    return content


def seal_of(content: Mapping[str, Any]) -> str:
    """The checksum of an object, whatever the order and the layout in which it is written."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
