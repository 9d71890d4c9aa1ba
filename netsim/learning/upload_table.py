"""The models that the devices last uploaded, in one table on disk."""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from netsim.base.arrays import Ints, Weights
from netsim.base.errors import InputError
from netsim.base.files import allocate_file, replace_file

TABLE = "uploads.f32"
JOURNAL = "uploads-journal.npz"


class UploadTable:
    """N rows of float32 weights, mapped into memory, that survive a crash between any two writes.

    A round's models go to a journal first; the table is changed only once the checkpoint of that round is
    written. After a crash the journal is played again when the checkpoint covers it, and dropped when not.
    """

    def __init__(self, folder: Path, devices: int, parameters: int, complete_round: int) -> None:
        self._journal = folder / JOURNAL
        path, size = folder / TABLE, 4 * devices * parameters
        if complete_round == 0:
            path.unlink(missing_ok=True)
            allocate_file(path, size)       # a disk that is full later, inside the map, would kill the process
        elif path.is_symlink() or not path.is_file() or path.stat().st_size != size:
            raise InputError(f"{path}: the devices' models are gone or damaged, so this run can't go on; begin it anew")
        self._staged: tuple[Ints, Weights] | None = None
        self._table = np.memmap(path, np.float32, "r+", shape=(devices, parameters))
        if self._journal.exists() and complete_round:
            self._replay(complete_round)

    def _replay(self, complete_round: int) -> None:
        try:
            with np.load(self._journal, allow_pickle=False) as stored:
                if int(stored["round"]) <= complete_round:      # less where nobody has arrived since
                    self._table[stored["devices"]] = stored["weights"]
        except (OSError, ValueError, KeyError, IndexError, EOFError, BadZipFile) as error:
            raise InputError(f"{self._journal}: not what this run wrote ({error}); begin it anew") from None

    @property
    def weights(self) -> Weights:
        """The table, read-only."""
        view = self._table.view(np.ndarray)
        view.flags.writeable = False
        return view

    def stage(self, round_: int, devices: Ints, weights: Weights) -> None:
        """Write a round's models to the journal, before the round's checkpoint."""
        # the journal that this replaces must be safe in the table first
        self._table.flush()
        self._staged = (devices, weights)
        replace_file(self._journal, lambda file: np.savez(
            file, round=np.int64(round_), devices=devices, weights=weights))

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
