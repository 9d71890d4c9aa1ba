"""Tables as plain lists that JSON can hold."""

from __future__ import annotations

from typing import Any

import polars as pl

Columns = dict[str, list[Any]]


def columns(frame: pl.DataFrame) -> Columns:
    """A table as lists; what is not a number becomes null, which JSON can hold."""
    return frame.with_columns(
        pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64))).to_dict(as_series=False)


def left_out(shown: int, there: int, what: str) -> str:
    """A sentence for the reader, where a chart shows a part only."""
    return f"Shows {shown:,} of {there:,} {what}." if shown < there else ""
