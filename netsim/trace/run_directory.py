"""The folder that a run leaves behind.

    scenario.toml              the scenario with all defaults filled in
    devices.parquet            the population as drawn
    trace/part-00012.parquet   what happened, from round 12 on; see netsim.trace.schema
    links/part-00012.parquet   what caused what
    jobs/part-00012.parquet    what was decided for each job, and what came of it
    checksums.sha256           of all these; `sha256sum --check` reads it too
    checkpoint.npz             the state after the last complete round
    run.json                   seed, versions, processor, last complete round, and a checksum of its own
    summary.json               the result, once the run is finished; run.json has its checksum
    model.npz                  of a Flower app, the model that its strategy ended with
    answers/                   of a Flower app, what its clients answered, until the run is finished

What can change in a run knows its checksum itself, as checkpoint.npz and run.json do; the models that devices have
uploaded (uploads.f32) have theirs in the checkpoint.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any

from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, open_to_read, read_json
from netsim.base.sealed import read_object

FORMAT = 2
MOST_ROUNDS = 2**31      # of a run: their numbers are 32-bit columns of the trace


def is_finished(path: Path) -> bool:
    """Whether a run lies there that has come to its end."""
    with suppress(InputError):
        return bool(read_info(path)["status"] == "finished")
    return False


def is_being_written(path: Path) -> bool:
    """Whether a living process holds the run open."""
    with suppress(FileNotFoundError), open_to_read(path / "lock", "a lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def read_info(path: Path) -> dict[str, Any]:
    """What run.json says."""
    file = path / "run.json"
    if not path.is_dir():
        raise InputError("no-such-file", str(path), expected="the folder of a run")
    try:
        told = read_json(file, "a run's own word", MEGABYTE)
        if isinstance(told, dict) and told.get("format") == 1:
            raise InputError("other-version", str(path), "format 1", f"format {FORMAT}",
                             "Run its scenario.toml again, or look at it with the version that wrote it")
        info = read_object(file, "a run's own word")
    except FileNotFoundError:
        raise InputError("not-a-run", str(path), "no run.json") from None
    except OSError as error:
        raise InputError("unreadable", str(file), str(error)) from None
    kinds = {"scenario": str, "seed": int, "status": str, "round": int}
    if info.get("format") != FORMAT or any(type(info.get(key)) is not kind for key, kind in kinds.items()) or not (
            0 <= info["round"] < MOST_ROUNDS):
        raise InputError("other-version", str(file), expected=f"a run of format {FORMAT}")
    return info


@contextmanager
def next_free(results: Path, name: str, *, resume: bool) -> Iterator[Path]:
    """A new folder for a run under ``results``: NAME, NAME-2, NAME-3, …; to resume, the last one that is there.

    The folder is made here, so that of processes that start together each gets its own; if nothing is written into it,
    it is removed at the end. A scenario's name may hold anything; what could lead out of ``results`` is replaced.
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
    """Whether this call made the folder; the system lets one process alone make it."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True
