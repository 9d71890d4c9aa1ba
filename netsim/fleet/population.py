"""The devices of a cell with their drawn properties, as read-only arrays and as a table in the run's folder.

Every property has its own random stream, keyed by the name of the ``[[population]]`` table: another method, property
or population changes none of the draws, and a larger count only adds devices at the end.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints, frozen, read_only
from netsim.base.errors import InputError
from netsim.base.fields import MOST
from netsim.base.streams import stream
from netsim.fleet.link_model import loss_db
from netsim.fleet.mobility import Movers, points
from netsim.physics import gain_of_loss
from netsim.scenario.distributions import Distribution

if TYPE_CHECKING:
    from netsim.scenario import Scenario
    from netsim.scenario.devices import PopulationTable
    from netsim.scenario.radio import Cell


@dataclass(frozen=True, eq=False)
class Population:
    """Properties of N devices: arrays of shape (N,) in SI units."""

    kinds: tuple[str, ...]        # names of the scenario's [[population]] tables, or of a fleet's column kind
    kind: Ints                    # index into kinds
    x_m: Floats                   # position, with the base station at (0, 0)
    y_m: Floats
    gain: Floats                  # linear channel gain h: path loss and shadowing
    cpu_min_hz: Floats
    cpu_max_hz: Floats
    cycles_per_sample: Floats     # C_n
    capacitance: Floats           # alpha/2
    power_w: Floats               # transmit power p_n
    power_min_w: Floats           # range of methods that choose the power
    power_max_w: Floats
    budget_j: Floats              # energy budget of one round
    battery_j: Floats             # initial battery level; inf for mains power
    samples: Ints                 # training samples D_n

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the arrays of drawn properties."""
        return tuple(field.name for field in fields(self) if field.name not in ("kinds", "kind"))


def draw_population(scenario: Scenario, seed: int, samples: Ints | None = None) -> Population:
    """Draw the devices of a scenario; ``samples`` is D_n if the data partition determines it."""
    if samples is None:
        samples = draw_samples(scenario, seed)
        if samples is None:
            raise InputError("needs", "population.samples", '"auto"', "a number in a run without learning",
                             '"auto" is the size of the data partition, which exists only with learning')
    if len(samples) != scenario.size:
        raise ValueError(f"{len(samples)} sample counts for {scenario.size} devices")
    tables = [draw.properties(scenario.cell) for draw in table_draws(scenario, seed)]
    arrays = {name: read_only(np.concatenate([table.pop(name) for table in tables])) for name in tuple(tables[0])}
    trace = scenario.cell.gain_trace
    if trace is not None:
        arrays["gain"] = read_only(gain_of_loss(np.negative(trace.db[0])))
    kinds, kind = _kinds(scenario)
    return Population(kinds=kinds, kind=read_only(kind), samples=frozen(samples, np.int64), **arrays)


def _kinds(scenario: Scenario) -> tuple[tuple[str, ...], Ints]:
    """Return the kinds, and the kind of each device: from its device file, else the name of its population."""
    kinds: dict[str, int] = {}
    numbers = []
    for table in scenario.population:
        listed = table.devices.kind if table.devices is not None else None
        for name in listed or (table.name,):
            kinds.setdefault(name, len(kinds))
        numbers.append(np.array([kinds[name] for name in listed]) if listed else np.full(table.size, kinds[table.name]))
    return tuple(kinds), np.concatenate(numbers)


def draw_samples(scenario: Scenario, seed: int) -> Ints | None:
    """Draw D_n as the scenario describes it; None for "auto", where the data partition determines it."""
    if any(table.samples == "auto" for table in scenario.population):
        return None
    drawn = np.concatenate([draw("samples", draw.table.values("samples")) for draw in table_draws(scenario, seed)])
    counts: Ints = np.clip(np.rint(drawn), 1, MOST).astype(np.int64)
    return counts


# Arrays of a population: random stream of each, and the scenario key or column of a device file that describes it.
DRAWN = {
    "cpu_min_hz": ("cpu min", "cpu_min"), "cpu_max_hz": ("cpu max", "cpu_max"),
    "cycles_per_sample": ("cycles", "cycles_per_sample"), "capacitance": ("capacitance", "capacitance"),
    "power_w": ("power", "power"), "power_min_w": ("power min", "min_power"), "power_max_w": ("power max", "max_power"),
    "budget_j": ("budget", "budget"), "battery_j": ("battery", "battery"),
}


@dataclass(frozen=True)
class TableDraw:
    """The draws of one ``[[population]]`` table."""

    table: PopulationTable
    devices: range      # device numbers in the cell
    number: int         # index of the population in the random streams
    seed: int

    def __call__(self, name: str, values: Any) -> Floats:
        """Return a property of all devices: a column of the device file, a constant, or draws of stream ``name``."""
        if isinstance(values, Distribution):
            return np.clip(values.sample(self.rng(name), self.table.size), *values.bounds())
        if isinstance(values, tuple):
            return np.array([np.inf if entry == "mains" else entry for entry in values], dtype=float)
        return np.full(self.table.size, np.inf if values == "mains" else float(values))

    def rng(self, name: str) -> np.random.Generator:
        return stream(self.seed, name, device=self.number)

    def properties(self, cell: Cell) -> dict[str, Floats]:
        x_m, y_m = self.places(cell)
        given = {name: (purpose, self.table.values(column)) for name, (purpose, column) in DRAWN.items()}
        drawn = {name: self(purpose, values) for name, (purpose, values) in given.items() if values is not None}
        power_w = drawn["power_w"]          # default range: the power itself
        return {"x_m": x_m, "y_m": y_m, "gain": self.gain(cell, np.hypot(x_m, y_m)), "power_min_w": power_w,
                "power_max_w": power_w, **drawn}

    def places(self, cell: Cell) -> tuple[Floats, Floats]:
        """Return positions in m as the scenario gives them, else drawn uniformly over the disc."""
        table = self.table
        if table.mobility is not None:
            return self.movers(cell).places(np.arange(table.size), 0.0)
        if table.devices is not None and table.devices.x is not None and table.devices.y is not None:
            return np.array(table.devices.x, dtype=float), np.array(table.devices.y, dtype=float)
        places = (points(self.rng("positions"), table.size, cell.radius) if table.places is None
                  else np.array(table.places, dtype=float))
        return places[:, 0], places[:, 1]

    def gain(self, cell: Cell, distance_m: Floats) -> Floats:
        """Return the gains of the device file, else those of path loss and shadowing."""
        table = self.table
        if table.devices is not None and table.devices.gain is not None:
            return np.array(table.devices.gain, dtype=float)
        return gain_of_loss(loss_db(cell.path_loss, distance_m) + self.shadowing_db(cell))

    def shadowing_db(self, cell: Cell) -> Floats:
        """Return the initial shadowing in dB."""
        return self.rng("shadowing").standard_normal(self.table.size) * cell.shadowing_db

    @property
    def keys(self) -> list[int]:
        """Keys of the devices in the random streams, independent of other populations."""
        return [(self.number << 32) + device for device in range(self.table.size)]

    def movers(self, cell: Cell) -> Movers:
        """Return the moving devices of the population."""
        assert self.table.mobility is not None
        return Movers(self.table.mobility, cell.radius, self.seed, self.keys)


def table_draws(scenario: Scenario, seed: int) -> list[TableDraw]:
    """Return the draws of all population tables, in their order."""
    tables = zip(scenario.population, scenario.numbers, table_numbers(scenario), strict=True)
    return [TableDraw(table, devices, number, seed) for table, devices, number in tables]


def table_numbers(scenario: Scenario) -> list[int]:
    """Return the indices of populations in the random streams: checksums of names, independent of other populations.

    Names such as "plumless" and "buckeroo" have the same checksum; the later one uses the next free checksum, since
    both would otherwise draw the same devices.
    """
    numbers: list[int] = []
    for table in scenario.population:
        name = table.name.encode()
        number = zlib.crc32(name)
        while number in numbers:
            name += b"\0"
            number = zlib.crc32(name)
        numbers.append(number)
    return numbers


@dataclass(frozen=True)
class DeviceNames:
    """Names of devices by number: from their device file, else kind and number, such as "phone 12"."""

    scenario: Scenario

    def __call__(self, number: int) -> str:
        for table, devices in zip(self.scenario.population, self.scenario.numbers, strict=True):
            if number in devices:
                place = devices.index(number)
                name, kind = table.devices and table.devices.name, table.devices and table.devices.kind
                return name[place] if name else f"{kind[place] if kind else table.name} {number}"
        raise ValueError(f"there is no device {number}")


def device_table(scenario: Scenario, population: Population, more: Mapping[str, Any]) -> bytes:
    """Return the table of devices as a Parquet file; ``more`` are further columns, such as class counts.

    ``name`` is null without a name in a device file.
    """
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
    }).write_parquet(file, compression="lz4", statistics=False)     # drawn values rarely repeat
    return file.getvalue()
