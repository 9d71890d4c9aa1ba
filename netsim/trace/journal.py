"""Order of writes to a run's folder, so that a crash at any moment loses one round at most.

A round's models are first written to a separate journal; then the parts of the trace; then the checkpoint, which makes
the round complete; then run.json; finally the models move to their table. Without learning, rounds are cheap to repeat,
and a crash loses those since the last part: at most 100,000 rows, less than a second of computing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import numpy as np

from netsim.base.checksummed import read_arrays, write_arrays, write_object
from netsim.base.errors import InputError
from netsim.base.files import hold, make_folder
from netsim.base.platform_info import processor, versions
from netsim.base.types import State
from netsim.trace.recorder import Recorder
from netsim.trace.run_directory import FORMAT, read_info
from netsim.trace.schema import CELL, TABLES
from netsim.trace.store import (
    CHECKSUMS,
    add_checksums,
    first_round_of,
    keep_checksums,
    read_checksums,
    refuse_missing,
    verify,
    write_file,
    write_part,
)

T = TypeVar("T")
ROWS_A_PART = 100_000     # without learning; smaller parts would take longer to write than to compute
CHECKPOINT = "checkpoint.npz"
USERS_PART = "selection"      # of a checkpoint: the state of a method, which may be of any type
LEAST, LARGEST = CELL, 2**62  # of the whole numbers in the other parts
WRITTEN = {"scenario.toml", "devices.parquet", CHECKSUMS, *TABLES, "lock"}      # before run.json makes it a run


class Stateful(Protocol):
    """A component that saves its state in checkpoints."""

    def snapshot(self) -> State: ...

    def restore(self, state: State) -> None: ...


class Uploads(Protocol):
    """Large models that are stored beside the checkpoint."""

    @property
    def processor(self) -> str | None:
        """Processors that have computed them, if they need not be this machine's."""

    def stage(self, round: int) -> None:
        """Write the models of the round to a journal, before the checkpoint."""

    def settle(self) -> None:
        """Move them to their table, after the checkpoint."""


class Journal:
    """The folder of a run, locked for writing by one process."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self.identity = identity            # scenario, seed, learning
        self.round = 0                      # last complete round
        self.trace_sha256 = ""
        self.beside: tuple[str, ...] = ()   # files and folders that others write into the run's folder
        self._processor = processor()
        self._lock: IO[bytes] | None = None
        self._made: list[Path] | None = None      # folders that a new run has made, deepest first; None if resumed

    @property
    def has_begun(self) -> bool:
        """True if the folder holds a run that can be resumed."""
        return (self.path / "run.json").exists()

    def claim(self) -> None:
        """Lock the folder for a new run; it must be missing or empty, or hold a run that never started."""
        self._refuse_content()              # before the first write to a folder of another program
        self._made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._refuse_content()              # another process may have written here before the lock
        for table in TABLES:
            make_folder(self.path / table)

    def _refuse_content(self) -> None:
        """Raise InputError if the folder holds other files than those of a run that never started."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError("exists", f"--out {self.path}", "a file", "a folder for the run")
        leftovers = WRITTEN | {f"{name}.tmp" for name in (*WRITTEN, "run.json")}
        found = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
        if found - leftovers:
            raise InputError(
                "exists", str(self.path), "a folder that is not empty", "a new or empty folder",
                "Choose another folder with --out, or continue the run in this folder with --resume")

    def begin(self, scenario_toml: str, devices: bytes) -> None:
        """Start a new run in the claimed folder."""
        (self.path / CHECKSUMS).unlink(missing_ok=True)
        files = (("scenario.toml", scenario_toml.encode()), ("devices.parquet", devices))
        add_checksums(self.path, [(name, write_file(self.path / name, content)) for name, content in files])
        self._write_info("running")

    def resume(self) -> State | None:
        """Lock the folder to continue its run; return the state of its last checkpoint, None if it has none.

        Files that are newer than the checkpoint are removed.
        """
        self.refuse_another()
        self._take_lock()
        state = self.checked(self._load) if (self.path / CHECKPOINT).exists() else None
        self._drop_uncommitted()
        if state is not None:                   # the crash may have been between checkpoint and run.json
            self._write_info("running")
        return state

    def restart(self) -> None:
        """Lock the folder and remove its checkpoint and trace to start the run again; other files stay."""
        self.refuse_another()
        self._take_lock()
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        for table in TABLES:
            for part in make_folder(self.path / table).iterdir():
                part.unlink()

    def extend(self, scenario_toml: str) -> None:
        """Make the finished run of this folder one that this journal's scenario, with a later end, can continue."""
        info = read_info(self.path)
        self._take_lock()
        add_checksums(self.path, [("scenario.toml", write_file(self.path / "scenario.toml", scenario_toml.encode()))])
        self.round, self.trace_sha256 = info["round"], str(info.get("trace_sha256", ""))
        self._write_info("running")
        self.round, self.trace_sha256 = 0, ""       # until the checkpoint is read, if the run does not start again
        self.close()

    def refuse_another(self) -> None:
        info = read_info(self.path)
        named = ("scenario", "changed")     # names may differ for the same run
        differs = [key for key in self.identity if key not in named and info.get(key) != self.identity[key]]
        if differs:
            raise InputError(
                "other-run", str(self.path), ", ".join(f"{key} {info.get(key)!r}" for key in differs),
                ", ".join(f"{key} {self.identity[key]!r}" for key in differs),
                "Use the same scenario, --set and --seed, or another --out")

    def checked(self, read: Callable[[], T]) -> T:
        """Return ``read()``; raise InputError with the path of the checkpoint if it fails."""
        try:
            return read()
        except InputError:
            raise
        except Exception as error:      # an invalid file may raise any exception
            raise InputError("damaged", str(self.path / CHECKPOINT), str(error), "a checkpoint of this run") from None

    def restore(self, state: State, components: Mapping[str, Stateful]) -> None:
        """Restore each component from its part of a checkpoint."""
        for part, component in components.items():
            prefix = f"{part}/"
            own = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
            if part != USERS_PART:
                self.checked(partial(_check_arrays, own, component.snapshot()))
            self.checked(partial(component.restore, own))

    def commit(self, round_: int, recorder: Recorder, components: Mapping[str, Stateful], uploads: Uploads) -> None:
        """Write everything since the last commit: models, parts, checkpoint, run.json, table of models."""
        uploads.stage(round_)
        rows = recorder.take()
        write_part(self.path, self.round + 1, rows)
        self.round, self.trace_sha256 = round_, rows.sha256(self.trace_sha256)
        state = {f"{part}/{name}": array
                 for part, component in components.items() for name, array in component.snapshot().items()}
        state |= {"round": np.array(round_, np.int64), "trace_sha256": np.frombuffer(self.trace_sha256.encode(), "u1")}
        write_arrays(self.path / CHECKPOINT, state)
        self._processor = uploads.processor or self._processor
        self._write_info("running")
        uploads.settle()

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary and mark the run as finished."""
        checksum = write_file(self.path / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())
        self._write_info("finished", summary_sha256=checksum)

    def abandon(self) -> None:
        """Remove the files and folders of a new run that failed before its first complete round."""
        if self._made is None or self.round:
            return
        self.close()
        with suppress(OSError):
            for table in TABLES:
                shutil.rmtree(self.path / table, ignore_errors=True)
            for name in ("run.json", CHECKPOINT, *(WRITTEN - set(TABLES))):
                (self.path / name).unlink(missing_ok=True)
            for file in self.path.glob("uploads*"):
                file.unlink()
            for name in self.beside:
                shutil.rmtree(self.path / name, ignore_errors=True)
                (self.path / name).unlink(missing_ok=True)
            for folder in self._made:
                folder.rmdir()

    def close(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def _load(self) -> State:
        state = read_arrays(self.path / CHECKPOINT)
        if any(array.dtype.kind not in "biufSU" for array in state.values()):
            raise ValueError("it has arrays of types that netsim does not write")
        self.round, self.trace_sha256 = int(state["round"]), bytes(state["trace_sha256"]).decode("ascii")
        return state

    def _drop_uncommitted(self) -> None:
        """Delete the parts and checksums after the checkpoint, and verify the rest."""
        names = {"scenario.toml", "devices.parquet"}
        for table in TABLES:
            folder = make_folder(self.path / table)
            for path in folder.iterdir():
                if path.suffix == ".tmp" or first_round_of(path) > self.round:
                    path.unlink()
                else:
                    names.add(f"{table}/{path.name}")
        checksums = read_checksums(self.path)
        for name in sorted(names):
            verify(self.path, name, checksums)
        for table in TABLES:
            refuse_missing(self.path, table, self.round, checksums)
        keep_checksums(self.path, names)

    def _write_info(self, status: str, **more: str) -> None:
        info = {
            "format": FORMAT, **self.identity, "status": status, "round": self.round,
            "trace_sha256": self.trace_sha256, "versions": versions(), "processor": self._processor, **more,
        }
        write_object(self.path / "run.json", info)

    def _take_lock(self) -> None:
        self._lock = hold(self.path / "lock", "this run")


def _check_arrays(stored: State, new: State) -> None:
    """Raise ValueError unless arrays are of the types that a new component writes, and whole numbers in range."""
    for name, array in stored.items():
        like = new.get(name, array)
        if array.dtype != like.dtype or array.ndim != like.ndim:
            raise ValueError(f"{name} is {array.dtype} in {array.ndim} dimensions, not {like.dtype} in {like.ndim}")
        if array.dtype.kind in "iu" and array.size and not LEAST <= array.min() <= array.max() <= LARGEST:
            raise ValueError(f"{name} has a number that is out of range")


def rows_a_part(learning: bool) -> int:
    """Return the minimum number of rows of a part; with learning, every round is a part since rounds take long."""
    return 1 if learning else ROWS_A_PART
