"""Logs of a real deployment as columns of numbers: checked, in SI units, one row per job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from netsim.base.errors import InputError, nearest, quoted
from netsim.base.files import MEGABYTE, open_to_read, reading
from netsim.base.pluralize import pluralize
from netsim.base.types import Bools, Floats, Ints

MOST_BYTES = 4_000 * MEGABYTE
# Columns of numbers with their meaning; all but the first two may be missing.
NUMBERS = {
    "samples": "samples that the job processed, all passes together",
    "batch": "batch size",
    "compute_s": "seconds of local training",
    "batches": "optimiser steps; by default samples / batch, rounded up",
    "flops": "FLOP per sample, forward and backward",
    "bits": "bits of the upload",
    "upload_s": "seconds of the upload",
    "download_bits": "bits of the download; by default those of the upload",
    "download_s": "seconds of the download",
    "energy_j": "joules of the whole job",
    "t": "start of the job in seconds",
}
TEXTS = {"device": "name of the device", "round": "number or name of the round", "model": "name of the model"}
NEEDED = ("device", "samples", "batch", "compute_s")
DURATIONS = ("compute_s", "upload_s", "download_s")
ABOVE_ZERO = ("samples", "batch", "batches", "flops", "bits", "download_bits", *DURATIONS, "energy_j")
OTHER_UNITS = ("ms", "us", "ns", "min", "h", "kb", "mb", "kbit", "mbit", "bytes", "mj", "kj", "wh", "mwh")
MIXED = 2.0       # decades between two groups of rows of a device that no slow round explains


@dataclass(frozen=True, eq=False)
class Log:
    """Rows of a log; missing values are NaN.

    ``unit`` numbers what is fitted: the devices, or pairs of device and model if the log has several models.
    """

    path: str
    names: tuple[str, ...]              # of the units
    models: tuple[str, ...]             # of the units; empty texts if the log has one model
    unit: Ints
    round: Ints                         # a number of its own for each row without a round
    has_rounds: bool
    columns: dict[str, Floats]
    rounds: tuple[str, ...]             # labels of the rounds, by their number
    ignored: tuple[str, ...] = ()       # columns that netsim does not read
    flops: float | None = None          # median FLOP per sample

    def __getitem__(self, name: str) -> Floats:
        return self.columns[name] if name in self.columns else np.full(len(self.unit), np.nan)

    def __len__(self) -> int:
        return len(self.unit)

    @cached_property
    def batches(self) -> Floats:
        """Optimiser steps of each row."""
        given = self["batches"]
        return np.where(np.isnan(given), np.ceil(self["samples"] / self["batch"] - 1e-9), given)

    @cached_property
    def work(self) -> Floats:
        """Samples of each row; with a column ``flops``, samples of the median FLOP count."""
        return self["samples"] * (1.0 if self.flops is None else self["flops"] / self.flops)

    @cached_property
    def bits(self) -> Floats:
        """Bits of each row's upload; 1 if the log has none."""
        return self["bits"] if "bits" in self.columns else np.ones(len(self))

    @cached_property
    def download_bits(self) -> Floats:
        """Bits of each row's download; by default those of the upload."""
        given = self["download_bits"]
        return np.where(np.isnan(given), self.bits, given)

    @cached_property
    def failed(self) -> Bools:
        """Rows of jobs that did not finish: a round, and no duration at all."""
        found: Bools = np.all([np.isnan(self[name]) for name in DURATIONS], axis=0)
        return found

    @cached_property
    def finished(self) -> Log:
        return self.only(~self.failed) if self.failed.any() else self

    def only(self, rows: Bools | Ints) -> Log:
        """Return the log with some of its rows; units and rounds keep their numbers."""
        return replace(self, unit=self.unit[rows], round=self.round[rows],
                       columns={name: values[rows] for name, values in self.columns.items()})


def read_log(path: Path | str) -> Log:
    """Read a log in CSV with the columns of ``NUMBERS`` and ``TEXTS``; other columns are ignored."""
    file = Path(path)
    frame = _frame(file)
    names = [name for name in (*TEXTS, *NUMBERS) if name in frame.columns]
    several = "model" in names and frame["model"].n_unique() > 1
    model = pl.col("model").fill_null("") if several else pl.lit("")
    device = pl.col("device") + "/" + model if several else pl.col("device")
    units, own = frame.select(device)["device"], frame.select(device, model.alias("model")).unique(maintain_order=True)
    rounds = (frame["round"] if "round" in names else pl.repeat(None, frame.height, dtype=pl.String, eager=True))
    numbers, labels = _rounds(rounds)
    unit = units.replace_strict(own["device"], np.arange(len(own)), return_dtype=pl.Int64).to_numpy()
    columns = {name: frame[name].to_numpy() for name in NUMBERS if name in names and not frame[name].is_null().all()}
    for name in {"flops", "bits"} & set(columns):            # what a row does not say is like the others
        columns[name] = np.where(np.isnan(columns[name]), np.nanmedian(columns[name]), columns[name])
    log = Log(str(file), tuple(own["device"]), tuple(own["model"]), unit, numbers,
              rounds.null_count() < frame.height, columns, labels,
              tuple(name for name in frame.columns if name not in names),
              float(np.median(columns["flops"])) if "flops" in columns else None)
    _check_rows(log)
    return log


def _frame(file: Path) -> pl.DataFrame:
    """Return the known columns as numbers and texts, and the others empty; raise InputError for a wrong cell."""
    with reading(file):
        open_to_read(file, "a log", MOST_BYTES).close()
    try:
        header = pl.scan_csv(file, glob=False, infer_schema=False).collect_schema().names()
    except pl.exceptions.NoDataError:
        raise InputError("empty", str(file)) from None
    except pl.exceptions.PolarsError as problem:
        raise InputError("malformed", str(file), str(problem).splitlines()[0], "CSV") from None
    _check_header(file, header)
    known = {name: pl.Float64() if name in NUMBERS else pl.String() for name in (*TEXTS, *NUMBERS) if name in header}
    source = pl.scan_csv(file, glob=False, infer_schema=False, schema_overrides=known).select(*known)
    try:
        frame = source.collect()
    except pl.exceptions.PolarsError:
        raise _wrong_cell(file, list(known)) from None
    for name in known:
        if name in NUMBERS:
            _check_numbers(file, frame, name)
    _check_filled(file, frame)
    return frame.with_columns(pl.lit(None).alias(name) for name in header if name not in known)


def _check_header(file: Path, header: list[str]) -> None:
    for name in header:
        stem, _, ending = name.rpartition("_")
        near = next((known for known in NUMBERS if stem and known.startswith(stem)), None)
        if name not in NUMBERS and near and ending.lower() in OTHER_UNITS:
            raise InputError("wrong-unit", f'column "{name}"', None, f"{near}: {NUMBERS[near]}",
                             "Convert the column and rename it", source=f"{file}, line 1")
    for name in NEEDED:
        if name not in header:
            near = nearest(name, [other for other in header if other not in (*NUMBERS, *TEXTS)])
            raise InputError("missing", f'column "{name}"', f"columns {', '.join(header[:20])}",
                             (NUMBERS | TEXTS)[name], f'Is it "{near}"? Then rename it' if near else "",
                             source=f"{file}, line 1")


def _check_filled(file: Path, frame: pl.DataFrame) -> None:
    """Raise InputError for a log without rows, and for an empty cell that a job needs."""
    if not frame.height:
        raise InputError("empty", str(file), "a header", "rows below it")
    for name in ("device", "samples", "batch"):
        failed = pl.col("compute_s").is_null() & pl.lit(name != "device")       # a failed job need not say more
        if (row := _first(frame, pl.col(name).is_null() & ~failed)) is not None:
            raise InputError("empty", f'column "{name}"', expected=(NUMBERS | TEXTS)[name], source=_at(file, row))


def _check_numbers(file: Path, frame: pl.DataFrame, name: str) -> None:
    column = pl.col(name)
    if (row := _first(frame, ~column.is_finite())) is not None:
        raise InputError("not-finite", f'column "{name}"', frame[name][row], NUMBERS[name], source=_at(file, row))
    wrong = column <= 0 if name in ABOVE_ZERO else column < 0
    if (row := _first(frame, wrong)) is not None:
        raise InputError("out-of-range", f'column "{name}"', frame[name][row], f"{NUMBERS[name]}, above 0",
                         "Leave the cell empty if it was not measured", source=_at(file, row))


def _wrong_cell(file: Path, names: list[str]) -> InputError:
    """Return the error for the first cell that is not a number."""
    text = pl.scan_csv(file, glob=False, infer_schema=False).select(names)
    try:
        for name in set(names) & set(NUMBERS):
            wrong = pl.col(name).is_not_null() & pl.col(name).str.strip_chars().cast(pl.Float64, strict=False).is_null()
            found = text.with_row_index("line").filter(wrong).head(1).collect()
            if found.height:
                return InputError("wrong-unit", f'column "{name}"', quoted(found[name][0]),
                                  f"a number without a unit: {NUMBERS[name]}", source=_at(file, found["line"][0]))
    except pl.exceptions.PolarsError as problem:
        return InputError("malformed", str(file), str(problem).splitlines()[0], "CSV")
    return InputError("malformed", str(file), expected="CSV")


def _first(frame: pl.DataFrame, wrong: pl.Expr) -> int | None:
    """Return the index of the first row for which an expression is true; None without one."""
    found = frame.lazy().select(pl.arg_where(wrong.fill_null(False)).first()).collect().item()
    return None if found is None else int(found)


def _at(file: Path, row: int) -> str:
    return f"{file}, line {row + 2}"


def _rounds(given: pl.Series) -> tuple[Ints, tuple[str, ...]]:
    """Return numbers and labels of rounds in their order; each row without a round is one of its own."""
    labels = given.drop_nulls().unique(maintain_order=True)
    order = labels.cast(pl.Float64, strict=False)
    if not order.null_count():
        labels = labels.gather(order.arg_sort())
    known = len(labels)
    numbers = given.replace_strict(labels, np.arange(known), default=None, return_dtype=pl.Int64)
    own = given.is_null()
    alone = (own.cast(pl.Int64).cum_sum() - 1 + known)
    return numbers.fill_null(alone).to_numpy().astype(np.int64), tuple(labels)


def _check_rows(log: Log) -> None:
    """Raise InputError for a log with too few rows, or with two units in one column."""
    done = ~np.isnan(log["compute_s"])
    rows = np.bincount(log.unit[done], minlength=len(log.names))
    if not done.any() or rows.max() < 2:
        raise InputError("needs", log.path, f"{pluralize(int(done.sum()), 'row')} with compute_s, at most one for each "
                         "device", "two or more rows for at least one device",
                         "One measurement does not show how much the next one differs")
    order = np.lexsort((log["compute_s"] / log.work, log.unit))
    order = order[done[order]]
    level, unit = np.log10((log["compute_s"] / log.work)[order]), log.unit[order]
    gaps = np.flatnonzero((np.diff(level) > MIXED) & (np.diff(unit) == 0))
    for gap in gaps.tolist():
        first, last = np.searchsorted(unit, unit[gap]), np.searchsorted(unit, unit[gap], side="right")
        below, above = int(gap + 1 - first), int(last - gap - 1)
        if min(below, above) >= max(2, 0.1 * (below + above)):
            raise InputError(
                "wrong-unit", 'column "compute_s"', f"{pluralize(below, 'row')} of {log.names[unit[gap]]} at "
                f"{10 ** level[gap]:.3g} s per sample and {above} at {10 ** level[gap + 1]:.3g} s",
                "seconds in every row", "Rows seem to have different units, such as s and ms", source=log.path)
