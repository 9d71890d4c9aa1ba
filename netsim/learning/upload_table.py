"""The models that the devices last uploaded, in one table on disk."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import numpy as np

from netsim.base.arrays import Ints, Weights
from netsim.base.errors import InputError
from netsim.base.files import allocate_file
from netsim.base.sealed import read_arrays, write_arrays

TABLE = "uploads.f32"
JOURNAL = "uploads-journal.npz"


class UploadTable:
    """N rows of float32 weights, mapped into memory, that survive a crash between any two writes.

    A round's models go to a journal first; the table is changed only once the checkpoint of that round is
    written. After a crash the journal is played again when the checkpoint covers it, and dropped when not.
    ``sums`` are the CRC-32 of all rows, those that are staged included: they belong into the checkpoint, and to go on
    the table must be as they say.
    """

    def __init__(
        self, folder: Path, devices: int, parameters: int, complete_round: int, sums: Ints | None = None
    ) -> None:
        self._journal = folder / JOURNAL
        path, size = folder / TABLE, 4 * devices * parameters
        if complete_round == 0:
            path.unlink(missing_ok=True)
            allocate_file(path, size)       # a disk that is full later, inside the map, would kill the process
        elif path.is_symlink() or not path.is_file() or path.stat().st_size != size:
            raise _damaged(path)
        self._staged: tuple[Ints, Weights] | None = None
        self._table = np.memmap(path, np.float32, "r+", shape=(devices, parameters))
        if self._journal.exists() and complete_round:
            self._replay(complete_round)
        self.sums = _sums(self._table) if complete_round else np.repeat(_sums(self._table[:1]), devices)
        if complete_round and sums is not None and not np.array_equal(self.sums, sums):
            raise _damaged(path)

    def _replay(self, complete_round: int) -> None:
        try:
            stored = read_arrays(self._journal)
            if int(stored["round"]) <= complete_round:      # less where nobody has arrived since
                self._table[stored["devices"]] = stored["weights"]
        except Exception as error:      # a file that is something else fails in all sorts of ways
            raise _damaged(self._journal, str(error)) from None

    @property
    def weights(self) -> Weights:
        """The table, read-only."""
        return read_only(self._table.view(np.ndarray))

    def stage(self, round_: int, devices: Ints, weights: Weights) -> None:
        """Write a round's models to the journal, before the round's checkpoint."""
        # the journal that this replaces must be safe in the table first
        self._table.flush()
        self._staged = (devices, weights)
        self.sums[devices] = _sums(weights)
        write_arrays(self._journal, {"round": np.array(round_, np.int64), "devices": devices, "weights": weights})

    def commit(self) -> None:
        """Move the staged models to the table, after the round's checkpoint."""
        if self._staged:
            devices, weights = self._staged
            self._table[devices] = weights
            self._staged = None

    def remove(self) -> None:
        """Delete the table and the journal: a finished run needs neither."""
        del self._table
        for name in (TABLE, JOURNAL):
            self._journal.with_name(name).unlink(missing_ok=True)


def read_only(weights: Weights) -> Weights:
    """The same numbers, which the caller cannot change."""
    view = weights.view()
    view.flags.writeable = False
    return view


def _damaged(path: Path, found: str | None = None) -> InputError:
    return InputError("damaged", str(path), found, "the devices' models as this run wrote them", "Start a new run")


def _sums(rows: Weights) -> Ints:
    return np.array([crc32(np.ascontiguousarray(row).data) for row in rows], np.int64)
