"""The table ``[[population]]`` of a scenario: the devices."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, Strict, model_validator

from netsim.base.fields import (
    Coordinate,
    DataRate,
    Energy,
    Frequency,
    Gain,
    Model,
    Natural,
    NotNegative,
    Positive,
    Power,
    Voltage,
    field_error,
    key,
)
from netsim.base.pluralize import pluralize
from netsim.scenario.distributions import Drawn, Spread, check_order, highest, lowest, ordered
from netsim.scenario.radio import OrPath, RateTrace
from netsim.scenario.time_varying import Availability, Charging, Crash, Loss, Mobility, Throttle, Variation

MOST_DEVICES = 10_000_000
CAPACITANCE = 1e-28
Auto = Literal["auto"]
# keys of time-varying devices
IN_TIME = ("mobility", "availability", "crash", "loss", "idle_power", "harvest_power", "charging", "throttle",
           "variation")


Points = Strict(False), Field(min_length=2, max_length=64)


class KappaPower(Model):
    """Power of a CPU: capacitance * f^3, as without this table."""

    model: Literal["kappa"]


class TablePower(Model):
    """Power of a CPU from a table, linear between its points: watts, or volts with P = farads V^2 f + static."""

    model: Literal["table"]
    watts: Annotated[tuple[Annotated[tuple[Frequency, Power], Strict(False)], ...] | None, *Points, key(
        'power at frequencies, such as [["0.3 GHz", "0.1 W"], ["2 GHz", "1.5 W"]]')] = None
    volts: Annotated[tuple[Annotated[tuple[Frequency, Voltage], Strict(False)], ...] | None, *Points, key(
        'voltage at frequencies, such as [["0.3 GHz", "0.6 V"], ["2 GHz", "1 V"]]')] = None
    farads: Annotated[Positive | None, key("switched capacitance C of P = C V^2 f, with volts; such as 5e-10")] = None
    static: Annotated[Power | None, key("power whatever the frequency, with volts; by default 0")] = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.watts is None) == (self.volts is None):
            raise field_error("needs", "watts", expected="either watts or volts")
        if (self.farads is None) != (self.volts is None):
            raise field_error("needs", "farads", expected="it with volts, and only with them")
        if self.static is not None and self.volts is None:
            raise field_error("no-effect", "static", hint="Watts contain it")
        points = self.points
        for place, (before, after) in enumerate(pairwise(points), 1):
            if not (before[0] < after[0] and before[1] <= after[1]):
                raise field_error("out-of-range", "watts" if self.volts is None else "volts", place,
                                  expected="points by rising frequency, whose power does not fall")
        return self

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Frequency in Hz and power in W of each point."""
        if self.watts is not None:
            return tuple((float(hz), float(watts)) for hz, watts in self.watts)
        return tuple((float(hz), (self.farads or 0.0) * float(volts) ** 2 * float(hz) + float(self.static or 0.0))
                     for hz, volts in self.volts or ())


class Cpu(Model):
    """A device's processor: time = cycles / f, energy = capacitance * cycles * f^2.

    Cycles of a job = batches * cycles_per_batch + samples * cycles_per_sample.
    """

    min: Annotated[Spread, Drawn(Frequency), key("lowest clock frequency; needed, here or by a profile")]
    max: Annotated[Spread, Drawn(Frequency), key("highest clock frequency; needed, here or by a profile")]
    cycles_per_sample: Annotated[Spread | Auto, Drawn(Positive, "auto"), key(
        'C_n: CPU cycles to train on one sample once; "auto": FLOP per sample of the model / flops_per_cycle; '
        "needed, here or by a profile")]
    capacitance: Annotated[
        Spread, Drawn(Positive), key("alpha/2: half the effective switched capacitance")] = CAPACITANCE
    cycles_per_batch: Annotated[
        Spread | None, Drawn(NotNegative), key("CPU cycles that each batch adds; by default 0")] = None
    flops_per_cycle: Annotated[Spread | None, Drawn(Positive), key(
        'floating-point operations per cycle in training, for cycles_per_sample = "auto"; phones: 0.3 to 3')] = None
    power: Annotated[Annotated[KappaPower | TablePower, Field(discriminator="model")] | None, key(
        "what the CPU draws; by default capacitance * f^3")] = None
    spread: Annotated[float | None, Field(gt=0, le=3), key(
        "standard deviation of ln(cycles) between devices, per sample and per batch alike; by default 0")] = None
    _ordered = ordered("min", "max")


class Radio(Model):
    """A device's transmitter."""

    power: Annotated[Spread, Drawn(Power), key("transmit power p_n; needed, here or by a profile")]
    min_power: Annotated[Spread | None, Drawn(Power), key("lowest power for methods that choose the power")] = None
    max_power: Annotated[Spread | None, Drawn(Power), key("highest power for methods that choose the power")] = None
    rate: Annotated[Spread | RateTrace | None, Drawn(DataRate, table=RateTrace), OrPath(), key(
        "measured upload rate of a device that sends alone, instead of a channel gain; or a CSV file with the columns "
        "t (s) and one per device (bit/s)")] = None
    downlink_rate: Annotated[
        Spread | None, Drawn(DataRate), key("measured download rate of a device that receives alone")] = None
    efficiency: Annotated[float | None, Field(gt=0, le=1), key(
        "amplifier efficiency: radiated power over drawn power; by default 1")] = None
    circuit_power: Annotated[Power | None, key("drawn while sending, besides the amplifier; by default 0")] = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low = "power" if self.min_power is None else "min_power"
        high = "power" if self.max_power is None else "max_power"
        if low != high:
            check_order(self, low, high)
        return self


Mains = Literal["mains"]
NoBudget = Literal["none"]
# The key that a column of a fleet replaces, and the columns that replace a required key.
KEY_OF: Mapping[str, tuple[str, ...]] = {
    "cpu_min": ("cpu", "min"), "cpu_max": ("cpu", "max"), "cycles_per_sample": ("cpu", "cycles_per_sample"),
    "cycles_per_batch": ("cpu", "cycles_per_batch"), "flops_per_cycle": ("cpu", "flops_per_cycle"),
    "rate": ("radio", "rate"), "downlink_rate": ("radio", "downlink_rate"),
    "power": ("radio", "power"), "capacitance": ("cpu", "capacitance"), "min_power": ("radio", "min_power"),
    "max_power": ("radio", "max_power"), "budget": ("budget",), "battery": ("battery",), "samples": ("samples",),
    "compute_variation": ("variation", "compute"), "upload_variation": ("variation", "upload")}
NEEDED = {"cpu": ("cpu_min", "cpu_max", "cycles_per_sample"), "radio": ("power",), "budget": ("budget",)}
Deviation = Annotated[float, Field(ge=0, le=3)]
T = TypeVar("T")
Column = Annotated[tuple[T, ...] | None, Strict(False), Field(min_length=1, max_length=MOST_DEVICES)]


class FleetRadio(Model):
    """Columns of a fleet that name and place the devices and describe their links."""

    name: Annotated[Column[str], key("name of the device")] = None
    kind: Annotated[Column[str], key("kind of device, such as phone; by default the name of the population")] = None
    x: Annotated[Column[Coordinate], key("position east of the base station")] = None
    y: Annotated[Column[Coordinate], key("position north of the base station")] = None
    gain: Annotated[Column[Gain], key("measured channel gain, instead of path loss")] = None
    rate: Annotated[Column[DataRate], key("measured upload rate, sending alone")] = None
    downlink_rate: Annotated[Column[DataRate], key("measured download rate")] = None
    power: Annotated[Column[Power], key("transmit power")] = None
    min_power: Annotated[Column[Power], key("lowest transmit power")] = None
    max_power: Annotated[Column[Power], key("highest transmit power")] = None


class Fleet(FleetRadio):
    """A list of devices: each key is a column with one entry per device; other values come from the population."""

    budget: Annotated[Column[Energy | NoBudget], key('energy of one round, or "none"')] = None
    battery: Annotated[Column[Energy | Mains], key('energy at the start, or "mains"')] = None
    cpu_min: Annotated[Column[Frequency], key("lowest clock frequency")] = None
    cpu_max: Annotated[Column[Frequency], key("highest clock frequency")] = None
    cycles_per_sample: Annotated[Column[Positive], key("C_n")] = None
    cycles_per_batch: Annotated[Column[NotNegative], key("CPU cycles that each batch adds")] = None
    flops_per_cycle: Annotated[Column[Positive], key("floating-point operations per cycle")] = None
    capacitance: Annotated[Column[Positive], key("alpha/2")] = None
    samples: Annotated[Column[Natural], key("D_n: number of samples of the device")] = None
    compute_variation: Annotated[Column[Deviation], key("sd of ln(compute time) of jobs")] = None
    upload_variation: Annotated[Column[Deviation], key("sd of ln(upload time) of jobs")] = None

    @model_validator(mode="after")
    def _even(self) -> Self:
        lengths = {name: len(column) for name, column in self.columns().items()}
        if not lengths:
            raise field_error("empty", expected="at least one column")
        if len(set(lengths.values())) > 1:
            raise field_error("wrong-length", found=", ".join(f"{name} {count}" for name, count in lengths.items()),
                              expected="the same number of devices in every column")
        if (self.x is None) != (self.y is None):
            raise field_error("missing", "x" if self.x is None else "y", expected="both x and y")
        return self

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """Return the columns with values."""
        return {name: column for name, column in self if column is not None}

    def __len__(self) -> int:
        return len(next(iter(self.columns().values())))


RENAME = {"type": "object", "additionalProperties": {"type": "string"}, "description":
          'columns of the file and their names here, such as { tx = "power [dBm]" }'}
IGNORE = {"anyOf": [{"const": "others"}, {"type": "array", "items": {"type": "string"}}], "description":
          'columns of the file to skip; "others": all unknown columns'}


class PopulationTable(Model):
    """A population of devices: a number of random ones, ones at fixed positions, or the rows of a CSV file."""

    name: Annotated[
        str, Field(min_length=1, max_length=100), key("name, by which --set and base files address it")] = "device"
    count: Annotated[Natural | None, Field(le=MOST_DEVICES), key("number of devices")] = None
    places: Annotated[
        tuple[Annotated[tuple[Coordinate, Coordinate], Strict(False)], ...] | None, Strict(False), Field(min_length=1),
        key('fixed positions, such as [["120 m", "0 m"], ["-40 m", "90 m"]]; the base station is at 0, 0')] = None
    devices: Annotated[Fleet | None, OrPath(rename=RENAME, ignore=IGNORE), key(
        "list of devices, instead of count")] = None
    profile: Annotated[str | dict[str, float] | None, key(
        'measured values, overridden by the keys of this table: a name of `netsim devices`, or shares such as '
        "{ pixel-4 = 0.3, nexus-s = 0.7 }, which make a population of each")] = None
    profiles: Annotated[str | None, key(
        'a CSV file of profiles of your own, or "package:file.csv" of an installed package')] = None
    cpu: Annotated[Cpu | None, key("the processor")] = None
    radio: Annotated[Radio | None, key("the transmitter")] = None
    budget: Annotated[Spread | NoBudget | None, Drawn(Energy, "none"), key(
        'e_n: energy limit of a device per round, or "none"')] = None
    battery: Annotated[Spread | Mains, Drawn(Energy, "mains"), key("energy at the start")] = "mains"
    samples: Annotated[
        Spread | Auto, Drawn(Natural, "auto"),
        key('D_n: number of samples of a device; "auto": as in the data partition')] = 500
    mobility: Annotated[Mobility | None, key("movement of the devices; by default none")] = None
    availability: Annotated[Availability | None, key("availability of the devices; by default always")] = None
    crash: Annotated[Crash | None, key("random failures of the devices")] = None
    loss: Annotated[Loss | None, key("lost uploads or packets, which are sent again")] = None
    idle_power: Annotated[Spread | None, Drawn(Power), key("power drawn from the battery at all times")] = None
    harvest_power: Annotated[Spread | None, Drawn(Power), key("power that charges the battery at all times")] = None
    charging: Annotated[Charging | None, key("hours of the day in which the battery is charged")] = None
    throttle: Annotated[Throttle | None, key("thermal throttling of the CPU")] = None
    variation: Annotated[Variation | None, key("random factors of compute and upload times, drawn for each job")] = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        columns = self.devices.columns() if self.devices is not None else {}
        if self.profile is not None or self.profiles is not None:
            raise field_error("unsupported", "profile", hint="load_scenario and Scenario.of fill profiles in")
        self._check_count()
        self._check_mobility(columns)
        self._check_rates(columns)
        for table, instead in NEEDED.items():
            given = {*columns, *(("cycles_per_sample",) if "flops_per_cycle" in columns else ())}
            if getattr(self, table) is None and not set(instead) <= given:
                energy = 'an energy such as "30 mJ", or "none"' if table == "budget" else ""
                raise field_error("missing", table, expected=energy or (
                    f"it, or columns {', '.join(instead)}" if columns else ""))
        self._check_work()
        self._check_table()
        self._check_energy()
        self._check_order("cpu_min", "cpu_max", columns)
        self._check_order("min_power", "max_power", columns)
        return self

    def _check_count(self) -> None:
        """Require one of count, places and devices."""
        if self.devices is not None and (self.count is not None or self.places is not None):
            raise field_error("conflict", "devices", expected="neither count nor places beside it",
                              hint="It lists every device")
        if self.devices is None and self.count is None and self.places is None:
            raise field_error("missing", "count", expected="count, places or devices")
        if self.places is not None and self.count not in (None, len(self.places)):
            raise field_error("conflict", "count", expected=f"none beside places, which has "
                              f"{pluralize(len(self.places), 'entry', 'entries')}")

    def _check_mobility(self, columns: Mapping[str, Any]) -> None:
        """Raise an error for positions beside mobility, and for recordings of another number of devices."""
        if self.mobility is not None and self.mobility.model == "random-waypoint" and (
                self.places is not None or "x" in columns):
            raise field_error("conflict", "mobility", expected="neither places nor x and y beside random-waypoint",
                              hint="It draws the initial positions")
        for table, name, words in (("mobility", "tracks", ("track",)),
                                   ("availability", "intervals", ("entry", "entries"))):
            recorded = getattr(getattr(self, table), name, None)
            if recorded is not None and len(recorded) != self.size:
                raise field_error("wrong-length", table, name, found=pluralize(len(recorded), *words),
                                  expected=f"one for each of {pluralize(self.size, 'device')}")
        if self.mobility is not None and "gain" in columns:
            raise field_error("conflict", "mobility", hint="A measured gain has no position: remove the column gain")

    def values(self, column: str) -> Any:
        """Return the values of a property: a column of the fleet, else the value of its key, or None."""
        value: Any = getattr(self.devices, column, None)
        if value is None:
            value = self
            for step in KEY_OF[column]:
                value = getattr(value, step, CAPACITANCE if step == "capacitance" else None)
        return value

    def _check_rates(self, columns: Mapping[str, Any]) -> None:
        """Raise an error for gains or positions beside measured rates."""
        rate = self.values("rate")
        if rate is not None and (self.mobility is not None or "gain" in columns):
            raise field_error("conflict", "mobility" if self.mobility is not None else "devices",
                              hint="The rates are measured (radio.rate), so gains and positions have no effect")
        if isinstance(rate, RateTrace) and len(rate.bit_per_s[0]) != self.size:
            raise field_error("wrong-length", "radio", "rate", found=pluralize(len(rate.bit_per_s[0]), "column"),
                              expected=f"one for each of {pluralize(self.size, 'device')}")

    @property
    def cpu_table(self) -> TablePower | None:
        """Table of CPU power, if there is one."""
        power = self.cpu.power if self.cpu is not None else None
        return power if isinstance(power, TablePower) else None

    def _check_table(self) -> None:
        """A table of CPU power covers the clocks, and stands in the place of the capacitance."""
        table = self.cpu_table
        if table is None:
            return
        points = table.points
        if lowest(self.values("cpu_min")) < points[0][0] or highest(self.values("cpu_max")) > points[-1][0]:
            raise field_error("out-of-range", "cpu", "power", found=f"{points[0][0]:g} to {points[-1][0]:g} Hz",
                              expected="points that cover all clocks between cpu.min and cpu.max")
        if self.throttle is not None:
            raise field_error("unsupported", "throttle", found="it beside a table of CPU power",
                              hint="Leave one of both out")

    @property
    def counts_flops(self) -> bool:
        """True if cycles are computed from the model's FLOP per sample."""
        return self.values("cycles_per_sample") in ("auto", None)

    def _check_work(self) -> None:
        """Require FLOP per cycle with "auto", and only with it."""
        given = self.values("flops_per_cycle") is not None
        if self.counts_flops and not given:
            raise field_error("missing", "cpu", "flops_per_cycle", expected='it, for cycles_per_sample = "auto"',
                              hint="`netsim devices` lists measured ones")
        if given and not self.counts_flops:
            raise field_error("no-effect", *(("cpu", "flops_per_cycle") if self.cpu and self.cpu.flops_per_cycle else
                                             ("devices", "flops_per_cycle")),
                              hint='Cycles per sample are given; set cpu.cycles_per_sample = "auto"')

    def _check_energy(self) -> None:
        """Raise an error for keys of batteries and clocks without effect."""
        battery = self.values("battery")
        on_mains = all(entry == "mains" for entry in (battery if isinstance(battery, tuple) else (battery,)))
        for name in ("idle_power", "harvest_power", "charging"):
            if getattr(self, name) is not None and on_mains:
                raise field_error("no-effect", name, hint="The devices are on mains: give them a battery")
        if self.throttle is not None and self.throttle.to >= highest(self.values("cpu_max")):
            raise field_error("no-effect", "throttle", "to", hint="No CPU is faster than that")
        if self.throttle is not None and self.throttle.to < highest(self.values("cpu_min")):
            raise field_error("out-of-range", "throttle", "to", expected="at least the lowest clock of every CPU")

    def _check_order(self, low: str, high: str, columns: Mapping[str, Any]) -> None:
        """Raise an error if a lowest value exceeds the highest one of the device, and one is in a column."""
        lows, highs = (self.values(name) or self.values("power") for name in (low, high))
        for row in range(self.size if {low, high} & set(columns) else 0):
            least = lows[row] if isinstance(lows, tuple) else highest(lows)
            most = highs[row] if isinstance(highs, tuple) else lowest(highs)
            if least > most:
                raise field_error("out-of-range", "devices", high if high in columns else low, row, found=f"{low} "
                                  f"{float(least)!r} and {high} {float(most)!r} in SI units",
                                  expected=f"{low} at most {high}")

    @property
    def size(self) -> int:
        if self.devices is not None:
            return len(self.devices)
        return self.count if self.count is not None else len(self.places or ())
