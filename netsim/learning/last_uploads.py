"""Table on disk of the model last uploaded by each device."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import numpy as np

from netsim.base.checksummed import read_arrays, write_arrays
from netsim.base.errors import InputError
from netsim.base.files import allocate_file
from netsim.base.types import Ints, Weights, read_only

TABLE = "uploads.f32"
JOURNAL = "uploads-journal.npz"


class UploadTable:
    """N memory-mapped rows of float32 weights that survive a crash between any two writes.

    The models of a round are written to a journal first; the table changes after the checkpoint of that round is
    written. After a crash the journal is replayed if the checkpoint covers it, else ignored. ``sums``, the CRC-32 of
    all rows including staged ones, are stored in the checkpoint; a resumed run verifies the table against them.
    """

    def __init__(
        self, folder: Path, devices: int, parameters: int, complete_round: int, sums: Ints | None = None
    ) -> None:
        self._journal = folder / JOURNAL
        path, size = folder / TABLE, 4 * devices * parameters
        if complete_round == 0:
            path.unlink(missing_ok=True)
            allocate_file(path, size)       # allocate now: a full disk would kill a process that writes to the map
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
            if int(stored["round"]) <= complete_round:      # less if no upload has arrived since
                self._table[stored["devices"]] = stored["weights"]
        except Exception as error:      # files of another kind raise many exceptions
            raise _damaged(self._journal, str(error)) from None

    @property
    def weights(self) -> Weights:
        """The table, read-only."""
        return read_only(self._table.view(np.ndarray))

    def stage(self, round_: int, devices: Ints, weights: Weights) -> None:
        """Write a round's models to the journal, before the round's checkpoint."""
        # the replaced journal must be in the table on disk first
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


def _damaged(path: Path, found: str | None = None) -> InputError:
    return InputError("damaged", str(path), found, "the devices' models as this run wrote them", "Start a new run")


def _sums(rows: Weights) -> Ints:
    return np.array([crc32(np.ascontiguousarray(row).data) for row in rows], np.int64)
