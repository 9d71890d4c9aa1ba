"""Forged runs: real ones whose tables, checkpoint, run.json, summary or scenario were changed, with checksums that fit.

A checksum protects against accidents. A forged file comes with a new one; then what a command reads must be refused in
one sentence, or answered, but never end in a traceback.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from .commands import FaultError, netsim, tell
from .folders import RUNS, Cut
from .mutations import mutant

WORDS: dict[str, tuple[object, ...]] = {
    **RUNS,
    "waiting": ("run", "tiny", "--set", "end.rounds=8", "--set", "server.kind=fedbuff", "--set", "server.buffer=2",
                "--set", "server.concurrency=3", "--set", "cell.fading=rayleigh", "--set", "population.node.battery=5J",
                "--json"),
}
NUMBERS: list[Any] = [None, float("nan"), float("inf"), float("-inf"), -1, 0, 1, 3, -7, 1e300, 2**31 - 1, 2**63 - 1]
VALUES: list[Any] = [*NUMBERS, "", "x", "$x^$", "\x1b[31m", [], [1.0], {}, {"a": 1}, True, [None], "1" * 5000]
TYPES = (pl.String, pl.Float32, pl.Float64, pl.Int8, pl.Int64, pl.UInt64, pl.Boolean, pl.List(pl.Float64), pl.Binary,
         pl.Date, pl.Categorical, pl.Null, pl.Struct({"a": pl.Float64}))
DTYPES = ("U8", "S3", "f4", "f8", "i1", "i8", "u8", "?", "c16", "M8[s]", "V4")


def make_forged(home: Path) -> None:
    """The run that is made here alone: asynchronous, cut off while jobs are under way, with a part each round."""
    from netsim import session
    from netsim.server.asynchronous import AsynchronousServer

    parts, ended = session.rows_a_part, AsynchronousServer.ended

    def cut(self: Any) -> bool:
        if self.rounds.version >= 4:
            raise Cut
        return ended(self)

    session.rows_a_part, AsynchronousServer.ended = lambda learning: 1, cut      # type: ignore[method-assign]
    try:
        netsim(*WORDS["waiting"], "--out", home / "whole" / "waiting")
    except Cut:
        pass
    finally:
        session.rows_a_part, AsynchronousServer.ended = parts, ended             # type: ignore[method-assign]


def forged_case(chance: random.Random, folder: Path, home: Path) -> str:
    """Forge a file or three of a run, and let every command read it."""
    name = chance.choice(list(WORDS))
    run = folder / "run"
    shutil.copytree(home / "whole" / name, run)
    done = [forge(run, chance) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
    (folder / "forged.txt").write_text("\n".join(done))
    answers = [tell(answer, kind, *done, "of", name) for kind, answer in readers(name, run, chance)]
    return "ok" if all(answers) else "refused"


def forge(run: Path, chance: random.Random) -> str:
    """Change one file and all checksums that cover it; says what was done."""
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.suffix in FORGERS]
    path = chance.choice(files)
    what = FORGERS[path.suffix](path, chance)
    sums = run / "checksums.sha256"
    name = str(path.relative_to(run))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    sums.write_text("".join(f"{digest}  {name}\n" if line.endswith(f"  {name}") else f"{line}\n"
                            for line in sums.read_text().splitlines()))
    if name == "summary.json":
        sealed(run / "run.json", {**unsealed(run / "run.json"), "summary_sha256": digest})
    return f"{name}: {what}"


def parquet(path: Path, chance: random.Random) -> str:
    """A table with other values, types, columns or rows."""
    table = pl.read_parquet(path)
    column = chance.choice(table.columns)
    way = chance.choice(["value", "value", "value", "all", "type", "drop", "more", "empty", "twice", "order", "swap"])
    value = chance.choice(NUMBERS if table[column].dtype.is_numeric() else VALUES)
    if way in ("value", "all"):
        values = table[column].to_list()
        for row in range(len(values)) if way == "all" else [chance.randrange(len(values))] if values else []:
            values[row] = value
        kind = table[column].dtype if chance.random() < 0.8 else None
        table = table.with_columns(made(column, values, kind))
    elif way == "type":
        value = chance.choice(TYPES)
        table = table.with_columns(made(column, [None] * len(table), value))
        if chance.random() < 0.5:
            table = table.with_columns(made(column, pl.read_parquet(path)[column].to_list(), value))
    elif way == "drop":
        table = table.drop(column)
    elif way == "more":
        table = table.with_columns(pl.lit(1).alias("more"))
    elif way == "empty":
        table = table.head(0)
    elif way == "twice":
        table = pl.concat([table, table])
    elif way == "order":
        table = table.sample(fraction=1.0, shuffle=True, seed=chance.randrange(1000))
    elif column != (other := chance.choice(table.columns)):
        table = table.with_columns(pl.col(column).alias(other), pl.col(other).alias(column))
    table.write_parquet(path)
    return f"{way} {column} {value!r}"


def made(name: str, values: list[Any], kind: Any) -> pl.Series:
    """A column of this type if the values can be had in it, else of the type that they suggest."""
    for wanted in (kind, None):
        try:
            return pl.Series(name, values, dtype=wanted, strict=False)
        except Exception:      # whatever polars says of a value that fits no column
            continue
    return pl.Series(name, [str(value) for value in values])


def unsealed(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text())
    content.pop("sha256", None)
    return dict(content)


def sealed(path: Path, content: dict[str, Any]) -> None:
    from netsim.base.checksummed import write_object

    write_object(path, content)


def of_json(path: Path, chance: random.Random) -> str:
    """A key of run.json or summary.json with another value, or without."""
    content = unsealed(path)
    key, value = chance.choice(list(content)), chance.choice(VALUES)
    if chance.random() < 0.15:
        del content[key]
    elif isinstance(content[key], list | dict) and content[key] and chance.random() < 0.6:
        inner = content[key]
        inner[chance.choice(list(inner) if isinstance(inner, dict) else list(range(len(inner))))] = value
    else:
        content[key] = value
    if path.name == "run.json":
        sealed(path, content)
    else:
        path.write_text(json.dumps(content))
    return f"{key} = {value!r}"[:200]


def of_arrays(path: Path, chance: random.Random) -> str:
    """An array of a checkpoint with other values, another type or shape, or without."""
    from netsim.base.checksummed import read_arrays, write_arrays

    state = read_arrays(path)
    key = chance.choice(list(state))
    array, way = state[key], chance.choice(["value", "value", "all", "type", "shape", "drop", "empty", "more"])
    value: Any = ""
    if way in ("value", "all") and array.size:
        value = chance.choice(NUMBERS[1:])
        array = array.astype("f8") if isinstance(value, float) and chance.random() < 0.7 else array.copy()
        at = ... if way == "all" else tuple(chance.randrange(size) for size in array.shape)
        with np.errstate(all="ignore"):
            array[at] = np.array(value).astype(array.dtype)
    elif way == "type":
        value = chance.choice(DTYPES)
        with np.errstate(all="ignore"):
            array = np.zeros(array.shape, value) if value == "V4" else array.astype(value)
    elif way == "shape":
        array = chance.choice([array.reshape(-1, 1), array[None], array.ravel()[:-1] if array.size else array,
                               np.concatenate([array.ravel()] * 2)])
    elif way == "empty":
        array = array[:0] if array.ndim else array[None][:0]
    if way == "drop":
        del state[key]
    else:
        state[f"{key}2" if way == "more" else key] = array
    write_arrays(path, state)
    return f"{way} {key} {value!r}"


def of_toml(path: Path, chance: random.Random) -> str:
    """A scenario that was changed after the run."""
    path.write_text(mutant(path.read_text(), chance), errors="replace")
    return "mutant"


FORGERS: dict[str, Callable[[Path, random.Random], str]] = {
    ".parquet": parquet, ".json": of_json, ".npz": of_arrays, ".toml": of_toml}


def readers(name: str, run: Path, chance: random.Random) -> Iterator[tuple[str, Any]]:
    """Every command that reads a run, and what Python offers; going on with it comes last, since it may complete it."""
    beside = run.parent
    commands = [
        ("breakdown", run, "--json"), ("breakdown", run), ("breakdown", run, "--csv", "--by", "shares"),
        ("breakdown", run, "--figure", beside / "x.png", "--force"), ("critical-path", run, "--json"),
        ("critical-path", run), ("explain", run, "--json"), ("explain", run, "--round", "1"),
        ("export", run, "--format", "csv", "--out", beside / "x.csv", "--force"),
        ("export", run, "--format", "perfetto", "--out", beside / "x.json", "--force"),
        ("export", run, "--format", "parquet", "--out", beside / "x.parquet", "--force"),
        ("report", run, "--out", beside / "x.html", "--force"),
        ("report", run, run, "--out", beside / "y.html", "--force"),
    ]
    for words in chance.sample(commands, 5):      # of each case some: all of them take seconds
        yield " ".join(map(str, words[::2])), netsim(*words)
    in_python(run)
    yield "resume", netsim(*WORDS[name], "--out", run, "--resume")


def in_python(run: Path) -> None:
    """All that a loaded run offers: an answer, or InputError."""
    from netsim import InputError, load_run

    try:
        loaded = load_run(run)
    except InputError:
        return
    for ask in (lambda: loaded.rounds, lambda: loaded.jobs, lambda: loaded.spans, lambda: loaded.links,
                lambda: loaded.devices, lambda: loaded.events, lambda: loaded.summary, lambda: loaded.title,
                lambda: loaded.scenario, lambda: loaded._repr_html_(), lambda: repr(loaded), lambda: loaded.graph(),
                lambda: loaded.figure("gantt", 1), lambda: loaded.figure("energy"), lambda: loaded.figure("band"),
                lambda: loaded.figure("accuracy")):
        try:
            ask()
        except InputError as refusal:
            if len(str(refusal)) > 2000:
                raise FaultError("traceback", f"a message of {len(str(refusal))} characters") from None
