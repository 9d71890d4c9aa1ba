"""Transfer of a Flower app to the workers of a cluster: its files once, and each model once instead of per message."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, TypeVar
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, TemporaryFolder
from netsim.flower.app_folder import FlowerApp
from netsim.flower.client_task import ClientTask

T = TypeVar("T")
MOST_BYTES = 200 * MEGABYTE      # of an app's files
LEFT_OUT = "__pycache__"


@dataclass(frozen=True, eq=False)
class AppFiles:
    """Files of an app's folder in one archive; none of caches, virtual environments, hidden folders and runs."""

    archive: NDArray[np.uint8]

    @classmethod
    def of(cls, app: FlowerApp) -> AppFiles:
        """Pack the files of an app; raise InputError if they are too large."""
        runs = {file.parent for file in app.folder.rglob("run.json")} - {app.folder}
        files = [file for file in sorted(app.folder.rglob("*")) if file.is_file() and app.holds(file)
                 and file.parent.name != LEFT_OUT and runs.isdisjoint(file.parents)]
        size = sum(file.stat().st_size for file in files)
        if size > MOST_BYTES:
            raise InputError("too-large", str(app.folder), f"{size / MEGABYTE:.0f} MB",
                             f"at most {MOST_BYTES // MEGABYTE} MB, which --cluster sends to every worker",
                             "Keep data outside the app's folder, where all machines find them")
        packed = BytesIO()
        with ZipFile(packed, "w") as archive:
            for file in files:      # without times, so that equal files are equal bytes
                archive.writestr(ZipInfo(file.relative_to(app.folder).as_posix()), file.read_bytes(), ZIP_DEFLATED)
        return cls(np.frombuffer(packed.getvalue(), np.uint8))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.archive.tobytes()).hexdigest()

    def unpacked(self) -> TemporaryFolder:
        folder = TemporaryFolder()
        with ZipFile(BytesIO(self.archive.tobytes())) as archive:
            archive.extractall(folder.path)
        return folder


class _Splitter(pickle.Pickler):
    """Pickler that takes ArrayRecords out: devices of a round receive the same ones."""

    def __init__(self, file: BytesIO, packed: dict[int, NDArray[np.uint8]]) -> None:
        super().__init__(file)
        self._packed = packed                          # by the identity of the record
        self.arrays: list[NDArray[np.uint8]] = []

    def persistent_id(self, thing: Any) -> int | None:
        if not isinstance(thing, ArrayRecord):
            return None
        if id(thing) not in self._packed:
            self._packed[id(thing)] = np.frombuffer(pickle.dumps(thing), np.uint8)
        self.arrays.append(self._packed[id(thing)])
        return len(self.arrays) - 1


class _Joiner(pickle.Unpickler):
    """Unpickler of what a ``_Splitter`` has pickled."""

    def __init__(self, file: BytesIO, arrays: Sequence[NDArray[np.uint8]]) -> None:
        super().__init__(file)
        self._arrays = arrays

    def persistent_load(self, number: Any) -> Any:
        return pickle.loads(self._arrays[number])


def shipped(task: ClientTask, packed: dict[int, NDArray[np.uint8]]) -> tuple[Any, ...]:
    """Return the task without its message, the message without its arrays, and these: arguments of ``run_shipped``.

    ``packed`` has the arrays of other messages that still exist.
    """
    file = BytesIO()
    splitter = _Splitter(file, packed)
    splitter.dump(task.message)
    return replace(task, message=None), file.getvalue(), *splitter.arrays


def run_shipped(run: Callable[[ClientTask], T], task: ClientTask, message: bytes, *arrays: NDArray[np.uint8]) -> T:
    return run(replace(task, message=_Joiner(BytesIO(message), arrays).load()))
