"""A run for other tools: Perfetto, CSV, Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import polars as pl

from netsim.analysis.names import all_names
from netsim.analysis.parts import each_part
from netsim.base.errors import InputError
from netsim.base.files import packed, replace_file
from netsim.base.registry import Entry, Registry, first_called
from netsim.base.spreadsheet import safe_table

if TYPE_CHECKING:
    from netsim.run import Run


FORMATS = Registry("export format", "--format", {
    "perfetto": Entry("netsim.analysis.perfetto:write_perfetto", "for ui.perfetto.dev and chrome://tracing"),
    "csv": Entry("netsim.analysis.export:write_csv", "the rows of the trace as text"),
    "parquet": Entry("netsim.analysis.export:write_parquet", "the rows of the trace as one table"),
}, given=2, check=first_called("run", "--format"))


def export(run: Run, format: str, path: Path) -> None:
    """Write a run to a file, whole or not at all.

    ``format`` is a name in :data:`FORMATS`, or ``"package.module:function"`` for the user's own: a function of a run
    and of a file that is open to be written.
    """
    write = FORMATS.make(format, {})
    try:
        replace_file(path, partial(write, run))
    except OSError as error:
        raise InputError("unwritable", str(path), error.strerror or str(error)) from None


def _tables(run: Run) -> Iterator[pl.DataFrame]:
    """The trace with the devices' names, and in ``after`` the rows that a row had to wait for."""
    names = all_names(run.devices).rename({"name": "device_name"})
    for rows, links in each_part(run):
        causes = links.group_by("dst", maintain_order=True).agg(pl.col("src").alias("after"))
        yield (
            rows.join(names, on="device", how="left", maintain_order="left")
            .join(causes, left_on="seq", right_on="dst", how="left", maintain_order="left")
            .select("seq", "round", "kind", "name", "device", "device_name", "job", "t0", "t1", "value", "energy_j",
                    "after")
        )


def write_csv(run: Run, file: IO[bytes]) -> None:
    """The rows as text, the causes of a row separated by spaces."""
    for number, table in enumerate(_tables(run)):
        spaced = pl.col("after").list.eval(pl.element().cast(pl.String)).list.join(" ").fill_null("")
        safe_table(table.with_columns(spaced)).write_csv(file, include_header=number == 0)


def write_parquet(run: Run, file: IO[bytes]) -> None:
    """The rows as one table."""
    packed(partial(pl.concat(_tables(run)).write_parquet, compression="zstd"))(file)
