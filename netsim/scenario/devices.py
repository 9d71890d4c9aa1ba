"""The table ``[[population]]`` of a scenario: the devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Strict, model_validator

from netsim.base.counts import counted
from netsim.base.fields import Coordinate, Energy, Frequency, Gain, Model, Natural, Positive, Power, field_error, key
from netsim.scenario.distributions import Drawn, Spread, check_order, highest, lowest, ordered
from netsim.scenario.radio import OrPath
from netsim.scenario.time_varying import Availability, Charging, Crash, Loss, Mobility, Throttle

MOST_DEVICES = 10_000_000
CAPACITANCE = 1e-28
# keys by which something happens to devices in time
IN_TIME = ("mobility", "availability", "crash", "loss", "idle", "harvest", "charging", "throttle")


class Cpu(Model):
    """A device's processor: time = cycles / f, energy = capacitance * cycles * f^2."""

    min: Annotated[Spread, Drawn(Frequency), key("lowest clock frequency")]
    max: Annotated[Spread, Drawn(Frequency), key("highest clock frequency")]
    cycles_per_sample: Annotated[Spread, Drawn(Positive), key("C_n: CPU cycles to train on one sample once")]
    capacitance: Annotated[
        Spread, Drawn(Positive), key("alpha/2: half the effective switched capacitance")] = CAPACITANCE
    _ordered = ordered("min", "max")


class Radio(Model):
    """A device's transmitter."""

    power: Annotated[Spread, Drawn(Power), key("transmit power p_n")]
    min_power: Annotated[Spread | None, Drawn(Power), key("least power that power-optimising methods may use")] = None
    max_power: Annotated[Spread | None, Drawn(Power), key("most power that power-optimising methods may use")] = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low = "power" if self.min_power is None else "min_power"
        high = "power" if self.max_power is None else "max_power"
        if low != high:
            check_order(self, low, high)
        return self


Mains = Literal["mains"]
# The key of a population in whose place a column of its fleet may stand, and the columns without which a key is needed.
KEY_OF: Mapping[str, tuple[str, ...]] = {
    "cpu_min": ("cpu", "min"), "cpu_max": ("cpu", "max"), "cycles_per_sample": ("cpu", "cycles_per_sample"),
    "power": ("radio", "power"), "capacitance": ("cpu", "capacitance"), "min_power": ("radio", "min_power"),
    "max_power": ("radio", "max_power"), "budget": ("budget",), "battery": ("battery",), "samples": ("samples",)}
NEEDED = {"cpu": ("cpu_min", "cpu_max", "cycles_per_sample"), "radio": ("power",), "budget": ("budget",)}
Column = Strict(False), Field(min_length=1, max_length=MOST_DEVICES)


class Fleet(Model):
    """Devices one by one: each key is a column with an entry a device; missing ones come from the population's keys."""

    name: Annotated[tuple[str, ...] | None, *Column, key("what a device is called")] = None
    kind: Annotated[tuple[str, ...] | None, *Column, key(
        "what kind of device it is, such as phone; by default the population's name")] = None
    x: Annotated[tuple[Coordinate, ...] | None, *Column, key("place east of the base station")] = None
    y: Annotated[tuple[Coordinate, ...] | None, *Column, key("place north of the base station")] = None
    gain: Annotated[tuple[Gain, ...] | None, *Column, key("measured channel gain, instead of path loss")] = None
    power: Annotated[tuple[Power, ...] | None, *Column, key("transmit power")] = None
    min_power: Annotated[tuple[Power, ...] | None, *Column, key("least transmit power")] = None
    max_power: Annotated[tuple[Power, ...] | None, *Column, key("most transmit power")] = None
    budget: Annotated[tuple[Energy, ...] | None, *Column, key("energy allowed in one round")] = None
    battery: Annotated[tuple[Energy | Mains, ...] | None, *Column, key('energy at the start, or "mains"')] = None
    cpu_min: Annotated[tuple[Frequency, ...] | None, *Column, key("lowest clock frequency")] = None
    cpu_max: Annotated[tuple[Frequency, ...] | None, *Column, key("highest clock frequency")] = None
    cycles_per_sample: Annotated[tuple[Positive, ...] | None, *Column, key("C_n")] = None
    capacitance: Annotated[tuple[Positive, ...] | None, *Column, key("alpha/2")] = None
    samples: Annotated[tuple[Natural, ...] | None, *Column, key("D_n: samples that a device holds")] = None

    @model_validator(mode="after")
    def _even(self) -> Self:
        lengths = {name: len(column) for name, column in self.columns().items()}
        if not lengths:
            raise field_error("empty", expected="at least one column")
        if len(set(lengths.values())) > 1:
            raise field_error("wrong-length", found=", ".join(f"{name} {count}" for name, count in lengths.items()),
                              expected="as many devices in every column")
        if (self.x is None) != (self.y is None):
            raise field_error("missing", "x" if self.x is None else "y", expected="both x and y for a place")
        return self

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The columns that are there."""
        return {name: column for name, column in self if column is not None}

    def __len__(self) -> int:
        return len(next(iter(self.columns().values())))


class PopulationTable(Model):
    """A kind of devices: so many drawn ones, ones at given places, or the rows of a CSV file."""

    name: Annotated[str, Field(min_length=1, max_length=100), key("how --set and base files address it")] = "device"
    count: Annotated[Natural | None, Field(le=MOST_DEVICES), key("number of devices")] = None
    places: Annotated[
        tuple[Annotated[tuple[Coordinate, Coordinate], Strict(False)], ...] | None, Strict(False), Field(min_length=1),
        key('fixed places, such as [["120 m", "0 m"], ["-40 m", "90 m"]]; the base station is at 0, 0')] = None
    devices: Annotated[Fleet | None, OrPath(), key("the devices one by one, instead of count")] = None
    cpu: Annotated[Cpu | None, key("the processor")] = None
    radio: Annotated[Radio | None, key("the transmitter")] = None
    budget: Annotated[Spread | None, Drawn(Energy), key("e_n: energy that a device may spend in one round")] = None
    battery: Annotated[Spread | Mains, Drawn(Energy, "mains"), key("energy at the start")] = "mains"
    samples: Annotated[
        Spread | Literal["auto"], Drawn(Natural, "auto"),
        key('D_n: samples that a device holds; "auto": as many as the data split gives it')] = 500
    mobility: Annotated[Mobility | None, key("how the devices move; without it they stay where they are")] = None
    availability: Annotated[Availability | None, key("when the devices are there; without it always")] = None
    crash: Annotated[Crash | None, key("how often the devices break down, and for how long")] = None
    loss: Annotated[Loss | None, key("uploads that are lost, as a whole or packet by packet, and sent again")] = None
    idle: Annotated[Spread | None, Drawn(Power), key("base load: drawn from the battery all the time")] = None
    harvest: Annotated[Spread | None, Drawn(Power), key("comes into the battery all the time")] = None
    charging: Annotated[Charging | None, key("hours of the day in which the battery is charged")] = None
    throttle: Annotated[Throttle | None, key("a lower clock after so many seconds of load")] = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        columns = self.devices.columns() if self.devices is not None else {}
        if self.devices is not None and (self.count is not None or self.places is not None):
            raise field_error("conflict", "devices", expected="neither count nor places beside it",
                              hint="It lists every device")
        if self.devices is None and self.count is None and self.places is None:
            raise field_error("missing", "count", expected="count, places or devices")
        if self.places is not None and self.count not in (None, len(self.places)):
            raise field_error("conflict", "count", expected=f"none beside places, which has "
                              f"{counted(len(self.places), 'entry', 'entries')}")
        if self.mobility is not None and self.mobility.model == "random-waypoint" and (
                self.places is not None or "x" in columns):
            raise field_error("conflict", "mobility", expected="neither places nor x and y beside random-waypoint",
                              hint="It draws where devices begin")
        for table, name, words in (("mobility", "tracks", ("track",)),
                                   ("availability", "intervals", ("entry", "entries"))):
            recorded = getattr(getattr(self, table), name, None)
            if recorded is not None and len(recorded) != self.size:
                raise field_error("wrong-length", table, name, found=counted(len(recorded), *words),
                                  expected=f"one for each of {counted(self.size, 'device')}")
        if self.mobility is not None and "gain" in columns:
            raise field_error("conflict", "mobility", hint="A measured gain has no place: remove the column gain")
        for table, instead in NEEDED.items():
            if getattr(self, table) is None and not set(instead) <= set(columns):
                raise field_error("missing", table, expected=f"it, or columns {', '.join(instead)}" if columns else "")
        self._check_energy()
        self._check_order("cpu_min", "cpu_max", columns)
        self._check_order("min_power", "max_power", columns)
        return self

    def values(self, column: str) -> Any:
        """What holds for a property: the column of the fleet if there is one, else the value of its key, or None."""
        value: Any = getattr(self.devices, column, None)
        if value is None:
            value = self
            for step in KEY_OF[column]:
                value = getattr(value, step, CAPACITANCE if step == "capacitance" else None)
        return value

    def _check_energy(self) -> None:
        """Nothing that is said of batteries and clocks is without effect."""
        battery = self.values("battery")
        on_mains = all(entry == "mains" for entry in (battery if isinstance(battery, tuple) else (battery,)))
        for name in ("idle", "harvest", "charging"):
            if getattr(self, name) is not None and on_mains:
                raise field_error("no-effect", name, hint="The devices are on mains: give them a battery")
        if self.throttle is not None and self.throttle.to >= highest(self.values("cpu_max")):
            raise field_error("no-effect", "throttle", "to", hint="No processor is ever faster")
        if self.throttle is not None and self.throttle.to < highest(self.values("cpu_min")):
            raise field_error("out-of-range", "throttle", "to", expected="at least the lowest clock of every processor")

    def _check_order(self, low: str, high: str, columns: Mapping[str, Any]) -> None:
        """Each device's least must not be above its most, where one of them comes from a column."""
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
        """The number of devices."""
        if self.devices is not None:
            return len(self.devices)
        return self.count if self.count is not None else len(self.places or ())
