"""The folder that a run leaves behind, written so that a crash at any moment loses one round at most.

Without learning rounds are cheap to play again, and a crash loses those since the last part, 20,000 rows at most.

    scenario.toml              the scenario with all defaults filled in
    devices.parquet            the population as drawn
    trace/part-00012.parquet   what happened, from round 12 on; see netsim.trace.rows
    links/part-00012.parquet   what caused what
    checkpoint.pt, .npz        the state after the last complete round (.npz without learning: no torch needed)
    run.json                   seed, versions, processor, last complete round
    summary.json               the result, once the run is finished
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar
from zipfile import BadZipFile

import numpy as np

from netsim.base.arrays import State
from netsim.base.errors import InputError
from netsim.base.files import packed, replace_file, replace_text
from netsim.base.machine import processor, versions
from netsim.trace.rows import Part, first_round_of, write_part

T = TypeVar("T")
FORMAT = 1


class RunDirectory:
    """One run's folder, held open for writing by one process."""

    def __init__(self, path: Path, identity: dict[str, Any], *, learning: bool) -> None:
        self.path = path
        self.identity = identity            # what makes it this run: scenario, seed, learning
        self.checkpoint = path / ("checkpoint.pt" if learning else "checkpoint.npz")
        self._lock: IO[bytes] | None = None
        self._next_round = 1                # the first round of the part that is written next

    @property
    def has_begun(self) -> bool:
        """Whether a run lies here that can be resumed."""
        return (self.path / "run.json").exists()

    def claim(self) -> None:
        """Take the folder for a new run; it must be missing or empty, or hold a run that never began."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; --out names a folder for the run")
        written = {"scenario.toml", "devices.parquet", "trace", "links", "lock"}     # before run.json makes it a run
        leftovers = written | {f"{name}.tmp" for name in (*written, "run.json")}
        found = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
        if found - leftovers:
            raise InputError(
                f"{self.path}: the folder is not empty; give --out another one, or --resume to go on with a run")
        for folder in ("trace", "links"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        self._take_lock()

    def begin(self, scenario_toml: str, write_devices: Callable[[IO[bytes]], Any]) -> None:
        """Start a new run in the claimed folder."""
        replace_text(self.path / "scenario.toml", scenario_toml)
        replace_file(self.path / "devices.parquet", packed(write_devices))
        self._write_info(0, "running", "")

    def resume(self) -> State | None:
        """Go on with the run that lies here: the state of its last checkpoint, or None if it has none yet.

        What lies past the checkpoint is dropped.
        """
        info = read_info(self.path)
        differs = [key for key in self.identity if key != "scenario" and info.get(key) != self.identity[key]]
        if differs:     # a scenario's name may have changed: it says nothing about the run
            raise InputError(
                f"{self.path}: holds another run ({', '.join(f'{k} {info.get(k)!r}' for k in differs)}; "
                f"asked for {', '.join(repr(self.identity[k]) for k in differs)}); "
                "give the same scenario, --set and --seed, or another --out")
        self._take_lock()
        state = None
        if self.checkpoint.exists():
            loaded = self.checked(lambda: self._load(self.checkpoint))
            state, complete = loaded, self.checked(lambda: int(loaded["counts"][0]))
        else:
            complete = 0
        for kind in ("trace", "links"):
            if (self.path / kind).is_symlink():
                raise InputError(f"{self.path / kind}: leads out of the run's folder; no run of netsim has that")
            for path in (self.path / kind).iterdir():
                if path.suffix == ".tmp" or first_round_of(path) > complete:
                    path.unlink()
        self._next_round = complete + 1
        if state is not None:                   # the crash may have come between the checkpoint and run.json
            self._write_info(complete, "running", bytes(state["trace_sha256"]).decode("ascii"))
        return state

    def checked(self, read: Callable[[], T]) -> T:
        """What ``read`` makes of the checkpoint, or an error that names it."""
        try:
            return read()
        except (ValueError, KeyError, IndexError, TypeError, OSError, RuntimeError, EOFError, BadZipFile) as error:
            raise InputError(f"{self.checkpoint}: not a checkpoint of this run ({error})") from None

    def commit(self, round_: int, part: Part, state: State, trace_sha256: str) -> None:
        """Write a part, then the checkpoint, then run.json: the checkpoint is what makes a round complete."""
        write_part(self.path, self._next_round, part)
        self._save(self.checkpoint, state)
        self._next_round = round_ + 1
        self._write_info(round_, "running", trace_sha256)

    def finish(self, round_: int, summary: dict[str, Any], trace_sha256: str) -> None:
        """Write the summary and mark the run as finished."""
        replace_text(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")
        self._write_info(round_, "finished", trace_sha256)

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def _save(self, path: Path, state: State) -> None:
        if path.suffix == ".pt":
            from netsim.learning.checkpoint import save_state

            save_state(path, state)
        else:
            replace_file(path, lambda file: np.savez(file, **state))    # type: ignore[arg-type]

    def _load(self, path: Path) -> State:
        if path.suffix == ".pt":
            from netsim.learning.checkpoint import load_state

            return load_state(path)
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)

    def _write_info(self, round_: int, status: str, trace_sha256: str) -> None:
        info = {
            "format": FORMAT, **self.identity, "status": status, "round": round_, "trace_sha256": trace_sha256,
            "versions": versions(), "processor": processor(),
        }
        replace_text(self.path / "run.json", json.dumps(info, indent=2) + "\n")

    def _take_lock(self) -> None:
        # not through a link that a stranger's folder may hold, and without emptying anything
        self._lock = os.fdopen(os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644), "r+b")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{self.path}: another process is writing this run") from None


def is_finished(path: Path) -> bool:
    """Whether a run lies there that has come to its end."""
    with suppress(InputError):
        return bool(read_info(path)["status"] == "finished")
    return False


def is_being_written(path: Path) -> bool:
    """Whether a living process holds the run open."""
    with suppress(FileNotFoundError), (path / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def read_info(path: Path) -> dict[str, Any]:
    """What run.json says."""
    file = path / "run.json"
    if not path.is_dir():
        raise InputError(f"{path}: no such run directory")
    try:
        info = json.loads(file.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: not a run directory: it has no run.json") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{file}: unreadable ({error})") from None
    known = isinstance(info, dict) and info.get("format") == FORMAT and {"scenario", "seed", "status"} <= info.keys()
    if not known or not isinstance(info.get("round"), int):
        raise InputError(f"{file}: not written by this version of netsim (format {FORMAT})")
    return dict(info)


def next_free(results: Path, name: str, *, resume: bool) -> Path:
    """A folder for a run under ``results``: NAME, NAME-2, NAME-3, …; to resume, the last one that is there.

    A scenario's name may hold anything; what could lead out of ``results`` is replaced.
    """
    name = re.sub(r"[^\w.-]+", "-", name).lstrip(".")
    number = 1
    while _numbered(results, name, number + 1 if resume else number).exists():
        number += 1
    return _numbered(results, name, number)


def _numbered(results: Path, name: str, number: int) -> Path:
    return results / (name if number == 1 else f"{name}-{number}")
