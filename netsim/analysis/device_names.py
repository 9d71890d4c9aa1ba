"""Display names of devices."""

from __future__ import annotations

import polars as pl

from netsim.trace.schema import CELL, SERVER


def device_names(devices: pl.DataFrame) -> pl.DataFrame:
    """Return the columns ``device, name``: the name in the CSV table, or kind and number, such as "phone 12"."""
    number = pl.col("device").cast(pl.Int32)
    numbered = pl.format("{} {}", "kind", "device")
    name = pl.coalesce(pl.col("name"), numbered) if "name" in devices.columns else numbered
    return devices.select(number, name.alias("name"))


def all_names(devices: pl.DataFrame) -> pl.DataFrame:
    """Return the names of the devices, the server and the cell."""
    others = pl.DataFrame({"device": [SERVER, CELL], "name": ["server", "cell"]}, schema_overrides={"device": pl.Int32})
    return pl.concat([others, device_names(devices)])
