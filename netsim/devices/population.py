"""The devices of a cell with their drawn properties, as read-only arrays and as a table in the run's folder.

Every property has its own random stream, keyed by the name of the ``[[population]]`` table: another method, property
or population changes none of the draws, and a larger count only adds devices at the end.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from io import BytesIO
from typing import Any

import numpy as np
import polars as pl

from netsim.base.errors import InputError
from netsim.base.fields import MOST
from netsim.base.rng import stream
from netsim.base.types import Floats, Ints, constant, frozen, joined, read_only
from netsim.devices.link_model import loss_db
from netsim.devices.mobility import MobileDevices, points
from netsim.physics import gain_of_loss
from netsim.scenario import Scenario
from netsim.scenario.devices import PopulationTable
from netsim.scenario.distributions import Distribution
from netsim.scenario.radio import Cell, RateTrace


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
    budget_j: Floats              # energy budget of one round; inf for none
    battery_j: Floats             # initial battery level; inf for mains power
    samples: Ints                 # training samples D_n
    cycles_per_batch: Floats | None = None
    rate_bit_per_s: Floats | None = None              # measured upload rate at 0 s of a device alone
    downlink_bit_per_s: Floats | None = None          # measured download rate of a device alone
    radiated: Floats | None = None                    # of power_w, if that is more than what the antenna radiates

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the arrays of drawn properties."""
        return tuple(field.name for field in fields(self)
                     if field.name not in ("kinds", "kind") and getattr(self, field.name) is not None)


def draw_population(
    scenario: Scenario, seed: int, samples: Ints | None = None, flops_per_sample: float | None = None,
) -> Population:
    """Draw the N devices of a scenario.

    ``samples`` are D_n if the data partition determines them, ``flops_per_sample`` the floating-point operations of
    training on one sample, for ``cycles_per_sample = "auto"``.
    """
    if samples is None:
        samples = draw_samples(scenario, seed)
        if samples is None:
            raise InputError("needs", "population.samples", '"auto"', "a number in a run without learning",
                             '"auto" is the size of the data partition, which exists only with learning')
    if len(samples) != scenario.size:
        raise ValueError(f"{len(samples)} sample counts for {scenario.size} devices")
    tables = [draw.properties(scenario.cell, flops_per_sample) for draw in table_draws(scenario, seed)]
    arrays = {name: read_only(joined([
        table[name] if name in table else constant(float(name == "radiated"), len(table["gain"])) for table in tables]))
        for name in dict.fromkeys(name for table in tables for name in table)}
    trace = scenario.cell.gain_trace
    if trace is not None:
        arrays["gain"] = read_only(gain_of_loss(np.negative(trace.db[trace.row_at(-scenario.rounds.midnight_s)])))
    kinds, kind = _kinds(scenario)
    if samples.flags.writeable:
        samples = frozen(samples, np.int64)
    return Population(kinds=kinds, kind=read_only(kind), samples=samples, **arrays)


def _kinds(scenario: Scenario) -> tuple[tuple[str, ...], Ints]:
    """Return the kinds, and the kind of each device: from its device file, else the name of its population."""
    kinds: dict[str, int] = {}
    numbers = []
    for table in scenario.population:
        listed = table.devices.kind if table.devices is not None else None
        for name in listed or (table.name,):
            kinds.setdefault(name, len(kinds))
        numbers.append(np.array([kinds[name] for name in listed]) if listed
                       else constant(kinds[table.name], table.size, np.int64))
    return tuple(kinds), joined(numbers)


def draw_samples(scenario: Scenario, seed: int) -> Ints | None:
    """Draw D_n as the scenario describes it; None for "auto", where the data partition determines it."""
    if any(table.samples == "auto" for table in scenario.population):
        return None
    return read_only(joined([_counts(draw("samples", draw.table.values("samples")))
                             for draw in table_draws(scenario, seed)]))


def _counts(drawn: Floats) -> Ints:
    """Return drawn numbers of samples as integers."""
    if drawn.strides == (0,):               # the same for all devices
        return constant(_counts(np.array(drawn[:1]))[0], len(drawn), np.int64)
    counts: Ints = np.clip(np.rint(drawn), 1, MOST).astype(np.int64)
    return counts


# Arrays of a population: random stream of each, and the scenario key or column of a device file that describes it.
DRAWN = {
    "cpu_min_hz": ("cpu min", "cpu_min"), "cpu_max_hz": ("cpu max", "cpu_max"),
    "cycles_per_sample": ("cycles", "cycles_per_sample"), "cycles_per_batch": ("cycles per batch", "cycles_per_batch"),
    "flops_per_cycle": ("flops per cycle", "flops_per_cycle"), "capacitance": ("capacitance", "capacitance"),
    "rate_bit_per_s": ("rate", "rate"), "downlink_bit_per_s": ("downlink rate", "downlink_rate"),
    "power_w": ("power", "power"), "power_min_w": ("power min", "min_power"), "power_max_w": ("power max", "max_power"),
    "budget_j": ("budget", "budget"), "battery_j": ("battery", "battery"),
}


UNLIMITED = ("mains", "none")      # words for a battery and a budget without a limit


@dataclass(frozen=True)
class TableDraw:
    """The draws of one ``[[population]]`` table."""

    table: PopulationTable
    devices: range      # device numbers in the cell
    number: int         # index of the population in the random streams
    seed: int
    midnight_s: float = 0.0      # instant from which recorded times count

    def __call__(self, name: str, values: Any) -> Floats:
        """Return a property of all devices: a column of the device file, a constant, or draws of stream ``name``."""
        if isinstance(values, Distribution):
            return np.clip(values.sample(self.rng(name), self.table.size), *values.bounds())
        if isinstance(values, RateTrace):
            return np.array(values.bit_per_s[0])
        if isinstance(values, tuple):
            return np.array([np.inf if entry in UNLIMITED else entry for entry in values], dtype=float)
        return constant(np.inf if values in UNLIMITED else float(values), self.table.size)

    def rng(self, name: str) -> np.random.Generator:
        return stream(self.seed, name, device=self.number)

    def properties(self, cell: Cell, flops_per_sample: float | None = None) -> dict[str, Floats]:
        x_m, y_m = self.places(cell)
        given = {name: (purpose, self.table.values(column)) for name, (purpose, column) in DRAWN.items()}
        drawn = {name: self(purpose, values) for name, (purpose, values) in given.items()
                 if values is not None and values != "auto"}
        self._cycles(drawn, flops_per_sample)
        self._drawn_power(drawn)
        power_w = drawn["power_w"]          # default range: the power itself
        rate, radiated_w = drawn.get("rate_bit_per_s"), power_w * drawn.get("radiated", 1.0)
        gain = self.gain(cell, np.hypot(x_m, y_m)) if rate is None else gain_of_rate(cell, radiated_w, rate)
        return {"x_m": x_m, "y_m": y_m, "gain": gain, "power_min_w": power_w,
                "power_max_w": power_w, **drawn}

    def _drawn_power(self, drawn: dict[str, Floats]) -> None:
        """Turn radiated powers into those that the radio draws: p / efficiency + circuit power."""
        radio = self.table.radio
        if radio is None or (radio.efficiency is None and radio.circuit_power is None):
            return
        radiated = drawn["power_w"]
        for name in {"power_w", "power_min_w", "power_max_w"} & set(drawn):
            drawn[name] = drawn[name] / (radio.efficiency or 1.0) + float(radio.circuit_power or 0.0)
        drawn["radiated"] = radiated / drawn["power_w"]

    def _cycles(self, drawn: dict[str, Floats], flops_per_sample: float | None) -> None:
        """Compute cycles per sample from FLOP per cycle, and spread cycles over the devices."""
        if self.table.counts_flops:
            if flops_per_sample is None:
                raise InputError("needs", f"population.{self.table.name}.cpu.cycles_per_sample", '"auto"',
                                 "learning.flops_per_sample, or a dataset and a model")
            drawn["cycles_per_sample"] = flops_per_sample / drawn.pop("flops_per_cycle")
        sigma = self.table.cpu.spread if self.table.cpu is not None else None
        if sigma is not None:
            factor = np.exp(sigma * self.rng("cpu spread").standard_normal(self.table.size))
            for name in {"cycles_per_sample", "cycles_per_batch"} & set(drawn):
                drawn[name] = drawn[name] * factor

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

    def movers(self, cell: Cell) -> MobileDevices:
        assert self.table.mobility is not None
        return MobileDevices(self.table.mobility, cell.radius, self.seed, self.keys, self.midnight_s)


def gain_of_rate(cell: Cell, power_w: Floats, rate: Floats) -> Floats:
    """Return the gains with which J = h p / N0 is a measured rate, as the links of measured rates expect it."""
    return rate * (cell.noise_w_per_hz / power_w)


def table_draws(scenario: Scenario, seed: int) -> list[TableDraw]:
    """Return the draws of all population tables, in their order."""
    tables = zip(scenario.population, scenario.numbers, table_numbers(scenario), strict=True)
    midnight_s = scenario.rounds.midnight_s
    return [TableDraw(table, devices, number, seed, midnight_s) for table, devices, number in tables]


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
    """Return the table of devices as a Parquet file, with further columns such as class counts."""
    names = [pl.Series(table.devices.name, dtype=pl.String) if table.devices and table.devices.name
             else pl.repeat(None, table.size, dtype=pl.String, eager=True) for table in scenario.population
             if any(each.devices and each.devices.name for each in scenario.population)]
    columns: dict[str, Any] = {
        "device": np.arange(len(population)),
        "name": pl.concat(names) if names else pl.lit(None, pl.String),
        "kind": (pl.Series(population.kinds, dtype=pl.String).gather(population.kind) if len(population.kinds) > 1
                 else pl.lit(population.kinds[0])),
        **{name: pl.lit(values[0]) if values.strides == (0,) else values       # a constant is not stored N times
           for name, values in ((name, getattr(population, name)) for name in population.columns)},
        **more,
    }
    alike = [values.alias(name) for name, values in columns.items() if isinstance(values, pl.Expr)]
    frame = pl.DataFrame({name: values for name, values in columns.items() if not isinstance(values, pl.Expr)})
    file = BytesIO()
    frame.with_columns(alike).select(list(columns)).write_parquet(
        file, compression="lz4", statistics=False)      # drawn values rarely repeat
    return file.getvalue()
