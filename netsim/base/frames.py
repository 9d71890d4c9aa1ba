"""Frames of results: sums that do not depend on threads, and tables for pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from netsim.base.errors import InputError, unknown

if TYPE_CHECKING:
    import polars as pl


def in_order(values: pl.Expr) -> pl.Expr:
    """Sum a group in the order of its rows; the last digit of polars' own sum depends on its threads."""
    return values.implode().list.sum()


class WithPandas:
    """Results whose tables are polars frames, one attribute each."""

    frames: ClassVar[tuple[str, ...]]      # names of the attributes, the usual one first

    def to_pandas(self, table: str | None = None) -> Any:
        """Return a table for pandas.

        Parameters
        ----------
        table : str, optional
            Name of the table: of a run "rounds", "jobs", "spans", "events" or "devices", of a sweep "table" (a row per
            point) or "summary" (a row per case). By default the first of these.

        Returns
        -------
        pandas.DataFrame
            The same columns and rows; missing numbers are NaN.

        Raises
        ------
        InputError
            If pandas is not installed, or there is no such table.
        """
        if table is not None and table not in self.frames:
            raise unknown("to_pandas", table, self.frames)
        try:
            import pandas
        except ImportError:
            raise InputError("needs", "to_pandas", "no package pandas",
                             hint="Install it with: pip install 'netsim[pandas]'") from None
        frame = getattr(self, table or self.frames[0])
        return pandas.DataFrame({
            column.name: column.to_numpy() if column.dtype.is_numeric() else column.to_list()
            for column in frame.get_columns()})
