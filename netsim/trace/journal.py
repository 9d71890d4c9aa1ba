"""The one owner of the order in which a run is written down, so that a crash at any moment loses one round at most.

A round's models go to a journal of their own first; then the parts of the trace; then the checkpoint, which is what
makes the round complete; then run.json; at last the models move to their table. Without learning rounds are cheap to
play again, and a crash loses those since the last part, 100,000 rows at most: less than a second of computing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import numpy as np

from netsim.base.arrays import State
from netsim.base.errors import InputError
from netsim.base.files import hold, make_folder
from netsim.base.machine import processor, versions
from netsim.base.sealed import read_arrays, write_arrays, write_object
from netsim.trace.recorder import Recorder
from netsim.trace.run_directory import FORMAT, read_info
from netsim.trace.schema import TABLES
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
ROWS_A_PART = 100_000     # without learning; small parts would cost more than they save
CHECKPOINT = "checkpoint.npz"


class Stateful(Protocol):
    """A room that saves itself; nobody else knows its fields."""

    def snapshot(self) -> State: ...

    def restore(self, state: State) -> None: ...


class Uploads(Protocol):
    """Large models that are kept beside the checkpoint."""

    def stage(self, round: int) -> None:
        """Write what the round brought to a safe place, before the checkpoint."""

    def settle(self) -> None:
        """Move it to its own place, after the checkpoint."""


class Journal:
    """One run's folder, held open for writing by one process."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self.identity = identity            # what makes it this run: scenario, seed, learning
        self.round = 0                      # the last complete one
        self.trace_sha256 = ""
        self._lock: IO[bytes] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a run lies here that can be resumed."""
        return (self.path / "run.json").exists()

    def claim(self) -> None:
        """Take the folder for a new run; it must be missing or empty, or hold a run that never began."""
        self._refuse_content()              # before anything is made in a folder that is not ours
        self.path.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._refuse_content()              # another process may have run here while this one waited for the lock
        for table in TABLES:
            make_folder(self.path / table)

    def _refuse_content(self) -> None:
        """Raise InputError where the folder holds more than a run that never began leaves."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError("exists", f"--out {self.path}", "a file", "a folder for the run")
        written = {"scenario.toml", "devices.parquet", CHECKSUMS, *TABLES, "lock"}     # before run.json makes it a run
        leftovers = written | {f"{name}.tmp" for name in (*written, "run.json")}
        found = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
        if found - leftovers:
            raise InputError(
                "exists", str(self.path), "a folder that is not empty", "a new or empty folder",
                "Give --out another folder, or --resume to go on with the run in this one")

    def begin(self, scenario_toml: str, devices: bytes) -> None:
        """Start a new run in the claimed folder."""
        (self.path / CHECKSUMS).unlink(missing_ok=True)
        files = (("scenario.toml", scenario_toml.encode()), ("devices.parquet", devices))
        add_checksums(self.path, [(name, write_file(self.path / name, content)) for name, content in files])
        self._write_info("running")

    def resume(self) -> State | None:
        """Go on with the run that lies here: the state of its last checkpoint, or None if it has none yet.

        What lies past the checkpoint is dropped.
        """
        self.refuse_another()
        self._take_lock()
        state = self.checked(self._load) if (self.path / CHECKPOINT).exists() else None
        self._drop_what_lies_past()
        if state is not None:                   # the crash may have come between the checkpoint and run.json
            self._write_info("running")
        return state

    def restart(self) -> None:
        """Take the folder of the run that lies here to begin it anew; what others keep in it stays."""
        self.refuse_another()
        self._take_lock()
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        for table in TABLES:
            for part in make_folder(self.path / table).iterdir():
                part.unlink()

    def refuse_another(self) -> None:
        """Raise InputError where another run than this one lies here."""
        info = read_info(self.path)
        named = ("scenario", "changed")     # what it is called may have changed: that says nothing about the run
        differs = [key for key in self.identity if key not in named and info.get(key) != self.identity[key]]
        if differs:
            raise InputError(
                "other-run", str(self.path), ", ".join(f"{key} {info.get(key)!r}" for key in differs),
                ", ".join(f"{key} {self.identity[key]!r}" for key in differs),
                "Give the same scenario, --set and --seed, or another --out")

    def checked(self, read: Callable[[], T]) -> T:
        """What ``read`` makes of the checkpoint, or an error that names it."""
        try:
            return read()
        except InputError:
            raise
        except Exception as error:      # a file that is something else fails in all sorts of ways
            raise InputError("damaged", str(self.path / CHECKPOINT), str(error), "a checkpoint of this run") from None

    def restore(self, state: State, rooms: Mapping[str, Stateful]) -> None:
        """Let each room take up its part of a checkpoint."""
        for room, it in rooms.items():
            own = {name.removeprefix(f"{room}/"): array for name, array in state.items() if name.startswith(f"{room}/")}
            self.checked(partial(it.restore, own))

    def commit(self, round_: int, recorder: Recorder, rooms: Mapping[str, Stateful], uploads: Uploads) -> None:
        """Write down all since the last commit: models, parts, checkpoint, run.json, table of models."""
        uploads.stage(round_)
        part = recorder.take()
        write_part(self.path, self.round + 1, part)
        self.round, self.trace_sha256 = round_, part.sha256(self.trace_sha256)
        state = {f"{room}/{name}": array for room, it in rooms.items() for name, array in it.snapshot().items()}
        state |= {"round": np.array(round_, np.int64), "trace_sha256": np.frombuffer(self.trace_sha256.encode(), "u1")}
        write_arrays(self.path / CHECKPOINT, state)
        self._write_info("running")
        uploads.settle()

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary and mark the run as finished."""
        checksum = write_file(self.path / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())
        self._write_info("finished", summary_sha256=checksum)

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def _load(self) -> State:
        state = read_arrays(self.path / CHECKPOINT)
        if any(array.dtype.kind not in "biufSU" for array in state.values()):
            raise ValueError("it has arrays of types that netsim does not write")
        self.round, self.trace_sha256 = int(state["round"]), bytes(state["trace_sha256"]).decode("ascii")
        return state

    def _drop_what_lies_past(self) -> None:
        """Delete the parts and checksums that the checkpoint does not know, and make sure that the rest is whole."""
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
            "trace_sha256": self.trace_sha256, "versions": versions(), "processor": processor(), **more,
        }
        write_object(self.path / "run.json", info)

    def _take_lock(self) -> None:
        self._lock = hold(self.path / "lock", "this run")


def rows_a_part(learning: bool) -> int:
    """How many rows make a part; with learning every round is one, since rounds are dear."""
    return 1 if learning else ROWS_A_PART
