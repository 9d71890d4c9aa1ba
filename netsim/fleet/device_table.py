"""The population as a table, one row a device, as a run keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.fleet.population import Population

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True)
class DeviceNames:
    """What devices are called, by their numbers: as their fleet says, else by kind and number, such as "phone 12"."""

    scenario: Scenario

    def __call__(self, number: int) -> str:
        place = number
        for table in self.scenario.population:
            if place < table.size:
                name, kind = table.devices and table.devices.name, table.devices and table.devices.kind
                return name[place] if name else f"{kind[place] if kind else table.name} {number}"
            place -= table.size
        raise ValueError(f"there is no device {number}")


def device_table(scenario: Scenario, population: Population, more: Mapping[str, Any]) -> bytes:
    """Parquet; ``name`` is null where the fleet gives none; ``more`` are columns of others, such as class counts."""
    import polars as pl

    names = [pl.Series(table.devices.name, dtype=pl.String) if table.devices and table.devices.name
             else pl.repeat(None, table.size, dtype=pl.String, eager=True) for table in scenario.population]
    file = BytesIO()
    pl.DataFrame({
        "device": np.arange(len(population)),
        "name": pl.concat(names),
        "kind": pl.Series(population.kinds, dtype=pl.String).gather(population.kind),
        **{name: getattr(population, name) for name in population.columns},
        **more,
    }).write_parquet(file, compression="lz4", statistics=False)     # drawn values hardly repeat
    return file.getvalue()
