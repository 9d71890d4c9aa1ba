"""The trace of a run: rows for what happened, links for what caused what, stored in Parquet parts.

Columns of a row
    seq        number of the row, in the order of recording
    round      global iteration, from 1
    kind       "span" (t0 to t1), "instant" (t0 = t1) or "counter" (``value`` holds from t0 on)
    name       spans: compute, upload, wait, aggregate, round; instants: select, allocate and the DROPS;
               counters: battery (J), bandwidth (Hz), accuracy, loss, cluster (that the device is in)
    device     number of the device; SERVER or CELL where it is none
    t0, t1     simulated seconds
    value      what a counter counts; how many devices an instant or round span is about
    energy_j   what a span took from the device's battery

A link ``src -> dst`` says that row ``dst`` could not begin before row ``src`` had ended.
No column holds wall-clock time, so equal runs leave equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.errors import InputError
from netsim.base.files import packed, replace_file

if TYPE_CHECKING:
    import polars as pl

SERVER = -1
CELL = -2

BATTERY_EMPTY = "battery empty"
DEADLINE = "deadline"
INFEASIBLE = "infeasible"
DROPS = (BATTERY_EMPTY, DEADLINE, INFEASIBLE)   # why a device of the cohort did not deliver

COLUMNS = ("seq", "round", "kind", "name", "device", "t0", "t1", "value", "energy_j")


@dataclass(frozen=True)
class Part:
    """A stretch of the trace: the columns of its rows, and its links."""

    rows: dict[str, list[Any]]
    links: dict[str, list[int]]

    def sha256(self, previous: str) -> str:
        """Fingerprint of this part and, through ``previous``, of all parts before it."""
        digest = hashlib.sha256(previous.encode())
        for name, values in (*self.rows.items(), *self.links.items()):
            digest.update(name.encode())
            if name in ("kind", "name"):
                digest.update("\n".join(values).encode())
            else:
                real = name in ("t0", "t1", "value", "energy_j")
                digest.update(np.asarray(values, "<f8" if real else "<i8").tobytes())
        return digest.hexdigest()


@dataclass
class Recorder:
    """Collects rows and links until somebody takes them away as a part."""

    next_seq: int = 0
    round: int = 0
    _rows: list[tuple[int, int, str, str, int, float, float, float, float]] = field(default_factory=list)
    _links: list[tuple[int, int]] = field(default_factory=list)

    def span(
        self, name: str, device: int, t0: float, t1: float, *,
        energy_j: float = 0.0, value: float = 0.0, after: Iterable[int] = (),
    ) -> int:
        """Something that took from ``t0`` to ``t1``; ``after`` are the rows that it had to wait for."""
        return self._add("span", name, device, t0, t1, value, energy_j, after)

    def instant(self, name: str, device: int, t: float, *, value: float = 0.0, after: Iterable[int] = ()) -> int:
        """Something that took no time."""
        return self._add("instant", name, device, t, t, value, 0.0, after)

    def counter(self, name: str, device: int, t: float, value: float) -> int:
        """A quantity that has this value from now on."""
        return self._add("counter", name, device, t, t, value, 0.0, ())

    def _add(
        self, kind: str, name: str, device: int, t0: float, t1: float, value: float, energy_j: float,
        after: Iterable[int],
    ) -> int:
        seq = self.next_seq
        self.next_seq += 1
        self._rows.append((seq, self.round, kind, name, device, t0, t1, value, energy_j))
        self._links.extend((cause, seq) for cause in after)
        return seq

    def __len__(self) -> int:
        return len(self._rows)

    def take(self) -> Part:
        """All rows and links since the last call."""
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(COLUMNS)
        src, dst = zip(*self._links, strict=True) if self._links else ((), ())
        part = Part(
            rows={name: list(values) for name, values in zip(COLUMNS, columns, strict=True)},
            links={"src": list(src), "dst": list(dst)},
        )
        self._rows, self._links = [], []
        return part


def row_schema() -> dict[str, Any]:
    """Column types of the rows."""
    import polars as pl

    return {
        "seq": pl.Int64, "round": pl.Int32, "kind": pl.String, "name": pl.String, "device": pl.Int32,
        "t0": pl.Float64, "t1": pl.Float64, "value": pl.Float64, "energy_j": pl.Float64,
    }


def link_schema() -> dict[str, Any]:
    """Column types of the links."""
    import polars as pl

    return {"src": pl.Int64, "dst": pl.Int64}


def write_part(folder: Path, first_round: int, part: Part) -> None:
    """Store a part as ``trace/part-00012.parquet`` and ``links/part-00012.parquet``, each whole or not at all."""
    import polars as pl

    name = f"part-{first_round:05d}.parquet"
    for kind, columns, schema in (("links", part.links, link_schema()), ("trace", part.rows, row_schema())):
        write = partial(pl.DataFrame(columns, schema=schema).write_parquet, compression="zstd")
        replace_file(folder / kind / name, packed(write))


def part_files(folder: Path, kind: str, last_round: int) -> list[Path]:
    """The part files that begin no later than ``last_round``, in order."""
    return [path for path in sorted((folder / kind).glob("part-*.parquet"), key=first_round_of)
            if first_round_of(path) <= last_round]


def first_round_of(path: Path) -> int:
    """The first round in a part file, read off its name."""
    try:
        return int(path.stem.removeprefix("part-"))
    except ValueError:
        raise InputError(f"{path}: not a part of a trace; its name should look like part-00012.parquet") from None


def scan(folder: Path, kind: str, last_round: int) -> pl.LazyFrame:
    """All complete parts of ``kind`` ("trace" or "links") as one lazy frame."""
    import polars as pl

    schema = row_schema() if kind == "trace" else link_schema()
    files = part_files(folder, kind, last_round)
    for file in files:
        try:
            with file.open("rb") as opened:      # by its path, a [ in it would stand for several files
                found = pl.read_parquet_schema(opened)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"{file}: not a readable part of a trace ({error})") from None
        if dict(found) != schema:
            raise InputError(f"{file}: not a part of a netsim trace: columns {dict(found)}; expected {schema}")
    return pl.scan_parquet(files, glob=False) if files else pl.DataFrame(schema=schema).lazy()
