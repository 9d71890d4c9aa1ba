"""Recorder of a trace: collects rows, links and jobs in memory until a part is taken."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.types import Floats, Ints, State
from netsim.trace.schema import DERIVED, JOBS, KINDS, LINKS, ROWS, TABLES

SPAN, INSTANT, COUNTER = range(len(KINDS))
RECORDED = {name: code for name, code in ROWS.items() if name not in DERIVED}
# Text is stored as its index in a table of texts. All numbers are recorded as floats, which are exact for integers up
# to 2^53, so that a table is one matrix.
_NUMPY = {"q": np.int64, "i": np.int32, "d": np.float64, "s": np.int32}


@dataclass(frozen=True, eq=False)
class Part:
    """A part of the trace: its tables by name, each a dict of columns; text columns hold indices into ``texts``."""

    tables: Mapping[str, Mapping[str, NDArray[Any]]]
    texts: tuple[str, ...]

    def column(self, table: str, name: str) -> list[Any]:
        values = self.tables[table][name].tolist()
        return [self.texts[number] for number in values] if TABLES[table][name] == "s" else values

    @property
    def rows(self) -> dict[str, list[Any]]:
        return {name: self.column("trace", name) for name in ROWS}

    @property
    def links(self) -> dict[str, list[Any]]:
        return {name: self.column("links", name) for name in LINKS}

    @property
    def jobs(self) -> dict[str, list[Any]]:
        return {name: self.column("jobs", name) for name in JOBS}

    def sha256(self, previous: str) -> str:
        """Return the checksum of this part and, through ``previous``, of all parts before it."""
        digest = hashlib.sha256(f"{previous}\n{chr(10).join(self.texts)}\n".encode())
        for columns in self.tables.values():
            for name, values in columns.items():
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data)
        return digest.hexdigest()


class Recorder:
    """Collects trace rows, links and jobs, one at a time or many at once."""

    def __init__(self) -> None:
        self.next_seq = 0
        self._rounds = 0               # rounds in the parts that were taken
        self._begin()

    def _begin(self) -> None:
        self._first = self.next_seq
        self._alone = array("d")       # single rows: number and columns of each
        self._src, self._dst = array("q"), array("q")
        # blocks of many rows, links or jobs, concatenated in ``take``
        self._blocks: list[tuple[int, Floats]] = []
        self._links: list[tuple[Ints, Ints]] = []
        self._jobs: list[Floats] = []
        # numbered by first use in the part, so that equal parts have equal numbers
        self._texts: dict[str, int] = {kind: number for number, kind in enumerate(KINDS)}

    def text(self, text: str) -> int:
        """Return the index of a text in this part."""
        return self._texts.setdefault(text, len(self._texts))

    def span(
        self, name: str, device: int, t0: float, t1: float, *,
        energy_j: float = 0.0, value: float = 0.0, after: Iterable[int] = (),
    ) -> int:
        """Record a span from ``t0`` to ``t1`` (seconds) and return its row; ``after`` are the rows that caused it."""
        return self._add((SPAN, self.text(name), device, -1, t0, t1, value, energy_j), after)

    def instant(
        self, name: str, device: int, t: float, *, value: float = 0.0, after: Iterable[int] = (), job: int = -1,
    ) -> int:
        """Record an instant and return its row; ``after`` are the rows that caused it."""
        return self._add((INSTANT, self.text(name), device, job, t, t, value, 0.0), after)

    def counter(self, name: str, device: int, t: float, value: float) -> int:
        """Record the value of a quantity from ``t`` (seconds) on, and return its row."""
        return self._add((COUNTER, self.text(name), device, -1, t, t, value, 0.0), ())

    def _add(self, row: tuple[float, ...], after: Iterable[int]) -> int:
        seq = self.next_seq
        self.next_seq += 1
        self._alone.extend((seq, *row))
        self._src.extend(after)
        self._dst.extend([seq] * (len(self._src) - len(self._dst)))
        return seq

    def link(self, src: int, dst: int) -> None:
        """Record that row ``src`` caused row ``dst``."""
        self._src.append(src)
        self._dst.append(dst)

    def add_rows(self, columns: Floats) -> None:
        """Record n rows with consecutive numbers; ``columns`` has shape (recorded columns, n), texts as indices."""
        self._blocks.append((self.next_seq, columns))
        self.next_seq += columns.shape[1]

    def add_links(self, src: Ints, dst: Ints) -> None:
        self._links.append((src, dst))

    def add_jobs(self, count: int, columns: Mapping[str, NDArray[Any] | float]) -> None:
        """Record ended jobs; ``outcome`` is the index of its text, and a scalar holds for every job."""
        missing = [name for name in JOBS if name not in columns]
        if missing:
            raise TypeError(f"jobs without the columns {', '.join(missing)} of netsim.trace.schema.JOBS; fill them in "
                            "_record_jobs and record_left_out of netsim.server.job_recording")
        jobs = np.empty((len(JOBS), count))
        for place, name in enumerate(JOBS):
            jobs[place] = columns[name]
        self._jobs.append(jobs)

    def __len__(self) -> int:
        return self.next_seq - self._first

    def take(self) -> Part:
        """Return everything recorded since the last call."""
        rows = self._take_rows()
        ends = (rows["kind"] == SPAN) & (rows["name"] == self.text("round"))
        counted = {"seq": np.arange(self._first, self.next_seq, dtype=np.int64),
                   "round": (self._rounds + 1 + np.cumsum(ends) - ends).astype(np.int32)}
        self._rounds += int(ends.sum())
        jobs = _columns(np.concatenate([np.empty((len(JOBS), 0)), *self._jobs], axis=1), JOBS)
        part = Part({"trace": {**counted, **rows}, "links": self._take_links(), "jobs": jobs}, tuple(self._texts))
        self._begin()
        return part

    def _take_rows(self) -> dict[str, NDArray[Any]]:
        """Return the rows in the order of their numbers."""
        alone = np.array(self._alone).reshape(-1, 1 + len(RECORDED)).T
        rows = np.empty((len(RECORDED), len(self)))
        rows[:, alone[0].astype(np.int64) - self._first] = alone[1:]
        for first, columns in self._blocks:
            place = first - self._first
            rows[:, place:place + columns.shape[1]] = columns
        return _columns(rows, RECORDED)

    def _take_links(self) -> dict[str, NDArray[Any]]:
        """Return all links, sorted by effect, then by cause."""
        pairs = [(np.array(self._src, np.int64), np.array(self._dst, np.int64)), *self._links]
        src, dst = (np.concatenate(ends).astype(np.int64) for ends in zip(*pairs, strict=True))
        order = np.lexsort((src, dst))
        return {"src": src[order], "dst": dst[order]}

    def snapshot(self) -> State:
        """Return the counts for a checkpoint; all recorded rows must have been taken."""
        return {"counts": np.array([self.next_seq, self._rounds], np.int64)}

    def restore(self, state: State) -> None:
        self.next_seq, self._rounds = (int(count) for count in state["counts"])
        self._begin()


def _columns(table: Floats, types: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Return the rows of a matrix as named columns of the given types."""
    return {name: line.astype(_NUMPY[code]) for line, (name, code) in zip(table, types.items(), strict=True)}
