"""What every row of a run's tables holds to: a file with a right checksum may still be one that netsim never wrote."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from netsim.trace.schema import ARRIVED, CELL, KINDS, UNDELIVERED

if TYPE_CHECKING:
    import polars as pl

MAY_BE_NAN = ("cpu_hz", "power_w", "bandwidth_hz", "planned_s")      # of a job that had no plan
OUTCOMES = (ARRIVED, *UNDELIVERED)


def unsound(table: str, frame: pl.LazyFrame, rounds: int, devices: int) -> pl.LazyFrame:
    """How many rows of a table no run can have: one number, to be collected."""
    return frame.select((~RULES[table](rounds, devices)).fill_null(True).sum())


def _trace(rounds: int, devices: int) -> Any:
    import polars as pl

    col = pl.col
    return _all(col("round").is_between(1, rounds + 1), col("kind").is_in(KINDS), col("name").is_not_null(),
                col("device").is_between(CELL, devices - 1), col("job") >= -1, col("t0") <= col("t1"))


def _links(rounds: int, devices: int) -> Any:
    import polars as pl

    return _all(pl.col("src") >= 0, pl.col("src") < pl.col("dst"))


def _jobs(rounds: int, devices: int) -> Any:
    import polars as pl

    col = pl.col
    finite = ("t0", "t1", "gain", "bits", "cycles", "compute_s", "upload_s", "wait_s", "energy_j")
    return _all(
        col("job").is_between(0, 2**62) & col("job").is_unique(), col("round").is_between(1, rounds + 1),
        col("version").is_between(0, rounds), col("device").is_between(0, devices - 1),
        col("staleness").is_between(0, rounds), col("outcome").is_in(OUTCOMES), col("budget_j").is_not_nan(),
        col("t0") <= col("t1"), *(col(name).is_finite() for name in finite),
        *(~col(name).is_infinite() for name in MAY_BE_NAN))


def _devices(rounds: int, devices: int) -> Any:
    import polars as pl
    import polars.selectors as cs

    known = cs.numeric() | cs.by_name("kind")
    return _all(pl.col("device") == pl.int_range(pl.len()), pl.len() == devices,
                pl.all_horizontal(known.is_not_null()), pl.all_horizontal(cs.float().is_not_nan()))


def _all(*claims: Any) -> Any:
    return reduce(and_, claims)


RULES = {"trace": _trace, "links": _links, "jobs": _jobs, "devices": _devices}
