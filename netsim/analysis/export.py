"""A run for other tools: Perfetto, CSV, Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import polars as pl

from netsim.analysis.names import all_names
from netsim.analysis.parts import each_part
from netsim.analysis.perfetto import write_perfetto
from netsim.base.errors import InputError, one_of
from netsim.base.files import packed, replace_file
from netsim.base.spreadsheet import safe_table

if TYPE_CHECKING:
    from netsim.trace.stored_run import StoredRun


def export(run: StoredRun, format: str, path: Path) -> None:
    """Write a run to a file, whole or not at all."""
    if format not in FORMATS:
        raise InputError(f'no export format "{format}"; {one_of(format, FORMATS)}')
    try:
        replace_file(path, lambda file: FORMATS[format](run, file))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _tables(run: StoredRun) -> Iterator[pl.DataFrame]:
    """The trace with the devices' names, and in ``after`` the rows that a row had to wait for."""
    names = all_names(run.devices).rename({"name": "device_name"})
    for rows, links in each_part(run):
        causes = links.group_by("dst", maintain_order=True).agg(pl.col("src").alias("after"))
        yield (
            rows.join(names, on="device", how="left", maintain_order="left")
            .join(causes, left_on="seq", right_on="dst", how="left", maintain_order="left")
            .select("seq", "round", "kind", "name", "device", "device_name", "t0", "t1", "value", "energy_j", "after")
        )


def _write_csv(run: StoredRun, file: IO[bytes]) -> None:
    for number, table in enumerate(_tables(run)):
        spaced = pl.col("after").list.eval(pl.element().cast(pl.String)).list.join(" ").fill_null("")
        safe_table(table.with_columns(spaced)).write_csv(file, include_header=number == 0)


def _write_parquet(run: StoredRun, file: IO[bytes]) -> None:
    packed(partial(pl.concat(_tables(run)).write_parquet, compression="zstd"))(file)


FORMATS: dict[str, Callable[[StoredRun, IO[bytes]], None]] = {
    "perfetto": write_perfetto,
    "csv": _write_csv,
    "parquet": _write_parquet,
}
