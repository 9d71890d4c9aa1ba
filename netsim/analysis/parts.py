"""A large trace read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from netsim.base.errors import InputError
from netsim.trace.store import part_files

if TYPE_CHECKING:
    from netsim.run import Run


def each_part(run: Run) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """The rows and the links of each part in turn; a link lies in the part of the row that it leads to."""
    run.scan()           # both complain about a damaged trace
    run.scan_links()
    rows, links = (part_files(run.path, kind, run.last_round) for kind in ("trace", "links"))
    if [file.name for file in rows] != [file.name for file in links]:
        raise InputError("damaged", str(run.path / "links"), "other parts than in trace/")
    for row_file, link_file in zip(rows, links, strict=True):
        yield run.collect(pl.scan_parquet(row_file, glob=False)), run.collect(pl.scan_parquet(link_file, glob=False))
