"""The folder of a run.

    scenario.toml              the scenario with all defaults filled in
    devices.parquet            the population with its drawn properties
    trace/part-00012.parquet   events from round 12 on; see netsim.trace.schema
    links/part-00012.parquet   pairs of cause and effect
    jobs/part-00012.parquet    planned values and results of each job
    checksums.sha256           of all these; `sha256sum --check` reads it too
    checkpoint.npz             the state after the last complete round
    run.json                   seed, versions, processor, last complete round, and its own checksum
    summary.json               the result of a finished run; run.json has its checksum
    model.npz                  of a Flower app: the final model of its strategy
    answers/                   of a Flower app: replies of its clients, until the run is finished

Files that change during a run contain their own checksum (checkpoint.npz, run.json); that of the uploaded models
(uploads.f32) is in the checkpoint.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any

from netsim.base.checksummed import read_object
from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, open_to_read, read_json

FORMAT = 2
MOST_ROUNDS = 2**31      # round numbers are 32-bit columns of the trace


def is_finished(path: Path) -> bool:
    with suppress(InputError):
        return bool(read_info(path)["status"] == "finished")
    return False


def is_being_written(path: Path) -> bool:
    """Return True if a running process has locked the run."""
    with suppress(FileNotFoundError), open_to_read(path / "lock", "a lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def read_info(path: Path) -> dict[str, Any]:
    """Return the contents of run.json; raise InputError unless it describes a run of this format."""
    file = path / "run.json"
    if not path.is_dir():
        raise InputError("no-such-file", str(path), expected="the folder of a run")
    try:
        content = read_json(file, "the description of a run", MEGABYTE)
        if isinstance(content, dict) and content.get("format") == 1:
            raise InputError("other-version", str(path), "format 1", f"format {FORMAT}",
                             "Run its scenario.toml again, or read it with the version of netsim that wrote it")
        info = read_object(file, "the description of a run")
    except FileNotFoundError:
        raise InputError("not-a-run", str(path), "no run.json") from None
    except OSError as error:
        raise InputError("unreadable", str(file), str(error)) from None
    kinds = {"scenario": str, "seed": int, "status": str, "round": int}
    if info.get("format") != FORMAT or any(type(info.get(key)) is not kind for key, kind in kinds.items()) or not (
            0 <= info["round"] < MOST_ROUNDS and info["seed"] >= 0):
        raise InputError("other-version", str(file), expected=f"a run of format {FORMAT}")
    return info


@contextmanager
def next_free(results: Path, name: str, *, resume: bool) -> Iterator[Path]:
    """Make a new folder for a run under ``results``: NAME, NAME-2, NAME-3, …; with ``resume``, yield the last one.

    Simultaneous processes make different folders. An empty folder is removed at the end. Characters of a scenario's
    name that could lead out of ``results`` are replaced.
    """
    name = re.sub(r"[^\w.-]+", "-", name).lstrip(".")
    first, later = results / name, (results / f"{name}-{number}" for number in count(2))
    if resume:
        *_, last = first, *takewhile(Path.exists, later)
        yield last
        return
    results.mkdir(exist_ok=True)
    path = next(path for path in chain([first], later) if _made(path))
    try:
        yield path
    finally:
        with suppress(OSError):
            path.rmdir()


def _made(path: Path) -> bool:
    """Make a folder; return False if it exists. Only one process can make it."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True
