"""CSV that no spreadsheet runs: it takes a text that begins like a formula for one, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")      # also the wide ones of East Asian keyboards


def safe_cell(value: Any) -> Any:
    """A text with an apostrophe before what would be run; numbers stay numbers.

    >>> safe_cell("=1+1"), safe_cell("phone 3"), safe_cell(-1.5)
    ("'=1+1", 'phone 3', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(RUN) else value


def safe_table(table: pl.DataFrame) -> pl.DataFrame:
    """The same for all columns of text, and the names of all columns."""
    import polars as pl

    text = pl.col(pl.String)
    marks = "".join(RUN).replace("-", "") + "-"
    safe = pl.when(text.str.contains(f"^[{marks}]")).then(pl.lit("'") + text).otherwise(text)
    return table.with_columns(safe.name.keep()).rename({name: safe_cell(name) for name in table.columns})
