"""Export of a run to other tools: Perfetto, CSV, Parquet, TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import polars as pl

from netsim.analysis.device_names import all_names
from netsim.base.errors import InputError
from netsim.base.files import packed, replace_file, safe_table
from netsim.base.registry import Entry, Registry, first_called
from netsim.run import Run
from netsim.trace.schema import ARRIVED
from netsim.trace.store import part_files

FACTS = ("bandwidth_hz", "cpu_hz", "rate_bit_per_s", "gain_db", "power_w", "budget_j")
FORMATS = Registry("export format", "--format", {
    "perfetto": Entry("netsim.analysis.perfetto:write_perfetto", "for ui.perfetto.dev and chrome://tracing"),
    "csv": Entry("netsim.analysis.export:write_csv", "the rows of the trace as text"),
    "parquet": Entry("netsim.analysis.export:write_parquet", "the rows of the trace as one table"),
    "tensorboard": Entry("netsim.analysis.tensorboard:write_tensorboard", "accuracy, times and energy of the rounds"),
}, given=2, check=first_called("run", "--format"))
EVENTS = "tfevents"      # part of the name of every file that TensorBoard reads


def export(run: Run, format: str, path: Path) -> None:
    """Write a run to a file atomically.

    ``format`` is a name in :data:`FORMATS`, or ``"package.module:function"``: a function of a run and a writable
    binary file.
    """
    write = FORMATS.make(format, {})
    if format == "tensorboard" and EVENTS not in path.name:
        raise InputError("malformed", "--out", path.name, f'a file name with "{EVENTS}"',
                         f"TensorBoard reads no other files: use {path.with_name('events.out.tfevents.netsim')}")
    if not run.last_round:
        raise InputError("empty", str(run.path), hint="No round is complete yet, so there is nothing to export")
    try:
        replace_file(path, partial(write, run))
    except OSError as error:
        raise InputError("unwritable", str(path), error.strerror or str(error)) from None


def each_part(run: Run) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield the rows and the links of each part of the trace; a link is in the part of the row that it leads to."""
    run.scan()           # both raise InputError for a damaged trace
    run.scan_links()
    rows, links = (part_files(run.path, kind, run.last_round) for kind in ("trace", "links"))
    if [file.name for file in rows] != [file.name for file in links]:
        raise InputError("damaged", str(run.path / "links"), "other parts than in trace/")
    for row_file, link_file in zip(rows, links, strict=True):
        yield run.collect(pl.scan_parquet(row_file, glob=False)), run.collect(pl.scan_parquet(link_file, glob=False))


def job_annotations(run: Run) -> pl.DataFrame:
    """Return a row per job: job, outcome and the FACTS of its plan; null without a plan.

    The rate is the mean rate of the upload, or the planned rate of a job that did not arrive.
    """
    arrived = (pl.col("outcome") == ARRIVED) & (pl.col("upload_s") > 0.0)
    upload_s = pl.when(arrived).then("upload_s").otherwise(pl.col("planned_s") - pl.col("cycles") / pl.col("cpu_hz"))
    known = run.scan_jobs().select(
        "job", "outcome", "bandwidth_hz", "cpu_hz", "power_w", "budget_j", rate_bit_per_s=pl.col("bits") / upload_s,
        gain_db=10.0 * pl.col("gain").log10())
    return run.collect(known.select(
        "job", "outcome", *(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in FACTS)))


def _tables(run: Run) -> Iterator[pl.DataFrame]:
    """Yield the trace with the devices' names, and in ``after`` the rows that a row waited for."""
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
    """Write the rows as CSV; the causes of a row are separated by spaces."""
    for number, table in enumerate(_tables(run)):
        spaced = pl.col("after").list.eval(pl.element().cast(pl.String)).list.join(" ").fill_null("")
        safe_table(table.with_columns(spaced)).write_csv(file, include_header=number == 0)


def write_parquet(run: Run, file: IO[bytes]) -> None:
    packed(partial(pl.concat(_tables(run)).write_parquet, compression="zstd"))(file)
